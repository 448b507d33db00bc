/* One stage: refusals that change nothing, trimmed caches, NaN and where it came from, what it
 * allocates, and whom it calls. Bits over layouts are ut_stage_bits.c's. */
#include "stage_rig.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t floats_of(const struct rig_model *m, uint32_t n)
{
    return (size_t)n * (size_t)m->arch.vocab;
}

/* --- refusals --------------------------------------------------------------------------------
 */

/* Puts prompt tokens [at, at + n) as the only row, with the events that a fresh slot needs. */
static void only_row(struct rig_chain *c, const int32_t *ids, uint32_t at, uint32_t n)
{
    struct ls_step *step = &c->step;
    step->n_events = 0;
    if (at == 0)
        step->events[step->n_events++] = (struct ls_step_event){ LS_EVENT_OPEN, 0, 0 };
    for (uint32_t b = (at + 31) / 32; b < (at + n + 31) / 32; b++)
        step->events[step->n_events++] = (struct ls_step_event){ LS_EVENT_ASSIGN, 0, b };
    step->n_rows = 1;
    step->n_tokens = n;
    step->rows[0] = (struct ls_step_row){ .slot = 0,
                                          .first_pos = at,
                                          .count = n,
                                          .n_send = n,
                                          .n_digest = n,
                                          .nan_layer = LS_NO_LAYER };
    memcpy(step->tokens, ids + at, n * sizeof *ids);
}

static void expect_refused(struct rig_chain *c, const char *why)
{
    struct ls_err err = { .status = LS_OK };
    if (ls_stage_run(c->stages[0], &c->step, NULL, NULL, &err) != LS_E_SHAPE)
        fail_msg("accepted: %s", why);
    assert_true(strlen(err.text) > 10);
}

/* Every faulty form of the step [at, at + n), each before the good one. */
static void refuse_faults(struct rig_chain *c, const int32_t *ids, uint32_t at, uint32_t n)
{
    struct ls_step *step = &c->step;
    only_row(c, ids, at, n);
    step->tokens[n - 1] = c->model->arch.vocab;
    expect_refused(c, "a token id past the vocabulary");
    step->tokens[n - 1] = -1;
    expect_refused(c, "a negative token id");
    only_row(c, ids, at, n);
    step->rows[0].first_pos++;
    expect_refused(c, "a gap in positions");
    only_row(c, ids, at, n);
    step->rows[0].nan_layer = 0;
    expect_refused(c, "a NaN layer that no earlier stage can have seen");
    only_row(c, ids, at, n);
    step->n_events = at == 0;
    expect_refused(c, "a row without its blocks");
    only_row(c, ids, at, n);
    step->events[step->n_events++] = (struct ls_step_event){ LS_EVENT_CLOSE, 0, 0 };
    expect_refused(c, "a row of a slot that the step closes");
    only_row(c, ids, at, n);
    step->n_tokens++;
    expect_refused(c, "a token of no row");
    only_row(c, ids, at, n);
    step->rows[0].count = 0;
    expect_refused(c, "an empty row");
}

static void refusal_changes_nothing(void **state)
{
    (void)state;
    struct rig_model m;
    struct rig_reference ref;
    struct rig_chain c;
    unsigned char digest[32], plain[32];
    uint32_t n;
    rig_open(&m, "mistral", false, 0);
    rig_reference_open(&ref, "mistral");
    const int32_t *ids = rig_ids(&ref, 3, &n);
    float *logits = test_malloc(floats_of(&m, n) * 4),
          *again = test_malloc(floats_of(&m, n) * 4);
    rig_plain_run(&m, ids, n, logits, plain);
    const struct rig_layout layout = rig_plain(&m, n);
    rig_chain_open(&c, &m, &layout);
    for (uint32_t at = 0; at < n; at += 35) {
        refuse_faults(&c, ids, at, 35);
        only_row(&c, ids, at, 35);
        rig_chain_run(&c, again + floats_of(&m, at));
    }
    ls_stage_digest(c.stages[0], 0, digest);
    assert_memory_equal(logits, again, floats_of(&m, n) * 4);
    assert_memory_equal(digest, plain, 32);
    struct ls_stage_counts counts;
    ls_stage_get_counts(c.stages[0], &counts);
    assert_int_equal(counts.steps, 2);
    assert_int_equal(counts.tokens, n);
    assert_int_equal(counts.logits_rows, n);
    rig_chain_close(&c);
    test_free(logits);
    test_free(again);
    rig_reference_close(&ref);
    rig_close(&m);
}

