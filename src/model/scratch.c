#include "model/pass.h"

#include "base/carve.h"

static float *floats(struct ls_carve *c, uint64_t rows, uint64_t ld)
{
    return ls_carve_take(c, rows, ld, sizeof(float));
}

/* Room for whole tiles and a zero behind an odd width; one cache line more than a tile's
 * multiple, so that rows do not lie a power of two apart and evict each other. */
static size_t leading(int width)
{
    return (size_t)ls_round_up((uint64_t)width, LS_TILE) + LS_TILE;
}

static void widths(struct ls_scratch *s, const struct ls_forward_config *cfg)
{
    int q = 0, kv = 0, ffn = cfg->arch->per_layer_width;
    for (int l = cfg->first_layer; l < cfg->last_layer; l++) {
        const struct ls_layer *layer = &cfg->arch->layers[l];
        int lq = layer->n_heads * layer->head_dim, lkv = layer->n_kv_heads * layer->head_dim;
        q = lq > q ? lq : q;
        kv = lkv > kv ? lkv : kv;
        ffn = layer->intermediate > ffn ? layer->intermediate : ffn;
    }
    s->ld_hidden = leading(cfg->arch->hidden);
    s->ld_q = leading(q);
    s->ld_kv = leading(kv);
    s->ld_ffn = leading(ffn);
    s->ld_vocab = leading(cfg->arch->vocab);
    s->ld_router = leading(cfg->arch->experts.n);
    s->ld_expert = leading(cfg->arch->experts.intermediate);
    s->ld_per_layer =
        leading(ls_inbound_width(cfg->arch, cfg->first_layer) - cfg->arch->hidden);
}

static bool has_experts(const struct ls_forward_config *cfg)
{
    for (int l = cfg->first_layer; l < cfg->last_layer; l++)
        if (cfg->arch->layers[l].ffn == LS_FFN_EXPERTS)
            return true;
    return false;
}

static void place_experts(struct ls_expert_scratch *e, struct ls_carve *c,
                          const struct ls_scratch *s, const struct ls_forward_config *cfg)
{
    const struct ls_experts *arch = &cfg->arch->experts;
    const uint64_t rows = cfg->max_tokens, n = (uint64_t)arch->n;
    const uint64_t k = (uint64_t)arch->n_chosen, pairs = rows * k;
    e->logits = floats(c, rows, s->ld_router);
    e->keys = ls_carve_take(c, rows, n + (uint64_t)arch->n_groups, sizeof *e->keys);
    e->chosen = ls_carve_take(c, rows, k, sizeof *e->chosen);
    e->weight = floats(c, rows, k);
    e->shared_weight = floats(c, rows, LS_TILE);
    e->shared = floats(c, rows, s->ld_hidden);
    e->pair = ls_carve_take(c, rows, k, sizeof *e->pair);
    e->first = ls_carve_take(c, 1, n + 1, sizeof *e->first);
    e->token = ls_carve_take(c, rows, k, sizeof *e->token);
    e->x = floats(c, pairs, s->ld_hidden);
    e->gate = floats(c, pairs, s->ld_expert);
    e->up = floats(c, pairs, s->ld_expert);
}

uint64_t ls_scratch_place(struct ls_forward **f, struct ls_scratch *s, struct ls_carve *c,
                          const struct ls_forward_config *cfg, int n_threads)
{
    uint64_t rows = cfg->max_tokens, threads = (uint64_t)n_threads;
    widths(s, cfg);
    *f = ls_carve_take(c, 1, 1, sizeof **f);
    s->kv = ls_carve_take(c, 1, (uint64_t)(cfg->last_layer - cfg->first_layer), sizeof *s->kv);
    s->h = floats(c, rows, s->ld_hidden);
    s->x = floats(c, rows, s->ld_hidden);
    s->acc = floats(c, rows, s->ld_hidden);
    s->q = floats(c, rows, s->ld_q);
    s->o = floats(c, rows, s->ld_q);
    s->k = floats(c, rows, s->ld_kv);
    s->v = floats(c, rows, s->ld_kv);
    s->gate = floats(c, rows, s->ld_ffn);
    s->up = floats(c, rows, s->ld_ffn);
    if (cfg->arch->per_layer_width)
        s->per_layer = floats(c, rows, s->ld_per_layer);
    if (has_experts(cfg))
        place_experts(&s->experts, c, s, cfg);
    for (int r = 0; r < cfg->arch->n_ropes; r++) {
        s->cosines[r] = floats(c, rows, (uint64_t)cfg->arch->ropes[r].n_pairs);
        s->sines[r] = floats(c, rows, (uint64_t)cfg->arch->ropes[r].n_pairs);
    }
    s->attn_floats = (size_t)ls_round_up(ls_attn_scratch_floats((int)cfg->context), LS_TILE);
    s->attn = floats(c, threads, s->attn_floats);
    s->logits = floats(c, cfg->max_logit_rows, s->ld_vocab);
    s->span_of = ls_carve_take(c, 1, rows, sizeof *s->span_of);
    s->nan_layer = ls_carve_take(c, 1, rows, sizeof *s->nan_layer);
    s->flushing = ls_carve_take(c, 1, threads, sizeof *s->flushing);
    return ls_carve_bytes(c);
}
