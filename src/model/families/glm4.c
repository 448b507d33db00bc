/* GLM-4: norms on both sides of a block, rope on neighbours in half of a head, fused gate_up.
 */
#include "model/families/dense.h"
#include "model/families/families.h"

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_ATTN_NORM] = "input_layernorm",
    [LS_ROLE_Q] = "self_attn.q_proj",
    [LS_ROLE_K] = "self_attn.k_proj",
    [LS_ROLE_V] = "self_attn.v_proj",
    [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_POST_ATTN_NORM] = "post_self_attn_layernorm",
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_GATE] = "mlp.gate_up_proj",
    [LS_ROLE_UP] = "mlp.gate_up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
    [LS_ROLE_POST_FFN_NORM] = "post_mlp_layernorm",
};

static const struct ls_dense glm4 = {
    .n_kv_heads = 2,
    .head_dim = 128,
    .max_positions = 131072,
    .eps = 0.00000015625,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .residual = LS_RES_BOTH,
    .qkv_bias = LS_BY_KEY_ON,
    .rope = { .theta = 10000, .partial = 0.5 },
    .pairs = LS_ROPE_NEIGHBOURS,
    .names = names,
};

const struct ls_family ls_family_glm4 = {
    .model_type = "glm4",
    .dense = &glm4,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
