/* The row kernels of every fast path against ref, bit for bit: lengths around a register's
 * width, all values (denormals, infinities, NaN, -0), in place where that is allowed. */
#include "kt.h"

#include <stdio.h>
#include <string.h>

enum { MAX_N = 1100, N_KERNELS = 16 };

/* Inputs of one round. y starts as `start` for the kernels that work in place. */
struct input {
    int n;
    enum ls_fmt d;
    enum ls_act act;
    enum ls_norm_weight kind;
    enum ls_rope_pairs pairs;
    float eps, s;
    const float *multiplier, *start, *a, *b, *w, *bias;
};

static void run(const struct ls_kernels *k, int which, const struct input *in, float *y)
{
    int n = in->n;
    memcpy(y, in->start, (size_t)n * sizeof *y);
    switch (which) {
    case 0:
        k->add_bias(y, in->a, n);
        break;
    case 1:
        k->round(y, in->a, n, in->d);
        break;
    case 2:
        k->round(y, y, n, in->d);
        break;
    case 3:
        k->scale(y, in->a, in->s, n, in->d);
        break;
    case 4:
        k->residual(y, in->a, in->multiplier, n, in->d);
        break;
    case 5:
        k->gated(y, in->a, in->b, n, in->act, in->d);
        break;
    case 6:
        k->gated(y, y, in->b, n, in->act, in->d);
        break;
    case 7:
        k->gated(y, in->a, y, n, in->act, in->d);
        break;
    case 8:
        k->rmsnorm(y, in->a, in->w, n, in->eps, in->kind, in->d);
        break;
    case 9:
        k->rmsnorm(y, y, in->w, n, in->eps, in->kind, in->d);
        break;
    case 10:
        k->layernorm(y, in->a, in->w, in->bias, n, in->eps, in->d);
        break;
    case 11:
        k->rope(y, in->a, in->b, n / 2, in->pairs, in->d);
        break;
    case 12:
        k->softcap(y, n, in->s);
        break;
    case 13:
        y[0] = (float)k->canonical_nan(y, n);
        break;
    default:
        k->scale(y, y, in->s, n, in->d);
    }
}

static const char *const names[N_KERNELS] = { "add_bias",        "round",
                                              "round in place",  "scale",
                                              "residual",        "gated",
                                              "gated over gate", "gated over up",
                                              "rmsnorm",         "rmsnorm in place",
                                              "layernorm",       "rope",
                                              "softcap",         "canonical_nan",
                                              "scale in place",  "" };

static int pick_n(void)
{
    static const int edges[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 127, 576 };
    return kt_int(0, 1) ? edges[kt_int(0, 15)] : kt_int(1, MAX_N);
}

static const float *values(int n, enum kt_values kind, enum ls_fmt d)
{
    float *p = kt_floats((size_t)n);
    kt_fill_floats(p, (size_t)n, kind, d);
    return p;
}

static void one_round(const struct kt_table *table, int n_tables)
{
    struct input in = { .n = pick_n(), .d = (enum ls_fmt)kt_int(0, LS_N_FMT - 1) };
    enum kt_values kind = (enum kt_values)kt_int(0, KT_N_VALUES - 1);
    float multiplier = kt_value(kind, LS_FMT_F32);
    in.act = (enum ls_act)kt_int(0, 1);
    in.kind = (enum ls_norm_weight)kt_int(0, 2);
    in.pairs = (enum ls_rope_pairs)kt_int(0, 1);
    in.eps = kt_int(0, 1) ? 1e-5f : 1e-6f;
    in.s = kt_int(0, 1) ? 50.0f : kt_value(kind, LS_FMT_F32);
    in.multiplier = kt_int(0, 1) ? &multiplier : NULL;
    in.start = values(in.n, kind, in.d);
    in.a = values(in.n, kind, kt_int(0, 1) ? in.d : LS_FMT_F32);
    in.b = values(in.n, kind, LS_FMT_F32);
    in.w = kt_int(0, 3) ? values(in.n, kind, in.d) : NULL;
    in.bias = kt_int(0, 1) ? values(in.n, kind, in.d) : NULL;
    char what[96];
    for (int which = 0; which < N_KERNELS - 1; which++) {
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
    kt_release("inputs of row kernels");
}

static void sum_round(const struct kt_table *table, int n_tables)
{
    int n = pick_n();
    enum kt_values kind = (enum kt_values)kt_int(0, KT_N_VALUES - 1);
    float *x = kt_floats((size_t)n), most[2];
    kt_fill_floats(x, (size_t)n, kind, LS_FMT_F32);
    if (kind == KT_SMALL) /* zeros of both signs on top */
        for (int i = 0; i < n; i++)
            x[i] = kt_int(0, 2) ? -0.0f : kt_int(0, 9) ? -x[i] * x[i] : 0.0f;
    double want = ls_kernels_ref.sum_exp(x, n, &most[0]);
    for (int t = 0; t < n_tables; t++) {
        double got = table[t].k->sum_exp(x, n, &most[1]);
        kt_equal("sum_exp: maximum", table[t].label, &most[0], &most[1], 1);
        kt_check(!memcmp(&want, &got, sizeof got) || (want != want && got != got),
                 "sum_exp, %s, n %d: expected %a, got %a", table[t].label, n, want, got);
    }
    kt_release("sum_exp");
}

static void convert_round(const struct kt_table *table, int n_tables)
{
    int n = pick_n();
    for (int f = 0; f < LS_N_FMT; f++) {
        enum ls_fmt fmt = (enum ls_fmt)f;
        size_t bytes = (size_t)n * ls_fmt_bytes(fmt);
        void *raw = kt_buffer(bytes), *want_raw = kt_buffer(bytes);
        float *x = kt_floats((size_t)n), *want = kt_floats((size_t)n);
        kt_fill(raw, (size_t)n, KT_WILD, fmt);
        kt_fill(x, (size_t)n, KT_WILD, LS_FMT_F32);
        ls_kernels_ref.widen(want, raw, n, fmt);
        ls_kernels_ref.narrow(want_raw, x, n, fmt);
        for (int t = 0; t < n_tables; t++) {
            float *got = kt_floats((size_t)n);
            void *got_raw = kt_buffer(bytes);
            table[t].k->widen(got, raw, n, fmt);
            table[t].k->narrow(got_raw, x, n, fmt);
            kt_equal_bytes("widen", table[t].label, want, got, (size_t)n * sizeof *got);
            kt_equal_bytes("narrow", table[t].label, want_raw, got_raw, bytes);
        }
        kt_release("conversions");
    }
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_rows", argc, argv);
    int n_tables = kt_tables(table), rounds = kt_is_long() ? 10000 : 600;
    for (int round = 0; round < rounds; round++) {
        one_round(table, n_tables);
        sum_round(table, n_tables);
        convert_round(table, n_tables);
    }
    return kt_finish();
}
