/* What the next step holds. */
#include "base/size.h"
#include "kernels/kernels.h"
#include "pipeline/scheduler_state.h"

enum {
    /* A prompt's share of a step is not cut below this to keep all stages busy: each step reads
     * all weights once, whatever it holds. */
    MIN_PROMPT_SHARE = 32,
    /* Rows from which on a step is bound by arithmetic and not by reading weights, so that one
     * step more can be in flight while the coordinator samples. */
    FULL_ROWS = 32,
};

static void emit(const struct ls_scheduler *s, struct ls_step *step, enum ls_event_kind kind,
                 uint32_t slot, uint32_t value)
{
    assert(step->n_events < s->lim.max_events);
    (void)s;
    step->events[step->n_events++] =
        (struct ls_step_event){ .kind = kind, .slot = slot, .value = value };
}

static void emit_closes(struct ls_scheduler *s, struct ls_step *step)
{
    while (s->ended.n > 0)
        emit(s, step, LS_EVENT_CLOSE, ls_queue_pop(s, &s->ended), 0);
}

/* Every future query is at next_pos or later, so keys before next_pos - window + 1 are dead. */
static void emit_trim(struct ls_scheduler *s, struct ls_step *step, struct slot *sl)
{
    const uint32_t slot = (uint32_t)(sl - s->slots);
    uint32_t window = (uint32_t)s->all_window;
    if (s->all_window <= 0 || sl->next_pos < window)
        return;
    uint32_t block = (sl->next_pos - window + 1) / LS_KV_BLOCK;
    if (block <= sl->first_block)
        return;
    emit(s, step, LS_EVENT_TRIM, slot, block * LS_KV_BLOCK);
    ls_slot_free_blocks(s, sl, block);
}

static void note_peak(struct ls_scheduler *s)
{
    const uint32_t in_use = ls_scheduler_in_use(s);
    s->peak_blocks = in_use > s->peak_blocks ? in_use : s->peak_blocks;
}

static void emit_blocks(struct ls_scheduler *s, struct ls_step *step, uint32_t slot,
                        uint32_t end_pos)
{
    struct slot *sl = &s->slots[slot];
    while (sl->end_block * LS_KV_BLOCK < end_pos) {
        const uint32_t id = ls_scheduler_take_block(s), b = sl->end_block++;
        sl->block_of[b] = id;
        if (s->reuse && b < sl->seq.n_prompt / LS_KV_BLOCK && sl->entry_of[b] != LS_PREFIX_NONE)
            s->prefix.entries[sl->entry_of[b]].block = id;
        emit(s, step, LS_EVENT_ASSIGN, slot, id);
    }
    assert(sl->end_block - sl->first_block <= sl->reserved);
    note_peak(s);
}

/* The newest block of a slot came from others. */
static void emit_adopt(void *arg, struct ls_scheduler *s, struct slot *sl)
{
    struct ls_step *step = arg;
    emit(s, step, LS_EVENT_ADOPT, (uint32_t)(sl - s->slots), sl->block_of[sl->end_block - 1]);
    emit_trim(s, step, sl);
    note_peak(s);
}

/* True when the slot is open now; false: this step has no room for what it would adopt. */
static bool open_slot(struct ls_scheduler *s, struct ls_step *step, struct slot *sl)
{
    const uint32_t first = step->n_events + 1;
    if (s->adopt_left < s->adopt_events && 2 * sl->seen_blocks > s->adopt_left)
        return false;
    emit(s, step, LS_EVENT_OPEN, (uint32_t)(sl - s->slots), 0);
    sl->opened = true;
    if (s->reuse)
        ls_slot_adopt(s, sl, s->adopt_left / 2, emit_adopt, step);
    s->adopt_left -= step->n_events - first;
    return true;
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
    emit_trim(s, step, sl);
    emit_blocks(s, step, slot, sl->next_pos + count);
    struct ls_step_row *row = &step->rows[step->n_rows++];
    *row = (struct ls_step_row){
        .slot = slot, .first_pos = sl->next_pos, .count = count, .nan_layer = LS_NO_LAYER
    };
    step->n_tokens += count;
    sl->next_pos += count;
    return row;
}

