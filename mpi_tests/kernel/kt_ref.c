/* ref itself against formulas that share nothing with it: long double sums within their error
 * bound, the rounding to 16 bits against all neighbours, order where only order shows. */
#include "kt.h"

#include "kernels/ref/ref.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static float half_to_float(enum ls_fmt fmt, uint16_t h)
{
    float x;
    ls_kernels_ref.widen(&x, &h, 1, fmt);
    return x;
}

/* The value of 16 bits by arithmetic instead of by bits. */
static double value_of(enum ls_fmt fmt, uint16_t h)
{
    int digits = fmt == LS_FMT_F16 ? 10 : 7, bias = fmt == LS_FMT_F16 ? 15 : 127;
    int fraction = h & ((1 << digits) - 1), e = (h & 0x7fff) >> digits;
    double magnitude = e ? ldexp(1.0 + ldexp(fraction, -digits), e - bias)
                         : ldexp(fraction, 1 - bias - digits);
    if (e == 2 * bias + 1)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -magnitude : magnitude;
}

static void widen_all(enum ls_fmt fmt)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        double want = value_of(fmt, (uint16_t)h), got;
        uint32_t u;
        float x = half_to_float(fmt, (uint16_t)h);
        memcpy(&u, &x, sizeof u); /* a bf16 denormal is one in binary32: compare its bits */
        got = u & 0x7f800000u ? (double)x : ldexp((double)(u & 0x7fffffu), -149);
        if (!(u & 0x7f800000u) && u >> 31)
            got = -got;
        kt_check(got == want || (isnan(got) && isnan(want)), "widen %d of %04x: %a, not %a",
                 fmt, h, got, want);
    }
}

/* No representable number may be nearer, and a tie goes to the even one. */
static void nearest(enum ls_fmt fmt, float x)
{
    uint16_t h;
    ls_kernels_ref.narrow(&h, &x, 1, fmt);
    double got = value_of(fmt, h), limit = fmt == LS_FMT_F16 ? 65520.0 : 0x1.ffp127;
    if (fabs((double)x) >= limit) {
        kt_check(isinf(got) && !signbit(got) == !signbit(x), "narrow %d of %a: %a", fmt,
                 (double)x, got);
        return;
    }
    double error = fabs(got - (double)x);
    for (int step = -1; step <= 1; step += 2) {
        if ((h & 0x7fff) == 0 && step < 0)
            continue;
        uint16_t other = (uint16_t)(h + step);
        double there = fabs(value_of(fmt, other) - (double)x);
        bool ok = error < there || isnan(there) || (error == there && h % 2 == 0);
        kt_check(ok, "narrow %d of %a: %a, but %a is nearer", fmt, (double)x, got,
                 value_of(fmt, other));
    }
}

static void round_many(void)
{
    for (int i = 0; i < 200000; i++) {
        uint32_t u = (uint32_t)kt_bits();
        if (i % 4 == 0) /* ties and their neighbours */
            u = (u & 0xffffe000u) + (uint32_t)kt_int(-1, 1) +
                (kt_int(0, 1) ? 0x1000u : 0x8000u);
        if ((u & 0x7f800000u) == 0x7f800000u || !(u & 0x7f800000u))
            continue;
        float x;
        memcpy(&x, &u, sizeof x);
        nearest(LS_FMT_F16, x);
        nearest(LS_FMT_BF16, x);
    }
}

/* A dot product within its error bound of the long double one: n roundings of 2^-24. */
static void dots(void)
{
    enum { MAX_K = 900 };
    for (int round = 0; round < 300; round++) {
        int k = kt_int(1, MAX_K);
        float x[MAX_K + 1] = { 0 }, w[MAX_K], y[LS_TILE];
        float *packed = kt_buffer(ls_packed_bytes(LS_FMT_F32, 1, (size_t)k));
        long double exact = 0, sizes = 0;
        kt_fill_floats(x, (size_t)k, KT_PLAIN, LS_FMT_F32);
        kt_fill_floats(w, (size_t)k, KT_PLAIN, LS_FMT_F32);
        for (int i = 0; i < k; i++) {
            exact += (long double)x[i] * w[i];
            sizes += fabsl((long double)x[i] * w[i]);
        }
        ls_pack(LS_FMT_F32, packed, w, (size_t)k, 1, (size_t)k, 0, 1);
        ls_kernels_ref.matmul[0][0](y, LS_TILE, x, (size_t)k + 1, packed, 1, k, 0, 1);
        long double bound = sizes * (k < 256 ? k : 260) * 0x1p-24L;
        kt_check(fabsl(y[0] - exact) <= bound, "dot of %d: %a, exactly %La", k, (double)y[0],
                 exact);
        kt_release("dot");
    }
}

