/* exp, sigmoid, tanh and the activations over sixteen lanes, in the contract's order.
 * Layer: kernels, internal; included after a lanes.h. */
#ifndef LS_KERNELS_WIDE_MATH_H
#define LS_KERNELS_WIDE_MATH_H

#include "kernels/constants.h"

/* Lanes of an array of which `left` elements remain, 0 or less to 16 and more; the missing ones
 * are +0 and neither read nor written. */
LANES struct v16 v_get(const float *p, int left)
{
    return left >= 16 ? v_load(p) : left > 0 ? v_load_n(p, left) : v_zero();
}

LANES void v_put(float *p, struct v16 a, int left)
{
    if (left >= 16)
        v_store(p, a);
    else
        v_store_n(p, a, left);
}

/* exp(x) for x <= 0 or NaN. */
LANES struct v16 v_exp(struct v16 x)
{
    struct v16 magic = v_set1(LS_EXP_MAGIC), one = v_set1(1.0f);
    x = v_max(v_set1(LS_EXP_MIN), x); /* in this order a NaN stays */
    struct v16 t = v_fma(x, v_set1(LS_EXP_LOG2E), magic);
    struct v16 n = v_sub(t, magic);
    struct v16 r = v_fma(n, v_set1(-LS_EXP_LN2_HI), x);
    r = v_fma(n, v_set1(-LS_EXP_LN2_LO), r);
    struct v16 p = v_set1(LS_EXP_C6);
    p = v_fma(p, r, v_set1(LS_EXP_C5));
    p = v_fma(p, r, v_set1(LS_EXP_C4));
    p = v_fma(p, r, v_set1(LS_EXP_C3));
    p = v_fma(p, r, v_set1(LS_EXP_C2));
    p = v_fma(p, r, one);
    p = v_fma(p, r, one);
    return v_mul(p, v_power(t));
}

LANES struct v16 v_sigmoid(struct v16 x)
{
    struct v16 one = v_set1(1.0f);
    struct v16 e = v_exp(v_sign_of(v_set1(-0.0f), v_abs(x)));
    return v_div(v_if_less(x, v_zero(), e, one), v_add(one, e));
}

LANES struct v16 v_tanh(struct v16 x)
{
    struct v16 a = v_abs(x), z = v_mul(a, a), one = v_set1(1.0f);
    struct v16 q = v_set1(LS_TANH_C4);
    q = v_fma(q, z, v_set1(LS_TANH_C3));
    q = v_fma(q, z, v_set1(LS_TANH_C2));
    q = v_fma(q, z, v_set1(LS_TANH_C1));
    q = v_fma(q, z, v_set1(LS_TANH_C0));
    struct v16 low = v_fma(v_mul(a, z), q, a);
    struct v16 e = v_exp(v_mul(v_set1(-2.0f), a));
    struct v16 high = v_div(v_sub(one, e), v_add(one, e));
    return v_sign_of(x, v_if_less(a, v_set1(LS_TANH_LIMIT), low, high));
}

LANES struct v16 v_silu(struct v16 x)
{
    return v_mul(x, v_sigmoid(x));
}

LANES struct v16 v_gelu_tanh(struct v16 x)
{
    struct v16 one = v_set1(1.0f);
    struct v16 cubic = v_fma(v_mul(v_set1(LS_GELU_C), x), x, one);
    struct v16 inner = v_mul(v_mul(v_set1(LS_GELU_K), x), cubic);
    return v_mul(v_mul(v_set1(0.5f), x), v_add(one, v_tanh(inner)));
}

LANES struct v16 v_softcap(struct v16 x, struct v16 cap)
{
    return v_mul(cap, v_tanh(v_div(x, cap)));
}

/* The lanes of a row sum, combined at distance 8, 4, 2, 1. */
LANES float v_sum(struct v16 a)
{
    __m256 eight = _mm256_add_ps(v_low_half(a), v_high_half(a));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The greatest lane; which of +0 and -0, and what NaN does, is left open. */
LANES float v_greatest(struct v16 a)
{
    __m256 eight = _mm256_max_ps(v_low_half(a), v_high_half(a));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif
