/* The byte form of a step: round trip, every bad field refused, which logits a step makes. */
#include "base/philox.h"
#include "kernels/kernels.h"
#include "model/arch.h"
#include "stage/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 4 + 3 * 6 + 4 * 3 };

static const struct ls_step_limits limits = { .max_rows = 4,
                                              .max_events = 8,
                                              .max_tokens = 64,
                                              .n_slots = 5,
                                              .n_blocks = 20,
                                              .max_blocks_per_slot = 4,
                                              .context = 100 };

static struct ls_step new_step(void)
{
    struct ls_step step;
    assert_int_equal(ls_step_init(&step, &limits, 0, NULL), LS_OK);
    return step;
}

/* Three rows and one event of each kind. */
static struct ls_step good_step(void)
{
    static const struct ls_step_row rows[3] = { { 0, 0, 33, 1, 33, LS_NO_LAYER },
                                                { 4, 99, 1, 1, 0, 7 },
                                                { 2, 40, 30, 0, 0, LS_NO_LAYER } };
    static const struct ls_step_event events[4] = { { LS_EVENT_OPEN, 0, 0 },
                                                    { LS_EVENT_ASSIGN, 0, 19 },
                                                    { LS_EVENT_TRIM, 4, 64 },
                                                    { LS_EVENT_CLOSE, 1, 0 } };
    struct ls_step step = new_step();
    memcpy(step.rows, rows, sizeof rows);
    memcpy(step.events, events, sizeof events);
    step.n_rows = 3;
    step.n_events = 4;
    step.n_tokens = 64;
    return step;
}

static size_t encode_good(unsigned char bytes[WORDS * 4])
{
    struct ls_step step = good_step();
    size_t n = ls_step_bytes(&step);
    assert_int_equal(n, WORDS * 4);
    ls_step_encode(&step, bytes);
    ls_step_finish(&step);
    return n;
}

static void round_trip(void **state)
{
    (void)state;
    unsigned char bytes[WORDS * 4], again[WORDS * 4];
    struct ls_step step = good_step(), seen = new_step();
    size_t n = encode_good(bytes);
    assert_int_equal(ls_step_check(&step, &limits, NULL), LS_OK);
    assert_int_equal(ls_step_decode(&seen, bytes, n, &limits, NULL), LS_OK);
    assert_memory_equal(seen.rows, step.rows, 3 * sizeof *step.rows);
    assert_memory_equal(seen.events, step.events, 4 * sizeof *step.events);
    assert_int_equal(seen.n_tokens, 64);
    ls_step_encode(&seen, again);
    assert_memory_equal(again, bytes, n);
    assert_true(ls_step_max_bytes(&limits) >= n);
    ls_step_finish(&seen);
    ls_step_finish(&step);
}

/* First words, little-endian, whatever the host. */
static void byte_order(void **state)
{
    (void)state;
    unsigned char bytes[WORDS * 4];
    static const unsigned char head[] = { 3, 0, 0, 0, 4, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0 };
    encode_good(bytes);
    assert_memory_equal(bytes, head, sizeof head);
    assert_int_equal(bytes[16 + 5 * 4], 0xff); /* nan_layer -1 of row 0 */
}

static void expect_refused(const unsigned char *bytes, size_t n, const char *why)
{
    struct ls_err err = { .status = LS_OK };
    struct ls_step seen = new_step();
    struct ls_step_row before = seen.rows[0];
    if (ls_step_decode(&seen, bytes, n, &limits, &err) != LS_E_SHAPE)
        fail_msg("accepted: %s", why);
    assert_true(strlen(err.text) > 10);
    assert_int_equal(seen.n_rows + seen.n_events + seen.n_tokens, 0);
    assert_memory_equal(&before, &seen.rows[0], sizeof before);
    ls_step_finish(&seen);
}

