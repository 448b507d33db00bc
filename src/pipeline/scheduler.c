#include "pipeline/scheduler_state.h"

#include "base/size.h"
#include "kernels/kernels.h"

#include <inttypes.h>

static void drop(const struct ls_scheduler *s, struct queue *q, uint32_t slot)
{
    uint32_t n = q->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = ls_queue_pop(s, q);
        if (x != slot)
            ls_queue_push(s, q, x);
    }
}

/* --- creation ----------------------------------------------------------------------------- */

static bool take_arrays(struct ls_scheduler *s)
{
    const struct ls_step_limits *lim = &s->lim;
    uint64_t n = lim->n_slots, word = sizeof(uint32_t);
    s->slots = ls_arena_take(&s->arena, n * sizeof *s->slots);
    s->free_slots = ls_arena_take(&s->arena, n * word);
    s->free_blocks = ls_arena_take(&s->arena, lim->n_blocks * word);
    s->prompts.at = ls_arena_take(&s->arena, n * word);
    s->ready.at = ls_arena_take(&s->arena, n * word);
    s->ended.at = ls_arena_take(&s->arena, n * word);
    s->n_awaited = ls_arena_take(&s->arena, s->window * word);
    uint32_t *tables = ls_arena_take(&s->arena, n * lim->max_blocks_per_slot * word);
    uint32_t *entries = NULL;
    if (s->reuse)
        entries = ls_arena_take(&s->arena, n * lim->max_blocks_per_slot * word);
    if (!s->slots || !s->free_slots || !s->free_blocks || !s->prompts.at || !s->ready.at ||
        !s->ended.at || !s->n_awaited || !tables || (s->reuse && !entries))
        return false;
    for (uint32_t i = 0; i < lim->n_slots; i++)
        s->slots[i].block_of = tables + (uint64_t)i * lim->max_blocks_per_slot;
    for (uint32_t i = 0; entries && i < lim->n_slots; i++)
        s->slots[i].entry_of = entries + (uint64_t)i * lim->max_blocks_per_slot;
    if (s->reuse && !ls_prefix_init(&s->prefix, &s->arena, lim->n_blocks))
        return false;
    return true;
}

ls_status ls_scheduler_create(struct ls_scheduler **out, const struct ls_plan *plan,
                              int all_window, uint64_t seed_placement, bool reuse,
                              struct ls_err *err)
{
    void *memory = NULL;
    ls_status st = ls_alloc(&memory, sizeof(struct ls_scheduler), "scheduler", err);
    if (st)
        return st;
    struct ls_scheduler *s = memory;
    s->lim = plan->limits;
    s->chunk = (uint32_t)plan->chunk;
    s->window = (uint32_t)plan->window;
    s->groups = (uint32_t)(plan->window < plan->n_stages ? plan->window : plan->n_stages);
    s->all_window = all_window;
    s->seed = seed_placement;
    s->reuse = reuse;
    const uint32_t others = ls_plan_step_events(&s->lim);
    s->adopt_events = s->lim.max_events > others ? s->lim.max_events - others : 0;
    ls_arena_init(&s->arena);
    if (!take_arrays(s)) {
        ls_scheduler_destroy(s);
        return ls_fail(err, LS_E_MEMORY, "out of memory: scheduler of %u slots and %u blocks",
                       plan->limits.n_slots, plan->limits.n_blocks);
    }
    for (uint32_t i = 0; i < s->lim.n_slots; i++)
        s->free_slots[s->n_free_slots++] = s->lim.n_slots - 1 - i;
    for (uint32_t i = 0; i < s->lim.n_blocks; i++)
        s->free_blocks[s->n_free_blocks++] = s->lim.n_blocks - 1 - i;
    *out = s;
    return LS_OK;
}

void ls_scheduler_destroy(struct ls_scheduler *s)
{
    if (!s)
        return;
    ls_arena_finish(&s->arena);
    ls_free(s);
}

/* --- admission ---------------------------------------------------------------------------- */

/* Positions that a sequence feeds: its last token is never fed back. */
static uint64_t positions_of(const struct ls_sequence *seq)
{
    return (uint64_t)seq->n_prompt + (seq->max_new ? seq->max_new - 1 : 0);
}

/* With a window W and rows of at most c tokens the live positions span W - 1 + c, and any span
 * of n positions touches at most (n + 30) / 32 + 1 blocks. */
uint32_t ls_scheduler_worst_blocks(const struct ls_plan *plan, int all_window,
                                   uint32_t positions)
{
    uint64_t whole = ls_ceil_div(positions, LS_KV_BLOCK);
    if (all_window <= 0)
        return (uint32_t)whole;
    uint64_t row = ls_min_u64((uint64_t)plan->chunk, positions);
    uint64_t span = (uint64_t)all_window - 1 + row;
    return (uint32_t)ls_min_u64(whole, (span + LS_KV_BLOCK - 2) / LS_KV_BLOCK + 1);
}

