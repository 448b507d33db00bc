#include "bench/kernels.h"

#include "base/alloc.h"
#include "base/size.h"

#include <string.h>

static const char *const fmt_names[LS_N_FMT] = {
    [LS_FMT_F32] = "f32", [LS_FMT_F16] = "f16", [LS_FMT_BF16] = "bf16"
};

/* 0.5 to 1.5 in every format: no sum grows or vanishes. */
static void fill_floats(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = 0.5f + (float)(i * 2654435761u >> 25 & 127) / 128;
}

static ls_status floats(float **out, uint64_t n, struct ls_err *err)
{
    void *p = NULL;
    ls_status s = ls_alloc(&p, n * sizeof(float), "operands", err);
    *out = p;
    if (!s)
        fill_floats(*out, n);
    return s;
}

/* A number of this bench: path and threads in front of its name. */
struct entry {
    const struct ls_kernel_bench *b;
    char name[160];
};

static bool wanted(struct entry *e, const struct ls_kernel_bench *b, const char *name)
{
    e->b = b;
    snprintf(e->name, sizeof e->name, "%s x%d %s", b->kernels->name, ls_team_size(b->team),
             name);
    return ls_results_wants(b->results, e->name);
}

/* Measures `work` of the team, and adds it. */
static void measure(const struct entry *e, const char *unit, double bound, struct ls_work work)
{
    struct ls_rate rate;
    work.seconds = e->b->seconds;
    work.by_cpu_time = e->b->results->by_cpu_time && ls_team_size(e->b->team) == 1;
    ls_measure(&rate, &work);
    ls_results_add(
        e->b->results,
        &(struct ls_result){
            .part = "kernels", .name = e->name, .unit = unit, .scale = 1e9, .bound = bound },
        &rate);
}

/* --- products --------------------------------------------------------------------------------
 */

struct product {
    const struct ls_kernels *k;
    enum ls_fmt fmt;
    int m, depth, n;
    float *x, *y;
    size_t ldx, ldy;
    char *w;
    uint64_t w_bytes;
    int copies, next;
};

static void product_share(void *arg, int member, int n_members)
{
    const struct product *const p = arg;
    uint64_t begin, end;
    ls_team_share(ls_tiles((size_t)p->n), member, n_members, &begin, &end);
    unsigned saved = ls_fp_enter();
    p->k->matmul[p->fmt][p->fmt](p->y, p->ldy, p->x, p->ldx,
                                 p->w + (uint64_t)p->next * p->w_bytes, p->m, p->depth,
                                 (int)begin, (int)end);
    ls_fp_leave(saved);
}

static void next_product(void *team_work)
{
    const struct ls_team_work *const w = team_work;
    struct product *const p = w->arg;
    ls_run_team_work(team_work);
    p->next = (p->next + 1) % p->copies;
}

/* Rows are as far apart as the forward's, never a power of two. */
static ls_status make_product(struct product *p, struct ls_err *err)
{
    void *w = NULL;
    p->ldx = (size_t)p->depth + LS_TILE;
    p->ldy = (size_t)p->n + LS_TILE;
    p->w_bytes = ls_packed_bytes(p->fmt, (size_t)p->n, (size_t)p->depth);
    p->copies = p->m < 64 ? (int)(ls_beyond_caches() / p->w_bytes) + 1 : 1;
    ls_status s = floats(&p->x, (uint64_t)p->m * p->ldx, err);
    if (!s)
        s = floats(&p->y, (uint64_t)p->m * p->ldy, err);
    if (!s)
        s = ls_alloc(&w, (uint64_t)p->copies * p->w_bytes, "weights", err);
    p->w = w;
    if (s)
        return s;
    /* the high half of 0.5 and more is a number of like size in all three formats */
    for (uint64_t i = 0; i < (uint64_t)p->copies * p->w_bytes / 2; i++)
        ((uint16_t *)w)[i] = (uint16_t)(0x3c00 + (i * 40503u >> 4 & 0x7f));
    return LS_OK;
}

static ls_status bench_product(const struct ls_kernel_bench *b, enum ls_fmt fmt, int m,
                               const int shape[2], struct ls_err *err)
{
    char name[96];
    struct entry e;
    struct product p = {
        .k = b->kernels, .fmt = fmt, .m = m, .depth = shape[0], .n = shape[1]
    };
    struct ls_team_work team = { b->team, product_share, &p };
    snprintf(name, sizeof name, "%s %d x %d x %d", fmt_names[fmt], m, p.depth, p.n);
    if (!wanted(&e, b, name))
        return LS_OK;
    ls_status s = make_product(&p, err);
    if (!s) {
        const double flop = 2.0 * m * shape[0] * shape[1];
        double bound = ls_peak_of(b->peaks, b->kernels, fmt, fmt);
        const double streamed = b->peaks->memory * flop / (double)p.w_bytes;
        if (p.copies > 1 && streamed < bound)
            bound = streamed;
        measure(&e, "GFLOP/s", bound,
                (struct ls_work){ .run = next_product, .arg = &team, .amount = flop });
    }
    ls_free(p.x);
    ls_free(p.y);
    ls_free(p.w);
    return s;
}

