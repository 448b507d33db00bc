/* The contract's scalar functions in plain C: conversions, exp, sigmoid, tanh, maximum.
 * Layer: kernels, internal to ref. This is the definition, written to be read; the fast paths
 * do not use it, they are compared with it. Flush-to-zero and denormals-are-zero must be on. */
#ifndef LS_KERNELS_REF_SCALAR_H
#define LS_KERNELS_REF_SCALAR_H

#include "kernels/constants.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* One rounding. The builtin, so that an unoptimised build also uses the instruction. */
static inline float fma32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

/* Nearest even; a denormal becomes a signed zero, a NaN is made quiet: vcvtneps2bf16. */
static inline uint16_t bf16_of(float x)
{
    uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
    if (magnitude < 0x00800000u)
        return (uint16_t)(u >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline float float_of_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* Nearest even with f16 denormals kept: F16C, whatever MXCSR says. */
static inline uint16_t f16_of(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and more; 65520 and more rounds up to it below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000000u) /* below half of the least denormal */
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23, fraction = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t drop = exponent < 113u ? 126u - exponent : 13u; /* bits of fraction that go */
    uint32_t kept = fraction >> drop, rest = fraction & ((1u << drop) - 1u);
    uint32_t half = 1u << (drop - 1u);
    kept += rest > half || (rest == half && (kept & 1u));
    if (exponent >= 113u)
        kept += (exponent - 113u) << 10; /* the hidden bit adds the one that is missing */
    return (uint16_t)(sign | kept);
}

static inline float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 31u)
        return float_of(sign | 0x7f800000u | (fraction ? 0x400000u : 0u) | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112u) << 23 | fraction << 13);
    if (!fraction)
        return float_of(sign);
    uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21u; /* makes bit 10 the leading one */
    return float_of(sign | (113u - shift) << 23 | (fraction << shift & 0x3ffu) << 13);
}

/* D(x). */
static inline float rounded(float x, enum ls_fmt d)
{
    if (d == LS_FMT_BF16)
        return float_of_bf16(bf16_of(x));
    return d == LS_FMT_F16 ? float_of_f16(f16_of(x)) : x;
}

/* Element i of an array in format `fmt`. */
static inline float element_at(enum ls_fmt fmt, const void *array, size_t i)
{
    const char *p = (const char *)array + i * ls_fmt_bytes(fmt);
    float x;
    uint16_t h;
    if (fmt == LS_FMT_F32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&h, p, sizeof h);
    return fmt == LS_FMT_F16 ? float_of_f16(h) : float_of_bf16(h);
}

static inline void set_element(enum ls_fmt fmt, void *array, size_t i, float x)
{
    char *p = (char *)array + i * ls_fmt_bytes(fmt);
    if (fmt == LS_FMT_F32) {
        memcpy(p, &x, sizeof x);
        return;
    }
    uint16_t h = fmt == LS_FMT_F16 ? f16_of(x) : bf16_of(x);
    memcpy(p, &h, sizeof h);
}

/* exp(x) for x <= 0 or NaN; +0 below 2^-126. */
static inline float exp32(float x)
{
    if (x < LS_EXP_MIN)
        x = LS_EXP_MIN;
    float t = fma32(x, LS_EXP_LOG2E, LS_EXP_MAGIC);
    float n = t - LS_EXP_MAGIC;
    float r = fma32(n, -LS_EXP_LN2_HI, x);
    r = fma32(n, -LS_EXP_LN2_LO, r);
    float p = LS_EXP_C6;
    p = fma32(p, r, LS_EXP_C5);
    p = fma32(p, r, LS_EXP_C4);
    p = fma32(p, r, LS_EXP_C3);
    p = fma32(p, r, LS_EXP_C2);
    p = fma32(p, r, 1.0f);
    p = fma32(p, r, 1.0f);
    int32_t exponent = (int32_t)(bits_of(t) - bits_of(LS_EXP_MAGIC) + 127u);
    return p * float_of(exponent > 0 ? (uint32_t)exponent << 23 : 0u);
}

static inline float sigmoid32(float x)
{
    float e = exp32(-fabsf(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

static inline float tanh32(float x)
{
    float a = fabsf(x), y;
    if (a < LS_TANH_LIMIT) {
        float z = a * a, q = LS_TANH_C4;
        q = fma32(q, z, LS_TANH_C3);
        q = fma32(q, z, LS_TANH_C2);
        q = fma32(q, z, LS_TANH_C1);
        q = fma32(q, z, LS_TANH_C0);
        y = fma32(a * z, q, a);
    } else {
        float e = exp32(-2.0f * a);
        y = (1.0f - e) / (1.0f + e);
    }
    return copysignf(y, x);
}

static inline float silu32(float x)
{
    return x * sigmoid32(x);
}

static inline float gelu_tanh32(float x)
{
    float inner = (LS_GELU_K * x) * fma32(LS_GELU_C * x, x, 1.0f);
    return (0.5f * x) * (1.0f + tanh32(inner));
}

/* Order of the maximum: numbers by value, +0 above -0, as one integer comparison. */
static inline int32_t order_of(float x)
{
    int32_t i = (int32_t)bits_of(x);
    return i < 0 ? i ^ 0x7fffffff : i;
}

/* The larger of two; NaN if either is. */
static inline float max32(float a, float b)
{
    if (isnan(a))
        return a;
    return isnan(b) || order_of(b) > order_of(a) ? b : a;
}

/* Sixteen lanes at distance 8, 4, 2, 1; the lanes are used up. */
static inline float sum_of_lanes(float lane[LS_SUM_LANES])
{
    for (int distance = LS_SUM_LANES / 2; distance; distance /= 2)
        for (int i = 0; i < distance; i++)
            lane[i] = lane[i] + lane[i + distance];
    return lane[0];
}

#endif
