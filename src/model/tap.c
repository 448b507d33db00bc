#include "model/tap.h"

#include "model/pass.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *words;
} texts[LS_N_OPS] = {
    [LS_OP_EMBEDDING] = { "embedding", "embedding" },
    [LS_OP_PER_LAYER_INPUT] = { "per_layer_input", "per-layer inputs" },
    [LS_OP_ATTN_NORM] = { "attn_norm", "norm before attention" },
    [LS_OP_Q] = { "q", "query projection" },
    [LS_OP_K] = { "k", "key projection" },
    [LS_OP_V] = { "v", "value projection" },
    [LS_OP_Q_NORM] = { "q_norm", "norm of queries" },
    [LS_OP_Q_ROPE] = { "q_rope", "rope of queries" },
    [LS_OP_Q_NORM_TURNED] = { "q_norm_turned", "norm of queries behind rope" },
    [LS_OP_Q_TEMPERED] = { "q_tempered", "temperature of queries" },
    [LS_OP_V_NORM] = { "v_norm", "norm of values" },
    [LS_OP_K_NORM] = { "k_norm", "norm of keys" },
    [LS_OP_K_ROPE] = { "k_rope", "rope of keys" },
    [LS_OP_K_NORM_TURNED] = { "k_norm_turned", "norm of keys behind rope" },
    [LS_OP_SCORES] = { "scores", "attention scores" },
    [LS_OP_ATTENTION] = { "attention", "attention output" },
    [LS_OP_ATTN_OUT] = { "attn_out", "projection behind attention" },
    [LS_OP_ATTN_POST_NORM] = { "attn_post_norm", "norm behind attention" },
    [LS_OP_ATTN_RESIDUAL] = { "attn_residual", "residual sum of attention" },
    [LS_OP_FFN_NORM] = { "ffn_norm", "norm before the feed-forward" },
    [LS_OP_ROUTER_NORM] = { "router_norm", "norm before the router" },
    [LS_OP_ROUTER] = { "router", "router logits" },
    [LS_OP_EXPERT_CHOICE] = { "expert_choice", "choice of experts" },
    [LS_OP_EXPERT_WEIGHT] = { "expert_weight", "weights of experts" },
    [LS_OP_EXPERT_NORM] = { "expert_norm", "norm before the experts" },
    [LS_OP_GATE] = { "gate", "gate projection" },
    [LS_OP_UP] = { "up", "up projection" },
    [LS_OP_ACTIVATION] = { "activation", "gated activation" },
    [LS_OP_EXPERT_GATED] = { "expert_gated", "gated activation of experts" },
    [LS_OP_SHARED_OUT] = { "shared_out", "shared expert" },
    [LS_OP_EXPERT_OUT] = { "expert_out", "output of experts" },
    [LS_OP_FFN_OUT] = { "ffn_out", "feed-forward output" },
    [LS_OP_FFN_POST_NORM] = { "ffn_post_norm", "norm behind the feed-forward" },
    [LS_OP_FFN_RESIDUAL] = { "ffn_residual", "residual sum of the feed-forward" },
    [LS_OP_PER_LAYER_GATED] = { "per_layer_gated", "gate of the per-layer input" },
    [LS_OP_PER_LAYER_OUT] = { "per_layer_out", "projection of the per-layer input" },
    [LS_OP_PER_LAYER_NORM] = { "per_layer_norm", "norm behind the per-layer input" },
    [LS_OP_PER_LAYER_RESIDUAL] = { "per_layer_residual", "residual sum behind it" },
    [LS_OP_HIDDEN] = { "hidden", "output of the layer" },
    [LS_OP_FINAL_NORM] = { "final_norm", "final norm" },
    [LS_OP_HEAD] = { "head", "head" },
    [LS_OP_LOGITS] = { "logits", "scale and cap of logits" },
};

const char *ls_op_name(enum ls_op op)
{
    return texts[op].name;
}

const char *ls_op_words(enum ls_op op)
{
    return texts[op].words;
}

static void take(const struct ls_forward *f, struct ls_tap_value value, uint32_t t)
{
    value.span = f->s.span_of[t];
    value.pos = ls_token_pos(f, t);
    f->cfg.tap->take(f->cfg.tap->arg, &value);
}

void ls_tap_row(const struct ls_forward *f, enum ls_op op, int layer, uint32_t t,
                const float *at, int width)
{
    if (!ls_tapped(f, op))
        return;
    take(f, (struct ls_tap_value){ op, layer, 0, 0, width, 0, width, LS_DTYPE_F32, at }, t);
}

void ls_tap_rows(const struct ls_forward *f, struct ls_part p, enum ls_op op, int layer,
                 struct ls_grid from, int width)
{
    for (uint32_t t = p.row0; ls_tapped(f, op) && t < p.row1; t++)
        ls_tap_row(f, op, layer, t, from.at + t * from.ld, width);
}

