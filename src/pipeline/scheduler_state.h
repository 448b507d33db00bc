/* What the files of the scheduler share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_SCHEDULER_STATE_H
#define LS_PIPELINE_SCHEDULER_STATE_H

#include "base/alloc.h"
#include "base/philox.h"
#include "pipeline/scheduler.h"

#include <assert.h>

enum slot_state {
    SLOT_FREE,
    SLOT_PROMPT,  /* prompt tokens are still to be scheduled */
    SLOT_WAITING, /* its newest position is in flight */
    SLOT_READY    /* a token is to be fed */
};

struct slot {
    struct ls_sequence seq;
    enum slot_state state;
    uint32_t next_pos;               /* positions scheduled so far */
    uint32_t reserved;               /* blocks promised at admission */
    uint32_t first_block, end_block; /* live blocks: block_of[first_block .. end_block) */
    uint32_t *block_of;              /* [max_blocks_per_slot]: ids by position / 32 */
    int32_t token;                   /* SLOT_READY: to be fed at next_pos */
    bool opened;
};

/* A first-in first-out list of slots; each slot is at most once in a list. */
struct queue {
    uint32_t *at; /* [n_slots] */
    uint32_t first, n;
};

struct ls_scheduler {
    struct ls_step_limits lim;
    uint32_t chunk, window;
    uint32_t groups; /* steps that keep all stages busy */
    int all_window;
    uint64_t seed, n_draws;
    uint64_t next_step;
    struct slot *slots;    /* [n_slots] */
    uint32_t *free_slots;  /* [n_slots] stack */
    uint32_t *free_blocks; /* [n_blocks] stack */
    uint32_t n_free_slots, n_free_blocks;
    uint32_t n_reserved;            /* blocks promised to running sequences */
    uint32_t n_running, n_decoding; /* decoding: READY, or WAITING with the prompt done */
    uint32_t peak_blocks;
    struct queue prompts, ready;
    struct queue ended; /* slots to be closed by the next step's first events; free for reuse */
    struct ls_arena arena;
};

static inline void ls_queue_push(const struct ls_scheduler *s, struct queue *q, uint32_t slot)
{
    q->at[(q->first + q->n) % s->lim.n_slots] = slot;
    q->n++;
}

static inline uint32_t ls_queue_pop(const struct ls_scheduler *s, struct queue *q)
{
    uint32_t slot = q->at[q->first];
    q->first = (q->first + 1) % s->lim.n_slots;
    q->n--;
    return slot;
}

/* Takes from a stack: the top, or, with a seed, any entry. */
static inline uint32_t ls_stack_take(struct ls_scheduler *s, uint32_t *stack, uint32_t *n)
{
    assert(*n > 0);
    uint32_t last = --*n, i = last;
    if (s->seed)
        i = (uint32_t)(ls_philox_uniform(s->seed, s->n_draws++) * (double)(last + 1));
    uint32_t value = stack[i];
    stack[i] = stack[last];
    return value;
}

static inline void ls_slot_free_blocks(struct ls_scheduler *s, struct slot *sl, uint32_t block)
{
    while (sl->first_block < block && sl->first_block < sl->end_block)
        s->free_blocks[s->n_free_blocks++] = sl->block_of[sl->first_block++];
}

#endif
