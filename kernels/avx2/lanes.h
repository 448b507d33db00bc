/* Sixteen lanes of binary32 as two ymm registers: the vocabulary of the kernels in wide/.
 * Layer: kernels, internal to avx2. Every function is one instruction a half or a few; none
 * rounds but where it says so. avx512/lanes.h defines the same names. */
#ifndef LS_KERNELS_AVX2_LANES_H
#define LS_KERNELS_AVX2_LANES_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define LANES static inline __attribute__((always_inline, unused))

enum {
    LANES_ROWS = 6, /* rows of a register block: 6 x 16 accumulators, 2 weights, 1 broadcast */
};

/* Tiles of 16 outputs in flight for 1..LANES_ROWS rows: enough chains to hide FMA's latency. */
static const int lanes_tiles[LANES_ROWS + 1] = { 0, 4, 2, 2, 1, 1, 1 };

/* Every (rows, tiles) for which there is a register block. */
/* clang-format off */
#define LANES_BLOCKS(X, kind) \
    X(kind, 1, 1) X(kind, 1, 2) X(kind, 1, 4) X(kind, 2, 1) X(kind, 2, 2) \
    X(kind, 3, 1) X(kind, 3, 2) X(kind, 4, 1) X(kind, 5, 1) X(kind, 6, 1)
/* clang-format on */

struct v16 {
    __m256 lo, hi;
};

LANES struct v16 v_zero(void)
{
    return (struct v16){ _mm256_setzero_ps(), _mm256_setzero_ps() };
}

LANES struct v16 v_set1(float x)
{
    return (struct v16){ _mm256_set1_ps(x), _mm256_set1_ps(x) };
}

LANES struct v16 v_load(const float *p)
{
    return (struct v16){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) };
}

LANES void v_store(float *p, struct v16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

static const int32_t lanes_prefix[32] = { -1, -1, -1, -1, -1, -1, -1, -1,
                                          -1, -1, -1, -1, -1, -1, -1, -1 };

/* The first n lanes, 0..16; the others are +0 and not read. */
LANES struct v16 v_load_n(const float *p, int n)
{
    const int32_t *mask = lanes_prefix + 16 - n;
    return (
        struct v16){ _mm256_maskload_ps(p, _mm256_loadu_si256((const void *)mask)),
                     _mm256_maskload_ps(p + 8, _mm256_loadu_si256((const void *)(mask + 8))) };
}

LANES void v_store_n(float *p, struct v16 a, int n)
{
    const int32_t *mask = lanes_prefix + 16 - n;
    _mm256_maskstore_ps(p, _mm256_loadu_si256((const void *)mask), a.lo);
    _mm256_maskstore_ps(p + 8, _mm256_loadu_si256((const void *)(mask + 8)), a.hi);
}

LANES struct v16 v_add(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi) };
}

LANES struct v16 v_sub(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi) };
}

LANES struct v16 v_mul(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi) };
}

LANES struct v16 v_div(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi) };
}

/* a b + c, rounded once. */
LANES struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){ _mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi) };
}

/* a b - c, rounded once. */
LANES struct v16 v_fms(struct v16 a, struct v16 b, struct v16 c)
{
    return (struct v16){ _mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi) };
}

/* The greater lane; b where one of them is NaN. */
LANES struct v16 v_max(struct v16 a, struct v16 b)
{
    return (struct v16){ _mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi) };
}

LANES struct v16 v_abs(struct v16 a)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct v16){ _mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi) };
}

/* `positive` with the sign of a. */
LANES struct v16 v_sign_of(struct v16 a, struct v16 positive)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct v16){ _mm256_or_ps(positive.lo, _mm256_and_ps(sign, a.lo)),
                         _mm256_or_ps(positive.hi, _mm256_and_ps(sign, a.hi)) };
}

/* a < b ? x : y in each lane; y where one is NaN. */
LANES struct v16 v_if_less(struct v16 a, struct v16 b, struct v16 x, struct v16 y)
{
    return (struct v16){
        _mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
        _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)),
    };
}

/* Lanes first <= l < last of a, the others of b. */
LANES struct v16 v_keep(struct v16 a, int first, int last, struct v16 b)
{
    __m256i id = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), eight = _mm256_set1_epi32(8);
    __m256i below = _mm256_set1_epi32(first - 1), end = _mm256_set1_epi32(last);
    __m256i in = _mm256_and_si256(_mm256_cmpgt_epi32(id, below), _mm256_cmpgt_epi32(end, id));
    b.lo = _mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(in));
    id = _mm256_add_epi32(id, eight);
    in = _mm256_and_si256(_mm256_cmpgt_epi32(id, below), _mm256_cmpgt_epi32(end, id));
    b.hi = _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(in));
    return b;
}

LANES float v_first(struct v16 a)
{
    return _mm256_cvtss_f32(a.lo);
}

LANES __m256 v_low_half(struct v16 a)
{
    return a.lo;
}

LANES __m256 v_high_half(struct v16 a)
{
    return a.hi;
}

/* One bit a lane: set where it is NaN. */
LANES unsigned v_nan_lanes(struct v16 a)
{
    unsigned lo = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q));
    unsigned hi = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q));
    return lo | hi << 8;
}

