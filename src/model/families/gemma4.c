/* Gemma 4's text model: inputs of each layer made from the token, caches shared by the last
 * layers, head sizes and ropes by layer type, norms of q, k and v, and experts beside a dense
 * block in the larger ones. */
#include "model/families/dense.h"
#include "model/families/experts.h"
#include "model/families/families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[LS_N_ROLES] = {
    [LS_ROLE_EMBED] = "embed_tokens",
    [LS_ROLE_FINAL_NORM] = "norm",
    [LS_ROLE_HEAD] = "lm_head",
    [LS_ROLE_PER_LAYER_EMBED] = "embed_tokens_per_layer",
    [LS_ROLE_PER_LAYER_MODEL] = "per_layer_model_projection",
    [LS_ROLE_PER_LAYER_NORM] = "per_layer_projection_norm",
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
    [LS_ROLE_ROUTER] = "router.proj",
    [LS_ROLE_ROUTER_SCALE] = "router.scale",
    [LS_ROLE_EXPERT_SCALE] = "router.per_expert_scale",
    [LS_ROLE_EXPERT_GATE] = "experts.gate_up_proj",
    [LS_ROLE_EXPERT_UP] = "experts.gate_up_proj",
    [LS_ROLE_EXPERT_DOWN] = "experts.down_proj",
    [LS_ROLE_POST_DENSE_NORM] = "post_feedforward_layernorm_1",
    [LS_ROLE_EXPERTS_NORM] = "pre_feedforward_layernorm_2",
    [LS_ROLE_POST_EXPERTS_NORM] = "post_feedforward_layernorm_2",
    [LS_ROLE_PER_LAYER_GATE] = "per_layer_input_gate",
    [LS_ROLE_PER_LAYER_OUT] = "per_layer_projection",
    [LS_ROLE_POST_PER_LAYER_NORM] = "post_per_layer_input_norm",
    [LS_ROLE_LAYER_SCALAR] = "layer_scalar",
};

/* Layers that see everything have heads of their own size, and v may be their key projection.
 */
static void read_global_heads(struct ls_arch *arch, struct ls_config *c)
{
    const int dim = ls_config_int(c, "global_head_dim", 512, 2, LS_MAX_WIDTH);
    const bool v_is_k = ls_config_bool(c, "attention_k_eq_v", false);
    int kv = ls_config_int_or_none(c, "num_global_key_value_heads", 0, 1, LS_MAX_WIDTH);
    const int heads = arch->layers[0].n_heads;
    kv = kv && v_is_k ? kv : arch->layers[0].n_kv_heads;
    if (dim % 2 || (int64_t)heads * dim > LS_MAX_WIDTH)
        ls_config_fail(c, LS_E_FORMAT, "global_head_dim",
                       "%d heads of %d elements: expected an even size, %d in all at most",
                       heads, dim, LS_MAX_WIDTH);
    if (heads % kv)
        ls_config_fail(c, LS_E_FORMAT, "num_global_key_value_heads",
                       "does not divide num_attention_heads %d", heads);
    for (int l = 0; l < arch->n_layers; l++) {
        arch->layers[l].attn_scale = 1;
        if (arch->layers[l].window)
            continue;
        arch->layers[l].head_dim = dim;
        arch->layers[l].n_kv_heads = kv;
        arch->layers[l].v_is_k = v_is_k;
    }
}

/* The last layers read the cache of the last layer of their type that has one. */
static void share_caches(struct ls_arch *arch, struct ls_config *c)
{
    const int shared = ls_config_int(c, "num_kv_shared_layers", 0, 0, LS_MAX_LAYERS);
    const bool wide = ls_config_bool(c, "use_double_wide_mlp", false);
    const int first = arch->n_layers - shared, ffn = arch->layers[0].intermediate;
    if (first < 1)
        ls_config_fail(c, LS_E_REFUSED, "num_kv_shared_layers",
                       "no layer of %d is left with a cache of its own", arch->n_layers);
    if (wide && ffn > LS_MAX_WIDTH / 2)
        ls_config_fail(c, LS_E_FORMAT, "intermediate_size", "doubled it passes %d",
                       LS_MAX_WIDTH);
    for (int l = first; l < arch->n_layers && !c->status; l++) {
        int source = first - 1;
        while (source >= 0 && (arch->layers[source].window > 0) != (arch->layers[l].window > 0))
            source--;
        if (source < 0)
            ls_config_fail(c, LS_E_REFUSED, "num_kv_shared_layers",
                           "layer %d shares, but no layer of its type has a cache", l);
        arch->layers[l].kv_source = source;
        arch->layers[l].intermediate = wide ? 2 * ffn : ffn;
    }
}

