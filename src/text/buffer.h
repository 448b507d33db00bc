/* Growable byte and id buffers that a caller holds and reuses.
 *
 * Layer: text. Local. A zeroed struct is an empty buffer; `n` may be set back to 0 to reuse the
 * storage. On failure the contents are unchanged. Never shrinks. Growth goes through ls_alloc.
 */
#ifndef LS_TEXT_BUFFER_H
#define LS_TEXT_BUFFER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ls_bytes {
    uint8_t *data; /* owned; NULL while cap is 0 */
    size_t n;      /* bytes in use, at most INT32_MAX */
    size_t cap;    /* bytes allocated */
};

struct ls_ids {
    int32_t *data; /* owned; token ids, each >= 0 */
    size_t n;      /* ids in use */
    size_t cap;    /* ids allocated */
};

/* Room for `extra` more bytes behind n. LS_E_REQUEST past INT32_MAX bytes in all. */
ls_status ls_bytes_reserve(struct ls_bytes *b, size_t extra, struct ls_err *err);
/* Copies n bytes to the end; data may be NULL when n is 0, and must not point into b. */
ls_status ls_bytes_append(struct ls_bytes *b, const void *data, size_t n, struct ls_err *err);
/* The same for a zero-terminated text. */
ls_status ls_bytes_text(struct ls_bytes *b, const char *text, struct ls_err *err);
/* Copies n bytes in at offset `at` <= b->n; data must not point into b. */
ls_status ls_bytes_insert(struct ls_bytes *b, size_t at, const void *data, size_t n,
                          struct ls_err *err);
void ls_bytes_finish(struct ls_bytes *b);

ls_status ls_ids_reserve(struct ls_ids *ids, size_t extra, struct ls_err *err);
ls_status ls_ids_push(struct ls_ids *ids, int32_t id, struct ls_err *err);
ls_status ls_ids_append(struct ls_ids *ids, const int32_t *more, size_t n, struct ls_err *err);
void ls_ids_finish(struct ls_ids *ids);

/* Room for `need` elements of `size` bytes in the block *data, which holds n of them; the
 * capacity at least doubles. For the arrays of this folder that have their own element type. */
ls_status ls_grow(void **data, size_t n, size_t *cap, size_t need, size_t size,
                  struct ls_err *err);

#endif
