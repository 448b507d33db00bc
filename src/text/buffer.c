#include "text/buffer.h"

#include "base/alloc.h"

#include <string.h>

ls_status ls_grow(void **data, size_t n, size_t *cap, size_t need, size_t size,
                  struct ls_err *err)
{
    if (need <= *cap)
        return LS_OK;
    if (need > INT32_MAX)
        return ls_fail(err, LS_E_REQUEST, "text too long: %zu elements, at most %d", need,
                       INT32_MAX);
    size_t grown = *cap * 2 > need ? *cap * 2 : need;
    if (grown < 64)
        grown = 64;
    void *fresh;
    ls_status s = ls_alloc(&fresh, (uint64_t)grown * size, "text buffer", err);
    if (s)
        return s;
    if (n)
        memcpy(fresh, *data, n * size);
    ls_free(*data);
    *data = fresh;
    *cap = grown;
    return LS_OK;
}

ls_status ls_bytes_reserve(struct ls_bytes *b, size_t extra, struct ls_err *err)
{
    if (extra <= b->cap - b->n)
        return LS_OK;
    void *data = b->data;
    ls_status s =
        ls_grow(&data, b->n, &b->cap, extra > INT32_MAX ? extra : b->n + extra, 1, err);
    b->data = data;
    return s;
}

ls_status ls_bytes_append(struct ls_bytes *b, const void *data, size_t n, struct ls_err *err)
{
    ls_status s = ls_bytes_reserve(b, n, err);
    if (!s && n) {
        memcpy(b->data + b->n, data, n);
        b->n += n;
    }
    return s;
}

ls_status ls_bytes_text(struct ls_bytes *b, const char *text, struct ls_err *err)
{
    return ls_bytes_append(b, text, strlen(text), err);
}

ls_status ls_bytes_insert(struct ls_bytes *b, size_t at, const void *data, size_t n,
                          struct ls_err *err)
{
    ls_status s = ls_bytes_reserve(b, n, err);
    if (!s && n) {
        memmove(b->data + at + n, b->data + at, b->n - at);
        memcpy(b->data + at, data, n);
        b->n += n;
    }
    return s;
}

void ls_bytes_finish(struct ls_bytes *b)
{
    ls_free(b->data);
    *b = (struct ls_bytes){ 0 };
}

ls_status ls_ids_reserve(struct ls_ids *ids, size_t extra, struct ls_err *err)
{
    if (extra <= ids->cap - ids->n)
        return LS_OK;
    void *data = ids->data;
    ls_status s = ls_grow(&data, ids->n, &ids->cap, extra > INT32_MAX ? extra : ids->n + extra,
                          sizeof *ids->data, err);
    ids->data = data;
    return s;
}

ls_status ls_ids_push(struct ls_ids *ids, int32_t id, struct ls_err *err)
{
    ls_status s = ls_ids_reserve(ids, 1, err);
    if (!s)
        ids->data[ids->n++] = id;
    return s;
}

ls_status ls_ids_append(struct ls_ids *ids, const int32_t *more, size_t n, struct ls_err *err)
{
    ls_status s = ls_ids_reserve(ids, n, err);
    if (!s && n) {
        memcpy(ids->data + ids->n, more, n * sizeof *more);
        ids->n += n;
    }
    return s;
}

void ls_ids_finish(struct ls_ids *ids)
{
    ls_free(ids->data);
    *ids = (struct ls_ids){ 0 };
}
