/* Speed of the kernels beside this machine's measured peak: GFLOP/s of each matrix product path
 * and of attention, median and p10..p90 of at least ten repeats after a warm-up, one thread.
 * bench_kernels [SECONDS per number]. */
#include "kernels/kernels.h"
#include "kernels/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REPEATS = 400, MIN_REPEATS = 10, CHAINS = 12 };

static double seconds_per_number = 0.25;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Work to be timed: `flop` floating-point operations (or bytes) a call. */
struct work {
    void (*run)(void *arg);
    void *arg;
    double flop;
};

/* GFLOP/s: median, 10th and 90th percentile. */
static void measure(const struct work *w, double out[3])
{
    double t[MAX_REPEATS], start = now();
    int n = 0;
    w->run(w->arg);
    while (n < MAX_REPEATS && (n < MIN_REPEATS || now() - start < seconds_per_number)) {
        double begin = now();
        w->run(w->arg);
        t[n++] = now() - begin;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    out[0] = w->flop / t[n / 2] * 1e-9;
    out[1] = w->flop / t[n * 9 / 10] * 1e-9;
    out[2] = w->flop / t[n / 10] * 1e-9;
}

/* --- peaks: twelve independent chains of one instruction -------------------------------------
 */

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

enum { PEAK_LOOPS = 20000 };

static void peak_avx2(void *unused)
{
    (void)unused;
    __asm__ volatile("vzeroall" ::: CLOBBERS);
    for (int i = 0; i < PEAK_LOOPS; i++)
        __asm__ volatile(CHAIN12("vfmadd231ps", "ymm")::: CLOBBERS);
}

__attribute__((target("avx512f"))) static void peak_avx512(void *unused)
{
    (void)unused;
    __asm__ volatile("vzeroall" ::: CLOBBERS);
    for (int i = 0; i < PEAK_LOOPS; i++)
        __asm__ volatile(CHAIN12("vfmadd231ps", "zmm")::: CLOBBERS);
}

__attribute__((target("avx512f,avx512bf16"))) static void peak_avx512bf16(void *unused)
{
    (void)unused;
    __asm__ volatile("vzeroall" ::: CLOBBERS);
    for (int i = 0; i < PEAK_LOOPS; i++)
        __asm__ volatile(CHAIN12("vdpbf16ps", "zmm")::: CLOBBERS);
}

static double peak(void (*run)(void *), double flop)
{
    struct work w = { .run = run, .flop = flop * CHAINS * PEAK_LOOPS };
    double r[3];
    measure(&w, r);
    return r[2];
}

/* --- matrix products -------------------------------------------------------------------------
 */

struct product {
    const struct ls_kernels *k;
    enum ls_fmt d, fmt;
    int m, depth, n;
    float *x, *y;
    char *w;
    size_t w_bytes;
    int copies, next; /* of the weights: what one row reads shall come from memory */
};

static void run_product(void *arg)
{
    struct product *p = arg;
    const char *w = p->w + (size_t)p->next * p->w_bytes;
    p->next = (p->next + 1) % p->copies;
    p->k->matmul[p->d][p->fmt](p->y, (size_t)p->n, p->x, (size_t)p->depth, w, p->m, p->depth, 0,
                               (int)ls_tiles((size_t)p->n));
}

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p)
        abort();
    return memset(p, 0, (bytes + 63) / 64 * 64);
}

static void bench_product(const struct ls_kernels *k, enum ls_fmt d, enum ls_fmt fmt,
                          const int shape[3], double peak_gflops)
{
    static const char *const names[] = { "f32", "f16", "bf16" };
    struct product p = { .k = k, .d = d, .fmt = fmt };
    p.m = shape[0];
    p.depth = shape[1];
    p.n = shape[2];
    p.w_bytes = ls_packed_bytes(fmt, (size_t)p.n, (size_t)p.depth);
    p.copies = p.m <= 8 ? (int)((256u << 20) / p.w_bytes) + 1 : 1;
    p.x = zeroed((size_t)p.m * (size_t)p.depth * 4);
    p.y = zeroed((size_t)p.m * (size_t)p.n * 4);
    p.w = zeroed((size_t)p.copies * p.w_bytes);
    struct work w = { run_product, &p, 2.0 * p.m * p.depth * p.n };
    double r[3];
    measure(&w, r);
    printf("%-10s D %-4s w %-4s %4d x %5d x %5d  %7.1f (%.1f..%.1f) GFLOP/s  %3.0f %%  "
           "%5.1f GB/s\n",
           k->name, names[d], names[fmt], p.m, p.depth, p.n, r[0], r[1], r[2],
           100.0 * r[0] / peak_gflops, r[0] * (double)p.w_bytes / w.flop);
    free(p.x);
    free(p.y);
    free(p.w);
}

