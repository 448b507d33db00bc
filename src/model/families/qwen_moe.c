/* Qwen 2 and 3 with experts: dense layers between them by step and list, weights renormalised
 * or not; in 2 a shared expert behind a gate and biases on q, k, v, in 3 norms of q and k. */
#include "model/families/dense.h"
#include "model/families/experts.h"
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
    [LS_ROLE_Q_NORM] = "self_attn.q_norm",
    [LS_ROLE_K_NORM] = "self_attn.k_norm",
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_GATE] = "mlp.gate_proj",
    [LS_ROLE_UP] = "mlp.up_proj",
    [LS_ROLE_DOWN] = "mlp.down_proj",
    [LS_ROLE_ROUTER] = "mlp.gate",
    [LS_ROLE_SHARED_GATE] = "mlp.shared_expert.gate_proj",
    [LS_ROLE_SHARED_UP] = "mlp.shared_expert.up_proj",
    [LS_ROLE_SHARED_DOWN] = "mlp.shared_expert.down_proj",
    [LS_ROLE_SHARED_WEIGHT] = "mlp.shared_expert_gate",
    [LS_ROLE_EXPERT_GATE] = "mlp.experts.#.gate_proj",
    [LS_ROLE_EXPERT_UP] = "mlp.experts.#.up_proj",
    [LS_ROLE_EXPERT_DOWN] = "mlp.experts.#.down_proj",
};

static void place_sparse(struct ls_arch *arch, struct ls_config *c, int shared)
{
    const int step = ls_config_int(c, "decoder_sparse_step", 1, 1, LS_MAX_LAYERS);
    arch->experts.renormalise = ls_config_bool(c, "norm_topk_prob", false);
    for (int l = 0; l < arch->n_layers && !c->status; l++)
        if (!ls_experts_listed(arch, c, "mlp_only_layers", l) && (l + 1) % step == 0)
            ls_experts_place(arch, l, shared);
}

static void layers_2(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "moe_intermediate_size",
                                                .n_absent = 60,
                                                .chosen_absent = 4,
                                                .width_absent = 1408 };
    ls_experts_read(arch, c, &keys);
    arch->qkv_bias = ls_config_bool(c, "qkv_bias", true);
    arch->experts.shared_gate = true;
    place_sparse(arch, c,
                 ls_config_int(c, "shared_expert_intermediate_size", 5632, 1, LS_MAX_WIDTH));
}

static void layers_3(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "moe_intermediate_size",
                                                .n_absent = 128,
                                                .chosen_absent = 8,
                                                .width_absent = 768 };
    ls_experts_read(arch, c, &keys);
    place_sparse(arch, c, 0);
}

static const struct ls_dense qwen2_moe = {
    .vocab = 151936,
    .hidden = 2048,
    .intermediate = 5632,
    .n_layers = 24,
    .n_heads = 16,
    .n_kv_heads = 16,
    .max_positions = 32768,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_QWEN_MOE,
    .window = 4096,
    .layers = layers_2,
    .names = names,
};

static const struct ls_dense qwen3_moe = {
    .vocab = 151936,
    .hidden = 2048,
    .intermediate = 6144,
    .n_layers = 24,
    .n_heads = 32,
    .n_kv_heads = 4,
    .max_positions = 32768,
    .eps = 1e-6,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qk_norm = LS_QK_PER_HEAD,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 10000 },
    .window_rule = LS_WINDOW_SWITCHED,
    .window = 4096,
    .layers = layers_3,
    .names = names,
};

const struct ls_family ls_family_qwen2_moe = {
    .model_type = "qwen2_moe",
    .dense = &qwen2_moe,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};

const struct ls_family ls_family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .dense = &qwen3_moe,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
