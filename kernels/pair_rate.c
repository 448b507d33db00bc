#include "kernels/tables.h"

#include <immintrin.h>
#include <stdint.h>

/* On some CPUs vdpbf16ps starts every other cycle where two FMAs start in each: bf16 weights
 * are then multiplied faster after they have been widened. No flag tells. */

enum { CHAINS = 12, ROUNDS = 64, TRIES = 24 };

/* Twelve independent chains: enough to hide either instruction's latency. */
__attribute__((target("avx512f"))) static __m512 fma_chains(__m512 x)
{
    __m512 a[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        a[i] = x;
    for (int n = 0; n < ROUNDS; n++)
        for (int i = 0; i < CHAINS; i++)
            __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(a[i]) : "v"(x));
    return a[0];
}

__attribute__((target("avx512f,avx512bf16"))) static __m512 pair_chains(__m512 x)
{
    __m512 a[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        a[i] = x;
    for (int n = 0; n < ROUNDS; n++)
        for (int i = 0; i < CHAINS; i++)
            __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(a[i]) : "v"(x));
    return a[0];
}

__attribute__((target("avx512f,avx512bf16"))) bool ls_pairs_pay(void)
{
    uint64_t fma = UINT64_MAX, pairs = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t t0 = __rdtsc();
        __m512 x = fma_chains(_mm512_setzero_ps());
        uint64_t t1 = __rdtsc();
        x = pair_chains(x);
        uint64_t t2 = __rdtsc();
        __asm__ volatile("" ::"v"(x));
        fma = t1 - t0 < fma ? t1 - t0 : fma;
        pairs = t2 - t1 < pairs ? t2 - t1 : pairs;
    }
    return pairs < 2 * fma;
}
