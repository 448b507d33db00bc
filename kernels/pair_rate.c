#include "kernels/tables.h"

#include <immintrin.h>
#include <stdint.h>

/* On some CPUs vdpbf16ps starts every other cycle where two FMAs start in each: bf16 weights
 * are then multiplied faster after they have been widened. No flag tells. */

enum { ROUNDS = 64, TRIES = 24 };

/* Twelve independent chains, enough to hide either instruction's latency, in registers that no
 * compiler moves. */
#define CHAIN(op, i) op " %%zmm12, %%zmm12, %%zmm" #i "\n"
#define CHAINS(op)                                                                             \
    CHAIN(op, 0)                                                                               \
    CHAIN(op, 1)                                                                               \
    CHAIN(op, 2)                                                                               \
    CHAIN(op, 3)                                                                               \
    CHAIN(op, 4)                                                                               \
    CHAIN(op, 5) CHAIN(op, 6) CHAIN(op, 7) CHAIN(op, 8) CHAIN(op, 9) CHAIN(op, 10) CHAIN(op, 11)
#define CLOBBERED                                                                              \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
        "xmm11", "xmm12"

__attribute__((target("avx512f"))) static uint64_t fma_cycles(void)
{
    __asm__ volatile("vzeroall" ::: CLOBBERED);
    uint64_t start = __rdtsc();
    for (int n = 0; n < ROUNDS; n++)
        __asm__ volatile(CHAINS("vfmadd231ps")::: CLOBBERED);
    return __rdtsc() - start;
}

__attribute__((target("avx512f,avx512bf16"))) static uint64_t pair_cycles(void)
{
    __asm__ volatile("vzeroall" ::: CLOBBERED);
    uint64_t start = __rdtsc();
    for (int n = 0; n < ROUNDS; n++)
        __asm__ volatile(CHAINS("vdpbf16ps")::: CLOBBERED);
    return __rdtsc() - start;
}

bool ls_pairs_pay(void)
{
    uint64_t fma = UINT64_MAX, pairs = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t one = fma_cycles(), other = pair_cycles();
        fma = one < fma ? one : fma;
        pairs = other < pairs ? other : pairs;
    }
    return pairs < 2 * fma;
}
