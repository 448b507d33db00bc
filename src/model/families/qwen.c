/* Qwen 2 and 3: windows from a layer on; biases on q, k, v (2) or a norm on each head (3). */
#include "model/families/dense.h"
#include "model/families/families.h"

static const struct ls_dense qwen2 = {
    .n_kv_heads = 32,
    .max_positions = 32768,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qkv_bias = LS_ALWAYS,
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_QWEN,
    .window = 4096,
    .names = ls_names_llama,
};

static const struct ls_dense qwen3 = {
    .n_kv_heads = 32,
    .head_dim = 128,
    .max_positions = 32768,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qk_norm = LS_QK_PER_HEAD,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_QWEN,
    .window = 4096,
    .names = ls_names_llama,
};

const struct ls_family ls_family_qwen2 = {
    .model_type = "qwen2",
    .dense = &qwen2,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};

const struct ls_family ls_family_qwen3 = {
    .model_type = "qwen3",
    .dense = &qwen3,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
