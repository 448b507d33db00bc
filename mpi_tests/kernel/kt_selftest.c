/* The start-up vectors: every path passes; a table in which one function is wrong by the last
 * bit of one output is found out, each function in turn; so is a thread that does not flush. */
#include "kt.h"

#include <string.h>

static const struct ls_kernels *const ref = &ls_kernels_ref;

static void spoil(float *x)
{
    uint32_t u;
    memcpy(&u, x, sizeof u);
    u ^= 1u;
    memcpy(x, &u, sizeof u);
}

static void bad_matmul(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1)
{
    ref->matmul[0][0](y, ldy, x, ldx, w, m, k, tile0, tile1);
    spoil(y + (size_t)(m - 1) * ldy);
}

static void bad_add_bias(float *y, const float *bias, int n)
{
    ref->add_bias(y, bias, n);
    spoil(y + n - 1);
}

static void bad_round(float *y, const float *acc, int n, enum ls_fmt d)
{
    ref->round(y, acc, n, d);
    spoil(y + n - 1);
}

static void bad_scale(float *y, const float *x, float s, int n, enum ls_fmt d)
{
    ref->scale(y, x, s, n, d);
    spoil(y + n - 1);
}

static void bad_residual(float *h, const float *acc, const float *multiplier, int n,
                         enum ls_fmt d)
{
    ref->residual(h, acc, multiplier, n, d);
    spoil(h + n - 1);
}

static void bad_gated(float *y, const float *gate, const float *up, int n, enum ls_act act,
                      enum ls_fmt d)
{
    ref->gated(y, gate, up, n, act, d);
    spoil(y + n - 1);
}

static void bad_rmsnorm(float *y, const float *x, const float *w, int n, float eps,
                        enum ls_norm_weight kind, enum ls_fmt d)
{
    ref->rmsnorm(y, x, w, n, eps, kind, d);
    spoil(y);
}

static void bad_layernorm(float *y, const float *x, const float *w, const float *b, int n,
                          float eps, enum ls_fmt d)
{
    ref->layernorm(y, x, w, b, n, eps, d);
    spoil(y);
}

static void bad_rope(float *x, const float *cosines, const float *sines, int n_pairs,
                     enum ls_rope_pairs pairs, enum ls_fmt d)
{
    ref->rope(x, cosines, sines, n_pairs, pairs, d);
    spoil(x);
}

static void bad_softcap(float *x, int n, float cap)
{
    ref->softcap(x, n, cap);
    spoil(x);
}

static void bad_widen(float *dst, const void *src, int n, enum ls_fmt fmt)
{
    ref->widen(dst, src, n, fmt);
    spoil(dst + n - 1);
}

static void bad_narrow(void *dst, const float *src, int n, enum ls_fmt fmt)
{
    ref->narrow(dst, src, n, fmt);
    *(char *)dst ^= 1;
}

static void bad_kv_store(void *k_block, void *v_block, const float *k, const float *v, int slot,
                         int k_dim, int v_dim, enum ls_fmt d)
{
    ref->kv_store(k_block, v_block, k, v, slot, k_dim, v_dim, d);
    ((char *)v_block)[(size_t)slot * (size_t)v_dim * ls_fmt_bytes(d)] ^= 1;
}

static void bad_attention(const struct ls_attn *a, float *scratch)
{
    ref->attention(a, scratch);
    spoil(a->o + a->v_dim - 1);
}

static void bad_accumulate(float *acc, const float *y, float w, int n)
{
    ref->accumulate(acc, y, w, n);
    spoil(acc);
}

static void bad_gated_clamped(float *y, const float *gate, const float *up, int n, float alpha,
                              float limit, enum ls_fmt d)
{
    ref->gated_clamped(y, gate, up, n, alpha, limit, d);
    spoil(y + n - 1);
}

static void bad_exp_below(float *y, const float *x, float max, int n)
{
    ref->exp_below(y, x, max, n);
    spoil(y);
}