/* --- attention -------------------------------------------------------------------------------
 */

struct scene {
    const struct ls_kernels *k;
    struct ls_attn a;
    float *scratch;
};

static void run_attention(void *arg)
{
    struct scene *s = arg;
    s->k->attention(&s->a, s->scratch);
}

static void bench_attention(const struct ls_kernels *k, enum ls_fmt d, int dim, int queries,
                            int n_keys, double peak_gflops)
{
    enum { GROUP = 4 };
    struct scene s = { .k = k };
    int n_blocks = (n_keys + LS_KV_BLOCK - 1) / LS_KV_BLOCK;
    size_t k_bytes = ls_kv_k_bytes(d, dim), stride = k_bytes + ls_kv_v_bytes(d, dim);
    char *pool = zeroed((size_t)n_blocks * stride);
    uint32_t *blocks = zeroed((size_t)n_blocks * 4);
    int32_t *first = zeroed((size_t)queries * 4);
    float *q = zeroed((size_t)(queries * GROUP * dim) * 4);
    float *o = zeroed((size_t)(queries * GROUP * dim) * 4);
    double flop = 0;
    for (int b = 0; b < n_blocks; b++)
        blocks[b] = (uint32_t)(n_blocks - 1 - b);
    for (int i = 0; i < queries; i++)
        flop += 4.0 * GROUP * dim * (n_keys - queries + i + 1);
    s.a = (struct ls_attn){ .q = q,
                            .o = o,
                            .n_queries = queries,
                            .n_group = GROUP,
                            .ldq = (size_t)(GROUP * dim),
                            .ldo = (size_t)(GROUP * dim),
                            .k_dim = dim,
                            .v_dim = dim,
                            .first_pos = n_keys - queries,
                            .first_visible = first,
                            .blocks = blocks,
                            .k_pool = pool,
                            .v_pool = pool + k_bytes,
                            .block_stride = stride,
                            .d = d,
                            .scale = 0.125f };
    s.scratch = zeroed(ls_attn_scratch_floats(n_keys) * 4);
    struct work w = { run_attention, &s, flop };
    double r[3];
    measure(&w, r);
    printf("%-10s attention %s dim %3d queries %3d x 4 keys %4d  %7.1f (%.1f..%.1f) GFLOP/s  "
           "%3.0f %%\n",
           k->name, d == LS_FMT_BF16 ? "bf16" : "f32", dim, queries, n_keys, r[0], r[1], r[2],
           100.0 * r[0] / peak_gflops);
    free(s.scratch);
    free(o);
    free(q);
    free(first);
    free(blocks);
    free(pool);
}

static void bench_table(const struct ls_kernels *k, double fma_peak, double pair_peak)
{
    static const int shapes[][3] = { { 512, 2048, 2048 }, { 64, 2048, 2048 },
                                     { 512, 576, 1536 },  { 16, 576, 1536 },
                                     { 8, 576, 1536 },    { 6, 2048, 2048 },
                                     { 4, 576, 1536 },    { 1, 576, 1536 },
                                     { 1, 2048, 8192 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int f = 0; f < LS_N_FMT; f++)
            bench_product(k, (enum ls_fmt)f, (enum ls_fmt)f, shapes[i],
                          f == LS_FMT_BF16 ? pair_peak : fma_peak);
    for (int dim = 64; dim <= 128; dim += 64)
        for (int queries = 1; queries <= 64; queries *= 8) {
            bench_attention(k, LS_FMT_BF16, dim, queries, 2048, fma_peak);
            bench_attention(k, LS_FMT_F32, dim, queries, 2048, fma_peak);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seconds_per_number = atof(argv[1]);
    unsigned saved = ls_fp_enter();
    double fma = peak(peak_avx2, 16);
    printf("peak FMA 256 bits %.1f GFLOP/s\n", fma);
    bench_table(&ls_kernels_avx2, fma, fma);
    const struct ls_kernels *k = ls_kernels_of(LS_CPU_AVX512);
    if (k) {
        fma = peak(peak_avx512, 32);
        printf("peak FMA 512 bits %.1f GFLOP/s\n", fma);
        bench_table(&ls_kernels_avx512, fma, fma);
    }
    if (k && k != &ls_kernels_avx512) {
        double pairs = peak(peak_avx512bf16, 64);
        printf("peak vdpbf16ps 512 bits %.1f GFLOP/s\n", pairs);
        bench_table(k, fma, pairs);
    }
    ls_fp_leave(saved);
    return 0;
}