static void creation_refused(void **state)
{
    (void)state;
    struct rig_model m;
    rig_open(&m, "llama-f32", false, 0);
    const struct rig_layout layout = rig_plain(&m, 8);
    const struct ls_stage_config good = { .arch = &m.arch,
                                          .ckpt = m.ckpt,
                                          .kernels = layout.kernels,
                                          .last_layer = m.arch.n_layers,
                                          .n_threads = 1,
                                          .limits = layout.limits,
                                          .max_logit_rows = 1 };
    struct ls_stage_config bad[6];
    for (int i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].first_layer = bad[0].last_layer;
    bad[1].last_layer = m.arch.n_layers + 1;
    bad[2].first_layer = -1;
    bad[3].max_logit_rows = 0;
    bad[4].limits.context++;
    bad[5].limits.max_blocks_per_slot--;
    for (int i = 0; i < 6; i++) {
        struct ls_stage *stage = NULL;
        struct ls_err err = { .status = LS_OK };
        assert_int_equal(ls_stage_create(&stage, &bad[i], &err), LS_E_REFUSED);
        assert_null(stage);
    }
    bad[0] = good;
    bad[0].n_threads = 0;
    struct ls_stage *stage = NULL;
    assert_int_equal(ls_stage_create(&stage, &bad[0], NULL), LS_E_USAGE);
    ls_stage_destroy(NULL);
    rig_close(&m);
}

/* --- trim ------------------------------------------------------------------------------------
 */

/* With every layer windowed, blocks wholly behind the window may go: the same bits. A position
 * that were counted from what is still held would turn keys and queries by different angles. */
static void trim_keeps_bits(void **state)
{
    (void)state;
    struct rig_model m;
    struct rig_reference ref;
    struct rig_chain c;
    struct rig_random r = { .key = 11 };
    unsigned char plain[32];
    uint32_t n;
    rig_open(&m, "mistral", false, 0);
    rig_reference_open(&ref, "mistral");
    const int32_t *ids = rig_ids(&ref, 3, &n);
    assert_true(n == 70 && m.arch.layers[0].window == 12);
    float *logits = test_malloc(floats_of(&m, n) * 4),
          *again = test_malloc(floats_of(&m, n) * 4);
    rig_plain_run(&m, ids, n, logits, plain);
    struct rig_layout layout = rig_plain(&m, n);
    layout.limits.n_blocks = 2; /* of the three that the prompt takes in all */
    struct rig_sequence seq = { .ids = ids, .n = n, .logits = again };
    struct rig_play play = {
        .sequences = &seq, .n_sequences = 1, .random = &r, .max_chunk = 9, .window = 12
    };
    rig_chain_open(&c, &m, &layout);
    rig_play(&c, &play);
    rig_chain_close(&c);
    assert_int_equal(seq.live_first, 32);
    assert_memory_equal(logits, again, floats_of(&m, n) * 4);
    assert_memory_equal(seq.digest, plain, 32);
    test_free(logits);
    test_free(again);
    rig_reference_close(&ref);
    rig_close(&m);
}

/* --- NaN -------------------------------------------------------------------------------------
 */

/* Two sequences of five tokens through the second of two stages; token `poisoned` arrives as
 * NaN. */
