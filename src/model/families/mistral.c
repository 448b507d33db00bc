/* Mistral: Llama without biases, with one window for all layers. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const struct ls_dense mistral = {
    .n_kv_heads = 8,
    .max_positions = 131072,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_ALL,
    .window = 4096,
    .names = ls_names_llama,
};

const struct ls_family ls_family_mistral = {
    .model_type = "mistral",
    .dense = &mistral,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
