/* Attention over a paged KV cache: scores by the matrix product's register blocks (a K block is
 * two weight tiles, positions for outputs), softmax with "lane = position mod 16" for free, and
 * p.V with dimensions across the lanes.
 * Layer: kernels, internal; included after wide/matmul.h. Query heads that share a KV head, of
 * several queries, are computed together; how many changes no bit. */
#ifndef LS_KERNELS_WIDE_ATTENTION_H
#define LS_KERNELS_WIDE_ATTENTION_H

#include "kernels/attn_scratch.h"

/* Query heads computed together, in order of their queries. */
struct attn_group {
    const struct ls_attn *a;
    int n;         /* 1..LS_ATTN_MAX_ROWS */
    int base;      /* position of column 0 of the scores, a multiple of LS_KV_BLOCK */
    float *scores; /* [n][stride] */
    size_t stride; /* floats */
    const float *q[LS_ATTN_MAX_ROWS];
    float *o[LS_ATTN_MAX_ROWS];
    const float *sink[LS_ATTN_MAX_ROWS];                /* or NULL */
    int begin[LS_ATTN_MAX_ROWS], end[LS_ATTN_MAX_ROWS]; /* visible keys, both non-decreasing */
    float sum[LS_ATTN_MAX_ROWS];                        /* softmax's denominator */
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static const char *block_of(const struct ls_attn *a, const char *pool, int position)
{
    return pool + a->blocks[position / LS_KV_BLOCK] * a->block_stride;
}

/* --- scores ----------------------------------------------------------------------------------
 */

/* One panel of K's dimensions for rows [r, r + n) against one block of 32 positions. */
static void score_block(enum wide_kind kind, const struct attn_group *g, const float *q,
                        size_t ldq, int r, int n, int position, int k0)
{
    const struct ls_attn *a = g->a;
    size_t tile_bytes = ls_packed_bytes(a->d, LS_TILE, (size_t)a->k_dim);
    const char *k = block_of(a, a->k_pool, position) + (size_t)(k0 / 2) * kind_pair_bytes(kind);
    float *s = g->scores + (size_t)r * g->stride + (size_t)(position - g->base);
    int tiles = tiles_in_flight(n, LS_KV_BLOCK / LS_TILE);
    int n_pairs = (smaller(a->k_dim - k0, LS_PANEL) + 1) / 2;
    for (int t = 0; t < LS_KV_BLOCK / LS_TILE; t += tiles)
        blocks[kind][n][tiles](n_pairs, q + (size_t)r * ldq, ldq, k + (size_t)t * tile_bytes,
                               tile_bytes, s + t * LS_TILE, g->stride, k0 == 0);
}

static void scores(enum wide_kind kind, const struct attn_group *g)
{
    float q[LS_ATTN_MAX_ROWS * LS_PANEL] LANES_ALIGNED;
    int n_blocks = (g->n + LANES_ROWS - 1) / LANES_ROWS;
    size_t ldq = LS_PANEL / 2 * kind_step(kind);
    for (int k0 = 0; k0 < g->a->k_dim; k0 += LS_PANEL) {
        int n = smaller(g->a->k_dim - k0, LS_PANEL);
        for (int r = 0; r < g->n; r++)
            gather(kind, q + (size_t)r * ldq, g->q[r] + k0, n);
        for (int j = g->base; j < g->end[g->n - 1]; j += LS_KV_BLOCK)
            for (int b = 0; b < n_blocks; b++) {
                int r = g->n * b / n_blocks, rows = g->n * (b + 1) / n_blocks - r;
                score_block(kind, g, q, ldq, r, rows, j, k0);
            }
    }
}

/* --- softmax ---------------------------------------------------------------------------------
 */

/* Scales and caps the scores of one row, and returns the greatest of the visible ones. A NaN
 * among them may get lost here: it makes the row's sum NaN all the same. */
static float scale_scores(const struct attn_group *g, float *s, int begin, int end)
{
    struct v16 scale = v_set1(g->a->scale), cap = v_set1(g->a->softcap);
    struct v16 least = v_set1(-__builtin_inff()), most = least;
    for (int j = begin / LS_TILE * LS_TILE; j < end; j += LS_TILE) {
        struct v16 x = v_mul(v_load(s + j), scale);
        if (g->a->softcap != 0.0f)
            x = v_softcap(x, cap);
        v_store(s + j, x);
        if (j < begin || j + LS_TILE > end)
            x = v_keep(x, begin - j, end - j, least);
        most = v_max(most, x);
    }
    return v_greatest(most);
}

/* s becomes exp(s - m) and +0 where a key is hidden: in the sum that is the same as skipping,
 * since a lane never holds -0. */
static float exponentials(float *s, int begin, int end, float greatest)
{
    struct v16 m = v_set1(greatest), sum = v_zero();
    for (int j = begin / LS_TILE * LS_TILE; j < end; j += LS_TILE) {
        struct v16 p = v_exp(v_sub(v_load(s + j), m));
        if (j < begin || j + LS_TILE > end)
            p = v_keep(p, begin - j, end - j, v_zero());
        v_store(s + j, p);
        sum = v_add(sum, p);
    }
    return v_sum(sum);
}

static void softmax_row(struct attn_group *g, int r)
{
    float *s = g->scores + (size_t)r * g->stride;
    int begin = g->begin[r] - g->base, end = g->end[r] - g->base;
    float m = scale_scores(g, s, begin, end);
    if (g->sink[r] && !(*g->sink[r] <= m))
        m = *g->sink[r];
    g->sum[r] = exponentials(s, begin, end, m);
    if (g->sink[r])
        g->sum[r] += v_first(v_exp(v_set1(*g->sink[r] - m)));
}

/* --- p.V -------------------------------------------------------------------------------------
 */

/* c[r][0..16 tiles) continues its chain over positions [j, end) of one panel. p[r] is the
 * probability of position j; d0 the first dimension. */
typedef void values_fn(const struct ls_attn *a, int d0, int j, int end, const float *p,
                       size_t ldp, float *c);

enum { LDC = MAX_TILES * LS_TILE };

LANES void values(enum ls_fmt fmt, int rows, int tiles, const struct ls_attn *a, int d0, int j,
                  int end, const float *p, size_t ldp, float *c)
{
    struct v16 sum[LANES_ROWS][MAX_TILES];
    size_t bytes = fmt == LS_FMT_F32 ? 4 : 2, row_bytes = (size_t)a->v_dim * bytes;
    LANES_UNROLL
    for (int r = 0; r < rows; r++)
        LANES_UNROLL
    for (int t = 0; t < tiles; t++)
        sum[r][t] = v_load(c + r * LDC + t * LS_TILE);
    while (j < end) {
        const char *v = block_of(a, a->v_pool, j) + (size_t)(j % LS_KV_BLOCK) * row_bytes;
        int n = smaller(end - j, LS_KV_BLOCK - j % LS_KV_BLOCK);
        v += (size_t)d0 * bytes;
        for (int i = 0; i < n; i++, v += row_bytes, p++) {
            LANES_UNROLL
            for (int t = 0; t < tiles; t++) {
                struct v16 x = v_widen(fmt, v + (size_t)t * LS_TILE * bytes);
                LANES_UNROLL
                for (int r = 0; r < rows; r++)
                    sum[r][t] = v_fma(v_set1(p[(size_t)r * ldp]), x, sum[r][t]);
            }
        }
        j += n;
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++)
        LANES_UNROLL
    for (int t = 0; t < tiles; t++)
        v_store(c + r * LDC + t * LS_TILE, sum[r][t]);
}

#define VALUES(fmt, rows, tiles)                                                               \
    static __attribute__((noinline)) void values_##fmt##_##rows##_##tiles(                     \
        const struct ls_attn *a, int d0, int j, int end, const float *p, size_t ldp, float *c) \
    {                                                                                          \
        values(fmt, rows, tiles, a, d0, j, end, p, ldp, c);                                    \
    }
