/* Carving many arrays out of one block of memory, in two passes over the same code: the first
 * with base NULL counts the bytes, the second places the arrays. So what a plan announces and
 * what is allocated cannot differ. Layer: base. Local, cannot fail; overflow is remembered. */
#ifndef LS_BASE_CARVE_H
#define LS_BASE_CARVE_H

#include "base/alloc.h"
#include "base/size.h"

struct ls_carve {
    char *base;     /* LS_ALIGN-aligned block, or NULL: only counts */
    uint64_t used;  /* bytes handed out, a multiple of LS_ALIGN */
    bool overflow;  /* the sizes asked for do not fit 64 bits */
    int n;          /* arrays so far */
    uint64_t *ends; /* of each of the first LS_CARVE_ENDS; NULL: nobody asks */
};

enum { LS_CARVE_ENDS = 64 };

/* rows x columns elements of `each` bytes, LS_ALIGN-aligned; NULL while counting. */
static inline void *ls_carve_take(struct ls_carve *c, uint64_t rows, uint64_t columns,
                                  uint64_t each)
{
    uint64_t n, bytes, end;
    if (!ls_mul_u64(rows, columns, &n) || !ls_mul_u64(n, each, &bytes) ||
        bytes > UINT64_MAX - LS_ALIGN ||
        !ls_add_u64(c->used, ls_round_up(bytes, LS_ALIGN), &end)) {
        c->overflow = true;
        return NULL;
    }
    void *p = c->base ? c->base + c->used : NULL;
    c->used = end;
    if (c->ends && c->n < LS_CARVE_ENDS)
        c->ends[c->n++] = end;
    return p;
}

/* The block's size so far; UINT64_MAX, which no allocation grants, after an overflow. */
static inline uint64_t ls_carve_bytes(const struct ls_carve *c)
{
    return c->overflow ? UINT64_MAX : c->used;
}

#endif
