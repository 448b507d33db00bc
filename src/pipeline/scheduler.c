#include "pipeline/scheduler.h"

#include "base/alloc.h"
#include "base/philox.h"
#include "base/size.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <inttypes.h>

enum {
    /* A prompt's share of a step is not cut below this to keep all stages busy: each step reads
     * all weights once, whatever it holds. */
    MIN_PROMPT_SHARE = 32,
};

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
    uint32_t chunk, groups;
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

/* --- lists
 * ------------------------------------------------------------------------------------- */

static void push(const struct ls_scheduler *s, struct queue *q, uint32_t slot)
{
    q->at[(q->first + q->n) % s->lim.n_slots] = slot;
    q->n++;
}

static uint32_t pop(const struct ls_scheduler *s, struct queue *q)
{
    uint32_t slot = q->at[q->first];
    q->first = (q->first + 1) % s->lim.n_slots;
    q->n--;
    return slot;
}

static void drop(const struct ls_scheduler *s, struct queue *q, uint32_t slot)
{
    uint32_t n = q->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = pop(s, q);
        if (x != slot)
            push(s, q, x);
    }
}

/* Takes from a stack: the top, or, with a seed, any entry. */
static uint32_t take(struct ls_scheduler *s, uint32_t *stack, uint32_t *n)
{
    assert(*n > 0);
    uint32_t last = --*n, i = last;
    if (s->seed)
        i = (uint32_t)(ls_philox_uniform(s->seed, s->n_draws++) * (double)(last + 1));
    uint32_t value = stack[i];
    stack[i] = stack[last];
    return value;
}

/* --- creation
 * ---------------------------------------------------------------------------------- */

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
    uint32_t *tables = ls_arena_take(&s->arena, n * lim->max_blocks_per_slot * word);
    if (!s->slots || !s->free_slots || !s->free_blocks || !s->prompts.at || !s->ready.at ||
        !s->ended.at || !tables)
        return false;
    for (uint32_t i = 0; i < lim->n_slots; i++)
        s->slots[i].block_of = tables + (uint64_t)i * lim->max_blocks_per_slot;
    return true;
}

ls_status ls_scheduler_create(struct ls_scheduler **out, const struct ls_plan *plan,
                              int all_window, uint64_t seed_placement, struct ls_err *err)
{
    void *memory = NULL;
    ls_status st = ls_alloc(&memory, sizeof(struct ls_scheduler), "scheduler", err);
    if (st)
        return st;
    struct ls_scheduler *s = memory;
    s->lim = plan->limits;
    s->chunk = (uint32_t)plan->chunk;
    s->groups = (uint32_t)(plan->window < plan->n_stages ? plan->window : plan->n_stages);
    s->all_window = all_window;
    s->seed = seed_placement;
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

/* --- admission
 * --------------------------------------------------------------------------------- */

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
    uint32_t slot = take(s, s->free_slots, &s->n_free_slots);
    struct slot *sl = &s->slots[slot];
    assert(sl->state == SLOT_FREE);
    *sl = (struct slot){ .seq = *seq,
                         .state = SLOT_PROMPT,
                         .reserved = worst_of(s, seq),
                         .block_of = sl->block_of };
    s->n_reserved += sl->reserved;
    s->n_running++;
    push(s, &s->prompts, slot);
    return slot;
}

/* --- one step
 * ---------------------------------------------------------------------------------- */

static void emit(const struct ls_scheduler *s, struct ls_step *step, enum ls_event_kind kind,
                 uint32_t slot, uint32_t value)
{
    assert(step->n_events < s->lim.max_events);
    (void)s;
    step->events[step->n_events++] =
        (struct ls_step_event){ .kind = kind, .slot = slot, .value = value };
}

static void free_blocks_below(struct ls_scheduler *s, struct slot *sl, uint32_t block)
{
    while (sl->first_block < block && sl->first_block < sl->end_block)
        s->free_blocks[s->n_free_blocks++] = sl->block_of[sl->first_block++];
}

static void emit_closes(struct ls_scheduler *s, struct ls_step *step)
{
    while (s->ended.n > 0)
        emit(s, step, LS_EVENT_CLOSE, pop(s, &s->ended), 0);
}

/* Every future query is at next_pos or later, so keys before next_pos - window + 1 are dead. */
static void emit_trim(struct ls_scheduler *s, struct ls_step *step, uint32_t slot)
{
    struct slot *sl = &s->slots[slot];
    uint32_t window = (uint32_t)s->all_window;
    if (s->all_window <= 0 || sl->next_pos < window)
        return;
    uint32_t block = (sl->next_pos - window + 1) / LS_KV_BLOCK;
    if (block <= sl->first_block)
        return;
    emit(s, step, LS_EVENT_TRIM, slot, block * LS_KV_BLOCK);
    free_blocks_below(s, sl, block);
}

static void emit_blocks(struct ls_scheduler *s, struct ls_step *step, uint32_t slot,
                        uint32_t end_pos)
{
    struct slot *sl = &s->slots[slot];
    while (sl->end_block * LS_KV_BLOCK < end_pos) {
        uint32_t id = take(s, s->free_blocks, &s->n_free_blocks);
        sl->block_of[sl->end_block++] = id;
        emit(s, step, LS_EVENT_ASSIGN, slot, id);
    }
    assert(sl->end_block - sl->first_block <= sl->reserved);
    uint32_t in_use = s->lim.n_blocks - s->n_free_blocks;
    if (in_use > s->peak_blocks)
        s->peak_blocks = in_use;
}

