/* The scheduler's single promises: groups of decoding rows, prompts beside them, what it
 * refuses, beginnings that prompts share. */
#include "pipeline/scheduler.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void plan_of(struct ls_plan *p, int stages, int window, int budget, uint32_t slots,
                    uint32_t blocks)
{
    *p = (struct ls_plan){ .n_stages = stages, .window = window, .budget = budget };
    p->chunk = budget;
    p->limits = (struct ls_step_limits){ .max_rows = slots,
                                         .max_events = 4 * slots + 64,
                                         .max_tokens = (uint32_t)budget,
                                         .n_slots = slots,
                                         .n_blocks = blocks,
                                         .max_blocks_per_slot = 8,
                                         .context = 256 };
}

/* So many sequences with prompts of one token. */
static void add_short(struct ls_scheduler *s, uint32_t n)
{
    static const int32_t token = 9;
    for (uint32_t i = 0; i < n; i++)
        ls_scheduler_add(
            s, &(struct ls_sequence){
                   .id = i, .tokens = &token, .n_prompt = 1, .max_new = 9, .n_send = 1 });
}

static void give_tokens(struct ls_scheduler *s, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        ls_scheduler_token(s, i, 5);
}

static void decoding_fills_all_stages(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_step step;
    plan_of(&p, 4, 8, 64, 8, 64);
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, NULL), LS_OK);
    assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
    add_short(s, 8);
    assert_true(ls_scheduler_step(s, &step));
    assert_int_equal(step.n_rows, 8);
    give_tokens(s, 0, 8);
    for (int i = 0; i < 4; i++) { /* eight ready rows go off in four steps of two */
        assert_true(ls_scheduler_step(s, &step));
        assert_int_equal(step.n_rows, 2);
    }
    assert_false(ls_scheduler_step(s, &step));
    ls_step_finish(&step);
    ls_scheduler_destroy(s);
}

/* One stage: rows that came apart come together again. Four: an uneven rest goes off at once.
 */
static void small_steps_wait_for_more(void **state)
{
    (void)state;
    static const struct {
        int stages;
        uint32_t slots, first,
            rest; /* rows of two prompt steps, and of what follows the first */
    } cases[] = { { 1, 8, 3, 0 }, { 4, 10, 6, 3 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct ls_plan p;
        struct ls_scheduler *s;
        struct ls_step step;
        const uint32_t n = cases[c].slots;
        plan_of(&p, cases[c].stages, 8, 64, n, 64);
        assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, NULL), LS_OK);
        assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
        add_short(s, n);
        assert_true(ls_scheduler_step(s, &step));
        assert_int_equal(step.n_rows, n);
        give_tokens(s, 0, cases[c].first);
        assert_int_equal(ls_scheduler_step(s, &step), cases[c].rest > 0);
        if (cases[c].rest > 0)
            assert_int_equal(step.n_rows, cases[c].rest);
        give_tokens(s, cases[c].first, n);
        if (cases[c].stages == 1) {
            assert_true(ls_scheduler_step(s, &step));
            assert_int_equal(step.n_rows, n);
        }
        assert_int_equal(ls_scheduler_step(s, &step), cases[c].stages > 1);
        ls_step_finish(&step);
        ls_scheduler_destroy(s);
    }
}

/* Two stages of ten sequences: groups of 4, 3 and 3 rows become two of 5, of which as many are
 * in flight as there are stages. */
static void uneven_groups_become_even(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_step step;
    plan_of(&p, 2, 4, 64, 10, 64);
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, NULL), LS_OK);
    assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
    static const uint32_t prompts[] = { 4, 3, 3 }; /* that come one after the other */
    uint32_t first = 0;
    for (int g = 0; g < 3; first += prompts[g++]) {
        add_short(s, prompts[g]);
        assert_true(ls_scheduler_step(s, &step));
        assert_int_equal(step.n_rows, prompts[g]);
    }
    give_tokens(s, 0, 4);
    assert_false(ls_scheduler_step(s, &step)); /* two steps are on their way */
    for (uint32_t end = 7; end <= 10; end += 3) {
        give_tokens(s, end - 3, end);
        assert_true(ls_scheduler_step(s, &step));
        assert_int_equal(step.n_rows, 5);
        assert_false(ls_scheduler_step(s, &step));
    }
    ls_step_finish(&step);
    ls_scheduler_destroy(s);
}

static void prompts_are_not_starved_by_decoding(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_step step;
    int32_t tokens[64] = { 0 };
    plan_of(&p, 1, 2, 2, 3, 64);
    p.limits.max_rows = 2;
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, NULL), LS_OK);
    assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
    struct ls_sequence seq = { .tokens = tokens, .n_prompt = 1, .max_new = 99, .n_send = 1 };
    uint32_t a = ls_scheduler_add(s, &seq), b = ls_scheduler_add(s, &seq);
    assert_true(ls_scheduler_step(s, &step));
    seq.n_prompt = 20;
    ls_scheduler_add(s, &seq);
    for (int i = 0; i < 20; i++) {
        if (i == 0 || step.rows[0].slot == a)
            ls_scheduler_token(s, a, 1);
        if (i == 0 || step.rows[0].slot == b)
            ls_scheduler_token(s, b, 1);
        assert_true(ls_scheduler_step(s, &step));
        assert_int_equal(step.n_rows, 2);
        assert_int_equal(step.rows[1].first_pos, i);
    }
    ls_step_finish(&step);
    ls_scheduler_destroy(s);
}

