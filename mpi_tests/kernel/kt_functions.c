/* exp, sigmoid, tanh, SiLU and GELU through the kernels that contain them: within their stated
 * error of a binary64 reference, and the same bits on every path. A sample of all floats;
 * --long takes every one. */
#include "kt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 4096 };

/* Worst error in units of the last place of the exact value, and where. */
struct worst {
    double ulp;
    float at;
};

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static void note(struct worst *w, float x, float got, double exact)
{
    int e;
    frexp(exact, &e);
    if (e < -125) /* results below 2^-126 are flushed: an absolute error there */
        e = -125;
    double ulp = fabs((double)got - exact) / ldexp(1.0, e - 24);
    if (!(ulp <= w->ulp)) {
        w->ulp = ulp;
        w->at = x;
    }
}

/* One function seen through the table: y = f(x) for x[n]. */
struct function {
    const char *name;
    void (*run)(const struct ls_kernels *k, float *y, const float *x, int n);
    double (*exact)(double x);
    float first, last; /* the range, of one sign, from the smaller magnitude to the larger */
    double bound;      /* ulp */
};

static void run_exp(const struct ls_kernels *k, float *y, const float *x, int n)
{
    k->exp_below(y, x, 0.0f, n);
}

static void run_sigmoid(const struct ls_kernels *k, float *y, const float *x, int n)
{
    k->sigmoid(y, x, n);
}

static void run_tanh(const struct ls_kernels *k, float *y, const float *x, int n)
{
    memcpy(y, x, (size_t)n * sizeof *y);
    k->softcap(y, n, 1.0f);
}

static void run_silu(const struct ls_kernels *k, float *y, const float *x, int n)
{
    float one[BATCH];
    for (int i = 0; i < n; i++)
        one[i] = 1.0f;
    k->gated(y, x, one, n, LS_ACT_SILU, LS_FMT_F32);
}

static void run_gelu(const struct ls_kernels *k, float *y, const float *x, int n)
{
    float one[BATCH];
    for (int i = 0; i < n; i++)
        one[i] = 1.0f;
    k->gated(y, x, one, n, LS_ACT_GELU_TANH, LS_FMT_F32);
}

static double exact_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double exact_silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double exact_gelu(double x)
{
    double inner = 0.79788456080286535588 * x * (1.0 + 0.044715 * x * x);
    return 0.5 * x * (1.0 + tanh(inner));
}

/* Every `step`-th float of the range. */
static void sweep(const struct function *f, const struct kt_table *table, int n_tables,
                  uint32_t step)
{
    static float x[BATCH], want[BATCH], got[BATCH];
    struct worst worst = { 0 };
    uint32_t u = bits_of(f->first), end = bits_of(f->last), n_done = 0;
    for (int batch = 0; u <= end; batch++) {
        int n = 0;
        for (; n < BATCH && u <= end; u += step)
            x[n++] = float_of(u);
        f->run(&ls_kernels_ref, want, x, n);
        for (int t = 0; t < kt_tables_in(batch, n_tables); t++) {
            f->run(table[t].k, got, x, n);
            kt_equal(f->name, table[t].label, want, got, (size_t)n);
        }
        for (int i = 0; i < n; i++)
            note(&worst, x[i], want[i], f->exact((double)x[i]));
        n_done += (uint32_t)n;
    }
    printf("  %-13s %10u floats in [%g, %g]: worst %.4f ulp at %a\n", f->name, n_done,
           (double)f->first, (double)f->last, worst.ulp, (double)worst.at);
    kt_check(worst.ulp <= f->bound, "%s: %g ulp at %a, at most %g allowed", f->name, worst.ulp,
             (double)worst.at, f->bound);
}

/* The ends: infinities, NaN, both zeros. */
static void ends(const struct kt_table *table, int n_tables)
{
    const float x[6] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN };
    const float tanh_of[6] = { 0.0f, -0.0f, 1.0f, -1.0f, NAN, NAN };
    const float silu_of[6] = { 0.0f, -0.0f, INFINITY, NAN, NAN, NAN };
    float y[6];
    for (int t = -1; t < n_tables; t++) {
        const struct ls_kernels *k = t < 0 ? &ls_kernels_ref : table[t].k;
        run_tanh(k, y, x, 6);
        kt_equal("tanh", k->name, tanh_of, y, 6);
        run_silu(k, y, x, 6);
        kt_equal("silu", k->name, silu_of, y, 6);
        const float below[4] = { 0.0f, -0.0f, -INFINITY, NAN }, exp_of[4] = { 1, 1, 0, NAN };
        run_exp(k, y, below, 4);
        kt_equal("exp", k->name, exp_of, y, 4);
    }
}

int main(int argc, char **argv)
{
    static const struct function functions[] = {
        { "exp", run_exp, exp, -0x1p-20f, -87.0f, 0.8914 },
        { "exp to 0", run_exp, exp, -87.0f, -300.0f, 0x1p24 },
        { "tanh", run_tanh, tanh, 0x1p-126f, 0.62499994f, 0.7731 },
        { "tanh above", run_tanh, tanh, 0.625f, 20.0f, 1.5090 },
        { "tanh below", run_tanh, tanh, -0x1p-126f, -20.0f, 1.5090 },
        { "sigmoid", run_sigmoid, exact_sigmoid, 0x1p-30f, 80.0f, 2.5 },
        { "sigmoid below", run_sigmoid, exact_sigmoid, -0x1p-30f, -80.0f, 2.5 },
        { "silu", run_silu, exact_silu, 0x1p-100f, 80.0f, 3.0 },
        { "silu below", run_silu, exact_silu, -0x1p-100f, -80.0f, 3.5 },
        { "gelu", run_gelu, exact_gelu, 0x1p-100f, 80.0f, 5.0 },
    };
    struct kt_table table[8];
    kt_start("kt_functions", argc, argv);
    int n_tables = kt_tables(table);
    uint32_t step = kt_is_long() ? 1 : 997;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        sweep(&functions[i], table, n_tables, step);
    ends(table, n_tables);
    return kt_finish();
}
