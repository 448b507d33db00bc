/* GLM-4 with experts: sigmoid scores with a bias for the choice, groups, a shared expert; the
 * first layers dense; rope on half of a head. */
#include "model/families/dense.h"
#include "model/families/experts.h"
#include "model/families/families.h"

#include <string.h>

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
    [LS_ROLE_SELECT_BIAS] = "mlp.gate.e_score_correction_bias",
    [LS_ROLE_SHARED_GATE] = "mlp.shared_experts.gate_proj",
    [LS_ROLE_SHARED_UP] = "mlp.shared_experts.up_proj",
    [LS_ROLE_SHARED_DOWN] = "mlp.shared_experts.down_proj",
    [LS_ROLE_EXPERT_GATE] = "mlp.experts.#.gate_proj",
    [LS_ROLE_EXPERT_UP] = "mlp.experts.#.up_proj",
    [LS_ROLE_EXPERT_DOWN] = "mlp.experts.#.down_proj",
};

static void check_text(struct ls_config *c, const char *key, const char *only)
{
    const char *text = ls_config_text(c, key, only);
    if (strcmp(text, only))
        ls_config_fail(c, LS_E_REFUSED, key, "supported is only %s", only);
}

/* A group is judged by its two best experts, so it must have two. */
static void read_groups(struct ls_experts *e, struct ls_config *c)
{
    e->n_groups = ls_config_int(c, "n_group", 1, 1, LS_MAX_EXPERTS);
    e->n_groups_chosen = ls_config_int(c, "topk_group", 1, 1, LS_MAX_EXPERTS);
    if (c->status)
        return;
    if (e->n % e->n_groups || e->n / e->n_groups < 2)
        ls_config_fail(c, LS_E_FORMAT, "n_group",
                       "%d experts do not make so many groups of two or more", e->n);
    else if (e->n_groups_chosen > e->n_groups)
        ls_config_fail(c, LS_E_FORMAT, "topk_group", "more than n_group %d", e->n_groups);
    else if (e->n_chosen > e->n / e->n_groups * e->n_groups_chosen)
        ls_config_fail(c, LS_E_FORMAT, "topk_group", "leaves fewer experts than %d to choose",
                       e->n_chosen);
}

static void layers(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "n_routed_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "moe_intermediate_size",
                                                .n_absent = 128,
                                                .chosen_absent = 8,
                                                .width_absent = 1408 };
    struct ls_experts *e = &arch->experts;
    ls_experts_read(arch, c, &keys);
    read_groups(e, c);
    check_text(c, "scoring_func", "sigmoid");
    check_text(c, "topk_method", "noaux_tc");
    e->router = LS_ROUTER_SIGMOID;
    e->renormalise = ls_config_bool(c, "norm_topk_prob", true);
    const double scale = ls_config_number(c, "routed_scaling_factor", 1, 1e-6, 1e6);
    e->routed_scale = scale == 1 ? 0 : (float)scale;
    const int shared = ls_config_int(c, "n_shared_experts", 1, 0, 64);
    const int dense = ls_config_int(c, "first_k_dense_replace", 1, 0, LS_MAX_LAYERS);
    if ((int64_t)shared * e->intermediate > LS_MAX_WIDTH)
        ls_config_fail(c, LS_E_FORMAT, "n_shared_experts", "of %d are wider than %d",
                       e->intermediate, LS_MAX_WIDTH);
    arch->qk_norm = ls_config_bool(c, "use_qk_norm", false) ? LS_QK_PER_HEAD : LS_QK_NONE;
    for (int l = dense; l < arch->n_layers && !c->status; l++)
        ls_experts_place(arch, l, shared * e->intermediate);
}

static const struct ls_dense glm4_moe = {
    .vocab = 151552,
    .hidden = 4096,
    .intermediate = 10944,
    .n_layers = 46,
    .n_heads = 96,
    .n_kv_heads = 8,
    .max_positions = 131072,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qkv_bias = LS_BY_KEY,
    .rope = { .theta = 10000, .partial = 0.5 },
    .layers = layers,
    .names = names,
};

const struct ls_family ls_family_glm4_moe = {
    .model_type = "glm4_moe",
    .dense = &glm4_moe,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
