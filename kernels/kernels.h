/* The compute kernels: one table of functions per instruction set, all with the same bits.
 *
 * Layer: kernels, below everything; includes nothing but libc. A kernel owns no memory, starts
 * no thread, knows no model. The order of every floating-point operation is the arithmetic
 * contract's (docs/arithmetic.md); `ref` is its executable form, and every other table is
 * compared with it bit for bit.
 *
 * Values between kernels are binary32 arrays whose elements are representable in D, the dtype
 * of the activations ("D-rounded"); a kernel that stores a D tensor rounds each element once.
 * Only KV blocks, weights and what crosses a link are kept in D's own bytes. All pointers may
 * be unaligned unless said; rows of x and y are `ld` floats apart. Call only between
 * ls_fp_enter and ls_fp_leave. Functions are local, thread-safe and cannot fail. */
#ifndef LS_KERNELS_H
#define LS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Storage formats of weights and of activations. */
enum ls_fmt { LS_FMT_F32, LS_FMT_F16, LS_FMT_BF16, LS_N_FMT };

enum {
    LS_TILE = 16,     /* outputs of a weight tile: the lanes of one zmm */
    LS_PANEL = 256,   /* elements of K in one panel of a dot product; positions in one of p.V */
    LS_KV_BLOCK = 32, /* positions in one KV block */
    LS_SUM_LANES = 16, /* lanes of a row sum */
};

/* --- formats, packing, floating-point state ----------------------------------------------- */

size_t ls_fmt_bytes(enum ls_fmt fmt); /* bytes of one element */

/* Packed weights [n outputs][k]: tiles of 16 outputs by pairs of k. One pair of a tile is 64
 * bytes for bf16 (16 lanes of even|odd << 16), 2 x 16 halves for f16 (even row, odd row), 2 x
 * 16 floats for f32. Missing lanes of the last tile and the odd element of the last pair are 0.
 */
size_t ls_packed_bytes(enum ls_fmt fmt, size_t n, size_t k);

static inline size_t ls_tiles(size_t n)
{
    return (n + LS_TILE - 1) / LS_TILE;
}

/* Packs tiles [tile0, tile1) of row-major src [n][k] (elements lds apart from row to row) into
 * dst, the start of the whole packed matrix, 64-byte aligned. */
void ls_pack(enum ls_fmt fmt, void *dst, const void *src, size_t lds, size_t n, size_t k,
             size_t tile0, size_t tile1);

/* Flush-to-zero, denormals-are-zero, round to nearest; returns the former MXCSR. */
unsigned ls_fp_enter(void);
void ls_fp_leave(unsigned saved);
/* True when a product of two small numbers really is flushed in this thread. */
bool ls_fp_is_flushing(void);

/* K and V of one block of one layer and KV head, in D:
 *   K: [2 tiles of 16 positions][(k_dim + 1) / 2 pairs][as a weight tile, positions for
 * outputs] V: [32 positions][v_dim] */
size_t ls_kv_k_bytes(enum ls_fmt d, int k_dim);
size_t ls_kv_v_bytes(enum ls_fmt d, int v_dim);

/* --- one table per instruction set -------------------------------------------------------- */

enum ls_act { LS_ACT_SILU, LS_ACT_GELU_TANH };
enum ls_norm_weight {
    LS_NORM_W,          /* D(D(x r) w), Llama's kind */
    LS_NORM_ONE_PLUS_W, /* D((x r) (1 + w)), Gemma 1 to 3 */
    LS_NORM_W_ONCE      /* D((x r) w), Gemma 4, GPT-OSS */
};
enum ls_rope_pairs {
    LS_ROPE_HALVES,    /* pairs (i, i + n_pairs) */
    LS_ROPE_NEIGHBOURS /* pairs (2i, 2i + 1) */
};

/* One KV head's share of attention for consecutive query positions of one sequence. */
struct ls_attn {
    const float *q;  /* query i, head g at q + i * ldq + g * k_dim; D-rounded */
    float *o;        /* output i, head g at o + i * ldo + g * v_dim; D-rounded */
    size_t ldq, ldo; /* floats from one query position to the next */
    int n_queries;   /* 1.. */
    int n_group;     /* query heads that share this KV head, 1.. */
    int k_dim, v_dim;
    int32_t first_pos;            /* absolute position of query 0; query i sits at first_pos + i
                                     and sees keys [first_visible[i], first_pos + i] */
    const int32_t *first_visible; /* [n_queries], non-decreasing, <= first_pos + i */
    const uint32_t *blocks;       /* block id of positions [32 b, 32 b + 32) at blocks[b] */
    const char *k_pool, *v_pool; /* block id x of this layer and KV head: k_pool + x * stride */
    size_t block_stride;         /* bytes */
    enum ls_fmt d;               /* format of the cached K and V, and of the output */
    float scale;                 /* on every score */
    float softcap;               /* 0: none */
    const float *sinks;          /* [n_group] extra score per head, or NULL */
};

struct ls_kernels {
    const char *name; /* "ref", "avx2", "avx512", "avx512bf16" */

    /* y[r][n] = sum_k x[r][k] w[n][k] for rows [0, m) and outputs of tiles [tile0, tile1),
     * lanes past n included (they come from zero weights), so ldy >= 16 * number of tiles. x
     * holds D-rounded values, D the first index; the second is the weights' format. When k is
     * odd, x[r][k] must be readable and +0. w is the start of the packed matrix, 64-byte
     * aligned. y starts at output 0. */
    void (*matmul[LS_N_FMT][LS_N_FMT])(float *y, size_t ldy, const float *x, size_t ldx,
                                       const void *w, int m, int k, int tile0, int tile1);