ls_status ls_bench_products(const struct ls_kernel_bench *b, struct ls_err *err)
{
    static const int shapes[][2] = { { 576, 1536 }, { 2048, 2048 }, { 2048, 8192 } };
    static const int rows[] = { 512, 64, 32, 16, 8, 4, 1 };
    static const enum ls_fmt fmts[] = { LS_FMT_BF16, LS_FMT_F32, LS_FMT_F16 };
    ls_status s = LS_OK;
    for (size_t f = 0; f < sizeof fmts / sizeof fmts[0]; f++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (size_t m = 0; !s && m < sizeof rows / sizeof rows[0]; m++)
                s = bench_product(b, fmts[f], rows[m], shapes[i], err);
    return s;
}

/* --- attention -------------------------------------------------------------------------------
 */

enum { GROUP = 4 }; /* query heads of a KV head */

struct attention {
    const struct ls_kernels *k;
    struct ls_attn call; /* of one head */
    float *q, *o;        /* [n_members][queries][GROUP][dim] */
    size_t row_floats;   /* queries x GROUP x dim */
    float *scratch;      /* [n_members][scratch_floats] */
    size_t scratch_floats;
    char *pool; /* [heads][blocks] */
    uint64_t head_bytes;
    int heads, next; /* heads are visited in turn */
    uint32_t *blocks;
    int32_t *first_visible;
};

static void attention_share(void *arg, int member, int n_members)
{
    const struct attention *const a = arg;
    struct ls_attn call = a->call;
    const int head = (a->next * n_members + member) % a->heads;
    call.q = a->q + (size_t)member * a->row_floats;
    call.o = a->o + (size_t)member * a->row_floats;
    call.k_pool = a->pool + (uint64_t)head * a->head_bytes;
    call.v_pool = call.k_pool + ls_kv_k_bytes(call.d, call.k_dim);
    unsigned saved = ls_fp_enter();
    a->k->attention(&call, a->scratch + (size_t)member * a->scratch_floats);
    ls_fp_leave(saved);
}

static void next_heads(void *team_work)
{
    const struct ls_team_work *const w = team_work;
    ls_run_team_work(team_work);
    ((struct attention *)w->arg)->next++;
}

static void finish_attention(struct attention *a)
{
    ls_free(a->q);
    ls_free(a->o);
    ls_free(a->scratch);
    ls_free(a->pool);
    ls_free(a->blocks);
    ls_free(a->first_visible);
}

static ls_status make_attention(struct attention *a, const struct ls_kernel_bench *b,
                                enum ls_fmt d, int dim, int queries, int keys,
                                struct ls_err *err)
{
    const uint64_t n = (uint64_t)ls_team_size(b->team),
                   n_blocks = ls_ceil_div((uint64_t)keys, LS_KV_BLOCK);
    const size_t stride = ls_kv_k_bytes(d, dim) + ls_kv_v_bytes(d, dim);
    void *pool = NULL, *blocks = NULL, *first = NULL;
    *a = (struct attention){ .k = b->kernels,
                             .row_floats = (size_t)(queries * GROUP * dim),
                             .scratch_floats =
                                 (size_t)ls_round_up(ls_attn_scratch_floats(keys), LS_TILE),
                             .head_bytes = n_blocks * stride };
    a->heads = queries == 1 ? (int)(ls_beyond_caches() / a->head_bytes) + (int)n : (int)n;
    ls_status s = floats(&a->q, n * a->row_floats, err);
    if (!s)
        s = floats(&a->o, n * a->row_floats, err);
    if (!s)
        s = floats(&a->scratch, n * a->scratch_floats, err);
    if (!s)
        s = ls_alloc(&pool, (uint64_t)a->heads * a->head_bytes, "cache", err);
    if (!s)
        s = ls_alloc(&blocks, n_blocks * sizeof(uint32_t), "blocks", err);
    if (!s)
        s = ls_alloc(&first, (uint64_t)queries * sizeof(int32_t), "queries", err);
    a->pool = pool;
    a->blocks = blocks;
    a->first_visible = first;
    if (s)
        return s;
    memset(pool, 0x3c, (uint64_t)a->heads * a->head_bytes);
    for (uint64_t i = 0; i < n_blocks; i++)
        a->blocks[i] = (uint32_t)(n_blocks - 1 - i);
    a->call = (struct ls_attn){ .ldq = (size_t)(GROUP * dim),
                                .ldo = (size_t)(GROUP * dim),
                                .n_queries = queries,
                                .n_group = GROUP,
                                .k_dim = dim,
                                .v_dim = dim,
                                .first_pos = keys - queries,
                                .first_visible = first,
                                .blocks = blocks,
                                .block_stride = stride,
                                .d = d,
                                .scale = 0.125f };
    return LS_OK;
}

static double attention_flop(int dim, int queries, int keys)
{
    double flop = 0;
    for (int i = 0; i < queries; i++)
        flop += 4.0 * GROUP * dim * (keys - queries + i + 1);
    return flop;
}

static ls_status bench_attention(const struct ls_kernel_bench *b, enum ls_fmt d, int dim,
                                 int queries, int keys, struct ls_err *err)
{
    char name[96];
    struct entry e;
    struct attention a;
    struct ls_team_work team = { b->team, attention_share, &a };
    const bool decode = queries == 1;
    snprintf(name, sizeof name, "attention %s, %s, dim %d, %d keys", fmt_names[d],
             decode ? "decode" : "prefill", dim, keys);
    if (!wanted(&e, b, name))
        return LS_OK;
    ls_status s = make_attention(&a, b, d, dim, queries, keys, err);
    if (!s) {
        const double amount =
            decode ? (double)a.head_bytes : attention_flop(dim, queries, keys);
        const struct ls_work work = { .run = next_heads,
                                      .arg = &team,
                                      .amount = amount * ls_team_size(b->team) };
        if (decode)
            measure(&e, "GB/s", b->peaks->memory, work);
        else
            measure(&e, "GFLOP/s", ls_peak_of(b->peaks, b->kernels, LS_FMT_F32, d), work);
    }
    finish_attention(&a);
    return s;
}

ls_status ls_bench_attention(const struct ls_kernel_bench *b, struct ls_err *err)
{
    static const enum ls_fmt fmts[] = { LS_FMT_BF16, LS_FMT_F32 };
    static const int keys[] = { 2048, 32768 };
    ls_status s = LS_OK;
    for (int f = 0; f < 2; f++)
        for (int dim = 64; dim <= 128; dim *= 2)
            for (int i = 0; i < 2; i++)
                for (int queries = 64; !s && queries >= 1; queries /= 64)
                    s = bench_attention(b, fmts[f], dim, queries, keys[i], err);
    return s;
}

/* --- rows ------------------------------------------------------------------------------------
 */

enum { ROW_FLOATS = 4096 };

struct rows {
    const struct ls_kernels *k;
    float *x, *y; /* [n_members][ROW_FLOATS] */
};

#define ROW_FN(name, call)                                                                     \
    static void name(void *arg, int member, int n_members)                                     \
    {                                                                                          \
        const struct rows *const r = arg;                                                      \
        float *const x = r->x + (size_t)member * ROW_FLOATS, *const y =                        \
                                                                 r->y +                        \
                                                                 (size_t)member * ROW_FLOATS;  \
        float max;                                                                             \
        (void)n_members;                                                                       \
        (void)max;                                                                             \
        unsigned saved = ls_fp_enter();                                                        \
        for (int i = 0; i < 16; i++)                                                           \
            call;                                                                              \
        ls_fp_leave(saved);                                                                    \
    }
ROW_FN(norm_rows, r->k->rmsnorm(y, x, x, ROW_FLOATS, 1e-5f, LS_NORM_W, LS_FMT_BF16))
ROW_FN(gate_rows, r->k->gated(y, x, x, ROW_FLOATS, LS_ACT_SILU, LS_FMT_BF16))
ROW_FN(join_rows, r->k->residual(y, x, NULL, ROW_FLOATS, LS_FMT_BF16))
ROW_FN(sum_rows, y[0] = (float)r->k->sum_exp(x, ROW_FLOATS, &max))

ls_status ls_bench_rows(const struct ls_kernel_bench *b, struct ls_err *err)
{
    static const struct {
        const char *name;
        ls_team_fn *fn;
    } kinds[] = { { "rmsnorm", norm_rows },
                  { "silu x up", gate_rows },
                  { "residual", join_rows },
                  { "sum of exponentials", sum_rows } };
    struct rows r = { .k = b->kernels };
    const uint64_t n = (uint64_t)ls_team_size(b->team);
    ls_status s = floats(&r.x, n * ROW_FLOATS, err);
    if (!s)
        s = floats(&r.y, n * ROW_FLOATS, err);
    for (size_t i = 0; !s && i < sizeof kinds / sizeof kinds[0]; i++) {
        struct ls_team_work team = { b->team, kinds[i].fn, &r };
        struct entry e;
        if (wanted(&e, b, kinds[i].name))
            measure(&e, "G/s", 0,
                    (struct ls_work){ .run = ls_run_team_work,
                                      .arg = &team,
                                      .amount = 16.0 * ROW_FLOATS * (double)n });
    }
    ls_free(r.x);
    ls_free(r.y);
    return s;
}
