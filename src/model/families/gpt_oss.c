/* GPT-OSS: a learned sink in each head's softmax, windows in every second layer, experts with
 * biases and a clamped gate, stored input by output or in MXFP4. */
#include "model/families/dense.h"
#include "model/families/experts.h"
#include "model/families/families.h"

#include <string.h>

enum { MXFP4_BLOCK = 32 };

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_ATTN_NORM] = "input_layernorm",
    [LS_ROLE_Q] = "self_attn.q_proj",
    [LS_ROLE_K] = "self_attn.k_proj",
    [LS_ROLE_V] = "self_attn.v_proj",
    [LS_ROLE_O] = "self_attn.o_proj",
    [LS_ROLE_SINKS] = "self_attn.sinks",
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_ROUTER] = "mlp.router",
    [LS_ROLE_EXPERT_GATE] = "mlp.experts.gate_up_proj",
    [LS_ROLE_EXPERT_UP] = "mlp.experts.gate_up_proj",
    [LS_ROLE_EXPERT_DOWN] = "mlp.experts.down_proj",
};

/* Published checkpoints are MXFP4; converted ones have plain tensors and no such object. */
static bool read_mxfp4(struct ls_config *c)
{
    const json_t *q = ls_config_get(c, "quantization_config");
    if (!q || json_is_null(q))
        return false;
    const char *method = json_string_value(json_object_get(q, "quant_method"));
    if (!method || strcmp(method, "mxfp4"))
        ls_config_fail(c, LS_E_REFUSED, "quantization_config",
                       "quant_method %s; supported is only mxfp4", method ? method : "absent");
    return true;
}

static void check_blocks(const struct ls_arch *arch, struct ls_config *c)
{
    if (arch->hidden % MXFP4_BLOCK)
        ls_config_fail(c, LS_E_FORMAT, "hidden_size", "mxfp4 needs a multiple of %d",
                       MXFP4_BLOCK);
    if (arch->experts.intermediate % MXFP4_BLOCK)
        ls_config_fail(c, LS_E_FORMAT, "intermediate_size", "mxfp4 needs a multiple of %d",
                       MXFP4_BLOCK);
}

static void layers(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_local_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "intermediate_size",
                                                .n_absent = 128,
                                                .chosen_absent = 4,
                                                .width_absent = 2880 };
    struct ls_experts *e = &arch->experts;
    ls_experts_read(arch, c, &keys);
    e->router = LS_ROUTER_CHOSEN;
    e->router_bias = e->expert_bias = true;
    e->swiglu_alpha = (float)ls_config_number(c, "swiglu_alpha", 1.702, 1e-3, 1e3);
    e->swiglu_limit = (float)ls_config_number(c, "swiglu_limit", 7, 1e-3, 1e6);
    e->storage = read_mxfp4(c) ? LS_EXPERTS_MXFP4 : LS_EXPERTS_ALTERNATE;
    if (e->storage == LS_EXPERTS_MXFP4)
        check_blocks(arch, c);
    if (!ls_config_has(c, "rope_scaling") && !ls_config_has(c, "rope_parameters"))
        ls_config_fail(c, LS_E_FORMAT, "rope_scaling",
                       "this family's configs must say it: the reference assumes yarn");
    arch->sinks = true;
    for (int l = 0; l < arch->n_layers; l++)
        ls_experts_place(arch, l, 0);
}

static const struct ls_dense gpt_oss = {
    .vocab = 201088,
    .hidden = 2880,
    .intermediate = 2880,
    .n_layers = 36,
    .n_heads = 64,
    .n_kv_heads = 8,
    .head_dim = 64,
    .max_positions = 131072,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .norm_weight = LS_NORM_W_ONCE,
    .qkv_bias = LS_BY_KEY_ON,
    .o_bias = LS_BY_KEY_ON,
    .rope = { .theta = 150000 },
    .window_rule = LS_WINDOW_PATTERN,
    .window = 128,
    .window_pattern = 2,
    .layers = layers,
    .names = names,
};

const struct ls_family ls_family_gpt_oss = {
    .model_type = "gpt_oss",
    .dense = &gpt_oss,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
