#include "model/shape.h"

static bool is_end(enum ls_role role)
{
    return role < LS_ROLE_ATTN_NORM;
}

static struct ls_role_shape shape(uint64_t rows, uint64_t cols)
{
    return (struct ls_role_shape){ rows, cols };
}

static struct ls_role_shape attention_shape(const struct ls_arch *arch,
                                            const struct ls_layer *l, enum ls_role role)
{
    const uint64_t hidden = (uint64_t)arch->hidden, dim = (uint64_t)l->head_dim;
    const uint64_t q = dim * (uint64_t)l->n_heads, kv = dim * (uint64_t)l->n_kv_heads;
    const bool per_head = arch->qk_norm == LS_QK_PER_HEAD;
    switch (role) {
    case LS_ROLE_Q:
        return shape(q, hidden);
    case LS_ROLE_K:
    case LS_ROLE_V:
        return shape(kv, hidden);
    case LS_ROLE_O:
        return shape(hidden, q);
    case LS_ROLE_Q_NORM:
        return shape(per_head ? dim : q, 0);
    case LS_ROLE_K_NORM:
        return shape(per_head ? dim : kv, 0);
    case LS_ROLE_SINKS:
        return shape((uint64_t)l->n_heads, 0);
    default:
        return shape(hidden, 0);
    }
}

static struct ls_role_shape ffn_shape(const struct ls_arch *arch, const struct ls_layer *l,
                                      enum ls_role role)
{
    const uint64_t hidden = (uint64_t)arch->hidden, ffn = (uint64_t)l->intermediate;
    const uint64_t experts = (uint64_t)arch->experts.n;
    const uint64_t width = (uint64_t)arch->experts.intermediate;
    switch (role) {
    case LS_ROLE_GATE:
    case LS_ROLE_UP:
    case LS_ROLE_SHARED_GATE:
    case LS_ROLE_SHARED_UP:
        return shape(ffn, hidden);
    case LS_ROLE_DOWN:
    case LS_ROLE_SHARED_DOWN:
        return shape(hidden, ffn);
    case LS_ROLE_EXPERT_GATE:
    case LS_ROLE_EXPERT_UP:
        return shape(width, hidden);
    case LS_ROLE_EXPERT_DOWN:
        return shape(hidden, width);
    case LS_ROLE_ROUTER:
        return shape(experts, hidden);
    case LS_ROLE_SELECT_BIAS:
    case LS_ROLE_EXPERT_SCALE:
        return shape(experts, 0);
    case LS_ROLE_SHARED_WEIGHT:
        return shape(1, hidden);
    default:
        return attention_shape(arch, l, role);
    }
}

struct ls_role_shape ls_role_shape(const struct ls_arch *arch, enum ls_role role, int layer)
{
    const uint64_t hidden = (uint64_t)arch->hidden, own = (uint64_t)arch->per_layer_width;
    const uint64_t all = own * (uint64_t)arch->n_layers;
    switch (role) {
    case LS_ROLE_EMBED:
    case LS_ROLE_HEAD:
        return shape((uint64_t)arch->vocab, hidden);
    case LS_ROLE_PER_LAYER_EMBED:
        return shape((uint64_t)arch->per_layer_vocab, all);
    case LS_ROLE_PER_LAYER_MODEL:
        return shape(all, hidden);
    case LS_ROLE_PER_LAYER_NORM:
        return shape(own, 0);
    case LS_ROLE_PER_LAYER_GATE:
        return shape(own, hidden);
    case LS_ROLE_PER_LAYER_OUT:
        return shape(hidden, own);
    case LS_ROLE_LAYER_SCALAR:
        return shape(1, 0);
    default:
        return ffn_shape(arch, &arch->layers[is_end(role) ? 0 : layer], role);
    }
}