static void refuses_what_never_fits(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_err err = { .status = LS_OK };
    int32_t tokens[300] = { 0 };
    plan_of(&p, 1, 2, 16, 2, 8);
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, &err), LS_OK);
    struct ls_sequence seq = { .tokens = tokens, .n_prompt = 256 };
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_OK);
    seq.max_new = 1; /* its one token is never fed back */
    seq.n_send = 1;
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_OK);
    seq.max_new = 2;
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_E_REQUEST);
    seq = (struct ls_sequence){ .tokens = tokens, .n_prompt = 0 };
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_E_REQUEST);
    seq = (struct ls_sequence){ .tokens = tokens, .n_prompt = 3, .max_new = 1 };
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_E_REQUEST);
    seq = (struct ls_sequence){ .tokens = tokens, .n_prompt = 3, .n_digest = 4 };
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_E_REQUEST);
    seq = (struct ls_sequence){
        .tokens = tokens, .n_prompt = UINT32_MAX, .max_new = UINT32_MAX, .n_send = 1
    };
    assert_int_equal(ls_scheduler_check(s, &seq, &err), LS_E_REQUEST);
    ls_scheduler_destroy(s);
}

/* All slots ended, and nothing else to do: the next sequence must still get in. */
static void room_returns_without_a_step(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_step step;
    int32_t tokens[64] = { 0 };
    plan_of(&p, 1, 2, 64, 1, 8);
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, false, NULL), LS_OK);
    assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
    struct ls_sequence seq = { .tokens = tokens, .n_prompt = 64, .n_send = 1 };
    uint32_t slot = ls_scheduler_add(s, &seq);
    assert_true(ls_scheduler_step(s, &step));
    assert_false(ls_scheduler_has_room(s, &seq));
    ls_scheduler_end(s, slot);
    assert_true(ls_scheduler_has_room(s, &seq));
    ls_scheduler_add(s, &seq);
    assert_true(ls_scheduler_step(s, &step));
    assert_int_equal(step.events[0].kind, LS_EVENT_CLOSE);
    assert_int_equal(step.events[1].kind, LS_EVENT_OPEN);
    ls_step_finish(&step);
    ls_scheduler_destroy(s);
}

/* Of many prompts with one beginning, sent at once, the first computes it and the others wait;
 * when it is done it is still there for one that comes later. */
static void a_beginning_is_computed_once(void **state)
{
    (void)state;
    struct ls_plan p;
    struct ls_scheduler *s;
    struct ls_step step;
    int32_t tokens[4][100];
    uint32_t slots[4];
    plan_of(&p, 2, 4, 64, 4, 32);
    assert_int_equal(ls_scheduler_create(&s, &p, 0, 0, true, NULL), LS_OK);
    assert_int_equal(ls_step_init(&step, &p.limits, 1, NULL), LS_OK);
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 100; t++)
            tokens[i][t] = t < 70 ? t : 1000 * i + t;
    for (int i = 0; i < 3; i++)
        slots[i] = ls_scheduler_add(
            s, &(struct ls_sequence){ .tokens = tokens[i], .n_prompt = 100, .n_send = 1 });
    assert_true(ls_scheduler_step(s, &step)); /* 32 and 18, or 50, of the first one */
    assert_int_equal(step.n_rows, 1);
    uint32_t done = step.n_tokens;
    while (ls_scheduler_step(s, &step)) {
        assert_int_equal(step.n_rows, 1);
        assert_int_equal(step.rows[0].slot, slots[0]);
        done += step.n_tokens;
    }
    assert_int_equal(done, 100);
    ls_scheduler_computed(s, slots[0], 100, true);
    ls_scheduler_end(s, slots[0]);
    uint32_t n_tokens = 0;
    while (ls_scheduler_step(s, &step))
        n_tokens += step.n_tokens;
    assert_int_equal(n_tokens, 2 * (100 - 64));
    assert_int_equal(ls_scheduler_reused_blocks(s), 4);
    ls_scheduler_computed(s, slots[1], 100, true);
    ls_scheduler_computed(s, slots[2], 100, true);
    ls_scheduler_end(s, slots[1]);
    ls_scheduler_end(s, slots[2]);
    ls_scheduler_add(s, &(struct ls_sequence){
                            .tokens = tokens[2], .n_prompt = 100, .n_send = 5, .n_digest = 1 });
    for (n_tokens = 0; ls_scheduler_step(s, &step); n_tokens += step.n_tokens)
        ;
    assert_int_equal(n_tokens, 100 - 64); /* the third block holds a position that is wanted */
    ls_step_finish(&step);
    ls_scheduler_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_is_computed_once),
        cmocka_unit_test(decoding_fills_all_stages),
        cmocka_unit_test(small_steps_wait_for_more),
        cmocka_unit_test(uneven_groups_become_even),
        cmocka_unit_test(prompts_are_not_starved_by_decoding),
        cmocka_unit_test(refuses_what_never_fits),
        cmocka_unit_test(room_returns_without_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
