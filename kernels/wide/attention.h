/* Attention over a paged KV cache: scores by the matrix product's register blocks (a K block is
 * two weight tiles, positions for outputs), softmax with "lane = position mod 16" for free, and
 * p.V with dimensions across the lanes.
 * Layer: kernels, internal; included after wide/matmul.h. Query heads that share a KV head, of
 * several queries, are computed together; how many changes no bit. */
#ifndef LS_KERNELS_WIDE_ATTENTION_H
#define LS_KERNELS_WIDE_ATTENTION_H

#include "kernels/attn_scratch.h"

enum {
    LDC = MAX_TILES * LS_TILE,
    LDP = LS_PANEL + LS_TILE, /* a panel's row: no power of two */
};

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
    struct v16 most[LS_ATTN_MAX_ROWS]; /* the greatest score; in all lanes once it is known */
    struct v16 sum[LS_ATTN_MAX_ROWS];  /* softmax's denominator, by position mod 16 */
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

/* Positions of row r in the panel at j0: [*from, *to), empty when *from >= *to. */
static void visible_part(const struct attn_group *g, int r, int j0, int *from, int *to)
{
    *from = larger(g->begin[r], j0);
    *to = smaller(g->end[r], j0 + LS_PANEL);
}

/* --- scores ----------------------------------------------------------------------------------
 */

/* One panel of K's dimensions for rows [r, r + n) against one block of 32 positions; the next
 * block is fetched on the way. */
static void score_block(enum wide_kind kind, const struct attn_group *g, const float *q,
                        size_t ldq, int r, int n, int position, int k0)
{
    const struct ls_attn *a = g->a;
    size_t tile_bytes = ls_packed_bytes(a->d, LS_TILE, (size_t)a->k_dim);
    size_t at = (size_t)(k0 / 2) * kind_pair_bytes(kind);
    int last = g->end[g->n - 1] - 1;
    const char *k = block_of(a, a->k_pool, position) + at;
    const char *next = block_of(a, a->k_pool, smaller(position + LS_KV_BLOCK, last)) + at;
    float *s = g->scores + (size_t)r * g->stride + (size_t)(position - g->base);
    int tiles = tiles_in_flight(n, LS_KV_BLOCK / LS_TILE);
    int n_pairs = (smaller(a->k_dim - k0, LS_PANEL) + 1) / 2;
    for (int t = 0; t < LS_KV_BLOCK / LS_TILE; t += tiles) {
        const struct stream w = { k + (size_t)t * tile_bytes, tile_bytes,
                                  next + (size_t)t * tile_bytes, kind_pair_bytes(kind) };
        blocks[kind][n][tiles](n_pairs, q + (size_t)r * ldq, ldq, &w, s + t * LS_TILE,
                               g->stride, k0 == 0);
    }
}

/* All rows against the blocks of positions [j0, j1). q: [n][ldq] of the panel k0. */
static void score_span(enum wide_kind kind, const struct attn_group *g, const float *q,
                       size_t ldq, int j0, int j1, int k0)
{
    int n_blocks = (g->n + LANES_ROWS - 1) / LANES_ROWS;
    for (int j = j0; j < j1; j += LS_KV_BLOCK)
        for (int b = 0; b < n_blocks; b++) {
            int r = g->n * b / n_blocks, rows = g->n * (b + 1) / n_blocks - r;
            score_block(kind, g, q, ldq, r, rows, j, k0);
        }
}

/* Scales and caps the scores of one row at positions [begin, end) and takes the greatest into
 * most. A NaN among them may get lost here: it makes the row's sum NaN all the same. */
static struct v16 scale_scores(const struct ls_attn *a, float *s, int begin, int end,
                               struct v16 most)
{
    struct v16 scale = v_set1(a->scale), cap = v_set1(a->softcap);
    struct v16 least = v_set1(-__builtin_inff());
    for (int j = begin / LS_TILE * LS_TILE; j < end; j += LS_TILE) {
        struct v16 x = v_mul(v_load(s + j), scale);
        if (a->softcap != 0.0f)
            x = v_softcap(x, cap);
        v_store(s + j, x);
        if (j < begin || j + LS_TILE > end)
            x = v_keep(x, begin - j, end - j, least);
        most = v_max(most, x);
    }
    return most;
}

