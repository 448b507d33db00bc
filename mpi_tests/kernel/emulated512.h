/* The AVX-512 intrinsics that kernels/avx512 uses, for a CPU and a compiler without them: the
 * kernels are compiled unchanged with this header forced in (-include), so that their results
 * are tested on every machine. GCC and Clang know the 64-byte types without -mavx512f; only the
 * intrinsics refuse. One that is missing here is a compile error, never a wrong result.
 * vdpbf16ps takes the odd element first with one rounding a product; it relies on MXCSR's
 * flushing, which the contract sets. The tables get names of their own. Nothing here is fast.
 */
#ifndef LS_TESTS_EMULATED512_H
#define LS_TESTS_EMULATED512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ls_kernels_avx512     ls_emulated_avx512
#define ls_kernels_avx512bf16 ls_emulated_avx512bf16

#define EMU static inline __attribute__((always_inline, unused))

/* One register seen as floats, integers, words or two halves. */
union emu {
    __m512 ps;
    __m512i si;
    __m512bh bh;
    __m256 half[2];
    __m256i half_si[2];
    float f[16];
    int32_t d[16];
    uint32_t u[16];
    uint16_t w[32];
};

#define EMU_PS(x) ((union emu){ .ps = (x) })
#define EMU_SI(x) ((union emu){ .si = (x) })
#define EMU_BH(x) ((union emu){ .bh = (x) })

/* Lane i of the result is `expression` of a.f[i], b.f[i], c.f[i] or of the integers a.u[i], ...
 */
#define EMU_LANES(field, expression)                                                           \
    union emu r;                                                                               \
    for (int i = 0; i < 16; i++)                                                               \
    r.field[i] = (expression)

EMU __m512 emu_set1_ps(float x)
{
    EMU_LANES(f, x);
    return r.ps;
}

EMU __m512i emu_set1_epi32(int x)
{
    EMU_LANES(d, x);
    return r.si;
}

EMU __m512i emu_load(const void *p)
{
    union emu r;
    memcpy(&r, p, sizeof r);
    return r.si;
}

EMU void emu_store(void *p, __m512i a)
{
    memcpy(p, &a, sizeof a);
}

EMU __m512 emu_maskz_load(unsigned mask, const float *p)
{
    EMU_LANES(u, 0);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1u)
            memcpy(&r.f[i], p + i, sizeof *p);
    return r.ps;
}

EMU void emu_mask_store(float *p, unsigned mask, __m512 x)
{
    union emu a = EMU_PS(x);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1u)
            memcpy(p + i, &a.f[i], sizeof *p);
}

#define EMU_HALVES2(name)                                                                      \
    EMU __m512 emu_##name(__m512 x, __m512 y)                                                  \
    {                                                                                          \
        union emu a = EMU_PS(x), b = EMU_PS(y), r;                                             \
        r.half[0] = _mm256_##name(a.half[0], b.half[0]);                                       \
        r.half[1] = _mm256_##name(a.half[1], b.half[1]);                                       \
        return r.ps;                                                                           \
    }
EMU_HALVES2(add_ps)
EMU_HALVES2(sub_ps)
EMU_HALVES2(mul_ps)
EMU_HALVES2(div_ps)
EMU_HALVES2(max_ps)

#define EMU_HALVES3(name)                                                                      \
    EMU __m512 emu_##name(__m512 x, __m512 y, __m512 z)                                        \
    {                                                                                          \
        union emu a = EMU_PS(x), b = EMU_PS(y), c = EMU_PS(z), r;                              \
        r.half[0] = _mm256_##name(a.half[0], b.half[0], c.half[0]);                            \
        r.half[1] = _mm256_##name(a.half[1], b.half[1], c.half[1]);                            \
        return r.ps;                                                                           \
    }
EMU_HALVES3(fmadd_ps)
EMU_HALVES3(fmsub_ps)

#define EMU_INTEGERS(name, expression)                                                         \
    EMU __m512i emu_##name(__m512i x, __m512i y)                                               \
    {                                                                                          \
        union emu a = EMU_SI(x), b = EMU_SI(y);                                                \
        EMU_LANES(u, expression);                                                              \
        return r.si;                                                                           \
    }
