/* Gemma 1 to 3: norms of weight 1 + w, a scaled embedding, the tanh form of GELU; from 2 on
 * norms on both sides of a block, soft caps and windows, in 3 a second rope and norms of q and
 * k. */
#include "model/families/dense.h"
#include "model/families/families.h"

#include <math.h>

static const char *const names_both[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_ATTN_NORM] = "input_layernorm",
    [LS_ROLE_Q] = "self_attn.q_proj",
    [LS_ROLE_K] = "self_attn.k_proj",
    [LS_ROLE_V] = "self_attn.v_proj",
    [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_Q_NORM] = "self_attn.q_norm",
    [LS_ROLE_K_NORM] = "self_attn.k_norm",
    [LS_ROLE_POST_ATTN_NORM] = "post_attention_layernorm",
    [LS_ROLE_FFN_NORM] = "pre_feedforward_layernorm",
    [LS_ROLE_GATE] = "mlp.gate_proj",
    [LS_ROLE_UP] = "mlp.up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
    [LS_ROLE_POST_FFN_NORM] = "post_feedforward_layernorm",
};

/* The reference keeps the scale in the embedding's dtype: 25.25 for a hidden size of 640 in
 * bf16, 25.298 in binary32. */
static void scale_embedding(struct ls_arch *arch, struct ls_config *c)
{
    (void)c;
    arch->embed_scale = ls_round_constant((float)sqrt(arch->hidden), arch->dtype);
}

static void scale_queries(struct ls_arch *arch, struct ls_config *c)
{
    const double q = ls_config_number(c, "query_pre_attn_scalar", 256, 1e-3, LS_MAX_WIDTH);
    scale_embedding(arch, c);
    for (int l = 0; l < arch->n_layers; l++)
        arch->layers[l].attn_scale = (float)(1.0 / sqrt(q));
}

static void scales_gemma2(struct ls_arch *arch, struct ls_config *c)
{
    static const double SMALLEST = 1e-3, LARGEST = 1e6;
    scale_queries(arch, c);
    arch->attn_softcap =
        (float)ls_config_number_or_none(c, "attn_logit_softcapping", 50, SMALLEST, LARGEST);
    arch->logit_softcap =
        (float)ls_config_number_or_none(c, "final_logit_softcapping", 30, SMALLEST, LARGEST);
}

static void scales_gemma3(struct ls_arch *arch, struct ls_config *c)
{
    static const double SMALLEST = 1e-3, LARGEST = 1e6;
    scale_queries(arch, c);
    arch->logit_softcap =
        (float)ls_config_number_or_none(c, "final_logit_softcapping", 0, SMALLEST, LARGEST);
}

static const struct ls_dense gemma = {
    .n_kv_heads = 16,
    .head_dim = 256,
    .max_positions = 8192,
    .eps = 1e-6,
    .tied = true,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .gelu_is_tanh = true,
    .act = "gelu_pytorch_tanh",
    .norm_weight = LS_NORM_ONE_PLUS_W,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .scales = scale_embedding,
    .names = ls_names_llama,
};

static const struct ls_dense gemma2 = {
    .n_kv_heads = 4,
    .head_dim = 256,
    .max_positions = 8192,
    .eps = 1e-6,
    .tied = true,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_activation",
    .act = "gelu_pytorch_tanh",
    .residual = LS_RES_BOTH,
    .norm_weight = LS_NORM_ONE_PLUS_W,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_PATTERN,
    .window = 4096,
    .window_pattern = 2,
    .scales = scales_gemma2,
    .names = names_both,
};

/* Published configs inside larger models leave out what equals the reference's defaults. */
static const struct ls_dense gemma3 = {
    .vocab = 262208,
    .hidden = 2304,
    .intermediate = 9216,
    .n_layers = 26,
    .n_heads = 8,
    .n_kv_heads = 4,
    .head_dim = 256,
    .max_positions = 131072,
    .eps = 1e-6,
    .tied = true,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_activation",
    .act = "gelu_pytorch_tanh",
    .residual = LS_RES_BOTH,
    .norm_weight = LS_NORM_ONE_PLUS_W,
    .qk_norm = LS_QK_PER_HEAD,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 1000000 },
    .rope_rule = LS_ROPE_TWO_BASES,
    .window_rule = LS_WINDOW_PATTERN,
    .window = 4096,
    .window_pattern = 6,
    .scales = scales_gemma3,
    .names = names_both,
};

const struct ls_family ls_family_gemma = {
    .model_type = "gemma",
    .dense = &gemma,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};

const struct ls_family ls_family_gemma2 = {
    .model_type = "gemma2",
    .dense = &gemma2,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};

const struct ls_family ls_family_gemma3_text = {
    .model_type = "gemma3_text",
    .dense = &gemma3,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
