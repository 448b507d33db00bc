/* The kernels of mixtures of experts, every fast path against ref bit for bit: lengths around a
 * register's width, all values, in place where that is allowed. */
#include "kt.h"

#include <stdio.h>
#include <string.h>

enum { MAX_N = 600, N_KERNELS = 8 };

struct input {
    int n;
    enum ls_fmt d;
    float w, alpha, limit, max; /* max: of a */
    const float *start, *a, *b;
};

static void run(const struct ls_kernels *k, int which, const struct input *in, float *y)
{
    int n = in->n;
    memcpy(y, in->start, (size_t)n * sizeof *y);
    switch (which) {
    case 0:
        k->accumulate(y, in->a, in->w, n);
        break;
    case 1:
        k->gated_clamped(y, in->a, in->b, n, in->alpha, in->limit, in->d);
        break;
    case 2:
        k->gated_clamped(y, y, in->b, n, in->alpha, in->limit, in->d);
        break;
    case 3:
        k->gated_clamped(y, in->a, y, n, in->alpha, in->limit, in->d);
        break;
    case 4:
        k->exp_below(y, in->a, in->max, n);
        break;
    case 5:
        memcpy(y, in->a, (size_t)n * sizeof *y);
        k->exp_below(y, y, in->max, n);
        break;
    case 6:
        k->sigmoid(y, in->a, n);
        break;
    default:
        k->sigmoid(y, y, n);
    }
}

static const char *const names[N_KERNELS] = { "accumulate",        "gated_clamped",
                                              "clamped over gate", "clamped over up",
                                              "exp_below",         "exp_below in place",
                                              "sigmoid",           "sigmoid in place" };

static const float *values(int n, enum kt_values kind)
{
    float *p = kt_floats((size_t)n);
    kt_fill_floats(p, (size_t)n, kind, LS_FMT_F32);
    return p;
}

static void one_round(const struct kt_table *table, int n_tables)
{
    static const int edges[] = { 1, 2, 15, 16, 17, 31, 32, 33 };
    struct input in = { .n = kt_int(0, 1) ? edges[kt_int(0, 7)] : kt_int(1, MAX_N) };
    enum kt_values kind = (enum kt_values)kt_int(0, KT_N_VALUES - 1);
    char what[96];
    in.d = (enum ls_fmt)kt_int(0, LS_N_FMT - 1);
    in.w = kt_value(kind, LS_FMT_F32);
    in.alpha = kt_int(0, 1) ? 1.702f : kt_value(kind, LS_FMT_F32);
    in.limit = kt_int(0, 1) ? 0.5f : 7.0f;
    in.start = values(in.n, kind);
    in.a = values(in.n, kind);
    in.b = values(in.n, kind);
    ls_kernels_ref.sum_exp(in.a, in.n, &in.max);
    for (int which = 0; which < N_KERNELS; which++) {
        float *want = kt_floats((size_t)in.n);
        run(&ls_kernels_ref, which, &in, want);
        snprintf(what, sizeof what, "%s n %d D %d values %d", names[which], in.n, in.d, kind);
        for (int t = 0; t < n_tables; t++) {
            float *got = kt_floats((size_t)in.n);
            run(table[t].k, which, &in, got);
            kt_equal(what, table[t].label, want, got, (size_t)in.n);
        }
        kt_release_since(what, want);
    }
    kt_release("inputs of expert kernels");
}

/* What the formulas say, at points where binary32 has no say: clamps, NaN, both ends. */
static void known_values(void)
{
    static const float gate[6] = { 9, -9, 0, 7, 1, -0.0f }, up[6] = { 9, -9, 1, -7, 0, 3 };
    float y[6], nan[2] = { 0, 1 };
    ls_kernels_ref.gated_clamped(y, gate, up, 6, 0, 7, LS_FMT_F32);
    kt_check(y[0] == 28 && y[1] == 27 && y[2] == 0 && y[3] == -21 && y[4] == 0.5f,
             "gated_clamped with a sigmoid of one half: %g %g %g %g %g", y[0], y[1], y[2], y[3],
             y[4]);
    nan[0] = 0 * (1 / nan[0]);
    ls_kernels_ref.gated_clamped(y, nan, nan + 1, 1, 1, 7, LS_FMT_F32);
    kt_check(y[0] != y[0], "gated_clamped lost a NaN of the gate");
    ls_kernels_ref.gated_clamped(y, nan + 1, nan, 1, 1, 7, LS_FMT_F32);
    kt_check(y[0] != y[0], "gated_clamped lost a NaN of up");
    ls_kernels_ref.exp_below(y, gate, 9, 1);
    kt_check(y[0] == 1, "exp of zero is %g", y[0]);
    ls_kernels_ref.sigmoid(y, gate + 2, 1);
    kt_check(y[0] == 0.5f, "sigmoid of zero is %g", y[0]);
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_experts", argc, argv);
    int n_tables = kt_tables(table), rounds = kt_is_long() ? 10000 : 600;
    known_values();
    for (int round = 0; round < rounds; round++)
        one_round(table, n_tables);
    return kt_finish();
}