LANES_BLOCKS(VALUES, LS_FMT_F32)
LANES_BLOCKS(VALUES, LS_FMT_F16)
LANES_BLOCKS(VALUES, LS_FMT_BF16)
#define VALUES_ENTRY(fmt, rows, tiles) [rows][tiles] = values_##fmt##_##rows##_##tiles,

static values_fn *const value_blocks[LS_N_FMT][LANES_ROWS + 1][MAX_TILES + 1] = {
    [LS_FMT_F32] = { LANES_BLOCKS(VALUES_ENTRY, LS_FMT_F32) },
    [LS_FMT_F16] = { LANES_BLOCKS(VALUES_ENTRY, LS_FMT_F16) },
    [LS_FMT_BF16] = { LANES_BLOCKS(VALUES_ENTRY, LS_FMT_BF16) },
};

/* The last dimensions of a head whose size is no multiple of 16: one row, n < 16 dimensions. */
static void values_tail(const struct ls_attn *a, int d0, int n, int j, int end, const float *p,
                        float *c)
{
    size_t bytes = ls_fmt_bytes(a->d);
    struct v16 sum = v_load(c);
    for (; j < end; j++, p++) {
        char v[LS_TILE * 4] = { 0 };
        size_t at = (size_t)(j % LS_KV_BLOCK) * (size_t)a->v_dim + (size_t)d0;
        memcpy(v, block_of(a, a->v_pool, j) + at * bytes, (size_t)n * bytes);
        sum = v_fma(v_set1(*p), v_widen(a->d, v), sum);
    }
    v_store(c, sum);
}

