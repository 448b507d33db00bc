/* Llama 4's text model: attention in blocks of positions, layers without rope whose queries
 * grow with the position, norms of q and k behind rope, experts weighed on their input. */
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
    [LS_ROLE_FFN_NORM] = "post_attention_layernorm",
    [LS_ROLE_GATE] = "feed_forward.gate_proj",
    [LS_ROLE_UP] = "feed_forward.up_proj",
    [LS_ROLE_DOWN] = "feed_forward.down_proj",
    [LS_ROLE_ROUTER] = "feed_forward.router",
    [LS_ROLE_SHARED_GATE] = "feed_forward.shared_expert.gate_proj",
    [LS_ROLE_SHARED_UP] = "feed_forward.shared_expert.up_proj",
    [LS_ROLE_SHARED_DOWN] = "feed_forward.shared_expert.down_proj",
    [LS_ROLE_EXPERT_GATE] = "feed_forward.experts.gate_up_proj",
    [LS_ROLE_EXPERT_UP] = "feed_forward.experts.gate_up_proj",
    [LS_ROLE_EXPERT_DOWN] = "feed_forward.experts.down_proj",
};

/* layer_types, or: chunked where there is rope. */
static void place_chunks(struct ls_arch *arch, struct ls_config *c)
{
    const json_t *types = ls_config_get(c, "layer_types");
    const bool given = types && !json_is_null(types);
    const int chunk = ls_config_int_or_none(c, "attention_chunk_size", 8192, 1, LS_MAX_CONTEXT);
    if (given && json_array_size(types) != (size_t)arch->n_layers)
        ls_config_fail(c, LS_E_FORMAT, "layer_types",
                       "expected a list of num_hidden_layers = %d texts", arch->n_layers);
    for (int l = 0; l < arch->n_layers && !c->status; l++) {
        const char *type = json_string_value(json_array_get(types, (size_t)l));
        bool chunked = chunk && arch->layers[l].rope >= 0;
        if (given) {
            chunked = type && !strcmp(type, "chunked_attention");
            if (!chunked && (!type || strcmp(type, "full_attention")))
                ls_config_fail(c, LS_E_REFUSED, "layer_types",
                               "entry %d is %s; supported are full_attention and "
                               "chunked_attention",
                               l, type ? type : "no text");
            else if (chunked && !chunk)
                ls_config_fail(c, LS_E_REFUSED, "layer_types",
                               "entry %d is chunked, but there is no attention_chunk_size", l);
        }
        arch->layers[l].chunk = chunked ? chunk : 0;
    }
}

/* Published configs have a number here: 0 or not. */
static bool has_temperature(struct ls_config *c)
{
    const json_t *v = ls_config_get(c, "attn_temperature_tuning");
    if (json_is_integer(v))
        return json_integer_value(v) != 0;
    return ls_config_bool(c, "attn_temperature_tuning", true);
}

static void place_temperature(struct ls_arch *arch, struct ls_config *c)
{
    const bool on = has_temperature(c);
    const int floor = ls_config_int(c, "floor_scale", 8192, 1, LS_MAX_CONTEXT);
    const double scale = ls_config_number(c, "attn_scale", 0.1, -1e3, 1e3);
    for (int l = 0; on && l < arch->n_layers; l++) {
        if (arch->layers[l].rope >= 0)
            continue;
        arch->layers[l].temperature_floor = floor;
        arch->layers[l].temperature_scale = (float)scale;
    }
}

static void place_experts(struct ls_arch *arch, struct ls_config *c)
{
    const json_t *list = ls_config_get(c, "moe_layers");
    const bool given = list && !json_is_null(list);
    const int step = ls_config_int(c, "interleave_moe_layer_step", 1, 1, LS_MAX_LAYERS);
    const int dense = ls_config_int(c, "intermediate_size_mlp", 16384, 1, LS_MAX_WIDTH);
    for (int l = 0; l < arch->n_layers && !c->status; l++) {
        if (given ? ls_experts_listed(arch, c, "moe_layers", l) : (l + 1) % step == 0)
            ls_experts_place(arch, l, arch->experts.intermediate);
        else
            arch->layers[l].intermediate = dense;
    }
}

static void layers(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_local_experts",
                                                .chosen = "num_experts_per_tok",
                                                .width = "intermediate_size",
                                                .n_absent = 16,
                                                .chosen_absent = 1,
                                                .width_absent = 8192 };
    ls_experts_read(arch, c, &keys);
    arch->experts.router = LS_ROUTER_INPUT;
    arch->experts.storage = LS_EXPERTS_TURNED;
    arch->qk_norm = ls_config_bool(c, "use_qk_norm", true) ? LS_QK_AFTER_ROPE : LS_QK_NONE;
    place_chunks(arch, c);
    place_temperature(arch, c);
    place_experts(arch, c);
}

static const struct ls_dense llama4 = {
    .vocab = 202048,
    .hidden = 5120,
    .intermediate = 8192,
    .n_layers = 48,
    .n_heads = 40,
    .n_kv_heads = 8,
    .head_dim = 128,
    .max_positions = 131072,
    .eps = 1e-5,
    .eps_key = "rms_norm_eps",
    .act_key = "hidden_act",
    .act = "silu",
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 500000 },
    .pairs = LS_ROPE_NEIGHBOURS,
    .rope_rule = LS_ROPE_BY_LIST,
    .window_rule = LS_WINDOW_OWN,
    .layers = layers,
    .names = names,
};

const struct ls_family ls_family_llama4_text = {
    .model_type = "llama4_text",
    .dense = &llama4,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ls_dense_ignores,
};