static void run_poisoned(struct rig_chain *c, const int32_t *ids, int poisoned, float *out)
{
    struct ls_step *step = &c->step;
    size_t width = (size_t)c->model->arch.hidden;
    step->n_rows = step->n_events = step->n_tokens = 0;
    for (uint32_t slot = 0; slot < 2; slot++) {
        step->events[step->n_events++] = (struct ls_step_event){ LS_EVENT_OPEN, slot, 0 };
        step->events[step->n_events++] = (struct ls_step_event){ LS_EVENT_ASSIGN, slot, slot };
        step->rows[step->n_rows++] = (struct ls_step_row){
            .slot = slot, .count = 5, .n_send = 5, .nan_layer = LS_NO_LAYER
        };
        memcpy(step->tokens + step->n_tokens, ids, 5 * sizeof *ids);
        step->n_tokens += 5;
    }
    assert_int_equal(ls_stage_run(c->stages[0], step, NULL, c->hidden[0], NULL), LS_OK);
    assert_int_equal(step->rows[0].nan_layer, LS_NO_LAYER);
    if (poisoned >= 0) {
        float *h = (float *)(void *)c->hidden[0] + (size_t)poisoned * width;
        h[3] = NAN;
    }
    assert_int_equal(ls_stage_run(c->stages[1], step, c->hidden[0], NULL, NULL), LS_OK);
    ls_stage_logits(c->stages[1], step, 0, ls_step_n_logits(step), out);
}

static bool all_canonical_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if (bits != 0x7fc00000)
            return false;
    }
    return true;
}

/* NaN is data: carried, reported with its first layer, kept away from earlier positions and
 * from the neighbour. */
static void nan_is_reported(void **state)
{
    (void)state;
    struct rig_model m;
    struct rig_reference ref;
    struct rig_chain c;
    uint32_t n;
    rig_open(&m, "llama-f32", false, 0);
    rig_reference_open(&ref, "llama-f32");
    const int32_t *ids = rig_ids(&ref, 1, &n);
    struct rig_layout layout = rig_plain(&m, 10);
    layout.n_stages = 2;
    layout.cuts[1] = 2;
    layout.cuts[2] = m.arch.n_layers;
    layout.limits = rig_limits(&m, 10, 2);
    float *good = test_malloc(floats_of(&m, 10) * 4), *bad = test_malloc(floats_of(&m, 10) * 4);
    rig_chain_open(&c, &m, &layout);
    run_poisoned(&c, ids, -1, good);
    assert_int_equal(c.step.rows[0].nan_layer, LS_NO_LAYER);
    rig_chain_close(&c);
    rig_chain_open(&c, &m, &layout);
    run_poisoned(&c, ids, 7, bad); /* the third token of the second sequence */
    assert_int_equal(c.step.rows[0].nan_layer, LS_NO_LAYER);
    assert_int_equal(c.step.rows[1].nan_layer, 2);
    assert_int_equal(ls_stage_nan_layer(c.stages[1], 0), LS_NO_LAYER);
    assert_int_equal(ls_stage_nan_layer(c.stages[1], 1), 2);
    assert_memory_equal(good, bad, floats_of(&m, 7) * 4);
    assert_true(all_canonical_nan(bad + floats_of(&m, 7), floats_of(&m, 3)));
    rig_chain_close(&c);
    test_free(good);
    test_free(bad);
    rig_reference_close(&ref);
    rig_close(&m);
}

/* --- resources -------------------------------------------------------------------------------
 */

static uint64_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks ? m.uordblks + m.hblkhd + ls_alloc_large_bytes() : 0;
}

/* What the plan is told is what creation takes from the heap; a team and the loader's small
 * arrays are beside it. Skipped under a sanitizer, whose heap does not say. */