/* Roles that not every layer of an architecture has. */
static bool layer_has(const struct ls_arch *arch, const struct ls_layer *l, enum ls_role role)
{
    const bool experts = l->ffn == LS_FFN_EXPERTS, beside = arch->experts.beside_dense;
    switch (role) {
    case LS_ROLE_GATE:
    case LS_ROLE_UP:
    case LS_ROLE_DOWN:
        return !experts || beside;
    case LS_ROLE_SHARED_GATE:
    case LS_ROLE_SHARED_UP:
    case LS_ROLE_SHARED_DOWN:
        return experts && !beside && l->intermediate > 0;
    case LS_ROLE_SHARED_WEIGHT:
        return experts && !beside && l->intermediate > 0 && arch->experts.shared_gate;
    case LS_ROLE_SELECT_BIAS:
        return experts && arch->experts.router == LS_ROUTER_SIGMOID;
    case LS_ROLE_ROUTER_SCALE:
    case LS_ROLE_EXPERT_SCALE:
    case LS_ROLE_POST_DENSE_NORM:
    case LS_ROLE_EXPERTS_NORM:
    case LS_ROLE_POST_EXPERTS_NORM:
        return experts && beside;
    default: /* the router and the experts themselves */
        return experts;
    }
}

static bool attention_has(const struct ls_arch *arch, int layer, enum ls_role role)
{
    const struct ls_layer *l = &arch->layers[layer];
    const bool own_kv = l->kv_source == layer;
    const bool weighed = arch->qk_norm == LS_QK_PER_HEAD || arch->qk_norm == LS_QK_ALL_HEADS;
    switch (role) {
    case LS_ROLE_K:
        return own_kv;
    case LS_ROLE_V:
        return own_kv && !l->v_is_k;
    case LS_ROLE_Q_NORM:
        return weighed;
    case LS_ROLE_K_NORM:
        return own_kv && weighed;
    case LS_ROLE_SINKS:
        return arch->sinks;
    default:
        return true;
    }
}

bool ls_role_present(const struct ls_arch *arch, enum ls_role role, int layer)
{
    const enum ls_residual r = arch->residual;
    switch (role) {
    case LS_ROLE_EMBED:
    case LS_ROLE_FINAL_NORM:
        return true;
    case LS_ROLE_HEAD:
        return !arch->tied;
    case LS_ROLE_ATTN_NORM:
        return r != LS_RES_POST;
    case LS_ROLE_FFN_NORM:
        return r == LS_RES_PRE || r == LS_RES_BOTH;
    case LS_ROLE_POST_ATTN_NORM:
    case LS_ROLE_POST_FFN_NORM:
        return r == LS_RES_POST || r == LS_RES_BOTH;
    case LS_ROLE_PER_LAYER_EMBED:
    case LS_ROLE_PER_LAYER_MODEL:
    case LS_ROLE_PER_LAYER_NORM:
    case LS_ROLE_PER_LAYER_GATE:
    case LS_ROLE_PER_LAYER_OUT:
    case LS_ROLE_POST_PER_LAYER_NORM:
        return arch->per_layer_width > 0;
    case LS_ROLE_LAYER_SCALAR:
        return arch->layer_scalar;
    default:
        if ((role >= LS_ROLE_Q && role <= LS_ROLE_K_NORM) || role == LS_ROLE_SINKS)
            return attention_has(arch, layer, role);
        return layer_has(arch, &arch->layers[layer], role);
    }
}

bool ls_role_has_bias(const struct ls_arch *arch, enum ls_role role, int layer)
{
    if (!ls_role_present(arch, role, layer))
        return false;
    switch (role) {
    case LS_ROLE_Q:
    case LS_ROLE_K:
    case LS_ROLE_V:
        return arch->qkv_bias;
    case LS_ROLE_O:
        return arch->o_bias;
    case LS_ROLE_GATE:
    case LS_ROLE_UP:
    case LS_ROLE_DOWN:
        return arch->mlp_bias;
    case LS_ROLE_ROUTER:
        return arch->experts.router_bias;
    case LS_ROLE_EXPERT_GATE:
    case LS_ROLE_EXPERT_UP:
    case LS_ROLE_EXPERT_DOWN:
        return arch->experts.expert_bias;
    default:
        return false;
    }
}

int ls_role_count(const struct ls_arch *arch, enum ls_role role)
{
    const bool each =
        role == LS_ROLE_EXPERT_GATE || role == LS_ROLE_EXPERT_UP || role == LS_ROLE_EXPERT_DOWN;
    return each ? arch->experts.n : 1;
}
