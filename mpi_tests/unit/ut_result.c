/* How logits are cut into RESULT frames, and what the coordinator accepts. */
#include "pipeline/result.h"

#include "base/philox.h"
#include "pipeline/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The digests of this test come from here instead of from a stage. */
void ls_stage_digest(const struct ls_stage *stage, uint32_t slot, unsigned char digest[32])
{
    (void)stage;
    memset(digest, (int)(slot + 1), 32);
}

enum { ROWS = 6, TOKENS = 60, LAYERS = 9 };

static const struct ls_step_limits limits = { .max_rows = ROWS,
                                              .max_events = 8,
                                              .max_tokens = TOKENS,
                                              .n_slots = ROWS,
                                              .n_blocks = 20,
                                              .max_blocks_per_slot = 8,
                                              .context = 256 };

struct draw {
    uint64_t key, index;
};

static uint32_t below(struct draw *d, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(d->key, d->index++) * n);
}

static void draw_step(struct draw *d, struct ls_step *step)
{
    step->n_rows = 1 + below(d, ROWS);
    step->n_tokens = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        uint32_t n = 1 + below(d, TOKENS / ROWS);
        step->rows[i] = (struct ls_step_row){ .slot = (i + 2) % ROWS,
                                              .first_pos = below(d, 100),
                                              .count = n,
                                              .n_send = below(d, n + 1) * below(d, 2),
                                              .n_digest = below(d, n + 1) * below(d, 2),
                                              .nan_layer = (int32_t)below(d, LAYERS + 1) - 1 };
        step->n_tokens += n;
    }
}

/* Both ends walk through the same groups; together they hold each sent row once, and every step
 * has a last frame. */
static void groups_hold_every_row_once(void **state)
{
    (void)state;
    struct draw d = { .key = 3 };
    struct ls_step step;
    struct ls_logit_place places[TOKENS];
    struct ls_result_row rows[ROWS];
    int32_t nan_layers[TOKENS];
    assert_int_equal(ls_step_init(&step, &limits, 0, NULL), LS_OK);
    for (int i = 0; i < 2000; i++) {
        draw_step(&d, &step);
        ls_step_logit_places(&step, places);
        uint32_t at_once = 1 + below(&d, 12), sent = 0, expected = 0;
        for (uint32_t k = 0; k < step.n_rows; k++)
            expected += step.rows[k].n_send;
        struct ls_result_group g = { .last = false };
        while (!g.last) {
            uint32_t begin = g.end;
            g = ls_result_group(&step, at_once, begin);
            assert_true(g.begin == begin && g.end - g.begin <= at_once);
            assert_true(g.table_bytes <= ls_result_max_table(&limits, at_once));
            unsigned char *table = malloc(g.table_bytes);
            ls_result_encode(table, &step, places, &g, (const struct ls_stage *)&step);
            assert_int_equal(
                ls_result_decode(table, &step, places, &g, LAYERS, nan_layers, rows, NULL),
                LS_OK);
            free(table);
            sent += g.n_sent;
        }
        assert_int_equal(sent, expected);
        assert_int_equal(g.end, ls_step_n_logits(&step));
        for (uint32_t k = 0; k < step.n_rows; k++) {
            assert_int_equal(rows[k].nan_layer, step.rows[k].nan_layer);
            assert_int_equal(rows[k].digest[31], step.rows[k].slot + 1);
        }
    }
    ls_step_finish(&step);
}

/* Any other word in a table's row of slots, positions and counts is refused. */
static void another_table_is_refused(void **state)
{
    (void)state;
    struct ls_step step;
    struct ls_logit_place places[TOKENS];
    struct ls_result_row rows[ROWS];
    int32_t nan_layers[TOKENS];
    unsigned char table[512];
    assert_int_equal(ls_step_init(&step, &limits, 0, NULL), LS_OK);
    step.n_rows = 2;
    step.n_tokens = 5;
    step.rows[0] = (struct ls_step_row){
        .slot = 3, .first_pos = 7, .count = 4, .n_send = 2, .n_digest = 4, .nan_layer = -1
    };
    step.rows[1] =
        (struct ls_step_row){ .slot = 1, .first_pos = 9, .count = 1, .nan_layer = 2 };
    ls_step_logit_places(&step, places);
    struct ls_result_group g = ls_result_group(&step, 10, 0);
    assert_true(g.last && g.n_sent == 2);
    ls_result_encode(table, &step, places, &g, NULL);
    for (uint32_t at = 0; at < g.table_bytes; at += 4) {
        bool digest = at >= 40 && (at < 72 || at >= 80);
        table[at] ^= 0x40;
        ls_status s =
            ls_result_decode(table, &step, places, &g, LAYERS, nan_layers, rows, NULL);
        assert_int_equal(s, digest ? LS_OK : LS_E_SHAPE);
        table[at] ^= 0x40;
    }
    ls_step_finish(&step);
}

static void frames_are_expected_exactly(void **state)
{
    (void)state;
    struct ls_step step;
    struct ls_frame_expect e;
    assert_int_equal(ls_step_init(&step, &limits, 0, NULL), LS_OK);
    step.id = 12;
    step.n_rows = 1;
    step.n_tokens = 4;
    step.rows[0] = (struct ls_step_row){ .count = 4, .n_send = 3, .nan_layer = -1 };
    struct ls_result_group g = ls_result_group(&step, 2, 0);
    ls_result_expect(&e, &step, &g, 50);
    assert_true(e.kinds == 1u << LS_KIND_RESULT && e.check_id && e.id == 12 && e.ndim == 2);
    assert_true(e.min_dim0 == 2 && e.max_dim0 == 2 && e.dims[1] == 50);
    assert_true(e.min_table == g.table_bytes && e.max_table == g.table_bytes);
    step.rows[0].n_send = 0; /* nothing is sent: a table alone */
    g = ls_result_group(&step, 2, 0);
    assert_true(g.last && ls_result_has_frame(&g));
    ls_result_expect(&e, &step, &g, 50);
    assert_int_equal(e.ndim, 0);
    step.rows[0].n_digest = 4; /* groups that only feed the digest make no frame but the last */
    g = ls_result_group(&step, 2, 0);
    assert_false(ls_result_has_frame(&g));
    ls_step_finish(&step);
}

static void stats_travel(void **state)
{
    (void)state;
    unsigned char bytes[LS_STATS_BYTES];
    struct ls_stage_stats s = { .kernels = "avx512bf16",
                                .threads = 3,
                                .kernels_failed = 1,
                                .compute_us = 1ull << 40,
                                .prompt_us = 1ull << 39,
                                .step_allocs = 7 },
                          got;
    s.counts.resident_bytes = 12345;
    memset(s.host, 'h', sizeof s.host - 1);
    size_t n = ls_stats_encode(&s, bytes);
    assert_int_equal(ls_stats_decode(&got, bytes, n, NULL), LS_OK);
    assert_memory_equal(&got, &s, sizeof s);
    for (size_t k = 0; k < n; k++)
        assert_int_equal(ls_stats_decode(&got, bytes, k, NULL), LS_E_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_hold_every_row_once),
        cmocka_unit_test(another_table_is_refused),
        cmocka_unit_test(frames_are_expected_exactly),
        cmocka_unit_test(stats_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
