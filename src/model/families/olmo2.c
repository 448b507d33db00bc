/* OLMo 2: norms behind the blocks instead of before them, q and k normed over all heads. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_Q] = "self_attn.q_proj",
    [LS_ROLE_K] = "self_attn.k_proj",
    [LS_ROLE_V] = "self_attn.v_proj",
    [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_Q_NORM] = "self_attn.q_norm",
    [LS_ROLE_K_NORM] = "self_attn.k_norm",
    [LS_ROLE_POST_ATTN_NORM] = "post_attention_layernorm",
    [LS_ROLE_GATE] = "mlp.gate_proj",
    [LS_ROLE_UP] = "mlp.up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
    [LS_ROLE_POST_FFN_NORM] = "post_feedforward_layernorm",
};

static const struct ls_dense olmo2 = {
    .max_positions = 2048,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .residual = LS_RES_POST,
    .qk_norm = LS_QK_ALL_HEADS,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .names = names,
};

const struct ls_family ls_family_olmo2 = {
    .model_type = "olmo2",
    .dense = &olmo2,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
