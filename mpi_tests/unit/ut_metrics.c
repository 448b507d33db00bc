/* Figures of a comparison: cases whose answers are known in closed form, and what is undefined.
 */
#include "parity/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ls_err err;

static void take(struct ls_metrics *m, const float *x, const float *y, size_t n, int32_t target,
                 uint64_t position)
{
    const struct ls_row_pair row = {
        .position = position, .reference = x, .arm = y, .n = n, .target = target
    };
    assert_int_equal(ls_metrics_row(m, &row, &err), LS_OK);
}

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-15 + 1e-14 * fabs(wanted)))
        fail_msg("%.17g, expected %.17g", got, wanted);
}

/* p = (1/2, 1/2) against q = (1/4, 3/4): KL = log(2) - log(3) / 2, whatever is added to a row.
 */
static void knows_a_divergence(void **state)
{
    const float l3 = logf(3);
    const float x[2] = { 7, 7 }, y[2] = { 0, l3 };
    struct ls_metrics m = { 0 };
    struct ls_kl_figures kl;
    (void)state;
    take(&m, x, y, 2, 1, 5);
    assert_int_equal(ls_metrics_kl(&m, &kl, &err), LS_OK);
    const double q = log1p(exp((double)l3)); /* log of q's sum */
    close_to(kl.mean, -log(2) - 0.5 * (-q + (double)l3 - q));
    close_to(kl.max, kl.mean);
    close_to(kl.p99, kl.mean);
    assert_int_equal(kl.max_position, 5);
    struct ls_perplexity p;
    ls_metrics_perplexity(&m, &p);
    close_to(p.reference, 2);
    close_to(p.nll_arm, q - (double)l3);
    assert_true(isnan(p.delta_se) && isnan(p.nll_delta_se));
    ls_metrics_finish(&m);
}

/* Equal bits have a KL of 0 and no flip; the tie goes to the lower id. */
static void equal_rows(void **state)
{
    const float x[4] = { 1, 3, 3, -INFINITY };
    struct ls_metrics m = { 0 };
    struct ls_kl_figures kl;
    (void)state;
    take(&m, x, x, 4, 2, 0);
    take(&m, x, x, 4, -1, 1);
    assert_int_equal(ls_metrics_kl(&m, &kl, &err), LS_OK);
    assert_true(kl.mean == 0 && kl.max == 0);
    assert_int_equal(m.n_rows_different, 0);
    assert_int_equal(m.n_different, 0);
    assert_int_equal(m.n_top1, 2);
    assert_int_equal(m.n_top5, 8);
    assert_int_equal(m.n_top5_of, 8);
    assert_int_equal(m.n_measured, 6);
    assert_int_equal(m.ulps[0], 6);
    assert_int_equal(m.nll.n, 1);
    assert_false(m.has_first);
    ls_metrics_finish(&m);
}

/* +0 and -0 differ as bits, are 0 steps apart, and make the row a different one. */
static void zeros_and_steps(void **state)
{
    const float x[5] = { 0, 1, 1, 1, 1 };
    float y[5] = { -0.0f, 1, nextafterf(1, 2), 1, 1 };
    struct ls_metrics m = { 0 };
    (void)state;
    for (int i = 0; i < 3; i++)
        y[3] = nextafterf(y[3], 2);
    for (int i = 0; i < 5; i++)
        y[4] = nextafterf(y[4], 0);
    take(&m, x, y, 5, -1, 9);
    assert_int_equal(m.n_different, 4);
    assert_true(m.has_first && m.first_element == 0 && m.first_position == 9);
    assert_int_equal(m.max_ulp, 5);
    assert_int_equal(m.ulps[0], 2); /* the zeros and the equal one */
    assert_int_equal(m.ulps[1], 1);
    assert_int_equal(m.ulps[3], 1); /* 3 of 3-4 */
    assert_int_equal(m.ulps[4], 1); /* 5 of 5-8 */
    ls_metrics_finish(&m);
}

/* NaN and +inf on either side have no distribution; -inf in the arm alone is infinitely far. */
static void undefined_rows(void **state)
{
    const float x[2] = { 1, 2 }, bad[2] = { NAN, 2 }, inf[2] = { INFINITY, 2 };
    const float none[2] = { -INFINITY, 2 }, empty[2] = { -INFINITY, -INFINITY };
    struct ls_metrics m = { 0 };
    struct ls_kl_figures kl = { .mean = -7 };
    (void)state;
    take(&m, x, bad, 2, 1, 0);
    take(&m, bad, bad, 2, 1, 1);
    take(&m, inf, x, 2, 1, 2);
    take(&m, empty, x, 2, 1, 3);
    assert_int_equal(m.n_undefined, 4);
    take(&m, x, none, 2, 1, 4);
    assert_int_equal(m.n_infinite, 1);
    assert_int_equal(m.n_kl, 0);
    assert_int_equal(ls_metrics_kl(&m, &kl, &err), LS_OK);
    assert_true(kl.mean == -7); /* untouched */
    take(&m, none, x, 2, 1, 5); /* p = 0 there: finite */
    assert_int_equal(m.n_kl, 1);
    close_to(m.kl[0].kl, log(1 + exp(-1)));
    ls_metrics_finish(&m);
}

