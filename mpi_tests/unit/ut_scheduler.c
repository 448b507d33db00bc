/* The scheduler against a simulated pipeline: steps come back after random delays, sequences
 * end at random, and a stage's own tables check every event and row. */
#include "pipeline/scheduler.h"

#include "base/philox.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { MAX_SLOTS = 12, MAX_CONTEXT = 320, MAX_BLOCKS = 80, MAX_SEQUENCES = 60, MAX_WINDOW = 8 };

struct draw {
    uint64_t key, index;
};

static uint32_t below(struct draw *d, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(d->key, d->index++) * n);
}

/* What a stage would hold for a slot. */
struct table {
    bool open;
    int sequence; /* index */
    uint32_t end_pos, live_first, n_blocks;
    uint32_t blocks[MAX_CONTEXT / 32];
};

struct sequence {
    struct ls_sequence seq;
    int32_t tokens[MAX_CONTEXT];
    uint32_t worst, slot, fed, n_new, n_sent, n_digested;
    bool running, done, waiting_long;
    uint64_t last_step; /* in which it had a row */
};

struct world {
    struct draw draw;
    struct ls_plan plan;
    int all_window;
    struct ls_scheduler *s;
    struct table tables[MAX_SLOTS];
    int slot_owner[MAX_SLOTS]; /* of the newest sequence */
    bool reuse;
    struct {
        uint32_t users, place;
        int writer; /* sequence that computed it; its tokens say what it holds */
        uint64_t
            last_step; /* in which its last position was computed; UINT64_MAX: it was not */
    } blocks[MAX_BLOCKS];
    uint32_t n_owned; /* blocks with users */
    uint64_t n_adopted;
    struct sequence sequences[MAX_SEQUENCES];
    int n_sequences, next;
    struct ls_step steps[MAX_WINDOW];
    int owner[MAX_WINDOW][MAX_SLOTS]; /* sequence of each row */
    uint64_t first, end;              /* steps in flight */
};

static void draw_plan(struct world *w)
{
    struct draw *d = &w->draw;
    struct ls_plan *p = &w->plan;
    p->n_stages = 1 + (int32_t)below(d, 4);
    p->window = 1 + (int32_t)below(d, MAX_WINDOW);
    p->budget = 1 + (int32_t)below(d, below(d, 2) ? 6 : 100);
    p->chunk = 1 + (int32_t)below(d, (uint32_t)p->budget);
    struct ls_step_limits *lim = &p->limits;
    lim->context = 33 + below(d, MAX_CONTEXT - 33);
    lim->max_blocks_per_slot = (lim->context + 31) / 32;
    lim->n_slots = 1 + below(d, MAX_SLOTS);
    lim->max_tokens = (uint32_t)p->budget;
    lim->max_rows = lim->n_slots < lim->max_tokens ? lim->n_slots : lim->max_tokens;
    lim->max_events = ls_plan_step_events(lim) + 2 * lim->max_blocks_per_slot;
    if (below(d, 4) == 0) /* less room for blocks that are adopted, or none */
        lim->max_events -= below(d, 2 * lim->max_blocks_per_slot + 1);
    w->all_window = below(d, 2) ? 1 + (int)below(d, 70) : 0;
    uint32_t worst = ls_scheduler_worst_blocks(p, w->all_window, lim->context);
    lim->n_blocks = worst + below(d, MAX_BLOCKS - worst + 1);
}

