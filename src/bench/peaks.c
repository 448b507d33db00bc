/* Peaks of arithmetic and of reading. */
#include "bench/machine.h"

#include "base/alloc.h"
#include "base/size.h"

#include <string.h>
#include <unistd.h>

enum { CHAINS = 12, LOOPS = 20000, L2_BYTES = 256 * 1024, L2_ROUNDS = 64 };

/* Twelve independent chains of one instruction. */
#define CHAIN12(op, r)                                                                         \
    op " %%" r "12, %%" r "13, %%" r "0\n" op " %%" r "12, %%" r "13, %%" r "1\n" op " %%" r   \
       "12, %%" r "13, %%" r "2\n" op " %%" r "12, %%" r "13, %%" r "3\n" op " %%" r           \
       "12, %%" r "13, %%" r "4\n" op " %%" r "12, %%" r "13, %%" r "5\n" op " %%" r           \
       "12, %%" r "13, %%" r "6\n" op " %%" r "12, %%" r "13, %%" r "7\n" op " %%" r           \
       "12, %%" r "13, %%" r "8\n" op " %%" r "12, %%" r "13, %%" r "9\n" op " %%" r           \
       "12, %%" r "13, %%" r "10\n" op " %%" r "12, %%" r "13, %%" r "11\n"
#define CLOBBERS                                                                               \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
        "xmm11", "xmm12", "xmm13"
#define CHAIN_FN(name, isa, op, r)                                                             \
    __attribute__((target(isa))) static void name(void *arg, int member, int n_members)        \
    {                                                                                          \
        (void)arg;                                                                             \
        (void)member;                                                                          \
        (void)n_members;                                                                       \
        __asm__ volatile("vzeroall" ::: CLOBBERS);                                             \
        for (int i = 0; i < LOOPS; i++)                                                        \
            __asm__ volatile(CHAIN12(op, r)::: CLOBBERS);                                      \
    }
CHAIN_FN(chain_fma256, "avx2", "vfmadd231ps", "ymm")
CHAIN_FN(chain_fma512, "avx512f", "vfmadd231ps", "zmm")
CHAIN_FN(chain_bf16, "avx512f,avx512bf16", "vdpbf16ps", "zmm")
CHAIN_FN(chain_vnni, "avx512f,avx512vnni", "vpdpbusd", "zmm")
CHAIN_FN(chain_maddubs, "avx2", "vpmaddubsw", "ymm")

/* --- reading ---------------------------------------------------------------------------------
 */

struct reads {
    const char *at; /* [n_members][bytes] */
    uint64_t bytes; /* of each member */
    int rounds;
};

typedef float eight __attribute__((vector_size(32), aligned(32), may_alias));

static void read_own(void *arg, int member, int n_members)
{
    const struct reads *const r = arg;
    (void)n_members;
    eight sum[4] = { { 0 } };
    for (int round = 0; round < r->rounds; round++) {
        const eight *p = (const eight *)(const void *)(r->at + (uint64_t)member * r->bytes);
        for (uint64_t i = 0; i < r->bytes / sizeof *p; i += 8)
            for (int k = 0; k < 4; k++)
                sum[k] += p[i + (uint64_t)k] + p[i + 4 + (uint64_t)k];
        __asm__ volatile("" : : "x"(sum[0]), "x"(sum[1]), "x"(sum[2]), "x"(sum[3]) : "memory");
    }
}

/* --- all -------------------------------------------------------------------------------------
 */

struct peak {
    const char *name, *unit;
    ls_team_fn *fn;
    double amount; /* of each member */
    double *into;
    bool there;
};

static void measure_peak(const struct peak *k, struct ls_team *team, void *arg, double seconds,
                         struct ls_results *r)
{
    char name[64];
    struct ls_rate rate;
    struct ls_team_work w = { team, k->fn, arg };
    const int n = ls_team_size(team);
    if (!k->there)
        return;
    ls_measure(&rate, &(struct ls_work){ .run = ls_run_team_work,
                                         .arg = &w,
                                         .amount = k->amount * n,
                                         .seconds = seconds,
                                         .by_cpu_time = r->by_cpu_time && n == 1 });
    *k->into = rate.p90; /* a peak is what the machine can do when nobody disturbs */
    snprintf(name, sizeof name, "%s, %d thread%s", k->name, n, n > 1 ? "s" : "");
    ls_results_add(
        r,
        &(struct ls_result){ .part = "machine", .name = name, .unit = k->unit, .scale = 1e9 },
        &rate);
}

uint64_t ls_beyond_caches(void)
{
    const uint64_t least = (uint64_t)256 << 20;
    const long held = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return held > 0 ? ls_max_u64(least, ls_round_up(2 * (uint64_t)held, least)) : least;
}

ls_status ls_peaks_measure(struct ls_peaks *p, struct ls_team *team, double seconds,
                           struct ls_results *r, struct ls_err *err)
{
    enum { PER_LOOP = CHAINS * LOOPS };
    const bool vnni = __builtin_cpu_supports("avx512vnni");
    const bool wide = __builtin_cpu_supports("avx512f");
    const struct peak chains[] = {
        { "FMA, 256 bits", "GFLOP/s", chain_fma256, 16.0 * PER_LOOP, &p->fma256, true },
        { "FMA, 512 bits", "GFLOP/s", chain_fma512, 32.0 * PER_LOOP, &p->fma512, wide },
        { "bf16 pairs, 512 bits", "GFLOP/s", chain_bf16, 64.0 * PER_LOOP, &p->bf16,
          wide && __builtin_cpu_supports("avx512bf16") },
        { "int8 dot, vpdpbusd", "GOP/s", chain_vnni, 128.0 * PER_LOOP, &p->int8, wide && vnni },
        { "int8 dot, vpmaddubsw", "GOP/s", chain_maddubs, 64.0 * PER_LOOP, &p->int8,
          !(wide && vnni) },
    };
    void *memory;
    const uint64_t n = (uint64_t)ls_team_size(team);
    const uint64_t memory_bytes = ls_beyond_caches() / n;
    *p = (struct ls_peaks){ .fma256 = 0 };
    ls_status s = ls_alloc(&memory, n * memory_bytes, "what is read", err);
    if (s)
        return s;
    memset(memory, 1, n * memory_bytes);
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
        measure_peak(&chains[i], team, NULL, seconds, r);
    const struct peak l2 = { "read, L2", "GB/s", read_own, (double)L2_BYTES * L2_ROUNDS,
                             &p->l2,     true };
    const struct peak all = { "read, memory",       "GB/s",     read_own,
                              (double)memory_bytes, &p->memory, true };
    struct reads reads = { memory, L2_BYTES, L2_ROUNDS };
    measure_peak(&l2, team, &reads, seconds, r);
    reads = (struct reads){ memory, memory_bytes, 1 };
    measure_peak(&all, team, &reads, seconds, r);
    ls_free(memory);
    return LS_OK;
}