/* The flips with the largest margins are kept, largest first. */
static void keeps_the_largest_flips(void **state)
{
    struct ls_metrics m = { 0 };
    (void)state;
    for (int i = 0; i < 3 * LS_FLIPS_KEPT; i++) {
        const float margin = (float)((i * 37) % (3 * LS_FLIPS_KEPT) + 1);
        const float x[3] = { margin, 0, -1 }, y[3] = { 0, 2, -1 };
        take(&m, x, y, 3, -1, (uint64_t)i);
    }
    assert_int_equal(m.n_flips, 3 * LS_FLIPS_KEPT);
    for (int i = 0; i < LS_FLIPS_KEPT; i++) {
        assert_true(m.flips[i].reference_margin == 3 * LS_FLIPS_KEPT - i);
        assert_true(m.flips[i].arm_margin == 2);
        assert_int_equal(m.flips[i].reference, 0);
        assert_int_equal(m.flips[i].arm, 1);
    }
    ls_metrics_finish(&m);
}

/* Five of ten; NaN never gets there since such rows are undefined. */
static void top_five(void **state)
{
    const float x[10] = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 };
    const float y[10] = { 9, 8, 0, 6, 0, 4, 7, 2, 1, 0 };
    struct ls_metrics m = { 0 };
    (void)state;
    take(&m, x, y, 10, -1, 0);
    assert_int_equal(m.n_top5, 3); /* 0 1 3 of 0 1 2 3 4; the arm has 0 1 6 3 5 */
    assert_int_equal(m.n_top1, 1);
    ls_metrics_finish(&m);
}

static void bins_of_positions(void **state)
{
    const float x[2] = { 0, 0 }, y[2] = { 0, 1 };
    struct ls_metrics m = { 0 };
    struct ls_kl_bins bins;
    (void)state;
    ls_metrics_kl_bins(&m, &bins);
    assert_int_equal(bins.n, 0);
    take(&m, x, x, 2, -1, 0);
    take(&m, x, y, 2, -1, 1);
    take(&m, x, y, 2, -1, 1000);
    ls_metrics_kl_bins(&m, &bins);
    assert_int_equal(bins.width, 8);
    assert_int_equal(bins.n, 126);
    assert_int_equal(bins.bins[0].rows, 2);
    close_to(bins.bins[0].mean, m.kl[1].kl / 2);
    close_to(bins.bins[0].max, m.kl[1].kl);
    assert_int_equal(bins.bins[125].rows, 1);
    ls_metrics_finish(&m);
}

/* Differences that are far smaller than what they are differences of. */
static void paired_errors(void **state)
{
    struct ls_metrics m = { 0 };
    struct ls_perplexity p;
    (void)state;
    for (int i = 0; i < 8; i++) {
        const float z = (float)(i & 1 ? 12 : -12);
        const float x[2] = { z, 0 }, y[2] = { nextafterf(z, 0), 0 };
        take(&m, x, y, 2, 1, (uint64_t)i);
    }
    ls_metrics_perplexity(&m, &p);
    assert_int_equal(p.n, 8);
    const double d = p.nll_delta, up = log1p(exp(12.0)), down = log1p(exp(-12.0));
    close_to(p.nll_reference, (up + down) / 2);
    assert_true(fabs(d) < 1e-6 && p.nll_delta_se > 0 && p.nll_delta_se < 1e-6);
    /* the step is 2^-20 towards 0: d is -+2^-20 p(0), p(0) the first token's share */
    const double step = ldexp(1, -20), first = 1 / (1 + exp(-12.0));
    const double plus = -step * first, minus = step * (1 - first);
    const double half = (minus - plus) / 2; /* each value is half this far from their mean */
    if (!(fabs(p.nll_delta_se - half / sqrt(7)) < 1e-9 * p.nll_delta_se))
        fail_msg("%.17g, expected %.17g", p.nll_delta_se, half / sqrt(7));
    ls_metrics_finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_a_divergence),      cmocka_unit_test(equal_rows),
        cmocka_unit_test(zeros_and_steps),         cmocka_unit_test(undefined_rows),
        cmocka_unit_test(keeps_the_largest_flips), cmocka_unit_test(top_five),
        cmocka_unit_test(bins_of_positions),       cmocka_unit_test(paired_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
