/* Mixtral: Mistral's attention, and in every layer the best experts of a softmax over all. */
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
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_ROUTER] = "block_sparse_moe.gate",
    [LS_ROLE_EXPERT_GATE] = "block_sparse_moe.experts.#.w1",
    [LS_ROLE_EXPERT_UP] = "block_sparse_moe.experts.#.w3",
    [LS_ROLE_EXPERT_DOWN] = "block_sparse_moe.experts.#.w2",
};

static void layers(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_local_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "intermediate_size",
                                                .n_absent = 8,
                                                .chosen_absent = 2,
                                                .width_absent = 14336 };
    ls_experts_read(arch, c, &keys);
    arch->experts.renormalise = true;
    for (int l = 0; l < arch->n_layers; l++)
        ls_experts_place(arch, l, 0);
}

static const struct ls_dense mixtral = {
    .vocab = 32000,
    .hidden = 4096,
    .intermediate = 14336,
    .n_layers = 32,
    .n_heads = 32,
    .n_kv_heads = 8,
    .max_positions = 131072,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .rope = { .theta = 1000000 },
    .window_rule = LS_WINDOW_ALL,
    .layers = layers,
    .names = names,
};

const struct ls_family ls_family_mixtral = {
    .model_type = "mixtral",
    .dense = &mixtral,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
