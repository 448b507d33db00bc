/* Phi-3: fused projections, rope on part of a head, longrope. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_ATTN_NORM] = "input_layernorm",
    [LS_ROLE_Q] = "self_attn.qkv_proj",
    [LS_ROLE_K] = "self_attn.qkv_proj",
    [LS_ROLE_V] = "self_attn.qkv_proj",
    [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_GATE] = "mlp.gate_up_proj",
    [LS_ROLE_UP] = "mlp.gate_up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
};

static const struct ls_dense phi3 = {
    .max_positions = 4096,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .rope = { .theta = 10000, .partial = 1, .only_longrope = true },
    .window_rule = LS_WINDOW_ALL,
    .names = names,
};

const struct ls_family ls_family_phi3 = {
    .model_type = "phi3",
    .dense = &phi3,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