EMU_INTEGERS(add_epi32, a.u[i] + b.u[i])
EMU_INTEGERS(sub_epi32, a.u[i] - b.u[i])
EMU_INTEGERS(and_si512, a.u[i] & b.u[i])
EMU_INTEGERS(or_si512, a.u[i] | b.u[i])
EMU_INTEGERS(max_epi32, a.d[i] > b.d[i] ? a.u[i] : b.u[i])

EMU __m512i emu_slli(__m512i x, unsigned n)
{
    union emu a = EMU_SI(x);
    EMU_LANES(u, a.u[i] << n);
    return r.si;
}

EMU __m512i emu_srli(__m512i x, unsigned n)
{
    union emu a = EMU_SI(x);
    EMU_LANES(u, a.u[i] >> n);
    return r.si;
}

EMU __mmask16 emu_cmpgt(__m512i x, __m512i y)
{
    union emu a = EMU_SI(x), b = EMU_SI(y);
    unsigned mask = 0;
    for (int i = 0; i < 16; i++)
        mask |= (unsigned)(a.d[i] > b.d[i]) << i;
    return (__mmask16)mask;
}

/* `how` must be a constant: the halves compare by the instruction. */
#define emu_cmp_ps(x, y, how)                                                                  \
    (__extension__({                                                                           \
        union emu a_ = EMU_PS(x), b_ = EMU_PS(y);                                              \
        int lo_ = _mm256_movemask_ps(_mm256_cmp_ps(a_.half[0], b_.half[0], how));              \
        int hi_ = _mm256_movemask_ps(_mm256_cmp_ps(a_.half[1], b_.half[1], how));              \
        (__mmask16)(lo_ | hi_ << 8);                                                           \
    }))

EMU __m512i emu_blend(unsigned mask, __m512i x, __m512i y)
{
    union emu a = EMU_SI(x), b = EMU_SI(y);
    EMU_LANES(u, mask >> i & 1u ? b.u[i] : a.u[i]);
    return r.si;
}

EMU __m512i emu_cvtepu16(__m256i x)
{
    uint16_t w[16];
    memcpy(w, &x, sizeof w);
    EMU_LANES(u, w[i]);
    return r.si;
}

EMU __m256i emu_cvtepi32_epi16(__m512i x)
{
    union emu a = EMU_SI(x), r;
    for (int i = 0; i < 16; i++)
        r.w[i] = (uint16_t)a.u[i];
    return r.half_si[0];
}