    void (*add_bias)(float *y, const float *bias, int n); /* y = y + bias, binary32 */
    /* y = D(acc); y may be acc. */
    void (*round)(float *y, const float *acc, int n, enum ls_fmt d);
    /* y = D(x * s): scaled embedding rows, multipliers. y may be x. */
    void (*scale)(float *y, const float *x, float s, int n, enum ls_fmt d);
    /* h = D(h + acc), or D(h + acc * *multiplier) when multiplier is not NULL. */
    void (*residual)(float *h, const float *acc, const float *multiplier, int n, enum ls_fmt d);
    /* y = D(act(gate) * up); gate and up are binary32. y may be gate or up. */
    void (*gated)(float *y, const float *gate, const float *up, int n, enum ls_act act,
                  enum ls_fmt d);
    /* One row. w == NULL: D(x r). y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, int n, float eps,
                    enum ls_norm_weight kind, enum ls_fmt d);
    /* One row; w or b may be NULL. */
    void (*layernorm)(float *y, const float *x, const float *w, const float *b, int n,
                      float eps, enum ls_fmt d);
    /* One head in place: 2 * n_pairs elements turned, the rest of the head untouched. */
    void (*rope)(float *x, const float *cosines, const float *sines, int n_pairs,
                 enum ls_rope_pairs pairs, enum ls_fmt d);
    /* x = cap * tanh(x / cap), binary32. */
    void (*softcap)(float *x, int n, float cap);

    /* dst[n] binary32 from D's bytes, exact; and D's bytes from D-rounded (or any) values. */
    void (*widen)(float *dst, const void *src, int n, enum ls_fmt fmt);
    void (*narrow)(void *dst, const float *src, int n, enum ls_fmt fmt);

    /* Writes one position's key and value (D-rounded) at `slot` (0..31) of a block. */
    void (*kv_store)(void *k_block, void *v_block, const float *k, const float *v, int slot,
                     int k_dim, int v_dim, enum ls_fmt d);
    /* scratch: ls_attn_scratch_floats(...) floats, 64-byte aligned. */
    void (*attention)(const struct ls_attn *a, float *scratch);

    /* Mixtures of experts. acc = fma(w, y, acc), binary32: one expert's weighted output. */
    void (*accumulate)(float *acc, const float *y, float w, int n);
    /* g = min(gate, limit), u = up clamped to +-limit; y = D((u + 1) * (g * sigmoid(g *
     * alpha))). y may be gate or up. */
    void (*gated_clamped)(float *y, const float *gate, const float *up, int n, float alpha,
                          float limit, enum ls_fmt d);
    /* y = exp(x - max), for a max that no x is above, or NaN; binary32. y may be x. */
    void (*exp_below)(float *y, const float *x, float max, int n);
    void (*sigmoid)(float *y, const float *x, int n); /* binary32; y may be x */

    /* m = the order-free maximum of x[n] (NaN if any is NaN), in *max; returns the sum over
     * exp(x - m) in sixteen double lanes by index, combined at distance 8, 4, 2, 1. */
    double (*sum_exp)(const float *x, int n, float *max);
    /* Every NaN becomes the canonical quiet NaN 0x7fc00000; returns how many there were. */
    int (*canonical_nan)(float *x, int n);
};

/* Scratch of one attention call over at most max_visible keys per query. */
size_t ls_attn_scratch_floats(int max_visible);

/* (double)x - (double)max - log(sum), the logarithm by kernels/math64.h. */
double ls_log_prob(float x, float max, double sum);

/* --- choosing a table --------------------------------------------------------------------- */

enum ls_cpu_path { LS_CPU_REF, LS_CPU_AVX2, LS_CPU_AVX512, LS_N_CPU_PATHS };

/* "ref", "avx2", "avx512"; NULL for anything else. And back: -1 for an unknown name. */
const char *ls_cpu_path_name(enum ls_cpu_path path);
int ls_cpu_path_parse(const char *name);

/* The table of `path` on this CPU (avx512: with the BF16 form where the CPU has it and runs it
 * faster than FMAs), or NULL when the CPU lacks it. */
const struct ls_kernels *ls_kernels_of(enum ls_cpu_path path);
/* Table i of those that this CPU has, the fastest first, and its path; NULL behind the last. */
const struct ls_kernels *ls_kernels_at(int i, enum ls_cpu_path *path);

/* The fastest path whose self-test passes, not above `wanted`. *n_failed counts paths that the
 * CPU claims but whose results differ from the pinned vectors; ref failing gives NULL. */
const struct ls_kernels *ls_kernels_choose(enum ls_cpu_path wanted, int *n_failed);

/* Runs the start-up vectors on one table: pinned inputs and outputs of every kernel, the
 * tininess cases included. Returns NULL when all agree, else the name of the first kernel that
 * differs. Must be called between ls_fp_enter and ls_fp_leave. */
const char *ls_kernels_selftest(const struct ls_kernels *k);

#ifdef LS_MUTANTS
/* Test builds only: nonzero makes every dot product take the even element first. */
extern int ls_kernels_even_first;
#endif

#endif
