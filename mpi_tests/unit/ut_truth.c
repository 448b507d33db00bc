/* Truth: logits of every fixture against what Hugging Face computes, straight through a stage.
 * `--dtype f32` is held to the spread of the reference itself and to its greedy paths, the
 * checkpoint's own 16 bits to what Hugging Face's native run loses. The errors are printed,
 * fixture by fixture. Usage: ut_truth [fixture]. */
#include "truth_rig.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FIXTURES = 64 };

/* Greedy in float32 is the reference's: with its own path behind the prompt, the best token at
 * each step is the path's next one (that a step at a time gives the same bits is
 * ut_stage_bits'). The lower id of equals. */
static bool follows_path(const struct rig_model *m, const int32_t *ids, uint32_t n,
                         const int32_t *path)
{
    const size_t vocab = (size_t)m->arch.vocab;
    const uint32_t all = n + RIG_GREEDY - 1;
    int32_t *both = test_malloc(all * sizeof *both);
    float *logits = test_malloc(all * vocab * sizeof *logits);
    unsigned char digest[32];
    bool same = true;
    memcpy(both, ids, n * sizeof *both);
    memcpy(both + n, path, (RIG_GREEDY - 1) * sizeof *both);
    rig_plain_run(m, both, all, logits, digest);
    for (uint32_t step = 0; step < RIG_GREEDY; step++) {
        const float *row = logits + (n - 1 + step) * vocab;
        int32_t best = 0;
        for (int32_t v = 1; v < (int32_t)vocab; v++)
            best = row[v] > row[best] ? v : best;
        same = same && best == path[step];
    }
    test_free(both);
    test_free(logits);
    return same;
}

/* True when all four greedy paths are followed, as far as the reference has one path. */
static bool greedy_equal(const char *fixture)
{
    struct rig_reference ref;
    struct rig_model m;
    bool same = true;
    rig_reference_open(&ref, fixture);
    rig_open(&m, fixture, true, 0);
    for (int i = 0; i < RIG_PROMPTS && !m.arch.rope_needs_context; i++) {
        uint32_t n;
        const int32_t *ids = rig_ids(&ref, i, &n);
        if (!follows_path(&m, ids, n, rig_greedy(&ref, i))) {
            print_message("%-20s greedy path of prompt %d is another\n", fixture, i);
            same = false;
        }
    }
    rig_close(&m);
    rig_reference_close(&ref);
    return same;
}

/* True when `value` is within `bound`; says so either way. */
static bool within(const char *fixture, const char *what, double value, double bound)
{
    bool fits = value <= bound;
    print_message("%-20s %-22s %.2e of %.2e%s\n", fixture, what, value, bound,
                  fits ? "" : "  TOO LARGE");
    return fits;
}

static void truth(void **state)
{
    static const char native[] = "native_vs_f32";
    const char *fixture = *state;
    struct truth_run run = { .fixture = fixture, .f32 = true };
    struct truth_error e = truth_compare(&run);
    bool fits = within(fixture, "f32 max", e.max, truth_bound(fixture));
    fits &= greedy_equal(fixture);
    if (truth_is_16_bit(fixture)) {
        const bool flips = truth_flips(fixture);
        run.f32 = false;
        e = truth_compare(&run);
        fits &= within(fixture, "native rms", e.rms,
                       (flips ? 2 : 1.1) * truth_number(fixture, native, "rms"));
        fits &= within(fixture, "native median_row_rms", e.median_row_rms,
                       1.1 * truth_number(fixture, native, "median_row_rms"));
        if (!flips)
            fits &= within(fixture, "native max", e.max,
                           1.5 * truth_number(fixture, native, "max"));
    }
    assert_true(fits);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[MAX_FIXTURES];
    size_t n = 0;
    for (size_t i = 0; truth_fixtures[i]; i++) { /* all, or the one that is named */
        if (argc > 1 && strcmp(argv[1], truth_fixtures[i]))
            continue;
        if (n == MAX_FIXTURES)
            return 1;
        tests[n++] =
            (struct CMUnitTest){ .name = truth_fixtures[i],
                                 .test_func = truth,
                                 .initial_state = (void *)(uintptr_t)truth_fixtures[i] };
    }
    return _cmocka_run_group_tests("truth", tests, n, NULL, NULL);
}