/* The scores of all rows, scaled, and the greatest of each row: a panel of positions at a time,
 * so that what the product leaves is still in the nearest cache. */
static void scores(enum wide_kind kind, struct attn_group *g)
{
    float q[LS_ATTN_MAX_ROWS * LDP] LANES_ALIGNED;
    size_t ldq = LS_PANEL / 2 * kind_step(kind) + LS_TILE;
    int end = g->end[g->n - 1];
    for (int k0 = 0; k0 < g->a->k_dim; k0 += LS_PANEL) {
        int n = smaller(g->a->k_dim - k0, LS_PANEL);
        for (int r = 0; r < g->n; r++)
            gather(kind, q + (size_t)r * ldq, g->q[r] + k0, n);
        for (int j0 = g->base / LS_PANEL * LS_PANEL; j0 < end; j0 += LS_PANEL) {
            score_span(kind, g, q, ldq, larger(j0, g->base), smaller(j0 + LS_PANEL, end), k0);
            for (int r = 0; k0 + n == g->a->k_dim && r < g->n; r++) {
                int from, to;
                visible_part(g, r, j0, &from, &to);
                g->most[r] = scale_scores(g->a, g->scores + (size_t)r * g->stride,
                                          from - g->base, to - g->base, g->most[r]);
            }
        }
    }
}

/* --- softmax ---------------------------------------------------------------------------------
 */

/* The greatest of row r's scores, its sink among them, in all lanes. */
static void settle_greatest(struct attn_group *g, int r)
{
    float m = v_greatest(g->most[r]);
    if (g->sink[r] && !(*g->sink[r] <= m))
        m = *g->sink[r];
    g->most[r] = v_set1(m);
    g->sum[r] = v_zero();
}

/* p[j] = exp(s[j] - m), and +0 where a key is hidden: in the sum that is the same as skipping,
 * since a lane never holds -0. */
static struct v16 exponentials(float *p, const float *s, int begin, int end, struct v16 m,
                               struct v16 sum)
{
    for (int j = begin / LS_TILE * LS_TILE; j < end; j += LS_TILE) {
        struct v16 x = v_exp(v_sub(v_load(s + j), m));
        if (j < begin || j + LS_TILE > end)
            x = v_keep(x, begin - j, end - j, v_zero());
        v_store(p + j, x);
        sum = v_add(sum, x);
    }
    return sum;
}

static float denominator(const struct attn_group *g, int r)
{
    float sum = v_sum(g->sum[r]);
    if (g->sink[r])
        sum += v_first(v_exp(v_sub(v_set1(*g->sink[r]), g->most[r])));
    return sum;
}

/* --- p.V -------------------------------------------------------------------------------------
 */

/* Values of the panel's positions and of some dimensions, in pieces of LS_KV_BLOCK positions.
 */
struct values {
    const char *piece[LS_PANEL / LS_KV_BLOCK];
    size_t row_bytes;                          /* from one position to the next */
    const char *ahead[LS_PANEL / LS_KV_BLOCK]; /* to be fetched beside each piece, or NULL */
    size_t ahead_bytes;
};

/* c[r][0..16 tiles) continues its chain over positions [j, end) of the panel, counted from its
 * start. p[r][0] is the probability of the panel's position 0. */
typedef void values_fn(const struct values *v, int j, int end, const float *p, float *c);