/* A span of dimensions [d0, d0 + 16 tiles), or [d0, d0 + n) with n < 16 when tiles is 0. */
struct dims {
    int d0, tiles, n;
};

static void values_of(const struct attn_group *g, const struct dims *s, int r, int rows, int j,
                      int end, float *c)
{
    const float *p = g->scores + (size_t)r * g->stride + (size_t)(j - g->base);
    if (j >= end)
        return;
    if (s->tiles) {
        value_blocks[g->a->d][rows][s->tiles](g->a, s->d0, j, end, p, g->stride, c);
        return;
    }
    for (int i = 0; i < rows; i++)
        values_tail(g->a, s->d0, s->n, j, end, p + (size_t)i * g->stride, c + i * LDC);
}

/* Rows [r, r + rows) over one panel of positions [j0, j0 + 256): the part that all of them see
 * together, what only some see before and after it row by row, in the same chain. */
static void values_panel(const struct attn_group *g, const struct dims *s, int r, int rows,
                         int j0, float *c)
{
    int j1 = j0 + LS_PANEL, last = r + rows - 1;
    int begin = larger(g->begin[last], j0), end = smaller(g->end[r], j1);
    bool shared = rows > 1 && begin < end;
    for (int i = r; i <= last; i++) {
        int from = larger(g->begin[i], j0), to = smaller(g->end[i], j1);
        values_of(g, s, i, 1, from, shared ? begin : to, c + (i - r) * LDC);
    }
    if (!shared)
        return;
    values_of(g, s, r, rows, begin, end, c);
    for (int i = r; i <= last; i++)
        values_of(g, s, i, 1, end, smaller(g->end[i], j1), c + (i - r) * LDC);
}

/* Adds a panel's chains to the rows that see a part of it. */
static void add_panel(const struct attn_group *g, const struct dims *s, int r, int rows, int j0,
                      const float *c)
{
    for (int i = r; i < r + rows; i++, c += LDC) {
        if (g->end[i] <= j0 || g->begin[i] >= j0 + LS_PANEL)
            continue;
        bool first = g->begin[i] >= j0;
        for (int d = 0; d < s->n; d += LS_TILE) {
            float *o = g->o[i] + s->d0 + d;
            struct v16 sum = v_load(c + d);
            v_put(o, first ? sum : v_add(v_get(o, s->n - d), sum), s->n - d);
        }
    }
}

