/* Heap memory: aligned, counted, and an arena for things that live as long as a run.
 *
 * Layer: base. Every allocation of the compute and worker code goes through here, so that a
 * test can assert that a step allocates nothing (ls_alloc_count). Local, thread-safe. */
#ifndef LS_BASE_ALLOC_H
#define LS_BASE_ALLOC_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_ALIGN = 64 }; /* one cache line, one zmm */

/* Zeroed, LS_ALIGN-aligned memory; large blocks come straight from the kernel, untouched, and
 * in large pages where the kernel gives them. `what` names the purpose in the LS_E_MEMORY
 * message. bytes may be 0 (gives a valid pointer). On failure *out is NULL. Free with ls_free.
 */
ls_status ls_alloc(void **out, uint64_t bytes, const char *what, struct ls_err *err);

/* Takes NULL. */
void ls_free(void *p);

/* What comes into memory when bytes [begin, end) of a block of so many bytes are used: whole
 * pages, large ones where they are asked for, but for those before *next, which are there.
 * Sets *next behind them. For plans. */
uint64_t ls_alloc_resident(uint64_t bytes, uint64_t begin, uint64_t end, uint64_t *next);

/* Calls of ls_alloc (and arena growth) by the calling thread since it started. */
uint64_t ls_alloc_count(void);

/* Of blocks that came straight from the kernel and are not yet freed, in which the heap's own
 * counters have no part. */
uint64_t ls_alloc_large_bytes(void);

/* Bump allocation; everything is freed at once. Not thread-safe. */
struct ls_arena {
    struct ls_arena_block *blocks; /* newest first */
};

void ls_arena_init(struct ls_arena *a);
void ls_arena_finish(struct ls_arena *a);

/* Makes the next `bytes` of takes come from one block. False when memory is exhausted. */
bool ls_arena_reserve(struct ls_arena *a, uint64_t bytes);

/* Zeroed, 64-byte-aligned; NULL when memory is exhausted. */
void *ls_arena_take(struct ls_arena *a, uint64_t bytes);

/* Copy of n bytes of text plus a terminating zero; NULL when memory is exhausted. */
char *ls_arena_text(struct ls_arena *a, const char *text, size_t n);

#endif
