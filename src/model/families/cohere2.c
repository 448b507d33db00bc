/* Cohere 2: one LayerNorm for both branches, rope only in windowed layers, scaled logits. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens", [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",       [LS_ROLE_ATTN_NORM] = "input_layernorm",
    [LS_ROLE_Q] = "self_attn.q_proj", [LS_ROLE_K] = "self_attn.k_proj",
    [LS_ROLE_V] = "self_attn.v_proj", [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_GATE] = "mlp.gate_proj", [LS_ROLE_UP] = "mlp.up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
};

/* 1 is "none" in struct ls_arch: a product by 1 is not written in a kernel. */
static void scales(struct ls_arch *arch, struct ls_config *c)
{
    const double scale = ls_config_number(c, "logit_scale", 0.0625, 1e-6, 1e6);
    arch->logit_scale = scale == 1 ? 0 : (float)scale;
}

static const struct ls_dense cohere2 = {
    .max_positions = 8192,
    .eps = 1e-5,
    .tied = true,
    .eps_key = "layer_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .residual = LS_RES_PARALLEL,
    .norm = LS_NORM_LAYER,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .pairs = LS_ROPE_NEIGHBOURS,
    .rope_rule = LS_ROPE_WINDOWED,
    .window_rule = LS_WINDOW_PATTERN,
    .window = 4096,
    .window_pattern = 4,
    .scales = scales,
    .names = names,
};

const struct ls_family ls_family_cohere2 = {
    .model_type = "cohere2",
    .dense = &cohere2,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