static void weighted_values(const struct attn_group *g, int r, int rows)
{
    int v_dim = g->a->v_dim;
    struct dims s = { 0 };
    for (; s.d0 < v_dim; s.d0 += s.n) {
        int whole = (v_dim - s.d0) / LS_TILE;
        s.tiles = whole ? tiles_in_flight(rows, whole) : 0;
        s.n = whole ? s.tiles * LS_TILE : v_dim - s.d0;
        int j0 = g->begin[r] / LS_PANEL * LS_PANEL;
        for (; j0 < g->end[r + rows - 1]; j0 += LS_PANEL) {
            float c[LANES_ROWS * LDC] LANES_ALIGNED = { 0 };
            values_panel(g, &s, r, rows, j0, c);
            add_panel(g, &s, r, rows, j0, c);
        }
    }
}

/* --- one call --------------------------------------------------------------------------------
 */

/* Takes up to ls_attn_rows rows from `row` on; row = query * n_group + head. */
static void form_group(struct attn_group *g, const struct ls_attn *a, int row, float *scratch)
{
    int i0 = row / a->n_group, n_keys = a->first_pos + i0 + 1 - a->first_visible[i0];
    int left = a->n_queries * a->n_group - row;
    g->a = a;
    g->scores = scratch;
    g->n = smaller(ls_attn_rows(n_keys), left);
    g->stride = ls_attn_stride(n_keys);
    g->base = a->first_visible[i0] / LS_KV_BLOCK * LS_KV_BLOCK;
    for (int r = 0; r < g->n; r++) {
        size_t i = (size_t)((row + r) / a->n_group), h = (size_t)((row + r) % a->n_group);
        g->q[r] = a->q + i * a->ldq + h * (size_t)a->k_dim;
        g->o[r] = a->o + i * a->ldo + h * (size_t)a->v_dim;
        g->sink[r] = a->sinks ? a->sinks + h : NULL;
        g->begin[r] = a->first_visible[i];
        g->end[r] = a->first_pos + (int)i + 1;
    }
}

static void attend(enum wide_kind kind, const struct ls_attn *a, float *scratch)
{
    struct attn_group g;
    for (int row = 0; row < a->n_queries * a->n_group; row += g.n) {
        form_group(&g, a, row, scratch);
        scores(kind, &g);
        for (int r = 0; r < g.n; r++)
            softmax_row(&g, r);
        int n_blocks = (g.n + LANES_ROWS - 1) / LANES_ROWS;
        for (int b = 0; b < n_blocks; b++) {
            int r = g.n * b / n_blocks;
            weighted_values(&g, r, g.n * (b + 1) / n_blocks - r);
        }
        for (int r = 0; r < g.n; r++)
            for (int d = 0; d < a->v_dim; d += LS_TILE) {
                float *o = g.o[r] + d;
                struct v16 x = v_div(v_get(o, a->v_dim - d), v_set1(g.sum[r]));
                v_put(o, v_round(x, a->d), a->v_dim - d);
            }
    }
}

static void attention(const struct ls_attn *a, float *scratch)
{
#ifdef LS_MUTANTS
    if (ls_kernels_even_first) {
        ls_kernels_ref.attention(a, scratch);
        return;
    }
#endif
#ifdef LS_LANES_PAIRS
    if (a->d == LS_FMT_BF16) {
        attend(WIDE_PAIRS, a, scratch);
        return;
    }
#endif
    switch (a->d) {
    case LS_FMT_F32:
        attend(WIDE_F32, a, scratch);
        break;
    case LS_FMT_F16:
        attend(WIDE_F16, a, scratch);
        break;
    default:
        attend(WIDE_BF16, a, scratch);
    }
}

#endif
