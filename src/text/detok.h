/* Streaming detokenisation: ids in one at a time, text out in whole characters, each once.
 *
 * Layer: text. Local. A detokeniser belongs to one thread at a time and must not outlive its
 * tokenizer. All that a stream puts out, in order, is exactly ls_tokenizer_decode of all its
 * ids. Text is held back only as long as later ids could change it: a cut character, a run of
 * <0xHH> tokens (whose last byte decides about all of it), or what the decoder of the
 * tokenizer.json can only do at the end. */
#ifndef LS_TEXT_DETOK_H
#define LS_TEXT_DETOK_H

#include "text/tokenizer.h"

struct ls_detok;

/* skip_special: special tokens add nothing. Heap; destroy takes NULL. */
ls_status ls_detok_create(struct ls_detok **out, const struct ls_tokenizer *tok,
                          bool skip_special, struct ls_err *err);
void ls_detok_destroy(struct ls_detok *d);

/* Appends to *out, the caller's, what is certain now. Ids without a token add nothing. */
ls_status ls_detok_feed(struct ls_detok *d, int32_t id, struct ls_bytes *out,
                        struct ls_err *err);

/* Ends the stream: appends what was held, U+FFFD for a broken tail, and starts a new stream. */
ls_status ls_detok_finish(struct ls_detok *d, struct ls_bytes *out, struct ls_err *err);

/* Drops what is held and starts a new stream. */
void ls_detok_reset(struct ls_detok *d);

#endif