static void bad_sigmoid(float *y, const float *x, int n)
{
    ref->sigmoid(y, x, n);
    spoil(y);
}

static double bad_sum_exp(const float *x, int n, float *max)
{
    return ref->sum_exp(x, n, max) * (1.0 + 0x1p-52);
}

static int bad_canonical_nan(float *x, int n)
{
    (void)x;
    (void)n;
    return 0;
}

static void must_find(const struct ls_kernels *spoiled, const char *name)
{
    const char *found = ls_kernels_selftest(spoiled);
    kt_check(found && !strcmp(found, name), "%s spoiled: the self-test says %s", name,
             found ? found : "nothing");
}

#define SPOILED(function)                                                                      \
    do {                                                                                       \
        struct ls_kernels k = *ref;                                                            \
        k.function = bad_##function;                                                           \
        must_find(&k, #function);                                                              \
    } while (0)

static void spoil_each(void)
{
    SPOILED(add_bias);
    SPOILED(round);
    SPOILED(scale);
    SPOILED(residual);
    SPOILED(gated);
    SPOILED(rmsnorm);
    SPOILED(layernorm);
    SPOILED(rope);
    SPOILED(softcap);
    SPOILED(widen);
    SPOILED(narrow);
    SPOILED(kv_store);
    SPOILED(attention);
    SPOILED(accumulate);
    SPOILED(gated_clamped);
    SPOILED(exp_below);
    SPOILED(sigmoid);
    SPOILED(sum_exp);
    SPOILED(canonical_nan);
    for (int d = 0; d < LS_N_FMT; d++)
        for (int fmt = 0; fmt < LS_N_FMT; fmt++) {
            struct ls_kernels k = *ref;
            k.matmul[d][fmt] = bad_matmul;
            must_find(&k, "matmul");
        }
}

/* No path is skipped silently, a name that is wrong is refused. */
static void choose(void)
{
    int n_failed = -1;
    const struct ls_kernels *k = ls_kernels_choose(LS_CPU_AVX512, &n_failed);
    kt_check(k && n_failed == 0, "choose: %s, %d failed", k ? k->name : "none", n_failed);
    /* a measurement decides between two tables: all callers get the answer of the first */
    for (int i = 0; i < 100; i++) {
        kt_check(ls_kernels_choose(LS_CPU_AVX512, &n_failed) == k, "another table is chosen");
        const struct ls_kernels *wide = ls_kernels_of(LS_CPU_AVX512);
        kt_check(!wide || wide == k, "another table is given");
    }
    k = ls_kernels_choose(LS_CPU_REF, &n_failed);
    kt_check(k == ref, "choose: not above ref");
    kt_check(ls_fp_is_flushing(), "choose leaves the floating-point state as it was");
    for (int p = 0; p < LS_N_CPU_PATHS; p++)
        kt_check(ls_cpu_path_parse(ls_cpu_path_name((enum ls_cpu_path)p)) == p, "path %d", p);
    kt_check(ls_cpu_path_parse("avx1024") == -1, "an unknown name is refused");
    kt_check(!ls_cpu_path_name(LS_N_CPU_PATHS), "an unknown path has no name");
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_selftest", argc, argv);
    int n_tables = kt_tables(table);
    const char *found = ls_kernels_selftest(ref);
    kt_check(!found, "ref: the self-test says %s", found);
    for (int t = 0; t < n_tables; t++) {
        found = ls_kernels_selftest(table[t].k);
        kt_check(!found, "%s: the self-test says %s", table[t].label, found);
    }
    spoil_each();
    choose();
    unsigned flushing = ls_fp_enter();
    ls_fp_leave(0x1f80);
    found = ls_kernels_selftest(ref);
    ls_fp_leave(flushing);
    kt_check(found && !strcmp(found, "flush to zero"), "a thread that does not flush");
    return kt_finish();
}