static void scratch_is_announced(void **state)
{
    (void)state;
    struct rig_model m;
    rig_open(&m, "llama-bf16", false, 0);
    for (int first = 0; first < 2; first++) {
        for (int last = m.arch.n_layers - 1; last <= m.arch.n_layers; last++) {
            struct rig_layout layout = rig_plain(&m, 0);
            layout.limits = rig_limits(&m, 700 + 13 * (uint32_t)first, 300);
            const struct ls_stage_config config = { .arch = &m.arch,
                                                    .ckpt = m.ckpt,
                                                    .kernels = layout.kernels,
                                                    .first_layer = first,
                                                    .last_layer = last,
                                                    .n_threads = 3,
                                                    .limits = layout.limits,
                                                    .max_logit_rows = 200 };
            struct ls_stage_counts counts;
            struct ls_stage *stage;
            uint64_t before = heap_bytes();
            assert_int_equal(ls_stage_create(&stage, &config, NULL), LS_OK);
            uint64_t taken = heap_bytes() - before;
            ls_stage_get_counts(stage, &counts);
            assert_int_equal(
                counts.scratch_bytes,
                ls_stage_scratch_bytes(&m.arch, first, last, 3, &config.limits, 200));
            uint64_t expected = counts.scratch_bytes + counts.weights_bytes + counts.kv_bytes;
            print_message("layers %d-%d: %llu bytes taken, %llu announced\n", first, last - 1,
                          (unsigned long long)taken, (unsigned long long)expected);
            if (before)
                assert_true(taken >= expected && taken < expected + 300000);
            ls_stage_destroy(stage);
        }
    }
    rig_close(&m);
}

static int n_progress, give_up_at;

/* A denormal survives here: the caller's floating-point state is its own. */
static bool count_progress(void *arg)
{
    volatile float small = 0x1p-100f, smaller = small * 0x1p-40f;
    assert_true(smaller > 0);
    assert_ptr_equal(arg, &n_progress);
    return ++n_progress != give_up_at;
}

/* A chain of one stage that reports its progress. */
static void open_with_progress(struct rig_chain *c, const struct rig_model *m,
                               const struct rig_layout *layout, int n_threads)
{
    rig_chain_open(c, m, layout);
    ls_stage_destroy(c->stages[0]);
    const struct ls_stage_config config = { .arch = &m->arch,
                                            .ckpt = m->ckpt,
                                            .kernels = layout->kernels,
                                            .last_layer = m->arch.n_layers,
                                            .n_threads = n_threads,
                                            .limits = layout->limits,
                                            .max_logit_rows = 8,
                                            .progress = count_progress,
                                            .progress_arg = &n_progress };
    n_progress = 0;
    assert_int_equal(ls_stage_create(&c->stages[0], &config, NULL), LS_OK);
}

static void progress_between_layers(void **state)
{
    (void)state;
    struct rig_model m;
    struct rig_chain c;
    static const int32_t ids[3] = { 9, 10, 11 };
    rig_open(&m, "llama-f32", false, 0);
    const struct rig_layout layout = rig_plain(&m, 8);
    open_with_progress(&c, &m, &layout, 2);
    float *out = test_malloc(floats_of(&m, 3) * 4);
    only_row(&c, ids, 0, 3);
    rig_chain_run(&c, out);
    assert_int_equal(n_progress, m.arch.n_layers);
    test_free(out);
    rig_chain_close(&c);
    rig_close(&m);
}

/* Every member of the team leaves the step at the same layer. */
static void progress_gives_a_step_up(void **state)
{
    (void)state;
    struct rig_model m;
    struct rig_chain c;
    static const int32_t ids[3] = { 9, 10, 11 };
    rig_open(&m, "llama-f32", false, 0);
    const struct rig_layout layout = rig_plain(&m, 8);
    for (int threads = 1; threads <= 4; threads++)
        for (give_up_at = 1; give_up_at <= m.arch.n_layers; give_up_at++) {
            struct ls_err err = { .status = LS_OK };
            open_with_progress(&c, &m, &layout, threads);
            only_row(&c, ids, 0, 3);
            assert_int_equal(ls_stage_run(c.stages[0], &c.step, NULL, NULL, &err),
                             LS_E_DRAINED);
            assert_int_equal(n_progress, give_up_at);
            rig_chain_close(&c);
        }
    give_up_at = 0;
    rig_close(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trim_keeps_bits),          cmocka_unit_test(refusal_changes_nothing),
        cmocka_unit_test(creation_refused),         cmocka_unit_test(nan_is_reported),
        cmocka_unit_test(scratch_is_announced),     cmocka_unit_test(progress_between_layers),
        cmocka_unit_test(progress_gives_a_step_up),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