static void draw_sequences(struct world *w)
{
    struct draw *d = &w->draw;
    uint32_t context = w->plan.limits.context;
    w->n_sequences = 1 + (int)below(d, MAX_SEQUENCES);
    for (int i = 0; i < w->n_sequences; i++) {
        struct sequence *q = &w->sequences[i];
        uint32_t n = 1 + below(d, below(d, 2) ? context : 20);
        uint32_t room = context - n + 1;
        q->seq = (struct ls_sequence){ .id = (uint64_t)i, .tokens = q->tokens, .n_prompt = n };
        q->seq.max_new = below(d, 3) ? 1 + below(d, room < 30 ? room : 30) : 0;
        q->seq.n_send = below(d, n + 1);
        if (q->seq.max_new && !q->seq.n_send)
            q->seq.n_send = 1;
        q->seq.n_digest = below(d, n + 1);
        q->seq.digest_generated = below(d, 2);
        for (uint32_t t = 0; t < n; t++)
            q->tokens[t] = (int32_t)(1000 * (uint32_t)i + t);
        const struct sequence *like =
            &w->sequences[i ? (uint32_t)i - 1 - below(d, i < 4 ? (uint32_t)i : 4) : 0];
        uint32_t same = !i || !below(d, 3) ? 0
                        : below(d, 2)      ? n
                                           : below(d, n + 1); /* a common beginning */
        same = same < like->seq.n_prompt ? same : like->seq.n_prompt;
        memcpy(q->tokens, like->tokens, same * sizeof *q->tokens);
        if (below(d, 2)) /* little is asked of the prompt itself */
            q->seq.n_digest = 0;
        if (below(d, 2))
            q->seq.n_send = q->seq.max_new ? 1 : 0;
        q->worst = ls_scheduler_worst_blocks(&w->plan, w->all_window,
                                             n + (q->seq.max_new ? q->seq.max_new - 1 : 0));
    }
}

static void admit(struct world *w)
{
    while (w->next < w->n_sequences) {
        struct sequence *q = &w->sequences[w->next];
        assert_int_equal(ls_scheduler_check(w->s, &q->seq, NULL), LS_OK);
        if (!ls_scheduler_has_room(w->s, &q->seq))
            return;
        q->slot = ls_scheduler_add(w->s, &q->seq);
        assert_true(q->slot < w->plan.limits.n_slots);
        q->running = true;
        q->last_step = w->end;
        w->slot_owner[q->slot] = w->next++;
    }
}

/* --- a stage's own view --------------------------------------------------------------------
 */

static void free_blocks(struct world *w, struct table *t, uint32_t from, uint32_t to)
{
    for (uint32_t b = from; b < to; b++) {
        assert_true(w->blocks[t->blocks[b]].users > 0);
        w->n_owned -= --w->blocks[t->blocks[b]].users == 0;
    }
}

/* A block that was computed in a step that has come back, and that holds the same prefix. */
static void adopt(struct world *w, struct table *t, uint32_t block)
{
    const struct sequence *q = &w->sequences[t->sequence];
    const struct sequence *writer = &w->sequences[w->blocks[block].writer];
    uint32_t end = 32 * (t->n_blocks + 1);
    assert_true(w->reuse && t->open && block < w->plan.limits.n_blocks);
    assert_int_equal(t->end_pos, 32 * t->n_blocks);
    assert_int_equal(w->blocks[block].place, t->n_blocks);
    assert_true(w->blocks[block].last_step < w->first);
    assert_memory_equal(q->tokens, writer->tokens, end * sizeof *q->tokens);
    uint32_t wanted = q->seq.n_send > q->seq.n_digest ? q->seq.n_send : q->seq.n_digest;
    assert_true(end <= q->seq.n_prompt - wanted && end < q->seq.n_prompt);
    w->n_owned += w->blocks[block].users++ == 0;
    t->blocks[t->n_blocks++] = block;
    t->end_pos = end;
    w->n_adopted++;
    assert_true(t->n_blocks - t->live_first / 32 <= q->worst);
}