static void bad_fields(void **state)
{
    (void)state;
    enum { ROW0 = 4, ROW1 = 10, EVENT0 = 22, EVENT1 = 25, EVENT2 = 28, EVENT3 = 31 };
    static const struct {
        int word;
        uint32_t value;
        const char *why;
    } cases[] = {
        { 0, 0, "no rows" },
        { 0, 2, "fewer rows than bytes" },
        { 0, 5, "more rows than the limit" },
        { 0, UINT32_MAX, "rows 2^32 - 1" },
        { 1, 3, "fewer events than bytes" },
        { 1, 9, "more events than the limit" },
        { 2, 63, "fewer tokens than the rows hold" },
        { 2, 0, "no tokens" },
        { 2, 65, "more tokens than the limit" },
        { 3, 1, "reserved word" },
        { ROW0, 5, "slot out of range" },
        { ROW0 + 1, 68, "positions up to one past the context" },
        { ROW0 + 1, UINT32_MAX, "position 2^32 - 1" },
        { ROW0 + 2, 0, "row without tokens" },
        { ROW0 + 2, 65, "row over the budget" },
        { ROW0 + 3, 34, "more logits sent than tokens" },
        { ROW0 + 4, 34, "more logits digested than tokens" },
        { ROW0 + 5, (uint32_t)-2, "NaN layer -2" },
        { ROW0 + 5, LS_MAX_LAYERS, "NaN layer out of range" },
        { ROW1 + 1, 100, "position at the context" },
        { EVENT0, LS_N_EVENTS, "unknown event" },
        { EVENT0 + 1, 5, "event's slot out of range" },
        { EVENT0 + 2, 1, "OPEN with a value" },
        { EVENT1 + 2, 20, "block out of range" },
        { EVENT2 + 2, 65, "TRIM inside a block" },
        { EVENT2 + 2, 128, "TRIM past the context" },
        { EVENT3 + 2, 1, "CLOSE with a value" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[WORDS * 4];
        size_t n = encode_good(bytes);
        for (int b = 0; b < 4; b++)
            bytes[cases[i].word * 4 + b] = (unsigned char)(cases[i].value >> 8 * b);
        expect_refused(bytes, n, cases[i].why);
    }
}

static void bad_lengths(void **state)
{
    (void)state;
    unsigned char bytes[WORDS * 4 + 4] = { 0 };
    size_t good = encode_good(bytes);
    for (size_t n = 0; n <= good + 4; n++)
        if (n != good)
            expect_refused(bytes, n, "a length that the counts do not give");
}

/* What decode refuses of bytes, check refuses of a step that never travelled. */
static void check_agrees(void **state)
{
    (void)state;
    struct ls_step step = good_step();
    step.rows[2].count = 29;
    assert_int_equal(ls_step_check(&step, &limits, NULL), LS_E_SHAPE);
    step.rows[2].count = 30;
    step.events[1].value = 20;
    assert_int_equal(ls_step_check(&step, &limits, NULL), LS_E_SHAPE);
    step.events[1].value = 0;
    assert_int_equal(ls_step_check(&step, &limits, NULL), LS_OK);
    ls_step_finish(&step);
}

static void limits_refused(void **state)
{
    (void)state;
    struct ls_step_limits bad[7];
    for (int i = 0; i < 7; i++)
        bad[i] = limits;
    bad[0].max_rows = 6;
    bad[1].max_tokens = 0;
    bad[2].context = 0;
    bad[3].max_blocks_per_slot = 3;
    bad[4].n_blocks = 0;
    bad[5].n_slots = UINT32_MAX;
    bad[6].max_events = 0;
    for (int i = 0; i < 7; i++) {
        struct ls_step step;
        assert_int_equal(ls_step_init(&step, &bad[i], 0, NULL), LS_E_REFUSED);
    }
}

static void logits_of_rows(void **state)
{
    (void)state;
    struct ls_step step = good_step();
    struct ls_logit_place places[64];
    assert_int_equal(ls_step_n_logits(&step), 34);
    assert_int_equal(ls_step_n_sent(&step, 0, 34), 2);
    assert_int_equal(ls_step_n_sent(&step, 0, 32), 0);
    assert_int_equal(ls_step_n_sent(&step, 32, 33), 1);
    assert_int_equal(ls_step_n_sent(&step, 33, 33), 0);
    ls_step_logit_places(&step, places);
    assert_int_equal(places[31].pos, 31);
    assert_int_equal(places[31].sent, 0);
    assert_int_equal(places[31].digested, 1);
    assert_int_equal(places[32].sent, 1);
    assert_int_equal(places[33].row, 1);
    assert_int_equal(places[33].pos, 99);
    assert_int_equal(places[33].token, 33);
    assert_int_equal(places[33].digested, 0);
    ls_step_finish(&step);
}

/* ls_step_n_sent against counting the places, over random steps. */
static void counts_agree(void **state)
{
    (void)state;
    uint64_t at = 0;
    struct ls_step step = new_step();
    for (int round = 0; round < 200; round++) {
        struct ls_logit_place places[64];
        step.n_rows = 1 + (uint32_t)(ls_philox_uniform(7, at++) * 4);
        for (uint32_t i = 0; i < step.n_rows; i++) {
            uint32_t count = 1 + (uint32_t)(ls_philox_uniform(7, at++) * 16);
            step.rows[i].count = count;
            step.rows[i].n_send = (uint32_t)(ls_philox_uniform(7, at++) * (count + 1));
            step.rows[i].n_digest = (uint32_t)(ls_philox_uniform(7, at++) * (count + 1));
        }
        uint32_t n = ls_step_n_logits(&step), sent = 0;
        uint32_t begin = (uint32_t)(ls_philox_uniform(7, at++) * n);
        ls_step_logit_places(&step, places);
        for (uint32_t i = begin; i < n; i++)
            sent += (uint32_t)places[i].sent;
        assert_int_equal(ls_step_n_sent(&step, begin, n), sent);
    }
    ls_step_finish(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),     cmocka_unit_test(byte_order),
        cmocka_unit_test(bad_fields),     cmocka_unit_test(bad_lengths),
        cmocka_unit_test(check_agrees),   cmocka_unit_test(limits_refused),
        cmocka_unit_test(logits_of_rows), cmocka_unit_test(counts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