/* Orders told apart by swallowing: 2^24 + 1 is 2^24 in binary32. */
static void orders(void)
{
    static const struct {
        float x[4], want;
    } pairs[] = {
        { { -0x1p24f, 0x1p24f, 1, 0 }, 1 }, /* odd first: (2^24) - 2^24, then 0, then 1 */
        { { 1, 0x1p24f, -0x1p24f, 0 }, 0 }, /* 2^24, + 1 is lost, 0, - 2^24 */
        { { 0x1p24f, 1, 0, -0x1p24f }, 0 }, /* 1, 2^24 + 1 is lost, - 2^24, 0 */
    };
    const float ones[4] = { 1, 1, 1, 1 };
    float packed[4 * LS_TILE] __attribute__((aligned(64))), y[LS_TILE];
    ls_pack(LS_FMT_F32, packed, ones, 4, 1, 4, 0, 1);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        ls_kernels_ref.matmul[0][0](y, LS_TILE, pairs[i].x, 4, packed, 1, 4, 0, 1);
        kt_check(y[0] == pairs[i].want, "order %zu: %a", i, (double)y[0]);
    }
    /* -0 from a product meets the zero that completes an odd K */
    float x[2] = { -0.0f, 0.0f };
    ls_pack(LS_FMT_F32, packed, ones, 1, 1, 1, 0, 1);
    ls_kernels_ref.matmul[0][0](y, LS_TILE, x, 2, packed, 1, 1, 0, 1);
    kt_check(y[0] == 0.0f && !signbit(y[0]), "odd K: %a", (double)y[0]);
    /* panels: the second one's sum starts from zero, so that 1 is not lost in 2^24 */
    float wide_x[258] = { 0 }, wide_w[258], *wide = kt_floats(258 * LS_TILE);
    for (int j = 0; j < 258; j++)
        wide_w[j] = 1.0f;
    wide_x[1] = 0x1p24f;
    wide_x[256] = 1.0f;
    wide_x[257] = 1.0f;
    ls_pack(LS_FMT_F32, wide, wide_w, 258, 1, 258, 0, 1);
    ls_kernels_ref.matmul[0][0](y, LS_TILE, wide_x, 258, wide, 1, 258, 0, 1);
    kt_check(y[0] == 0x1p24f + 2.0f, "panels: %a", (double)y[0]);
    kt_release("orders");
}

/* Norms and softmax against long double: a few roundings. */
static void rows(void)
{
    enum { MAX_N = 700 };
    for (int round = 0; round < 300; round++) {
        int n = kt_int(2, MAX_N);
        float x[MAX_N], y[MAX_N], z[MAX_N], most;
        long double squares = 0, sum = 0, spread = 0, total = 0;
        kt_fill_floats(x, (size_t)n, KT_PLAIN, LS_FMT_F32);
        ls_kernels_ref.rmsnorm(y, x, NULL, n, 1e-6f, LS_NORM_W, LS_FMT_F32);
        ls_kernels_ref.layernorm(z, x, NULL, NULL, n, 1e-6f, LS_FMT_F32);
        double got = ls_kernels_ref.sum_exp(x, n, &most);
        for (int i = 0; i < n; i++) {
            squares += (long double)x[i] * x[i];
            sum += x[i];
            total += expl((long double)x[i] - most);
        }
        for (int i = 0; i < n; i++)
            spread += (x[i] - sum / n) * (x[i] - sum / n);
        for (int i = 0; i < n; i++) {
            long double want = x[i] / sqrtl(squares / n + 1e-6f);
            kt_check(fabsl(y[i] - want) <= 1e-5L, "rmsnorm: %a", (double)y[i]);
            want = (x[i] - sum / n) / sqrtl(spread / n + 1e-6f);
            kt_check(fabsl(z[i] - want) <= 1e-5L, "layernorm: %a", (double)z[i]);
        }
        kt_check(fabsl(got - total) <= total * 0x1p-22L, "sum_exp: %a", got);
    }
}

int main(int argc, char **argv)
{
    kt_start("kt_ref", argc, argv);
    widen_all(LS_FMT_F16);
    widen_all(LS_FMT_BF16);
    round_many();
    dots();
    orders();
    rows();
    return kt_finish();
}