static void apply_event(struct world *w, const struct ls_step_event *e)
{
    struct table *t = &w->tables[e->slot];
    switch (e->kind) {
    case LS_EVENT_OPEN:
        assert_false(t->open);
        *t = (struct table){ .open = true, .sequence = w->slot_owner[e->slot] };
        break;
    case LS_EVENT_ASSIGN:
        assert_true(t->open && e->value < w->plan.limits.n_blocks);
        assert_int_equal(w->blocks[e->value].users, 0);
        w->blocks[e->value].users = 1;
        w->blocks[e->value].writer = t->sequence;
        w->blocks[e->value].place = t->n_blocks;
        w->blocks[e->value].last_step = UINT64_MAX;
        t->blocks[t->n_blocks++] = e->value;
        w->n_owned++;
        assert_true(t->n_blocks - t->live_first / 32 <= w->sequences[t->sequence].worst);
        break;
    case LS_EVENT_TRIM:
        assert_true(t->open && w->all_window > 0 && e->value % 32 == 0);
        assert_true(e->value > t->live_first && e->value <= t->end_pos);
        free_blocks(w, t, t->live_first / 32, e->value / 32);
        t->live_first = e->value;
        break;
    case LS_EVENT_ADOPT:
        adopt(w, t, e->value);
        break;
    default:
        assert_int_equal(e->kind, LS_EVENT_CLOSE);
        assert_true(t->open);
        free_blocks(w, t, t->live_first / 32, t->n_blocks);
        t->open = false;
    }
}

static void check_row(struct world *w, const struct ls_step *step, uint32_t i,
                      uint32_t first_token)
{
    const struct ls_step_row *r = &step->rows[i];
    struct table *t = &w->tables[r->slot];
    struct sequence *q = &w->sequences[t->sequence];
    assert_true(t->open && q->running);
    assert_int_equal(r->first_pos, t->end_pos); /* every position once, in order */
    assert_true(r->count >= 1 && r->count <= (uint32_t)w->plan.chunk);
    for (uint32_t k = 0; k < r->count; k++)
        assert_int_equal(step->tokens[first_token + k], q->tokens[r->first_pos + k]);
    for (uint32_t b = t->end_pos / 32; 32 * (b + 1) <= t->end_pos + r->count; b++)
        w->blocks[t->blocks[b]].last_step = step->id;
    t->end_pos += r->count;
    assert_true(t->end_pos <= 32 * t->n_blocks && t->n_blocks <= (t->end_pos + 31) / 32);
    if (w->all_window > 0) { /* nothing that the first query still sees is gone */
        uint32_t seen = r->first_pos + 1 > (uint32_t)w->all_window
                            ? r->first_pos + 1 - (uint32_t)w->all_window
                            : 0;
        assert_true(t->live_first <= seen && seen - t->live_first < 32);
    }
    q->fed = t->end_pos;
    q->n_sent += r->n_send;
    q->n_digested += r->n_digest;
    q->last_step = step->id;
}

static void check_step(struct world *w, struct ls_step *step)
{
    const struct ls_step_limits *lim = &w->plan.limits;
    bool has_row[MAX_SLOTS] = { false };
    assert_int_equal(step->id, w->end);
    assert_true(step->n_rows >= 1 && step->n_rows <= lim->max_rows);
    assert_true(step->n_tokens <= lim->max_tokens && step->n_events <= lim->max_events);
    for (uint32_t i = 0; i < step->n_events; i++)
        apply_event(w, &step->events[i]);
    uint32_t token = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        assert_false(has_row[step->rows[i].slot]);
        has_row[step->rows[i].slot] = true;
        check_row(w, step, i, token);
        token += step->rows[i].count;
        w->owner[w->end % MAX_WINDOW][i] = w->tables[step->rows[i].slot].sequence;
    }
    assert_int_equal(token, step->n_tokens);
    uint32_t in_use, peak;
    ls_scheduler_blocks(w->s, &in_use, &peak);
    assert_int_equal(in_use, w->n_owned);
    assert_true(peak <= lim->n_blocks && peak >= in_use);
    w->end++;
}

/* --- results -------------------------------------------------------------------------------
 */

static void end_sequence(struct world *w, struct sequence *q, bool early)
{
    const struct ls_sequence *seq = &q->seq;
    ls_scheduler_end(w->s, q->slot);
    q->running = false;
    q->done = true;
    if (early)
        return;
    uint32_t fed_back = seq->max_new ? seq->max_new - 1 : 0;
    assert_int_equal(q->fed, seq->n_prompt + fed_back);
    assert_int_equal(q->n_sent, seq->n_send + fed_back);
    assert_int_equal(q->n_digested, seq->n_digest + (seq->digest_generated ? fed_back : 0));
}

