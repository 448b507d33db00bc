/* Sixteen lanes of binary32 as one zmm register: the vocabulary of the kernels in wide/.
 * Layer: kernels, internal to avx512. The names and meanings are those of avx2/lanes.h. With
 * AVX512-BF16 (LS_LANES_PAIRS) also products of bf16 pairs. */
#ifndef LS_KERNELS_AVX512_LANES_H
#define LS_KERNELS_AVX512_LANES_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LANES static inline __attribute__((always_inline, unused))

enum {
    LANES_ROWS = 12, /* rows of a register block: 12 x 32 accumulators in 24 of 32 registers */
};

/* Tiles of 16 outputs in flight for 1..LANES_ROWS rows: enough chains to hide FMA's latency. */
static const int lanes_tiles[LANES_ROWS + 1] = { 0, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2 };

/* Every (rows, tiles) for which there is a register block. */
/* clang-format off */
#define LANES_BLOCKS(X, kind) \
    X(kind, 1, 1) X(kind, 1, 2) X(kind, 1, 4) X(kind, 2, 1) X(kind, 2, 2) \
    X(kind, 2, 4) X(kind, 3, 1) X(kind, 3, 2) X(kind, 3, 4) X(kind, 4, 1) \
    X(kind, 4, 2) X(kind, 4, 4) X(kind, 5, 1) X(kind, 5, 2) \
    X(kind, 6, 1) X(kind, 6, 2) X(kind, 7, 1) X(kind, 7, 2) \
    X(kind, 8, 1) X(kind, 8, 2) X(kind, 9, 1) X(kind, 9, 2) X(kind, 10, 1) \
    X(kind, 10, 2) X(kind, 11, 1) X(kind, 11, 2) X(kind, 12, 1) X(kind, 12, 2)
/* clang-format on */

struct v16 {
    __m512 v;
};

LANES struct v16 lanes_from_bits(__m512i u)
{
    return (struct v16){ _mm512_castsi512_ps(u) };
}

LANES struct v16 v_zero(void)
{
    return (struct v16){ _mm512_setzero_ps() };
}

LANES struct v16 v_set1(float x)
{
    return (struct v16){ _mm512_set1_ps(x) };
}

LANES struct v16 v_load(const float *p)
{
    return (struct v16){ _mm512_loadu_ps(p) };
}

LANES void v_store(float *p, struct v16 a)
{
    _mm512_storeu_ps(p, a.v);
}

LANES __mmask16 lanes_first(int n)
{
    return (__mmask16)((1u << n) - 1u);
}

LANES struct v16 v_load_n(const float *p, int n)
{
    return (struct v16){ _mm512_maskz_loadu_ps(lanes_first(n), p) };
}

LANES void v_store_n(float *p, struct v16 a, int n)
{
    _mm512_mask_storeu_ps(p, lanes_first(n), a.v);
}

LANES struct v16 v_add(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm512_add_ps(a.v, b.v) };
}

LANES struct v16 v_sub(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm512_sub_ps(a.v, b.v) };
}

LANES struct v16 v_mul(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm512_mul_ps(a.v, b.v) };
}

LANES struct v16 v_div(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm512_div_ps(a.v, b.v) };
}

LANES struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){ _mm512_fmadd_ps(a.v, b.v, c.v) };
}

LANES struct v16 v_fms(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){ _mm512_fmsub_ps(a.v, b.v, c.v) };
}

LANES struct v16 v_max(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm512_max_ps(a.v, b.v) };
}

LANES struct v16 v_abs(struct v16 a)
{
    return lanes_from_bits(
        _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff)));
}

LANES struct v16 v_sign_of(struct v16 a, struct v16 positive)
{
    __m512i sign =
        _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32((int)0x80000000u));
    return lanes_from_bits(_mm512_or_si512(_mm512_castps_si512(positive.v), sign));
}

LANES struct v16 v_if_less(struct v16 a, struct v16 b, struct v16 x, struct v16 y)
{
    __mmask16 less = _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ);
    return (struct v16){ _mm512_mask_blend_ps(less, y.v, x.v) };
}

