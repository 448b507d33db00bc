#include "model/shape.h"

struct ls_role_shape ls_role_shape(const struct ls_arch *arch, enum ls_role role, int layer)
{
    const struct ls_layer *l = &arch->layers[role < LS_ROLE_ATTN_NORM ? 0 : layer];
    const uint64_t hidden = (uint64_t)arch->hidden, dim = (uint64_t)l->head_dim;
    const uint64_t q = dim * (uint64_t)l->n_heads, kv = dim * (uint64_t)l->n_kv_heads;
    const uint64_t ffn = (uint64_t)l->intermediate;
    const bool per_head = arch->qk_norm == LS_QK_PER_HEAD;
    switch (role) {
    case LS_ROLE_EMBED:
    case LS_ROLE_HEAD:
        return (struct ls_role_shape){ (uint64_t)arch->vocab, hidden };
    case LS_ROLE_Q:
        return (struct ls_role_shape){ q, hidden };
    case LS_ROLE_K:
    case LS_ROLE_V:
        return (struct ls_role_shape){ kv, hidden };
    case LS_ROLE_O:
        return (struct ls_role_shape){ hidden, q };
    case LS_ROLE_Q_NORM:
        return (struct ls_role_shape){ per_head ? dim : q, 0 };
    case LS_ROLE_K_NORM:
        return (struct ls_role_shape){ per_head ? dim : kv, 0 };
    case LS_ROLE_GATE:
    case LS_ROLE_UP:
        return (struct ls_role_shape){ ffn, hidden };
    case LS_ROLE_DOWN:
        return (struct ls_role_shape){ hidden, ffn };
    default:
        return (struct ls_role_shape){ hidden, 0 };
    }
}

bool ls_role_present(const struct ls_arch *arch, enum ls_role role)
{
    const enum ls_residual r = arch->residual;
    switch (role) {
    case LS_ROLE_ATTN_NORM:
        return r != LS_RES_POST;
    case LS_ROLE_FFN_NORM:
        return r == LS_RES_PRE || r == LS_RES_BOTH;
    case LS_ROLE_POST_ATTN_NORM:
    case LS_ROLE_POST_FFN_NORM:
        return r == LS_RES_POST || r == LS_RES_BOTH;
    case LS_ROLE_Q_NORM:
    case LS_ROLE_K_NORM:
        return arch->qk_norm != LS_QK_NONE;
    case LS_ROLE_HEAD:
        return !arch->tied;
    default:
        return true;
    }
}

bool ls_role_has_bias(const struct ls_arch *arch, enum ls_role role)
{
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
    default:
        return false;
    }
}
