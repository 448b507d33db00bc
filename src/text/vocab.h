/* The vocabulary of a model: token texts to ids and back.
 *
 * Layer: text, private to it. Local. Immutable after loading. Ids need not be dense; two tokens
 * with one id are refused, since the id could not be spelled. */
#ifndef LS_TEXT_VOCAB_H
#define LS_TEXT_VOCAB_H

#include "text/fields.h"

enum { LS_MAX_TOKEN_ID = (1 << 24) - 1 }; /* 64 times the largest vocabulary in use */

struct ls_vocab_entry {
    uint64_t off; /* bytes, into texts */
    uint32_t len; /* bytes */
    bool used;    /* an id without a token is a hole */
};

struct ls_vocab {
    uint8_t *texts;                 /* owned; all tokens, one behind the other */
    struct ls_vocab_entry *entries; /* owned; [n_ids] */
    uint64_t *slots;                /* owned; [n_slots], hash bits 32.. and id, or all ones */
    uint32_t n_ids;                 /* largest id + 1 */
    uint32_t n_tokens;              /* ids in use */
    uint32_t n_slots;               /* a power of two, at least 2 * n_tokens */
};

/* in: the "vocab" object. *out must be zeroed; finish it also after a failure. */
ls_status ls_vocab_load(struct ls_vocab *out, const json_t *in, struct ls_err *err);
void ls_vocab_finish(struct ls_vocab *v);

/* Id of the token that is spelled by these n bytes, or -1. */
int32_t ls_vocab_find(const struct ls_vocab *v, const uint8_t *s, size_t n);

/* The text of an id; s is NULL where the id is not in the vocabulary. */
struct ls_view ls_vocab_text(const struct ls_vocab *v, int32_t id);

/* 64-bit hash of n bytes, shared with the word cache. */
uint64_t ls_text_hash(const uint8_t *s, size_t n);

#endif
