#include "model/pass.h"

#include "base/mutant.h"
#include "base/size.h"
#include "kernels/math64.h"

#include <string.h>

/* Rows (heads x queries) that an attention call computes together from one load of a key. */
enum { CALL_ROWS = 24 };

/* --- q and k before attention ----------------------------------------------------------------
 */

/* w NULL: a norm without weight. n: elements normed together. */
static void norm_parts(const struct ls_forward *f, float *x, const float *w, int width, int n)
{
    const struct ls_arch *arch = f->cfg.arch;
    for (int at = 0; at < width; at += n)
        f->cfg.kernels->rmsnorm(x + at, x + at, w, n, arch->norm_eps, arch->norm_weight,
                                arch->dtype);
}

static void turn_heads(const struct ls_forward *f, float *x, uint32_t t, int r, int n_heads,
                       int dim)
{
    const struct ls_rope *rope = &f->cfg.arch->ropes[r];
    size_t at = (size_t)t * (size_t)rope->n_pairs;
    for (int h = 0; h < n_heads; h++)
        f->cfg.kernels->rope(x + h * dim, f->s.cosines[r] + at, f->s.sines[r] + at,
                             rope->n_pairs, rope->pairs, f->cfg.arch->dtype);
}

static void store_row(const struct ls_forward *f, const struct ls_pass *pass, uint32_t t,
                      const float *k, const float *v)
{
    const struct ls_span *span = &f->io.spans[f->s.span_of[t]];
    const struct ls_kv_layer *kv = pass->kv;
    int dim = pass->layer->head_dim;
    int32_t pos = ls_token_pos(f, t);
    char *block = kv->base + span->blocks[pos / LS_KV_BLOCK] * kv->block_bytes;
    for (int h = 0; h < pass->layer->n_kv_heads; h++, block += kv->head_bytes)
        f->cfg.kernels->kv_store(block, block + kv->k_bytes, k + h * dim, v + h * dim,
                                 pos % LS_KV_BLOCK, dim, dim, f->cfg.arch->dtype);
}

/* Norms and rope of one token's q or k; `op` is the first of its operations. */
static void finish_heads(const struct ls_forward *f, const struct ls_pass *pass, uint32_t t,
                         float *x, const float *w, int n_heads, enum ls_op op)
{
    enum ls_qk_norm kind = f->cfg.arch->qk_norm;
    int dim = pass->layer->head_dim, width = n_heads * dim;
    if (kind == LS_QK_PER_HEAD || kind == LS_QK_ALL_HEADS) {
        norm_parts(f, x, w, width, kind == LS_QK_ALL_HEADS ? width : dim);
        ls_tap_row(f, op, pass->global, t, x, width);
    }
    if (pass->layer->rope < 0)
        return;
    turn_heads(f, x, t, pass->layer->rope, n_heads, dim);
    ls_tap_row(f, op + 1, pass->global, t, x, width);
    if (kind == LS_QK_AFTER_ROPE) {
        norm_parts(f, x, NULL, width, dim);
        ls_tap_row(f, op + 2, pass->global, t, x, width);
    }
}

/* Queries grow with the logarithm of the position, in steps: the factor is binary64 until it is
 * rounded once. The first step's factor of 1 is not multiplied. */
static void temper(const struct ls_forward *f, const struct ls_pass *pass, float *q, uint32_t t)
{
    const struct ls_layer *layer = pass->layer;
    const int32_t pos = ls_token_pos(f, t);
    if (!layer->temperature_floor || (pos + 1) / layer->temperature_floor == 0)
        return;
    double grown = ls_log64(1.0 + (pos + 1) / layer->temperature_floor);
    float factor = (float)(grown * (double)layer->temperature_scale + 1.0);
    f->cfg.kernels->scale(q, q, factor, layer->n_heads * layer->head_dim, f->cfg.arch->dtype);
    ls_tap_row(f, LS_OP_Q_TEMPERED, pass->global, t, q, layer->n_heads * layer->head_dim);
}

static void cache_row(const struct ls_forward *f, const struct ls_pass *pass, uint32_t t)
{
    const struct ls_layer *layer = pass->layer;
    int width = layer->n_kv_heads * layer->head_dim;
    float *k = f->s.k + t * f->s.ld_kv, *v = f->s.v + t * f->s.ld_kv;
    if (layer->v_is_k)
        memcpy(v, k, (size_t)width * sizeof *v);
    if (f->cfg.arch->v_norm) {
        norm_parts(f, v, NULL, width, layer->head_dim);
        ls_tap_row(f, LS_OP_V_NORM, pass->global, t, v, width);
    }
    finish_heads(f, pass, t, k, pass->w->k_norm, layer->n_kv_heads, LS_OP_K_NORM);
    store_row(f, pass, t, k, v);
}

void ls_phase_cache(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_layer *layer = pass->layer;
    int q_width = layer->n_heads * layer->head_dim;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *q = f->s.q + t * f->s.ld_q;
        finish_heads(f, pass, t, q, pass->w->q_norm, layer->n_heads, LS_OP_Q_NORM);
        temper(f, pass, q, t);
        if (f->cfg.arch->layers[pass->global].kv_source == pass->global)
            cache_row(f, pass, t);
        if (q_width % 2)
            f->s.o[t * f->s.ld_q + (size_t)q_width] = 0; /* a wider layer may have been here */
    }
}