void ls_tap_own(const struct ls_forward *f, enum ls_op op, int layer, struct ls_grid from,
                int width, struct ls_own own)
{
    for (uint32_t t = 0; ls_tapped(f, op) && own.c0 < own.c1 && t < f->io.n_tokens; t++) {
        const float *at = from.at + t * from.ld + own.c0;
        take(f,
             (struct ls_tap_value){ op, layer, 0, 0, width, own.c0, own.c1 - own.c0,
                                    LS_DTYPE_F32, at },
             t);
    }
}

void ls_tap_wanted(const struct ls_forward *f, enum ls_op op, uint32_t i, const float *at,
                   struct ls_own own, int width)
{
    if (!ls_tapped(f, op))
        return;
    take(f,
         (struct ls_tap_value){ op, f->cfg.arch->n_layers, 0, 0, width, own.c0, own.c1 - own.c0,
                                LS_DTYPE_F32, at },
         f->wanted.tokens[i]);
}

/* --- experts ---------------------------------------------------------------------------------
 */

void ls_tap_route(const struct ls_forward *f, struct ls_part p, int layer)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    const int k = f->cfg.arch->experts.n_chosen;
    for (uint32_t t = p.row0; ls_tapped(f, LS_OP_EXPERT_CHOICE) && t < p.row1; t++)
        take(f,
             (struct ls_tap_value){ LS_OP_EXPERT_CHOICE, layer, 0, 0, k, 0, k, LS_DTYPE_I32,
                                    e->chosen + t * (uint32_t)k },
             t);
    ls_tap_rows(f, p, LS_OP_EXPERT_WEIGHT, layer, (struct ls_grid){ e->weight, (size_t)k }, k);
}

void ls_tap_pairs(const struct ls_forward *f, struct ls_part p, enum ls_op op, int layer,
                  struct ls_grid from, int width)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    const int k = f->cfg.arch->experts.n_chosen;
    for (uint32_t t = p.row0; ls_tapped(f, op) && t < p.row1; t++)
        for (int i = 0; i < k; i++) {
            const uint32_t pair = e->pair[t * (uint32_t)k + (uint32_t)i];
            take(f,
                 (struct ls_tap_value){ op, layer, 0, 0, k * width, i * width, width,
                                        LS_DTYPE_F32, from.at + pair * from.ld },
                 t);
        }
}

/* --- scores ----------------------------------------------------------------------------------
 */

/* Scores of one query head against every key up to its own, by the matrix product: a K block
 * is two tiles of weights, and the order of a dot product is the same. `q` has room for a zero
 * behind an odd head. */
static void score_head(const struct ls_forward *f, const struct ls_pass *pass, uint32_t t,
                       int head, const float *q, float *scores)
{
    const struct ls_layer *layer = pass->layer;
    const struct ls_span *span = &f->io.spans[f->s.span_of[t]];
    const struct ls_kernels *kernels = f->cfg.kernels;
    const enum ls_fmt d = f->cfg.arch->dtype;
    const size_t kv_head = (size_t)(head / (layer->n_heads / layer->n_kv_heads));
    const char *pool = pass->kv->base + kv_head * pass->kv->head_bytes;
    const int pos = ls_token_pos(f, t);
    const int begin = ls_first_visible(layer, pos, span->live_first);
    for (int j = begin / LS_KV_BLOCK * LS_KV_BLOCK; j <= pos; j += LS_KV_BLOCK) {
        const char *k = pool + span->blocks[j / LS_KV_BLOCK] * pass->kv->block_bytes;
        kernels->matmul[d][d](scores + j, LS_KV_BLOCK, q, (size_t)layer->head_dim, k, 1,
                              layer->head_dim, 0, LS_KV_BLOCK / LS_TILE);
    }
    kernels->scale(scores + begin, scores + begin, layer->attn_scale, pos + 1 - begin,
                   LS_FMT_F32);
    if (f->cfg.arch->attn_softcap != 0)
        kernels->softcap(scores + begin, pos + 1 - begin, f->cfg.arch->attn_softcap);
    for (int j = 0; j < begin; j++)
        scores[j] = -INFINITY;
}

/* The own rows of k, which the cache has taken, and the member's scratch of attention are free
 * by now. */
void ls_tap_scores(const struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const int dim = pass->layer->head_dim, n_heads = pass->layer->n_heads;
    float *scores = f->s.attn + (size_t)p.member * f->s.attn_floats;
    for (uint32_t t = p.row0; ls_tapped(f, LS_OP_SCORES) && t < p.row1; t++)
        for (int h = 0; h < n_heads; h++) {
            const int keys = ls_token_pos(f, t) + 1;
            float *q = f->s.k + t * f->s.ld_kv;
            memcpy(q, f->s.q + t * f->s.ld_q + h * dim, (size_t)dim * sizeof *q);
            if (dim % 2)
                q[dim] = 0;
            score_head(f, pass, t, h, q, scores);
            take(f,
                 (struct ls_tap_value){ LS_OP_SCORES, pass->global, 0, 0, n_heads * keys,
                                        h * keys, keys, LS_DTYPE_F32, scores },
                 t);
        }
}