static void row_came_back(struct world *w, const struct ls_step_row *r, int owner)
{
    struct sequence *q = &w->sequences[owner];
    if (!q->running)
        return; /* ended since */
    ls_scheduler_computed(w->s, q->slot, r->first_pos + r->count, below(&w->draw, 50) > 0);
    if (below(&w->draw, 60) == 0) {
        end_sequence(w, q, true);
        return;
    }
    if (r->first_pos + r->count < q->seq.n_prompt)
        return;
    if (q->seq.max_new == 0 || ++q->n_new == q->seq.max_new) {
        end_sequence(w, q, false);
        return;
    }
    int32_t token = 500000 + (int32_t)(r->first_pos + r->count);
    q->tokens[r->first_pos + r->count] = token;
    ls_scheduler_token(w->s, q->slot, token);
}

static void complete_step(struct world *w)
{
    const struct ls_step *step = &w->steps[w->first % MAX_WINDOW];
    for (uint32_t i = 0; i < step->n_rows; i++)
        row_came_back(w, &step->rows[i], w->owner[w->first % MAX_WINDOW][i]);
    w->first++;
}

/* A sequence that could run is in a step again before others have had very many: prompts go on
 * in admission order, decoding rows in turn. */
static void check_nobody_starves(const struct world *w)
{
    for (int i = 0; i < w->next; i++) {
        const struct sequence *q = &w->sequences[i];
        if (q->running && q->fed >= q->seq.n_prompt)
            assert_true(w->end - q->last_step <= 4 * MAX_SLOTS + 2 * MAX_WINDOW);
    }
}

static uint64_t n_adopted_in_all;

static void run_world(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->draw.key = seed;
    draw_plan(w);
    draw_sequences(w);
    w->reuse = below(&w->draw, 4) > 0;
    assert_int_equal(ls_step_limits_check(&w->plan.limits, NULL), LS_OK);
    assert_int_equal(ls_scheduler_create(&w->s, &w->plan, w->all_window,
                                         below(&w->draw, 2) * seed, w->reuse, NULL),
                     LS_OK);
    for (int i = 0; i < MAX_WINDOW; i++)
        assert_int_equal(ls_step_init(&w->steps[i], &w->plan.limits, 1, NULL), LS_OK);
    uint64_t turns = 0;
    do {
        admit(w);
        while (w->end - w->first < (uint64_t)w->plan.window &&
               ls_scheduler_step(w->s, &w->steps[w->end % MAX_WINDOW]))
            check_step(w, &w->steps[w->end % MAX_WINDOW]);
        check_nobody_starves(w);
        uint64_t n = w->end - w->first;
        assert_true(n > 0 || ls_scheduler_n_running(w->s) == 0);
        for (uint64_t k = n ? 1 + below(&w->draw, (uint32_t)n) : 0; k > 0; k--)
            complete_step(w);
        assert_true(++turns < 100000);
    } while (w->next < w->n_sequences || ls_scheduler_n_running(w->s) > 0);
    for (int i = 0; i < w->n_sequences; i++)
        assert_true(w->sequences[i].done);
    assert_int_equal(ls_scheduler_reused_blocks(w->s), w->n_adopted);
    n_adopted_in_all += w->n_adopted;
    for (int i = 0; i < MAX_WINDOW; i++)
        ls_step_finish(&w->steps[i]);
    ls_scheduler_destroy(w->s);
    free(w);
}

static void simulated_pipelines(void **state)
{
    (void)state;
    uint64_t seed = 1;
    printf("seed %" PRIu64 "\n", seed);
    for (uint64_t i = 0; i < 600; i++)
        run_world(seed * 100000 + i);
    printf("%" PRIu64 " blocks adopted\n", n_adopted_in_all);
    assert_true(n_adopted_in_all > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(simulated_pipelines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