/* How many of positions [first, first + count) are among the last n of the prompt. */
static uint32_t overlap(uint32_t first, uint32_t count, uint32_t n_prompt, uint32_t n)
{
    uint32_t begin = n_prompt - n, end = first + count;
    if (end <= begin)
        return 0;
    return end - (begin > first ? begin : first);
}

/* Adds a row for the slot's next `count` positions; the tokens are the caller's. */
static struct ls_step_row *add_row(struct ls_scheduler *s, struct ls_step *step, uint32_t slot,
                                   uint32_t count)
{
    struct slot *sl = &s->slots[slot];
    if (!sl->opened)
        emit(s, step, LS_EVENT_OPEN, slot, 0);
    sl->opened = true;
    emit_trim(s, step, slot);
    emit_blocks(s, step, slot, sl->next_pos + count);
    struct ls_step_row *row = &step->rows[step->n_rows++];
    *row = (struct ls_step_row){
        .slot = slot, .first_pos = sl->next_pos, .count = count, .nan_layer = LS_NO_LAYER
    };
    step->n_tokens += count;
    sl->next_pos += count;
    return row;
}

static void add_decode_row(struct ls_scheduler *s, struct ls_step *step)
{
    uint32_t slot = pop(s, &s->ready);
    struct slot *sl = &s->slots[slot];
    step->tokens[step->n_tokens] = sl->token;
    struct ls_step_row *row = add_row(s, step, slot, 1);
    row->n_send = 1;
    row->n_digest = sl->seq.digest_generated;
    sl->state = SLOT_WAITING;
}

static void add_prompt_row(struct ls_scheduler *s, struct ls_step *step, uint32_t slot,
                           uint32_t count)
{
    struct slot *sl = &s->slots[slot];
    const struct ls_sequence *seq = &sl->seq;
    uint32_t first = sl->next_pos;
    for (uint32_t i = 0; i < count; i++)
        step->tokens[step->n_tokens + i] = seq->tokens[first + i];
    struct ls_step_row *row = add_row(s, step, slot, count);
    row->n_send = overlap(first, count, seq->n_prompt, seq->n_send);
    row->n_digest = overlap(first, count, seq->n_prompt, seq->n_digest);
    if (sl->next_pos < seq->n_prompt)
        return;
    sl->state = SLOT_WAITING;
    s->n_decoding++;
}

/* Work that is ready at once is spread over as many steps as there are stages to fill, or the
 * other stages would wait for one large step. */
static uint32_t decode_share(const struct ls_scheduler *s)
{
    uint32_t share = (uint32_t)ls_ceil_div(s->n_decoding, s->groups);
    uint32_t room = s->lim.max_rows;
    if (s->prompts.n > 0 && room > 1)
        room--; /* prompts go on, however many sequences decode */
    return share < room ? share : room;
}

static uint32_t prompt_share(const struct ls_scheduler *s)
{
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < s->prompts.n; i++) {
        const struct slot *sl =
            &s->slots[s->prompts.at[(s->prompts.first + i) % s->lim.n_slots]];
        waiting += sl->seq.n_prompt - sl->next_pos;
    }
    uint64_t share = ls_max_u64(ls_ceil_div(waiting, s->groups), MIN_PROMPT_SHARE);
    return (uint32_t)ls_min_u64(share, s->lim.max_tokens);
}

/* One chunk of each waiting prompt, oldest first; those that are not finished stay, in order.
 */
static void add_prompts(struct ls_scheduler *s, struct ls_step *step)
{
    uint32_t share = prompt_share(s), n = s->prompts.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = pop(s, &s->prompts);
        const struct slot *sl = &s->slots[slot];
        uint32_t count = sl->seq.n_prompt - sl->next_pos;
        uint32_t room = s->lim.max_tokens - step->n_tokens;
        if (step->n_rows == s->lim.max_rows)
            room = 0;
        count = count < s->chunk ? count : s->chunk;
        count = count < room ? count : room;
        count = count < share ? count : share;
        if (count > 0)
            add_prompt_row(s, step, slot, count);
        share -= count;
        if (sl->state == SLOT_PROMPT)
            push(s, &s->prompts, slot);
    }
}

bool ls_scheduler_step(struct ls_scheduler *s, struct ls_step *step)
{
    if (s->ready.n == 0 && s->prompts.n == 0)
        return false;
    step->id = s->next_step++;
    step->n_rows = step->n_events = step->n_tokens = 0;
    emit_closes(s, step);
    uint32_t share = decode_share(s);
    for (uint32_t i = 0; i < share && s->ready.n > 0; i++)
        add_decode_row(s, step);
    add_prompts(s, step);
    return true;
}

/* --- what came back
 * ---------------------------------------------------------------------------- */

void ls_scheduler_token(struct ls_scheduler *s, uint32_t slot, int32_t token)
{
    struct slot *sl = &s->slots[slot];
    assert(sl->state == SLOT_WAITING);
    sl->token = token;
    sl->state = SLOT_READY;
    push(s, &s->ready, slot);
}

void ls_scheduler_end(struct ls_scheduler *s, uint32_t slot)
{
    struct slot *sl = &s->slots[slot];
    assert(sl->state == SLOT_PROMPT || sl->state == SLOT_WAITING || sl->state == SLOT_READY);
    if (sl->state == SLOT_PROMPT)
        drop(s, &s->prompts, slot);
    else
        s->n_decoding--;
    if (sl->state == SLOT_READY)
        drop(s, &s->ready, slot);
    /* Slot and blocks can be given away at once: whoever gets them does so in a step that
     * begins with this slot's CLOSE. */
    if (sl->opened)
        push(s, &s->ended, slot);
    free_blocks_below(s, sl, sl->end_block);
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
    *in_use = s->lim.n_blocks - s->n_free_blocks;
    *peak = s->peak_blocks;
}
