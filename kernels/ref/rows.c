#include "kernels/ref/ref.h"

#include "kernels/ref/scalar.h"

static void add_bias(float *y, const float *bias, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = y[i] + bias[i];
}

static void round_row(float *y, const float *acc, int n, enum ls_fmt d)
{
    for (int i = 0; i < n; i++)
        y[i] = rounded(acc[i], d);
}

static void scale_row(float *y, const float *x, float s, int n, enum ls_fmt d)
{
    for (int i = 0; i < n; i++)
        y[i] = rounded(x[i] * s, d);
}

static void residual(float *h, const float *acc, const float *multiplier, int n, enum ls_fmt d)
{
    for (int i = 0; i < n; i++)
        h[i] = rounded(h[i] + (multiplier ? acc[i] * *multiplier : acc[i]), d);
}

static void gated(float *y, const float *gate, const float *up, int n, enum ls_act act,
                  enum ls_fmt d)
{
    for (int i = 0; i < n; i++) {
        float g = act == LS_ACT_SILU ? silu32(gate[i]) : gelu_tanh32(gate[i]);
        y[i] = rounded(g * up[i], d);
    }
}

/* sum (x - center)^2, sixteen lanes by index. */
static float sum_of_squares(const float *x, float center, int n)
{
    float lane[LS_SUM_LANES] = { 0 };
    for (int i = 0; i < n; i++) {
        float v = x[i] - center;
        lane[i % LS_SUM_LANES] = fma32(v, v, lane[i % LS_SUM_LANES]);
    }
    return sum_of_lanes(lane);
}

static float row_sum(const float *x, int n)
{
    float lane[LS_SUM_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % LS_SUM_LANES] += x[i];
    return sum_of_lanes(lane);
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps,
                    enum ls_norm_weight kind, enum ls_fmt d)
{
    float lane[LS_SUM_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % LS_SUM_LANES] = fma32(x[i], x[i], lane[i % LS_SUM_LANES]);
    float r = 1.0f / sqrtf(sum_of_lanes(lane) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        float v = x[i] * r;
        if (w && kind == LS_NORM_W)
            v = rounded(v, d) * w[i];
        else if (w && kind == LS_NORM_W_ONCE)
            v = v * w[i];
        else if (w)
            v = v * (1.0f + w[i]);
        y[i] = rounded(v, d);
    }
}

static void layernorm(float *y, const float *x, const float *w, const float *b, int n,
                      float eps, enum ls_fmt d)
{
    float mean = row_sum(x, n) / (float)n;
    float r = 1.0f / sqrtf(sum_of_squares(x, mean, n) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        float v = (x[i] - mean) * r;
        if (w)
            v = v * w[i];
        if (b)
            v = v + b[i];
        y[i] = rounded(v, d);
    }
}

static void rope(float *x, const float *cosines, const float *sines, int n_pairs,
                 enum ls_rope_pairs pairs, enum ls_fmt d)
{
    for (int i = 0; i < n_pairs; i++) {
        float *first = pairs == LS_ROPE_HALVES ? x + i : x + 2 * i;
        float *second = pairs == LS_ROPE_HALVES ? x + n_pairs + i : x + 2 * i + 1;
        float a = *first, b = *second, c = cosines[i], s = sines[i];
        *first = rounded(fma32(a, c, -(b * s)), d);
        *second = rounded(fma32(b, c, a * s), d);
    }
}

static void softcap(float *x, int n, float cap)
{
    for (int i = 0; i < n; i++)
        x[i] = cap * tanh32(x[i] / cap);
}

static void widen(float *dst, const void *src, int n, enum ls_fmt fmt)
{
    for (int i = 0; i < n; i++)
        dst[i] = element_at(fmt, src, (size_t)i);
}

static void narrow(void *dst, const float *src, int n, enum ls_fmt fmt)
{
    for (int i = 0; i < n; i++)
        set_element(fmt, dst, (size_t)i, src[i]);
}

static double sum_exp(const float *x, int n, float *max)
{
    double lane[LS_SUM_LANES] = { 0 };
    float m = x[0];
    for (int i = 0; i < n; i++)
        m = max32(m, x[i]);
    for (int i = 0; i < n; i++)
        lane[i % LS_SUM_LANES] += (double)exp32(x[i] - m);
    for (int distance = LS_SUM_LANES / 2; distance; distance /= 2)
        for (int i = 0; i < distance; i++)
            lane[i] += lane[i + distance];
    *max = m;
    return lane[0];
}

static int canonical_nan(float *x, int n)
{
    int n_nan = 0;
    for (int i = 0; i < n; i++)
        if (isnan(x[i])) {
            x[i] = float_of(0x7fc00000u);
            n_nan++;
        }
    return n_nan;
}

const struct ls_kernels ls_kernels_ref = {
    .name = "ref",
    .matmul = {
        [LS_FMT_F32] = { ls_ref_matmul_f32, ls_ref_matmul_f16, ls_ref_matmul_bf16 },
        [LS_FMT_F16] = { ls_ref_matmul_f32, ls_ref_matmul_f16, ls_ref_matmul_bf16 },
        [LS_FMT_BF16] = { ls_ref_matmul_f32, ls_ref_matmul_f16, ls_ref_matmul_bf16 },
    },
    .add_bias = add_bias,
    .round = round_row,
    .scale = scale_row,
    .residual = residual,
    .gated = gated,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .rope = rope,
    .softcap = softcap,
    .widen = widen,
    .narrow = narrow,
    .kv_store = ls_ref_kv_store,
    .attention = ls_ref_attention,
    .accumulate = ls_ref_accumulate,
    .gated_clamped = ls_ref_gated_clamped,
    .exp_below = ls_ref_exp_below,
    .sigmoid = ls_ref_sigmoid,
    .sum_exp = sum_exp,
    .canonical_nan = canonical_nan,
};
