/* Granite: Llama with multipliers on embedding, branches, scores and logits. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const double SMALLEST = 1e-6, LARGEST = 1e6;

/* 1 is "none" in struct ls_arch: a product by 1 is not written in a kernel. */
static float multiplier(struct ls_config *c, const char *key)
{
    const double m = ls_config_number(c, key, 1, SMALLEST, LARGEST);
    return m == 1 ? 0 : (float)m;
}

static void scales(struct ls_arch *arch, struct ls_config *c)
{
    const double attn = ls_config_number(c, "attention_multiplier", 1, SMALLEST, LARGEST);
    const double divisor = ls_config_number(c, "logits_scaling", 1, SMALLEST, LARGEST);
    arch->embed_scale = multiplier(c, "embedding_multiplier");
    arch->residual_scale = multiplier(c, "residual_multiplier");
    arch->logit_scale = divisor == 1 ? 0 : (float)(1.0 / divisor);
    for (int l = 0; l < arch->n_layers; l++)
        arch->layers[l].attn_scale = (float)attn;
}

static const struct ls_dense granite = {
    .max_positions = 2048,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .mlp_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .scales = scales,
    .names = ls_names_llama,
};

const struct ls_family ls_family_granite = {
    .model_type = "granite",
    .dense = &granite,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