/* The slot can be in no other step before its row in this one has come back. */
static void await(struct ls_scheduler *s, struct slot *sl, const struct ls_step *step)
{
    sl->state = SLOT_WAITING;
    sl->last_step = step->id;
    if (s->n_awaited[step->id % s->window]++ == 0)
        s->steps_awaited++;
}

static void add_decode_row(struct ls_scheduler *s, struct ls_step *step)
{
    uint32_t slot = ls_queue_pop(s, &s->ready);
    struct slot *sl = &s->slots[slot];
    step->tokens[step->n_tokens] = sl->token;
    struct ls_step_row *row = add_row(s, step, slot, 1);
    row->n_send = 1;
    row->n_digest = sl->seq.digest_generated;
    await(s, sl, step);
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
    await(s, sl, step);
    s->n_decoding++;
}

static struct slot *waiting_prompt(const struct ls_scheduler *s, uint32_t i)
{
    return &s->slots[s->prompts.at[(s->prompts.first + i) % s->lim.n_slots]];
}

/* Prompts that do not wait for another's blocks. */
static uint32_t n_runnable(struct ls_scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->prompts.n; i++)
        n += !ls_slot_must_wait(s, waiting_prompt(s, i));
    return n;
}

/* Work that is ready at once is spread over as many steps as there are stages to fill, or the
 * other stages would wait for one large step. */
static uint32_t decode_groups(const struct ls_scheduler *s)
{
    bool full = s->n_decoding / FULL_ROWS > s->groups;
    return full && s->groups < s->window ? s->groups + 1 : s->groups;
}

static uint32_t decode_share(struct ls_scheduler *s)
{
    uint32_t share = (uint32_t)ls_ceil_div(s->n_decoding, decode_groups(s));
    uint32_t room = s->lim.max_rows;
    if (n_runnable(s) > 0 && room > 1)
        room--; /* prompts go on, however many sequences decode */
    return share < room ? share : room;
}

static uint32_t prompt_share(struct ls_scheduler *s)
{
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < s->prompts.n; i++) {
        struct slot *sl = waiting_prompt(s, i);
        if (!ls_slot_must_wait(s, sl))
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
        uint32_t slot = ls_queue_pop(s, &s->prompts);
        struct slot *sl = &s->slots[slot];
        uint32_t room = s->lim.max_tokens - step->n_tokens;
        if (step->n_rows == s->lim.max_rows || share == 0 || ls_slot_must_wait(s, sl))
            room = 0;
        if (room > 0 && !sl->opened && !open_slot(s, step, sl))
            room = 0;
        uint32_t count = sl->seq.n_prompt - sl->next_pos;
        count = count < s->chunk ? count : s->chunk;
        count = count < room ? count : room;
        count = count < share ? count : share;
        if (count > 0)
            add_prompt_row(s, step, slot, count);
        share -= count;
        if (sl->state == SLOT_PROMPT)
            ls_queue_push(s, &s->prompts, slot);
    }
}

/* Few rows cost as much as many. Where as many steps as are wanted are on their way already,
 * rows that are ready wait for one of them and go on together with its rows, so that uneven
 * groups become even. */
static bool is_worth_a_step(struct ls_scheduler *s)
{
    const bool prompts = n_runnable(s) > 0;
    if (prompts || s->ready.n == 0)
        return prompts;
    return s->steps_awaited < decode_groups(s) || s->ready.n >= s->lim.max_rows;
}

bool ls_scheduler_step(struct ls_scheduler *s, struct ls_step *step)
{
    if (!is_worth_a_step(s))
        return false;
    s->adopt_left = s->adopt_events;
    step->id = s->next_step++;
    step->n_rows = step->n_events = step->n_tokens = 0;
    emit_closes(s, step);
    uint32_t share = decode_share(s);
    for (uint32_t i = 0; i < share && s->ready.n > 0; i++)
        add_decode_row(s, step);
    add_prompts(s, step);
    return true;
}
