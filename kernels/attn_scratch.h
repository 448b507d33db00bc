/* How attention's scratch is laid out: rows of scores, `stride` floats apart, one for each
 * query head of a group that is computed together. Layer: kernels, internal. */
#ifndef LS_KERNELS_ATTN_SCRATCH_H
#define LS_KERNELS_ATTN_SCRATCH_H

#include <stddef.h>

enum { LS_ATTN_MAX_ROWS = 24 };

/* Rows computed together where the first of them sees n_keys: fewer for long contexts, so that
 * the scores stay in the cache. 1..LS_ATTN_MAX_ROWS. */
int ls_attn_rows(int n_keys);

/* Floats from one row to the next: room for n_keys, for the queries that follow the first, and
 * for the whole blocks at both ends; a multiple of 16 and seldom of a power of two, which would
 * put all rows into the same cache sets. */
size_t ls_attn_stride(int n_keys);

#endif
