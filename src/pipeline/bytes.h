/* A cursor over little-endian bytes, for the control messages of the pipeline. Layer: pipeline.
 *
 * Reading never goes past the end: the first field that does not fit sets `bad`, and everything
 * after it reads as zero, so a parser checks once, at the end. Local, cannot fail. */
#ifndef LS_PIPELINE_BYTES_H
#define LS_PIPELINE_BYTES_H

#include "base/le.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ls_writer {
    unsigned char *at;
    size_t left;
    bool bad; /* something did not fit: our own fault, buffers are sized for the largest form */
};

struct ls_reader {
    const unsigned char *at;
    size_t left;
    bool bad;
};

static inline void ls_put_bytes(struct ls_writer *w, const void *bytes, size_t n)
{
    if (w->bad || n > w->left) {
        w->bad = true;
        return;
    }
    if (n)
        memcpy(w->at, bytes, n);
    w->at += n;
    w->left -= n;
}

static inline void ls_put_u64(struct ls_writer *w, uint64_t value)
{
    unsigned char b[8];
    ls_le_put(b, value, sizeof b);
    ls_put_bytes(w, b, sizeof b);
}

static inline void ls_put_u32(struct ls_writer *w, uint32_t value)
{
    unsigned char b[4];
    ls_le_put(b, value, sizeof b);
    ls_put_bytes(w, b, sizeof b);
}

static inline void ls_put_i32(struct ls_writer *w, int32_t value)
{
    ls_put_u32(w, (uint32_t)value);
}

/* Length, then the bytes without the terminating zero. */
static inline void ls_put_text(struct ls_writer *w, const char *text)
{
    size_t n = strlen(text);
    ls_put_u32(w, (uint32_t)n);
    ls_put_bytes(w, text, n);
}

static inline void ls_get_bytes(struct ls_reader *r, void *out, size_t n)
{
    if (r->bad || n > r->left) {
        r->bad = true;
        memset(out, 0, n);
        return;
    }
    memcpy(out, r->at, n);
    r->at += n;
    r->left -= n;
}

static inline uint64_t ls_get_u64(struct ls_reader *r)
{
    unsigned char b[8];
    ls_get_bytes(r, b, sizeof b);
    return ls_le_get(b, sizeof b);
}

static inline uint32_t ls_get_u32(struct ls_reader *r)
{
    unsigned char b[4];
    ls_get_bytes(r, b, sizeof b);
    return ls_le_get32(b);
}

static inline int32_t ls_get_i32(struct ls_reader *r)
{
    return (int32_t)ls_get_u32(r);
}

/* Into out[capacity], terminated; a text that is longer or holds a zero byte is bad. */
static inline void ls_get_text(struct ls_reader *r, char *out, size_t capacity)
{
    out[0] = '\0';
    uint32_t n = ls_get_u32(r);
    if (r->bad || n >= capacity || n > r->left || memchr(r->at, 0, n)) {
        r->bad = true;
        return;
    }
    ls_get_bytes(r, out, n);
    out[n] = '\0';
}

/* True when every field fitted and nothing is left over. */
static inline bool ls_reader_done(const struct ls_reader *r)
{
    return !r->bad && r->left == 0;
}

#endif