/* --- attention -------------------------------------------------------------------------------
 */

/* One call: queries [first, first + n) of a span. */
struct tile {
    const struct ls_span *span;
    uint32_t first, n;
};

static uint32_t call_queries(const struct ls_layer *layer)
{
    int group = layer->n_heads / layer->n_kv_heads;
    return group < CALL_ROWS ? (uint32_t)(CALL_ROWS / group) : 1;
}

static struct tile tile_at(const struct ls_span *span, uint32_t first, uint32_t at_most)
{
    uint32_t left = span->count - first;
    return (struct tile){ span, first, left < at_most ? left : at_most };
}

/* Keys that the tile's queries read for one head; at least 1. */
static uint64_t tile_cost(const struct ls_layer *layer, struct tile tile)
{
    int32_t pos = tile.span->first_pos + (int32_t)tile.first;
    int32_t low = ls_first_visible(layer, pos, tile.span->live_first);
    return (uint64_t)(pos + (int32_t)tile.n - low) * tile.n;
}

static uint64_t total_cost(const struct ls_forward *f, const struct ls_layer *layer)
{
    uint64_t total = 0;
    uint32_t step = call_queries(layer);
    for (uint32_t i = 0; i < f->io.n_spans; i++)
        for (uint32_t at = 0; at < f->io.spans[i].count; at += step)
            total += tile_cost(layer, tile_at(&f->io.spans[i], at, step));
    return total * (uint64_t)layer->n_heads;
}

/* Query heads [first, end) of the group that shares KV head `kv`. */
struct heads {
    int kv, first, end;
};

static void attend(struct ls_forward *f, const struct ls_pass *pass, struct tile tile,
                   struct heads heads, float *scratch)
{
    const struct ls_layer *layer = pass->layer;
    const struct ls_span *span = tile.span;
    const int kv_head = LS_MUTANT(KV_HEAD) ? (heads.kv + 1) % layer->n_kv_heads : heads.kv;
    const char *pool = pass->kv->base + (size_t)kv_head * pass->kv->head_bytes;
    int head = heads.kv * (layer->n_heads / layer->n_kv_heads) + heads.first;
    size_t column = (size_t)head * (size_t)layer->head_dim;
    size_t at = (size_t)(span->token + tile.first) * f->s.ld_q + column;
    const float *sinks = pass->w->sinks;
    int32_t first_visible[CALL_ROWS];
    int32_t pos = span->first_pos + (int32_t)tile.first;
    for (uint32_t i = 0; i < tile.n; i++)
        first_visible[i] = ls_first_visible(layer, pos + (int32_t)i, span->live_first);
    if (LS_MUTANT(FUTURE) && tile.first + tile.n < span->count)
        pos++;
    const struct ls_attn call = { .q = f->s.q + at,
                                  .o = f->s.o + at,
                                  .ldq = f->s.ld_q,
                                  .ldo = f->s.ld_q,
                                  .n_queries = (int)tile.n,
                                  .n_group = heads.end - heads.first,
                                  .k_dim = layer->head_dim,
                                  .v_dim = layer->head_dim,
                                  .first_pos = pos,
                                  .first_visible = first_visible,
                                  .blocks = span->blocks,
                                  .k_pool = pool,
                                  .v_pool = pool + pass->kv->k_bytes,
                                  .block_stride = pass->kv->block_bytes,
                                  .d = f->cfg.arch->dtype,
                                  .scale = layer->attn_scale,
                                  .softcap = f->cfg.arch->attn_softcap,
                                  .sinks = sinks ? sinks + head : NULL };
    f->cfg.kernels->attention(&call, scratch);
}

/* The member's heads of a group that begins at `before`, `cost` a head. */
static struct heads own_heads(int kv, int group, uint64_t before, uint64_t cost, uint64_t share,
                              uint64_t member)
{
    struct heads own = { .kv = kv };
    for (int g = 0; g < group; g++, before += cost) {
        uint64_t owner = (before + cost / 2) / share;
        own.first += owner < member;
        own.end += owner <= member;
    }
    return own;
}

/* Every member walks the same list of query heads, a group of a tile after the other, and takes
 * those whose middle, in keys, falls into its share of the total: only a group at the edge of a
 * share is divided, and its keys are read by both members. */
void ls_phase_attention(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_layer *layer = pass->layer;
    const int group = layer->n_heads / layer->n_kv_heads;
    uint64_t share = total_cost(f, layer) / (uint64_t)p.n_members + 1;
    uint64_t before = 0;
    uint32_t step = call_queries(layer);
    float *scratch = f->s.attn + (size_t)p.member * f->s.attn_floats;
    for (uint32_t i = 0; i < f->io.n_spans; i++) {
        const struct ls_span *span = &f->io.spans[i];
        for (int kv = 0; kv < layer->n_kv_heads; kv++) {
            for (uint32_t at = 0; at < span->count; at += step) {
                struct tile tile = tile_at(span, at, step);
                struct heads own = own_heads(kv, group, before, tile_cost(layer, tile), share,
                                             (uint64_t)p.member);
                if (own.first < own.end)
                    attend(f, pass, tile, own, scratch);
                before += tile_cost(layer, tile) * (uint64_t)group;
            }
        }
    }
}
