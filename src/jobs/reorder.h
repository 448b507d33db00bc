/* Rows that are finished before their turn. Layer: jobs. Local.
 *
 * Each request, good or bad, takes the next number when its line is read; rows leave in that
 * order. Bounded: when `full`, no new request should be opened until the first one is finished,
 * which is always among those already running. */
#ifndef LS_JOBS_REORDER_H
#define LS_JOBS_REORDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_REORDER_ROWS = 65536,
    LS_REORDER_BYTES = 64 * 1024 * 1024,
};

struct ls_row_slot {
    void *owner; /* the caller's, or NULL */
    char *row;   /* [n_row] when ready; malloc'ed, owned */
    size_t n_row;
    size_t held; /* other bytes that wait with it */
    bool ready, is_error;
    unsigned char digest[32];
};

struct ls_reorder {
    struct ls_row_slot *slots; /* ring [cap]; number i lies at i % cap; owned */
    size_t cap;                /* a power of two */
    uint64_t first, next;      /* numbers waiting or running: [first, next) */
    uint64_t bytes;            /* of rows that are ready */
};

void ls_reorder_finish(struct ls_reorder *r); /* frees rows, not owners */
bool ls_reorder_full(const struct ls_reorder *r);
/* The next number's slot, empty. Slots move: find them again by ls_reorder_slot. LS_E_MEMORY.
 */
ls_status ls_reorder_open(struct ls_reorder *r, uint64_t *number, struct ls_err *err);
struct ls_row_slot *ls_reorder_slot(const struct ls_reorder *r, uint64_t number);
/* Makes a slot ready; takes the row over. */
void ls_reorder_put(struct ls_reorder *r, uint64_t number, char *row, size_t n_row,
                    size_t held);
/* The first slot when it is ready, else NULL; and lets it go. */
struct ls_row_slot *ls_reorder_head(const struct ls_reorder *r);
void ls_reorder_pop(struct ls_reorder *r);

#endif