static void read_per_layer(struct ls_arch *arch, struct ls_config *c)
{
    const int width =
        ls_config_int_or_none(c, "hidden_size_per_layer_input", 256, 0, LS_MAX_WIDTH);
    const int vocab = ls_config_int(c, "vocab_size_per_layer_input", 262144, 1, LS_MAX_VOCAB);
    if (!width || c->status)
        return;
    if (vocab < arch->vocab)
        ls_config_fail(c, LS_E_REFUSED, "vocab_size_per_layer_input",
                       "tokens up to vocab_size %d would have no row", arch->vocab);
    if ((int64_t)width * arch->n_layers > LS_MAX_WIDTH)
        ls_config_fail(c, LS_E_FORMAT, "hidden_size_per_layer_input",
                       "times %d layers passes %d", arch->n_layers, LS_MAX_WIDTH);
    arch->per_layer_width = width;
    arch->per_layer_vocab = vocab;
    arch->per_layer_embed_scale = ls_round_constant((float)sqrt(width), arch->dtype);
}

static void read_experts(struct ls_arch *arch, struct ls_config *c)
{
    static const struct ls_expert_keys keys = { .n = "num_experts",
                                                .chosen = "top_k_experts",
                                                .width = "moe_intermediate_size" };
    if (!ls_config_bool(c, "enable_moe_block", false))
        return;
    ls_experts_read(arch, c, &keys);
    arch->experts.storage = LS_EXPERTS_FUSED;
    arch->experts.renormalise = true;
    arch->experts.beside_dense = true;
    for (int l = 0; l < arch->n_layers; l++)
        ls_experts_place(arch, l, arch->layers[l].intermediate);
}

static void layers(struct ls_arch *arch, struct ls_config *c)
{
    const json_t *both = ls_config_get(c, "use_bidirectional_attention");
    const char *which = json_string_value(both);
    if (both && !json_is_null(both) && !json_is_false(both) &&
        !(which && !strcmp(which, "vision")))
        ls_config_fail(c, LS_E_REFUSED, "use_bidirectional_attention",
                       "text is seen from left to right only");
    arch->v_norm = arch->layer_scalar = true;
    ls_config_get(c, "num_experts"); /* null, or beside enable_moe_block */
    read_global_heads(arch, c);
    share_caches(arch, c);
    read_per_layer(arch, c);
    read_experts(arch, c);
}

static void scales(struct ls_arch *arch, struct ls_config *c)
{
    arch->embed_scale = ls_round_constant((float)sqrt(arch->hidden), arch->dtype);
    arch->logit_softcap =
        (float)ls_config_number_or_none(c, "final_logit_softcapping", 0, 1e-3, 1e6);
}

/* Checkpoints carry the k and v of layers that read another's. */
static bool ignores(const struct ls_arch *arch, const char *name)
{
    static const char *const kinds[] = { "k_proj", "v_proj", "k_norm", "v_norm" };
    const char *at = strstr(name, "layers.");
    for (int l = 0; at && l < arch->n_layers; l++)
        for (int k = 0; k < 4 && arch->layers[l].kv_source != l; k++) {
            char own[64];
            snprintf(own, sizeof own, "layers.%d.self_attn.%s.", l, kinds[k]);
            if (!strncmp(at, own, strlen(own)))
                return true;
        }
    return ls_dense_ignores(arch, name);
}

static const struct ls_dense gemma4 = {
    .vocab = 262144,
    .hidden = 2304,
    .intermediate = 9216,
    .n_layers = 30,
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
    .norm_weight = LS_NORM_W_ONCE,
    .qk_norm = LS_QK_PER_HEAD,
    .qkv_bias = LS_BY_KEY,
    .o_bias = LS_BY_KEY,
    .rope = { .theta = 1000000, .proportional = 0.25 },
    .rope_rule = LS_ROPE_TWO_BASES,
    .window_rule = LS_WINDOW_PATTERN,
    .window = 512,
    .window_pattern = 6,
    .last_is_full = true,
    .layers = layers,
    .scales = scales,
    .names = names,
};

const struct ls_family ls_family_gemma4_text = {
    .model_type = "gemma4_text",
    .dense = &gemma4,
    .parse = ls_dense_parse,
    .place = ls_dense_place,
    .ignores = ignores,
};
