/* Text to token ids and back, by a Hugging Face tokenizer.json, with the ids of its reference
 * implementation.
 *
 * Layer: text. Local: no I/O, no MPI. A tokenizer is immutable after creation; every function
 * may be called from several threads at once. It takes the JSON texts as (pointer, bytes),
 * trusts nothing in them, and keeps no pointer to them. Truncation and padding in the file are
 * ignored, as is clean_up_tokenization_spaces: decoding never changes what a model wrote.
 *
 * Supported: model BPE; the component kinds listed in normalizer.h, pretokenizer.h,
 * postprocess.h and decoder.h. Anything else is refused with LS_E_FORMAT, naming it. */
#ifndef LS_TEXT_TOKENIZER_H
#define LS_TEXT_TOKENIZER_H

#include "base/status.h"
#include "text/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_MAX_TEXT_BYTES = 256 << 20 }; /* of one text to encode */

struct ls_tokenizer;

/* json: tokenizer.json, n bytes; config: tokenizer_config.json or NULL. From the configuration
 * come bos_token and eos_token (special even where tokenizer.json does not list them) and
 * added_tokens_decoder. What is put around a text is the post-processor's business alone, as in
 * the reference; add_bos_token and add_eos_token count only for the tokenizer_class names whose
 * classes once put the tokens themselves (LlamaTokenizer and the like), and only where the file
 * has no template, so that nothing is put twice. Destroy takes NULL. */
ls_status ls_tokenizer_create(struct ls_tokenizer **out, const char *json, size_t n,
                              const char *config, size_t n_config, struct ls_err *err);
void ls_tokenizer_destroy(struct ls_tokenizer *tok);

/* Appends the ids of n bytes of text to *out, the caller's. add_special: with the special
 * tokens of the post-processor; without it nothing is put that the text does not spell.
 * LS_E_REQUEST: not valid UTF-8 (the message says where), too long, or not encodable. On
 * failure *out is as before. U+0000 is a character like others. */
ls_status ls_tokenizer_encode(const struct ls_tokenizer *tok, const char *text, size_t n,
                              bool add_special, struct ls_ids *out, struct ls_err *err);

/* Appends the text of n ids to *out: valid UTF-8, U+FFFD for what the ids break. Ids without a
 * token (ls_tokenizer_has_id) add nothing. On failure *out is as before. */
ls_status ls_tokenizer_decode(const struct ls_tokenizer *tok, const int32_t *ids, size_t n,
                              bool skip_special, struct ls_bytes *out, struct ls_err *err);

/* Largest id of any token + 1. There may be unused ids below. */
int32_t ls_tokenizer_vocab_size(const struct ls_tokenizer *tok);
bool ls_tokenizer_has_id(const struct ls_tokenizer *tok, int32_t id);

/* Id of the token that is spelled by these n bytes as in tokenizer.json, or -1. */
int32_t ls_tokenizer_id_of(const struct ls_tokenizer *tok, const char *text, size_t n);

bool ls_tokenizer_is_special(const struct ls_tokenizer *tok, int32_t id);

/* bos_token and eos_token of the configuration; -1 where it names none. */
int32_t ls_tokenizer_bos(const struct ls_tokenizer *tok);
int32_t ls_tokenizer_eos(const struct ls_tokenizer *tok);

/* Appends the bytes that a token stands for by itself; they need not be whole characters, and a
 * leading space of a text's first token is still there. Nothing for an id without a token. */
ls_status ls_tokenizer_token_bytes(const struct ls_tokenizer *tok, int32_t id,
                                   struct ls_bytes *out, struct ls_err *err);

/* The same as text: U+FFFD for each broken stretch. */
ls_status ls_tokenizer_token_text(const struct ls_tokenizer *tok, int32_t id,
                                  struct ls_bytes *out, struct ls_err *err);

#endif
