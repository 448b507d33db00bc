#include "parity/quirk_parts.h"

#include "base/size.h"
#include "model/naming.h"
#include "model/shape.h"
#include "parity/element.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The tensors that an operation reads; LS_N_ROLES: none. */
static const enum ls_role roles[LS_N_OPS][3] = {
    [LS_OP_EMBEDDING] = { LS_ROLE_EMBED, LS_N_ROLES },
    [LS_OP_PER_LAYER_INPUT] = { LS_ROLE_PER_LAYER_EMBED, LS_ROLE_PER_LAYER_MODEL,
                                LS_ROLE_PER_LAYER_NORM },
    [LS_OP_ATTN_NORM] = { LS_ROLE_ATTN_NORM, LS_N_ROLES },
    [LS_OP_Q] = { LS_ROLE_Q, LS_N_ROLES },
    [LS_OP_K] = { LS_ROLE_K, LS_N_ROLES },
    [LS_OP_V] = { LS_ROLE_V, LS_N_ROLES },
    [LS_OP_Q_NORM] = { LS_ROLE_Q_NORM, LS_N_ROLES },
    [LS_OP_K_NORM] = { LS_ROLE_K_NORM, LS_N_ROLES },
    [LS_OP_ATTENTION] = { LS_ROLE_SINKS, LS_N_ROLES },
    [LS_OP_ATTN_OUT] = { LS_ROLE_O, LS_N_ROLES },
    [LS_OP_ATTN_POST_NORM] = { LS_ROLE_POST_ATTN_NORM, LS_N_ROLES },
    [LS_OP_FFN_NORM] = { LS_ROLE_FFN_NORM, LS_N_ROLES },
    [LS_OP_ROUTER_NORM] = { LS_ROLE_ROUTER_SCALE, LS_N_ROLES },
    [LS_OP_ROUTER] = { LS_ROLE_ROUTER, LS_N_ROLES },
    [LS_OP_EXPERT_CHOICE] = { LS_ROLE_SELECT_BIAS, LS_N_ROLES },
    [LS_OP_EXPERT_WEIGHT] = { LS_ROLE_EXPERT_SCALE, LS_N_ROLES },
    [LS_OP_EXPERT_NORM] = { LS_ROLE_EXPERTS_NORM, LS_N_ROLES },
    [LS_OP_GATE] = { LS_ROLE_GATE, LS_ROLE_SHARED_GATE, LS_N_ROLES },
    [LS_OP_UP] = { LS_ROLE_UP, LS_ROLE_SHARED_UP, LS_N_ROLES },
    [LS_OP_EXPERT_GATED] = { LS_ROLE_EXPERT_GATE, LS_ROLE_EXPERT_UP, LS_N_ROLES },
    [LS_OP_SHARED_OUT] = { LS_ROLE_DOWN, LS_ROLE_SHARED_DOWN, LS_N_ROLES },
    [LS_OP_EXPERT_OUT] = { LS_ROLE_EXPERT_DOWN, LS_N_ROLES },
    [LS_OP_FFN_OUT] = { LS_ROLE_DOWN, LS_ROLE_POST_DENSE_NORM, LS_ROLE_POST_EXPERTS_NORM },
    [LS_OP_FFN_POST_NORM] = { LS_ROLE_POST_FFN_NORM, LS_N_ROLES },
    [LS_OP_PER_LAYER_GATED] = { LS_ROLE_PER_LAYER_GATE, LS_N_ROLES },
    [LS_OP_PER_LAYER_OUT] = { LS_ROLE_PER_LAYER_OUT, LS_N_ROLES },
    [LS_OP_PER_LAYER_NORM] = { LS_ROLE_POST_PER_LAYER_NORM, LS_N_ROLES },
    [LS_OP_HIDDEN] = { LS_ROLE_LAYER_SCALAR, LS_N_ROLES },
    [LS_OP_FINAL_NORM] = { LS_ROLE_FINAL_NORM, LS_N_ROLES },
    [LS_OP_HEAD] = { LS_ROLE_HEAD, LS_N_ROLES },
};

/* One weight in both checkpoints; true when its tensors differ, which *text says. */
static bool compare(char *text, size_t size, const struct ls_quirk_case *c,
                    const struct ls_weight_id *id)
{
    struct ls_tensor_place place;
    const struct ls_arch *const arch = c->config.arch, *const other = c->other;
    const struct ls_naming here = ls_naming_of(arch, c->config.ckpt);
    const struct ls_naming there = ls_naming_of(other, c->other_ckpt);
    const struct ls_tensor *const a = ls_naming_find(&here, arch, c->config.ckpt, id, &place);
    const struct ls_tensor *const b = ls_naming_find(&there, other, c->other_ckpt, id, &place);
    if (!a || !b)
        return false;
    if (a->dtype != b->dtype || a->bytes != b->bytes) {
        snprintf(text, size, "'%.160s' has another type or shape there", a->name);
        return true;
    }
    const uint64_t bytes = ls_dtype_bytes(a->dtype), n = bytes ? a->bytes / bytes : 0;
    uint64_t i = 0;
    while (i < n && !memcmp(a->data + i * bytes, b->data + i * bytes, (size_t)bytes))
        i++;
    if (i == n)
        return false;
    snprintf(text, size, "'%.160s' differs from element %" PRIu64 " on: %.9g here, %.9g there",
             a->name, i, ls_element_value(a->data, a->dtype, i),
             ls_element_value(b->data, b->dtype, i));
    return true;
}

void ls_quirk_weights(char *text, size_t size, const struct ls_quirk_case *c)
{
    const struct ls_arch *const arch = c->config.arch;
    const int layer = c->where->layer < arch->n_layers ? c->where->layer : 0;
    *text = 0;
    if (c->config.ckpt == c->other_ckpt || layer >= c->other->n_layers)
        return;
    for (int i = 0; i < 3; i++) {
        struct ls_weight_id id = { .role = roles[c->where->op][i], .layer = layer };
        if (id.role == LS_N_ROLES ||
            (i == 0 && id.role == 0 && c->where->op != LS_OP_EMBEDDING))
            return; /* an operation without weights has an empty list */
        if (!ls_role_present(arch, id.role, layer) ||
            !ls_role_present(c->other, id.role, layer))
            continue;
        for (id.expert = 0; id.expert < ls_role_count(arch, id.role); id.expert++)
            for (int bias = 0; bias <= ls_role_has_bias(arch, id.role, layer); bias++) {
                id.bias = bias;
                if (compare(text, size, c, &id))
                    return;
            }
    }
}