LANES void values(enum ls_fmt fmt, int rows, int tiles, const struct values *v, int j, int end,
                  const float *p, float *c)
{
    struct v16 sum[LANES_ROWS][MAX_TILES];
    size_t bytes = fmt == LS_FMT_F32 ? 4 : 2;
    LANES_UNROLL
    for (int r = 0; r < rows; r++)
        LANES_UNROLL
    for (int t = 0; t < tiles; t++)
        sum[r][t] = v_load(c + r * LDC + t * LS_TILE);
    p += j;
    while (j < end) {
        int b = j / LS_KV_BLOCK, n = smaller(end - j, LS_KV_BLOCK - j % LS_KV_BLOCK);
        const char *x = v->piece[b] + (size_t)(j % LS_KV_BLOCK) * v->row_bytes;
        for (size_t at = 0; at < v->ahead_bytes; at += 64)
            _mm_prefetch(v->ahead[b] + at, _MM_HINT_T1);
        for (int i = 0; i < n; i++, x += v->row_bytes, p++) {
            struct v16 value[MAX_TILES];
            LANES_UNROLL
            for (int t = 0; t < tiles; t++)
                value[t] = v_widen(fmt, x + (size_t)t * LS_TILE * bytes);
            LANES_UNROLL
            for (int r = 0; r < rows; r++)
                LANES_UNROLL
            for (int t = 0; t < tiles; t++)
                sum[r][t] = v_fma(v_set1(p[r * LDP]), value[t], sum[r][t]);
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
        const struct values *v, int j, int end, const float *p, float *c)                      \
    {                                                                                          \
        values(fmt, rows, tiles, v, j, end, p, c);                                             \
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

/* A panel of positions [j0, j0 + 256) and a span of dimensions [d0, d0 + n): whole tiles, or
 * less than one. */
struct panel {
    const struct attn_group *g;
    const float *p; /* [g->n][LDP] */
    int j0, d0, tiles, n;
    enum ls_fmt fmt; /* of v */
    struct values v;
};

/* Where the span lies in the cache. Each span of a panel fetches its share of the next panel.
 */
static void find_values(struct panel *x)
{
    const struct ls_attn *a = x->g->a;
    size_t bytes = ls_fmt_bytes(a->d), row_bytes = (size_t)a->v_dim * bytes;
    int begin = x->g->begin[0], end = x->g->end[x->g->n - 1];
    x->fmt = a->d;
    x->v.row_bytes = row_bytes;
    x->v.ahead_bytes = LS_KV_BLOCK * (size_t)x->n * bytes;
    for (int b = 0; b < LS_PANEL / LS_KV_BLOCK; b++) {
        int j = x->j0 + b * LS_KV_BLOCK;
        if (j >= end || j + LS_KV_BLOCK <= begin)
            continue;
        const char *next = block_of(a, a->v_pool, smaller(j + LS_PANEL, end - 1));
        x->v.piece[b] = block_of(a, a->v_pool, j) + (size_t)x->d0 * bytes;
        x->v.ahead[b] = next + LS_KV_BLOCK * (size_t)x->d0 * bytes;
    }
}

/* A span of less than a tile, as whole tiles in binary32: `copy`. Only what some row sees is
 * read. */
static void complete_values(struct panel *x, float copy[LS_PANEL * LS_TILE])
{
    size_t bytes = ls_fmt_bytes(x->fmt);
    int from = larger(x->g->begin[0], x->j0) - x->j0;
    int to = smaller(x->g->end[x->g->n - 1], x->j0 + LS_PANEL) - x->j0;
    for (int j = from; j < to; j++) {
        char some[LS_TILE * sizeof(float)] = { 0 };
        const char *row = x->v.piece[j / LS_KV_BLOCK];
        memcpy(some, row + (size_t)(j % LS_KV_BLOCK) * x->v.row_bytes, (size_t)x->n * bytes);
        v_store(copy + j * LS_TILE, v_widen(x->fmt, some));
    }
    x->fmt = LS_FMT_F32;
    x->v.row_bytes = LS_TILE * sizeof(float);
    for (int b = 0; b < LS_PANEL / LS_KV_BLOCK; b++)
        x->v.piece[b] = (const char *)(copy + b * LS_KV_BLOCK * LS_TILE);
}

static void values_of(const struct panel *x, int r, int rows, int from, int to, float *c)
{
    if (from < to)
        value_blocks[x->fmt][rows][x->tiles](&x->v, from - x->j0, to - x->j0, x->p + r * LDP,
                                             c);
}

/* Rows [r, r + rows): the part that all of them see together, what only some see before and
 * after it row by row, in the same chain. */
static void rows_of_panel(const struct panel *x, int r, int rows, float *c)
{
    const struct attn_group *g = x->g;
    int j0 = x->j0, j1 = j0 + LS_PANEL, last = r + rows - 1;
    int begin = larger(g->begin[last], j0), end = smaller(g->end[r], j1);
    bool shared = rows > 1 && begin < end;
    for (int i = r; i <= last; i++) {
        int from, to;
        visible_part(g, i, j0, &from, &to);
        values_of(x, i, 1, from, shared ? begin : to, c + (i - r) * LDC);
    }
    if (!shared)
        return;
    values_of(x, r, rows, begin, end, c);
    for (int i = r; i <= last; i++)
        values_of(x, i, 1, end, smaller(g->end[i], j1), c + (i - r) * LDC);
}

/* Adds a panel's chains to the rows that see a part of it. */
static void add_panel(const struct panel *x, int r, int rows, const float *c)
{
    const struct attn_group *g = x->g;
    for (int i = r; i < r + rows; i++, c += LDC) {
        if (g->end[i] <= x->j0 || g->begin[i] >= x->j0 + LS_PANEL)
            continue;
        bool first = g->begin[i] >= x->j0;
        for (int d = 0; d < x->n; d += LS_TILE) {
            float *o = g->o[i] + x->d0 + d;
            struct v16 sum = v_load(c + d);
            v_put(o, first ? sum : v_add(v_get(o, x->n - d), sum), x->n - d);
        }
    }
}

/* All rows and dimensions of one panel: a span's values stay in the cache while rows pass. */
static void weighted_values(const struct attn_group *g, const float *p, int j0)
{
    float copy[LS_PANEL * LS_TILE] LANES_ALIGNED;
    struct panel x = { .g = g, .p = p, .j0 = j0 };
    int n_blocks = (g->n + LANES_ROWS - 1) / LANES_ROWS;
    int rows_at_once = (g->n + n_blocks - 1) / n_blocks;
    for (; x.d0 < g->a->v_dim; x.d0 += x.n) {
        int left = g->a->v_dim - x.d0, whole = left / LS_TILE;
        x.tiles = whole ? tiles_in_flight(rows_at_once, whole) : 1;
        x.n = whole ? x.tiles * LS_TILE : left;
        find_values(&x);
        if (!whole)
            complete_values(&x, copy);
        for (int b = 0; b < n_blocks; b++) {
            float c[LANES_ROWS * LDC] LANES_ALIGNED = { 0 };
            int r = g->n * b / n_blocks, rows = g->n * (b + 1) / n_blocks - r;
            rows_of_panel(&x, r, rows, c);
            add_panel(&x, r, rows, c);
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
        g->most[r] = v_set1(-__builtin_inff());
    }
}

/* Probabilities and weighted values, panel by panel. */
static void weigh(struct attn_group *g)
{
    float p[LS_ATTN_MAX_ROWS * LDP] LANES_ALIGNED;
    for (int r = 0; r < g->n; r++)
        settle_greatest(g, r);
    for (int j0 = g->base / LS_PANEL * LS_PANEL; j0 < g->end[g->n - 1]; j0 += LS_PANEL) {
        for (int r = 0; r < g->n; r++) {
            int from, to;
            visible_part(g, r, j0, &from, &to);
            const float *s = g->scores + (size_t)r * g->stride;
            g->sum[r] = exponentials(p + r * LDP, s + (j0 - g->base), from - j0, to - j0,
                                     g->most[r], g->sum[r]);
        }
        weighted_values(g, p, j0);
    }
}

static void attend(enum wide_kind kind, const struct ls_attn *a, float *scratch)
{
    struct attn_group g;
    for (int row = 0; row < a->n_queries * a->n_group; row += g.n) {
        form_group(&g, a, row, scratch);
        scores(kind, &g);
        weigh(&g);
        for (int r = 0; r < g.n; r++) {
            struct v16 sum = v_set1(denominator(&g, r));
            for (int d = 0; d < a->v_dim; d += LS_TILE) {
                float *o = g.o[r] + d;
                struct v16 x = v_div(v_get(o, a->v_dim - d), sum);
                v_put(o, v_round(x, a->d), a->v_dim - d);
            }
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