static uint32_t worst_of(const struct ls_scheduler *s, const struct ls_sequence *seq)
{
    const struct ls_plan sizes = { .chunk = (int32_t)s->chunk };
    return ls_scheduler_worst_blocks(&sizes, s->all_window, (uint32_t)positions_of(seq));
}

ls_status ls_scheduler_check(const struct ls_scheduler *s, const struct ls_sequence *seq,
                             struct ls_err *err)
{
    if (seq->n_prompt < 1 || seq->n_send > seq->n_prompt || seq->n_digest > seq->n_prompt ||
        (seq->max_new > 0 && seq->n_send < 1))
        return ls_fail(err, LS_E_REQUEST,
                       "sequence %" PRIu64 ": %u prompt tokens, logits of %u sent and %u "
                       "digested, %u new tokens",
                       seq->id, seq->n_prompt, seq->n_send, seq->n_digest, seq->max_new);
    if (positions_of(seq) > s->lim.context)
        return ls_fail(err, LS_E_REQUEST,
                       "sequence %" PRIu64 ": %u prompt tokens and %u new ones do not fit into "
                       "the context of %u",
                       seq->id, seq->n_prompt, seq->max_new, s->lim.context);
    if (worst_of(s, seq) > s->lim.n_blocks)
        return ls_fail(err, LS_E_REQUEST,
                       "sequence %" PRIu64 ": needs %u KV blocks, there are %u", seq->id,
                       worst_of(s, seq), s->lim.n_blocks);
    return LS_OK;
}

bool ls_scheduler_has_room(const struct ls_scheduler *s, const struct ls_sequence *seq)
{
    return s->n_free_slots > 0 && worst_of(s, seq) <= s->lim.n_blocks - s->n_reserved;
}

uint32_t ls_scheduler_add(struct ls_scheduler *s, const struct ls_sequence *seq)
{
    assert(ls_scheduler_has_room(s, seq));
    uint32_t slot = ls_stack_take(s, s->free_slots, &s->n_free_slots);
    struct slot *sl = &s->slots[slot];
    assert(sl->state == SLOT_FREE);
    *sl = (struct slot){ .seq = *seq,
                         .state = SLOT_PROMPT,
                         .reserved = worst_of(s, seq),
                         .block_of = sl->block_of,
                         .entry_of = sl->entry_of };
    ls_slot_start_prefix(sl);
    s->n_reserved += sl->reserved;
    s->n_running++;
    ls_queue_push(s, &s->prompts, slot);
    return slot;
}

/* --- what came back ----------------------------------------------------------------------- */

/* Whatever the newest row of a slot was to bring has come, or is not wanted any more. */
static void stop_awaiting(struct ls_scheduler *s, const struct slot *sl)
{
    uint32_t *const n = &s->n_awaited[sl->last_step % s->window];
    assert(sl->state == SLOT_WAITING && *n > 0);
    if (--*n == 0)
        s->steps_awaited--;
}

void ls_scheduler_token(struct ls_scheduler *s, uint32_t slot, int32_t token)
{
    struct slot *sl = &s->slots[slot];
    stop_awaiting(s, sl);
    sl->token = token;
    sl->state = SLOT_READY;
    ls_queue_push(s, &s->ready, slot);
}

void ls_scheduler_end(struct ls_scheduler *s, uint32_t slot)
{
    struct slot *sl = &s->slots[slot];
    assert(sl->state == SLOT_PROMPT || sl->state == SLOT_WAITING || sl->state == SLOT_READY);
    if (sl->state == SLOT_PROMPT)
        drop(s, &s->prompts, slot);
    else
        s->n_decoding--;
    if (sl->state == SLOT_WAITING)
        stop_awaiting(s, sl);
    if (sl->state == SLOT_READY)
        drop(s, &s->ready, slot);
    /* Slot and blocks can be given away at once: whoever gets them does so in a step that
     * begins with this slot's CLOSE. */
    if (sl->opened)
        ls_queue_push(s, &s->ended, slot);
    ls_slot_end_prefix(s, sl);
    ls_slot_free_blocks(s, sl, sl->end_block);
    s->n_reserved -= sl->reserved;
    s->n_running--;
    sl->state = SLOT_FREE;
    s->free_slots[s->n_free_slots++] = slot;
}

uint32_t ls_scheduler_n_running(const struct ls_scheduler *s)
{
    return s->n_running;
}

void ls_scheduler_blocks(const struct ls_scheduler *s, uint32_t *in_use, uint32_t *peak)
{
    *in_use = ls_scheduler_in_use(s);
    *peak = s->peak_blocks;
}

uint32_t ls_scheduler_touched_blocks(const struct ls_scheduler *s)
{
    return s->touched_blocks;
}

uint64_t ls_scheduler_reused_blocks(const struct ls_scheduler *s)
{
    return s->reused_blocks;
}