LANES struct v16 v_keep(struct v16 a, int first, int last, struct v16 b)
{
    int from = first < 0 ? 0 : first > 16 ? 16 : first;
    int to = last < 0 ? 0 : last > 16 ? 16 : last;
    __mmask16 keep = (__mmask16)(lanes_first(to) & ~lanes_first(from));
    return (struct v16){ _mm512_mask_blend_ps(keep, b.v, a.v) };
}

LANES float v_first(struct v16 a)
{
    return _mm512_cvtss_f32(a.v);
}

LANES __m256 v_low_half(struct v16 a)
{
    return _mm512_castps512_ps256(a.v);
}

LANES __m256 v_high_half(struct v16 a)
{
    return _mm512_extractf32x8_ps(a.v, 1);
}

LANES unsigned v_nan_lanes(struct v16 a)
{
    return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
}

LANES struct v16 v_power(struct v16 t)
{
    __m512i bias = _mm512_set1_epi32(0x4b400000 - 127);
    __m512i e = _mm512_sub_epi32(_mm512_castps_si512(t.v), bias);
    e = _mm512_max_epi32(e, _mm512_setzero_si512());
    return lanes_from_bits(_mm512_slli_epi32(e, 23));
}

LANES struct v16 lanes_widen_words(__m256i words)
{
    return lanes_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

#ifdef LS_LANES_PAIRS
LANES __m256i lanes_bf16(struct v16 a)
{
    return (__m256i)_mm512_cvtneps_pbh(a.v);
}
#else
/* To bf16: nearest even, denormals to zero, NaN made quiet. */
LANES __m256i lanes_bf16(struct v16 a)
{
    __m512i u = _mm512_castps_si512(a.v);
    __m512i magnitude = _mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i even = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    __m512i zero = _mm512_and_si512(u, _mm512_set1_epi32((int)0x80000000u));
    __mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    __mmask16 small = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(0x00800000), magnitude);
    __m512i r = _mm512_mask_blend_epi32(nan, even, quiet);
    r = _mm512_mask_blend_epi32(small, r, zero);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
#endif

LANES struct v16 v_round(struct v16 a, enum ls_fmt d)
{
    if (d == LS_FMT_BF16)
        return lanes_widen_words(lanes_bf16(a));
    if (d == LS_FMT_F16)
        return (struct v16){ _mm512_cvtph_ps(_mm512_cvtps_ph(a.v, 0)) };
    return a;
}

LANES struct v16 v_widen(enum ls_fmt fmt, const void *p)
{
    if (fmt == LS_FMT_F32)
        return v_load((const float *)p);
    __m256i words = _mm256_loadu_si256((const __m256i *)p);
    if (fmt == LS_FMT_F16)
        return (struct v16){ _mm512_cvtph_ps(words) };
    return lanes_widen_words(words);
}

LANES void v_narrow(enum ls_fmt fmt, void *p, struct v16 a)
{
    if (fmt == LS_FMT_F32)
        v_store((float *)p, a);
    else if (fmt == LS_FMT_F16)
        _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a.v, 0));
    else
        _mm256_storeu_si256((__m256i *)p, lanes_bf16(a));
}

LANES struct v16 v_odd(enum ls_fmt fmt, const char *pair)
{
    if (fmt != LS_FMT_BF16)
        return v_widen(fmt, pair + LS_TILE * (fmt == LS_FMT_F32 ? 4 : 2));
    __m512i words = _mm512_loadu_si512(pair);
    return lanes_from_bits(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u)));
}

LANES struct v16 v_even(enum ls_fmt fmt, const char *pair)
{
    if (fmt != LS_FMT_BF16)
        return v_widen(fmt, pair);
    return lanes_from_bits(_mm512_slli_epi32(_mm512_loadu_si512(pair), 16));
}

#ifdef LS_LANES_PAIRS
/* acc + x w over one bf16 pair a lane, the odd element first. */
LANES struct v16 v_pairs(struct v16 acc, struct v16 x, struct v16 w)
{
    return (struct v16){ _mm512_dpbf16_ps(acc.v, (__m512bh)x.v, (__m512bh)w.v) };
}

/* 32 elements to 16 pairs. */
LANES void v_narrow_pairs(void *p, struct v16 low, struct v16 high)
{
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high.v, low.v));
}
#endif

#endif
