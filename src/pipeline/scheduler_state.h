/* What the files of the scheduler share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_SCHEDULER_STATE_H
#define LS_PIPELINE_SCHEDULER_STATE_H

#include "base/alloc.h"
#include "base/philox.h"
#include "pipeline/prefix.h"
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
    uint64_t last_step; /* SLOT_WAITING: holds its newest position */
    /* prefix reuse; entries are those of ls_prefix */
    uint32_t *entry_of;    /* [max_blocks_per_slot]: of the prompt's full blocks, or NONE */
    uint32_t ready_blocks; /* of these, the first so many are adopted, or offered to others */
    uint32_t seen_blocks;  /* before it is opened: full blocks found ready so far, */
    unsigned char seen_digest[LS_PREFIX_DIGEST]; /* the digest of so many, */
    uint32_t waits_for, waits_since;             /* and the claim that it waits for, or NONE */
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
    uint32_t *n_awaited;    /* [window], by step: its rows from which a token has yet to come */
    uint32_t steps_awaited; /* steps with such rows */
    struct slot *slots;     /* [n_slots] */
    uint32_t *free_slots;   /* [n_slots] stack */
    uint32_t *free_blocks;  /* [n_blocks] stack */
    uint32_t n_free_slots, n_free_blocks;
    uint32_t n_reserved;            /* blocks promised to running sequences */
    uint32_t n_running, n_decoding; /* decoding: READY, or WAITING with the prompt done */
    uint32_t peak_blocks, touched_blocks;
    bool reuse;
    struct ls_prefix prefix;
    uint32_t adopt_events; /* of a step, for what slots adopt when they are opened */
    uint32_t adopt_left;   /* of these, in the step that is made */
    uint64_t reused_blocks;
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

/* --- prefix reuse (scheduler_prefix.c) -----------------------------------------------------
 */

void ls_slot_start_prefix(struct slot *sl);
/* True while another sequence computes a block that this one, not opened yet, can take from it.
 */
bool ls_slot_must_wait(struct ls_scheduler *s, struct slot *sl);
/* Gives a slot that is being opened the blocks that are ready, at most `most`, and claims the
 * rest of its prompt. Calls adopted after each block. Returns how many. */
typedef void ls_slot_adopted(void *arg, struct ls_scheduler *s, struct slot *sl);
uint32_t ls_slot_adopt(struct ls_scheduler *s, struct slot *sl, uint32_t most,
                       ls_slot_adopted *adopted, void *arg);
/* Gives block b of a slot back, or one holder of it. */
void ls_slot_free_block(struct ls_scheduler *s, struct slot *sl, uint32_t b);
/* Claims that never got a block. */
void ls_slot_end_prefix(struct ls_scheduler *s, struct slot *sl);
/* A block that holds nothing any more; the caller knows that there is one. */
uint32_t ls_scheduler_take_block(struct ls_scheduler *s);

static inline uint32_t ls_scheduler_in_use(const struct ls_scheduler *s)
{
    return s->lim.n_blocks - s->n_free_blocks - s->prefix.n_kept;
}

/* Gives back the live blocks before `block`; the last one first, so that of a prefix that is
 * kept the end goes before the beginning. */
static inline void ls_slot_free_blocks(struct ls_scheduler *s, struct slot *sl, uint32_t block)
{
    const uint32_t end = block < sl->end_block ? block : sl->end_block;
    for (uint32_t b = end; b > sl->first_block; b--)
        ls_slot_free_block(s, sl, b - 1);
    sl->first_block = end > sl->first_block ? end : sl->first_block;
}

#endif
