/* Slots, block tables and the free list of one stage: what each sequence's cache holds.
 *
 * Layer: stage. A step's events and rows are checked against these tables and applied as one:
 * on refusal nothing has changed. Work is proportional to the step (and to the blocks it
 * frees); nothing is allocated. All memory is the caller's, carved by ls_tables_carve. Two
 * counters, never mixed: `length` counts absolute positions, `live_first` says which are still
 * held. */
#ifndef LS_STAGE_TABLES_H
#define LS_STAGE_TABLES_H

#include "base/carve.h"
#include "stage/step.h"

struct ls_slot {
    bool open;
    uint32_t length;     /* positions computed so far = absolute position of the next token */
    uint32_t live_first; /* first position still held, a multiple of 32, <= length */
    uint32_t n_blocks;  /* blocks assigned since position 0; those before live_first are gone */
    int32_t nan_layer;  /* smallest layer whose output held NaN since it was opened, or -1 */
    uint64_t step_seen; /* ordinal of the last step that had a row of this slot */
};

/* What one event changed, to take it back. */
struct ls_event_undo {
    struct ls_slot slot;
    uint32_t block; /* what ASSIGN or ADOPT wrote over */
    uint32_t whole; /* of the block that ASSIGN took */
};

struct ls_tables {
    struct ls_step_limits lim;
    struct ls_slot *slots;      /* [n_slots] */
    uint32_t *blocks;           /* [n_slots][max_blocks_per_slot] block ids */
    uint32_t *users;            /* [n_blocks] slots that hold it */
    uint32_t *whole;            /* [n_blocks] when all of its positions were computed: 1 + its
                                   place in the sequence; else 0. Stays when nobody holds it */
    struct ls_event_undo *undo; /* [max_events] */
    uint64_t n_checked;         /* steps that came this far */
};

/* Places the arrays; zeroed memory is the initial state. */
void ls_tables_carve(struct ls_tables *t, struct ls_carve *c, const struct ls_step_limits *lim);

/* Checks a step (ls_step_check has passed) and applies its events. LS_E_SHAPE: nothing has
 * changed. Local. */
ls_status ls_tables_apply(struct ls_tables *t, const struct ls_step *step, struct ls_err *err);

/* After the rows of an applied step were computed: their positions are held now. */
void ls_tables_advance(struct ls_tables *t, const struct ls_step *step);

static inline uint32_t *ls_tables_blocks(const struct ls_tables *t, uint32_t slot)
{
    return t->blocks + (size_t)slot * t->lim.max_blocks_per_slot;
}

#endif