/* 2^n from t = n + 1.5 2^23, and +0 for n < -126. */
LANES __m256 lanes_power(__m256 t)
{
    __m256i bias = _mm256_set1_epi32(0x4b400000 - 127);
    __m256i e = _mm256_sub_epi32(_mm256_castps_si256(t), bias);
    e = _mm256_max_epi32(e, _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

LANES struct v16 v_power(struct v16 t)
{
    return (struct v16){ lanes_power(t.lo), lanes_power(t.hi) };
}

/* To bf16 kept as binary32: nearest even, denormals to zero, NaN made quiet. */
LANES __m256 lanes_round_bf16(__m256 x)
{
    __m256i u = _mm256_castps_si256(x), high = _mm256_set1_epi32((int)0xffff0000u);
    __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i even = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
    __m256i r = _mm256_and_si256(_mm256_blendv_epi8(even, quiet, nan), high);
    __m256i zero = _mm256_and_si256(u, _mm256_set1_epi32((int)0x80000000u));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(r, zero, small));
}

/* Sixteen bf16 numbers from lanes that lanes_round_bf16 has rounded. */
LANES __m256i lanes_high_words(struct v16 a)
{
    __m256i lo = _mm256_srli_epi32(_mm256_castps_si256(a.lo), 16);
    __m256i hi = _mm256_srli_epi32(_mm256_castps_si256(a.hi), 16);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
}

LANES struct v16 v_round(struct v16 a, enum ls_fmt d)
{
    if (d == LS_FMT_BF16)
        return (struct v16){ lanes_round_bf16(a.lo), lanes_round_bf16(a.hi) };
    if (d == LS_FMT_F16)
        return (struct v16){ _mm256_cvtph_ps(_mm256_cvtps_ph(a.lo, 0)),
                             _mm256_cvtph_ps(_mm256_cvtps_ph(a.hi, 0)) };
    return a;
}

/* Sixteen elements from and to an array in format fmt; narrowing rounds. */
LANES struct v16 v_widen(enum ls_fmt fmt, const void *p)
{
    if (fmt == LS_FMT_F32)
        return v_load((const float *)p);
    __m128i lo = _mm_loadu_si128((const __m128i *)p);
    __m128i hi = _mm_loadu_si128((const __m128i *)p + 1);
    if (fmt == LS_FMT_F16)
        return (struct v16){ _mm256_cvtph_ps(lo), _mm256_cvtph_ps(hi) };
    __m256i l = _mm256_slli_epi32(_mm256_cvtepu16_epi32(lo), 16);
    __m256i h = _mm256_slli_epi32(_mm256_cvtepu16_epi32(hi), 16);
    return (struct v16){ _mm256_castsi256_ps(l), _mm256_castsi256_ps(h) };
}

LANES void v_narrow(enum ls_fmt fmt, void *p, struct v16 a)
{
    if (fmt == LS_FMT_F32) {
        v_store((float *)p, a);
    } else if (fmt == LS_FMT_F16) {
        _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a.lo, 0));
        _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(a.hi, 0));
    } else {
        _mm256_storeu_si256((__m256i *)p, lanes_high_words(v_round(a, LS_FMT_BF16)));
    }
}

/* The odd elements of one pair of a packed tile. bf16: the mask stays in memory as an operand,
 * for 6 x 16 accumulators leave no register for it. */
LANES __m256 lanes_odd_words(const char *p)
{
    static const uint32_t mask[8]
        __attribute__((aligned(32))) = { 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u,
                                         0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u };
    __m256 odd, words = _mm256_loadu_ps((const float *)(const void *)p);
    __asm__("vandps %1, %2, %0" : "=x"(odd) : "m"(mask), "x"(words));
    return odd;
}

/* The even elements, moved up by a shuffle: a shift would take a port from FMA. */
LANES __m256 lanes_even_words(const char *p)
{
    enum { ZERO = 0x80 };
    static const uint8_t order[32] __attribute__((aligned(32))) = {
        ZERO, ZERO, 0, 1, ZERO, ZERO, 4, 5, ZERO, ZERO, 8, 9, ZERO, ZERO, 12, 13,
        ZERO, ZERO, 0, 1, ZERO, ZERO, 4, 5, ZERO, ZERO, 8, 9, ZERO, ZERO, 12, 13,
    };
    __m256 even, words = _mm256_loadu_ps((const float *)(const void *)p);
    __asm__("vpshufb %1, %2, %0" : "=x"(even) : "m"(order), "x"(words));
    return even;
}

LANES struct v16 v_odd(enum ls_fmt fmt, const char *pair)
{
    if (fmt == LS_FMT_BF16)
        return (struct v16){ lanes_odd_words(pair), lanes_odd_words(pair + 32) };
    return v_widen(fmt, pair + LS_TILE * (fmt == LS_FMT_F32 ? 4 : 2));
}

/* The even elements. The empty asm makes the compiler load the words again: sixteen registers
 * do not hold both halves of a pair beside the accumulators. */
LANES struct v16 v_even(enum ls_fmt fmt, const char *pair)
{
    __asm__ volatile("" ::: "memory");
    if (fmt != LS_FMT_BF16)
        return v_widen(fmt, pair);
    return (struct v16){ lanes_even_words(pair), lanes_even_words(pair + 32) };
}

#endif