EMU __m512 emu_cvtph(__m256i x)
{
    union emu r;
    r.half[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
    r.half[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return r.ps;
}

EMU __m256i emu_cvtps_ph(__m512 x)
{
    union emu a = EMU_PS(x);
    return _mm256_set_m128i(_mm256_cvtps_ph(a.half[1], 0), _mm256_cvtps_ph(a.half[0], 0));
}

/* --- AVX512-BF16 -----------------------------------------------------------------------------
 */

EMU uint16_t emu_bf16(uint32_t u)
{
    uint32_t exponent = u & 0x7f800000u;
    if (!exponent)
        return (uint16_t)(u >> 16 & 0x8000u);
    if (exponent == 0x7f800000u)
        return (uint16_t)(u >> 16 | (u & 0x7fffffu ? 0x40u : 0u));
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

EMU __m256bh emu_cvtneps(__m512 x)
{
    union emu a = EMU_PS(x);
    uint16_t w[16];
    __m256bh r;
    for (int i = 0; i < 16; i++)
        w[i] = emu_bf16(a.u[i]);
    memcpy(&r, w, sizeof r);
    return r;
}

EMU __m512bh emu_cvtne2ps(__m512 high, __m512 low)
{
    union emu a = EMU_PS(low), b = EMU_PS(high), r;
    for (int i = 0; i < 16; i++) {
        r.w[i] = emu_bf16(a.u[i]);
        r.w[16 + i] = emu_bf16(b.u[i]);
    }
    return r.bh;
}

EMU __m256 emu_half_dpbf16(__m256 sum, __m256i x, __m256i y)
{
    __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    __m256 x_odd = _mm256_castsi256_ps(_mm256_and_si256(x, high));
    __m256 y_odd = _mm256_castsi256_ps(_mm256_and_si256(y, high));
    __m256 x_even = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
    __m256 y_even = _mm256_castsi256_ps(_mm256_slli_epi32(y, 16));
    return _mm256_fmadd_ps(x_even, y_even, _mm256_fmadd_ps(x_odd, y_odd, sum));
}

EMU __m512 emu_dpbf16(__m512 sum, __m512bh x, __m512bh y)
{
    union emu s = EMU_PS(sum), a = EMU_BH(x), b = EMU_BH(y);
    s.half[0] = emu_half_dpbf16(s.half[0], a.half_si[0], b.half_si[0]);
    s.half[1] = emu_half_dpbf16(s.half[1], a.half_si[1], b.half_si[1]);
    return s.ps;
}

/* --- Intel's names ---------------------------------------------------------------------------
 */

#undef _mm512_loadu_si512
#undef _mm512_cmp_ps_mask
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_cmpgt_epi32_mask
#undef _mm512_cvtps_ph
#undef _mm512_extractf32x8_ps
#define _mm512_castps_si512(a)           ((__m512i)(a))
#define _mm512_castsi512_ps(a)           ((__m512)(a))
#define _mm512_castps512_ps256(a)        (EMU_PS(a).half[0])
#define _mm512_extractf32x8_ps(a, n)     (EMU_PS(a).half[n])
#define _mm512_cvtss_f32(a)              (EMU_PS(a).f[0])
#define _mm512_setzero_ps()              emu_set1_ps(0.0f)
#define _mm512_setzero_si512()           emu_set1_epi32(0)
#define _mm512_set1_ps(x)                emu_set1_ps(x)
#define _mm512_set1_epi32(x)             emu_set1_epi32(x)
#define _mm512_loadu_si512(p)            emu_load(p)
#define _mm512_storeu_si512(p, a)        emu_store(p, a)
#define _mm512_loadu_ps(p)               ((__m512)emu_load(p))
#define _mm512_storeu_ps(p, a)           emu_store(p, (__m512i)(a))
#define _mm512_maskz_loadu_ps(k, p)      emu_maskz_load(k, p)
#define _mm512_mask_storeu_ps(p, k, a)   emu_mask_store(p, k, a)
#define _mm512_add_ps                    emu_add_ps
#define _mm512_sub_ps                    emu_sub_ps
#define _mm512_mul_ps                    emu_mul_ps
#define _mm512_div_ps                    emu_div_ps
#define _mm512_max_ps                    emu_max_ps
#define _mm512_fmadd_ps                  emu_fmadd_ps
#define _mm512_fmsub_ps                  emu_fmsub_ps
#define _mm512_add_epi32                 emu_add_epi32
#define _mm512_sub_epi32                 emu_sub_epi32
#define _mm512_and_si512                 emu_and_si512
#define _mm512_or_si512                  emu_or_si512
#define _mm512_max_epi32                 emu_max_epi32
#define _mm512_slli_epi32(a, n)          emu_slli(a, n)
#define _mm512_srli_epi32(a, n)          emu_srli(a, n)
#define _mm512_cmpgt_epi32_mask(a, b)    emu_cmpgt(a, b)
#define _mm512_cmp_ps_mask(a, b, how)    emu_cmp_ps(a, b, how)
#define _mm512_mask_blend_epi32(k, a, b) emu_blend(k, a, b)
#define _mm512_mask_blend_ps(k, a, b)    ((__m512)emu_blend(k, (__m512i)(a), (__m512i)(b)))
#define _mm512_cvtepu16_epi32(a)         emu_cvtepu16(a)
#define _mm512_cvtepi32_epi16(a)         emu_cvtepi32_epi16(a)
#define _mm512_cvtph_ps(a)               emu_cvtph(a)
#define _mm512_cvtps_ph(a, rounding)     emu_cvtps_ph(a)
#define _mm512_cvtneps_pbh               emu_cvtneps
#define _mm512_cvtne2ps_pbh              emu_cvtne2ps
#define _mm512_dpbf16_ps                 emu_dpbf16

#endif
