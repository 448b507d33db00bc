/* SmolLM 3: Llama in which every n-th layer has no rope. */
#include "model/families/dense.h"
#include "model/families/families.h"

static const struct ls_dense smollm3 = {
    .n_kv_heads = 4,
    .max_positions = 32768,
    .eps = 1e-6,
    .tied = true,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .mlp_bias = LS_BY_KEY,
    .rope = { .theta = 2000000 },
    .rope_rule = LS_ROPE_BY_LIST,
    .window_rule = LS_WINDOW_SMOLLM3,
    .names = ls_names_llama,
};

const struct ls_family ls_family_smollm3 = {
    .model_type = "smollm3",
    .dense = &smollm3,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
