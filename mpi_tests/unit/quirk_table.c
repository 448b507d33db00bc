#include "quirk_table.h"

#include <math.h>
#include <stddef.h>

/* --- pokes -----------------------------------------------------------------------------------
 */

static void each_window(struct ls_arch *a, int more)
{
    for (int l = 0; l < a->n_layers; l++)
        if (a->layers[l].window)
            a->layers[l].window += more;
}

static void wider(struct ls_arch *a)
{
    each_window(a, 1);
}

static void narrower(struct ls_arch *a)
{
    each_window(a, -1);
}

/* Windows of local instead of global layers: each layer gets its neighbour's. */
static void shift_windows(struct ls_arch *a)
{
    const int first = a->layers[0].window;
    for (int l = 0; l < a->n_layers; l++)
        a->layers[l].window = l + 1 < a->n_layers ? a->layers[l + 1].window : first;
}

static void no_qk_norm(struct ls_arch *a)
{
    a->qk_norm = LS_QK_NONE;
}

static void no_v_norm(struct ls_arch *a)
{
    a->v_norm = false;
}

static void rope_everywhere(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        a->layers[l].rope = 0;
}

static void other_pairs(struct ls_arch *a)
{
    for (int r = 0; r < a->n_ropes; r++)
        a->ropes[r].pairs =
            a->ropes[r].pairs == LS_ROPE_HALVES ? LS_ROPE_NEIGHBOURS : LS_ROPE_HALVES;
}

static void no_rope_factor(struct ls_arch *a)
{
    a->ropes[0].attention_factor = 1;
}

static void no_embed_scale(struct ls_arch *a)
{
    a->embed_scale = 0;
}

static void plain_norm_weight(struct ls_arch *a)
{
    a->norm_weight = LS_NORM_W;
}

static void silu(struct ls_arch *a)
{
    a->act = LS_ACT_SILU;
}

static void no_attn_cap(struct ls_arch *a)
{
    a->attn_softcap = 0;
}

static void no_logit_cap(struct ls_arch *a)
{
    a->logit_softcap = 0;
}

static void scale_from_heads(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        a->layers[l].attn_scale = (float)(1 / sqrt(a->layers[l].head_dim));
}

static void no_residual_scale(struct ls_arch *a)
{
    a->residual_scale = 0;
}

static void no_logit_scale(struct ls_arch *a)
{
    a->logit_scale = 0;
}

static void rms_instead(struct ls_arch *a)
{
    a->norm = LS_NORM_RMS;
}

static void no_post_norms(struct ls_arch *a)
{
    a->residual = LS_RES_PRE;
}

static void renormalise(struct ls_arch *a)
{
    a->experts.renormalise = !a->experts.renormalise;
}

static void softmax_router(struct ls_arch *a)
{
    a->experts.router = LS_ROUTER_SOFTMAX;
}

static void no_shared_gate(struct ls_arch *a)
{
    a->experts.shared_gate = false;
}

static void no_shared_expert(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        if (a->layers[l].ffn == LS_FFN_EXPERTS)
            a->layers[l].intermediate = 0;
}

static void no_sinks(struct ls_arch *a)
{
    a->sinks = false;
}

static void side_by_side(struct ls_arch *a)
{
    a->experts.storage = LS_EXPERTS_TURNED;
}

static void no_clamp(struct ls_arch *a)
{
    a->experts.swiglu_limit = 0;
}

static void chunk_as_window(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++) {
        a->layers[l].window = a->layers[l].chunk;
        a->layers[l].chunk = 0;
    }
}

static void longer_chunks(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        if (a->layers[l].chunk)
            a->layers[l].chunk++;
}

static void no_temperature(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        a->layers[l].temperature_floor = 0;
}

static void later_temperature(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        if (a->layers[l].temperature_floor)
            a->layers[l].temperature_floor++;
}

static void no_layer_scalar(struct ls_arch *a)
{
    a->layer_scalar = false;
}

static void no_table_scale(struct ls_arch *a)
{
    a->per_layer_embed_scale = 0;
}

/* The first layer of the type instead of the last. */
static void earlier_cache(struct ls_arch *a)
{
    for (int l = 0; l < a->n_layers; l++)
        if (a->layers[l].kv_source == 1 && l > 1)
            a->layers[l].kv_source = 0;
}

/* --- the table -------------------------------------------------------------------------------
 */

#define POKE(function)      .poke = function
#define CONFIG(name, json)  .key = name, .value = json
#define FILL(pattern, with) .tensors = pattern, .fill = with

/* clang-format off */
const struct quirk quirks[] = {
    { "llama-bias", "biases of all projections", "zeroed", FILL("_proj.bias", QUIRK_ZERO) },
    { "llama-rope-llama3", "llama3 rope bands", "plain rope",
      CONFIG("rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":10000.0}") },
    { "llama-rope-linear", "rope divided by a factor", "plain rope",
      CONFIG("rope_scaling", "null") },
    { "llama-rope-dynamic", "base grows with the context", "plain rope",
      CONFIG("rope_scaling", "null") },
    { "llama-rope-yarn", "attention factor of yarn", "1", POKE(no_rope_factor) },
    { "llama-rope-yarn", "ramp of yarn", "plain rope",
      CONFIG("rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":10000.0}") },
    { "mistral", "window of W keys, the own included", "W + 1", POKE(wider) },
    { "mistral", "window of W keys, the own included", "W - 1", POKE(narrower) },
    { "mistral-nowindow", "no window when it is null", "12 keys",
      CONFIG("sliding_window", "12") },
    { "qwen2", "window named but switched off", "switched on",
      CONFIG("use_sliding_window", "true") },
    { "qwen2", "biases of q, k, v", "zeroed", FILL("_proj.bias", QUIRK_ZERO) },
    { "qwen2-window", "windows from layer 2 on", "from layer 3 on",
      CONFIG("max_window_layers", "3") },
    { "qwen3", "norms of each head of q and k", "left out", POKE(no_qk_norm) },
    { "smollm3", "no rope in every fourth layer", "rope everywhere", POKE(rope_everywhere) },
    { "smollm3", "no rope in every fourth layer", "every third",
      CONFIG("no_rope_layers", "[1,1,0,1,1]") },
    { "olmo2", "norms of q and k over all heads", "left out", POKE(no_qk_norm) },
    { "phi3", "rope on half of a head", "on the whole head",
      CONFIG("partial_rotary_factor", "1.0") },
    { "phi3", "window in every layer", "W + 1", POKE(wider) },
    { "phi3-longrope", "long factors beyond the original length", "short ones",
      CONFIG("rope_scaling", "{\"type\":\"longrope\",\"short_factor\":[1.0,1.05,1.1,1.2,1.3,"
             "1.5],\"long_factor\":[1.0,1.05,1.1,1.2,1.3,1.5]}") },
    { "phi3-longrope", "attention factor from the length ratio", "1", POKE(no_rope_factor) },
    { "gemma", "embedding scaled", "not scaled", POKE(no_embed_scale) },
    { "gemma", "norm weight is 1 + w", "w", POKE(plain_norm_weight) },
    { "gemma", "\"gelu\" means the tanh form", "SiLU", POKE(silu) },
    { "gemma2", "1 + w added in float32", "added in bf16",
      FILL("norm.weight", QUIRK_ROUND_ONE_PLUS) },
    { "gemma2", "soft cap on scores", "left out", POKE(no_attn_cap) },
    { "gemma2", "soft cap on logits", "left out", POKE(no_logit_cap) },
    { "gemma2", "query scale of its own", "from the head's size", POKE(scale_from_heads) },
    { "gemma2", "windows in even layers", "in the neighbours", POKE(shift_windows) },
    { "gemma2", "norms behind each branch", "left out", POKE(no_post_norms) },
    { "gemma3", "rope of windowed layers has its own base", "one rope", POKE(rope_everywhere) },
    { "gemma3", "global rope divided by a factor", "not divided",
      CONFIG("rope_scaling", "null") },
    { "gemma3", "every third layer sees everything", "every second",
      CONFIG("sliding_window_pattern", "2") },
    { "gemma3", "norms of q and k", "left out", POKE(no_qk_norm) },
    { "gemma3-mm", "settings of text_config count", "another window there",
      CONFIG("text_config.sliding_window", "9") },
    { "granite", "embedding multiplier", "1", POKE(no_embed_scale) },
    { "granite", "residual multiplier", "1", POKE(no_residual_scale) },
    { "granite", "attention multiplier", "from the head's size", POKE(scale_from_heads) },
    { "granite", "logits scaling", "1", POKE(no_logit_scale) },
    { "cohere2", "logit scale", "1", POKE(no_logit_scale) },
    { "cohere2", "LayerNorm", "RMSNorm", POKE(rms_instead) },
    { "cohere2", "no rope in global layers", "rope everywhere", POKE(rope_everywhere) },
    { "cohere2", "rope turns neighbours", "turns halves", POKE(other_pairs) },
    { "cohere2", "window of W keys", "W + 1", POKE(wider) },
    { "glm4", "rope turns neighbours", "turns halves", POKE(other_pairs) },
    { "glm4", "rope on half of a head", "on the whole head",
      CONFIG("partial_rotary_factor", "1.0") },
    { "glm4", "norms behind each branch", "left out", POKE(no_post_norms) },
    { "mixtral", "two experts a token", "one", CONFIG("num_experts_per_tok", "1") },
    { "mixtral", "weights renormalised", "not", POKE(renormalise) },
    { "qwen3_moe", "weights renormalised by key", "not", CONFIG("norm_topk_prob", "false") },
    { "qwen3_moe", "norms of q and k", "left out", POKE(no_qk_norm) },
    { "qwen2_moe", "weights not renormalised by key", "renormalised",
      CONFIG("norm_topk_prob", "true") },
    { "qwen2_moe", "gate of the shared expert", "one half",
      FILL("shared_expert_gate", QUIRK_ZERO) },
    { "qwen2_moe", "gate of the shared expert", "left out", POKE(no_shared_gate) },
    { "qwen2_moe", "shared expert", "left out", POKE(no_shared_expert) },
    { "glm4_moe", "selection bias", "zeroed", FILL("e_score_correction_bias", QUIRK_ZERO) },
    { "glm4_moe", "sigmoid scores", "softmax", POKE(softmax_router) },
    { "glm4_moe", "scale of the routed sum", "1", CONFIG("routed_scaling_factor", "1.0") },
    { "glm4_moe", "weights renormalised", "not", CONFIG("norm_topk_prob", "false") },
    { "glm4_moe", "shared expert", "left out", POKE(no_shared_expert) },
    { "glm4_moe", "norms of q and k by key", "left out", POKE(no_qk_norm) },
    { "glm4_moe", "rope turns halves", "turns neighbours", POKE(other_pairs) },
    { "glm4_moe-groups", "experts of the two best groups", "of all groups",
      CONFIG("topk_group", "4") },
    { "gpt_oss", "a sink in each head's softmax", "left out", POKE(no_sinks) },
    { "gpt_oss", "windows in even layers", "in odd layers", POKE(shift_windows) },
    { "gpt_oss", "window of W keys", "W - 1", POKE(narrower) },
    { "gpt_oss", "clamp of gate and up", "1000", CONFIG("swiglu_limit", "1000.0") },
    { "gpt_oss", "gate of GPT-OSS", "SiLU(gate) up", POKE(no_clamp) },
    { "gpt_oss", "sigmoid's gain of 1.702", "1", CONFIG("swiglu_alpha", "1.0") },
    { "gpt_oss", "biases of experts", "zeroed", FILL("_proj_bias", QUIRK_ZERO) },
    { "gpt_oss", "bias of the router", "zeroed", FILL("router.bias", QUIRK_ZERO) },
    { "gpt_oss", "softmax over the chosen", "over all", POKE(softmax_router) },
    { "gpt_oss", "gate and up in alternate columns", "side by side", POKE(side_by_side) },
    { "gpt_oss", "yarn without truncation", "with",
      CONFIG("rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":4.0,\"beta_fast\":4.0,"
             "\"beta_slow\":1.0,\"truncate\":true,\"original_max_position_embeddings\":64}") },
    { "llama4", "chunks are blocks of positions", "a window", POKE(chunk_as_window) },
    { "llama4", "chunks of C positions", "C + 1", POKE(longer_chunks) },
    { "llama4", "no rope in every fourth layer", "rope everywhere", POKE(rope_everywhere) },
    { "llama4", "queries without rope grow with the position", "do not",
      POKE(no_temperature) },
    { "llama4", "steps of that growth", "one position later", POKE(later_temperature) },
    { "llama4", "norms of q and k behind rope", "left out", POKE(no_qk_norm) },
    { "llama4", "rope turns neighbours", "turns halves", POKE(other_pairs) },
    { "llama4", "sigmoid weight on the expert's input", "softmax on its output",
      POKE(softmax_router) },
    { "llama4", "shared expert", "left out", POKE(no_shared_expert) },
    { "llama4-two", "two experts a token", "one", CONFIG("num_experts_per_tok", "1") },
    { "gemma4", "inputs of each layer from the token's row", "zero",
      FILL("embed_tokens_per_layer", QUIRK_ZERO) },
    { "gemma4", "scale of that row", "1", POKE(no_table_scale) },
    { "gemma4", "shared cache of the last layer of a type", "of the first",
      POKE(earlier_cache) },
    { "gemma4", "norm of v", "left out", POKE(no_v_norm) },
    { "gemma4", "norms of q and k", "left out", POKE(no_qk_norm) },
    { "gemma4", "attention scale of 1", "from the head's size", POKE(scale_from_heads) },
    { "gemma4", "proportional rope on a quarter", "on the whole head",
      CONFIG("rope_parameters",
             "{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1000000.0,"
             "\"partial_rotary_factor\":1.0},\"sliding_attention\":{\"rope_type\":\"default\","
             "\"rope_theta\":10000.0}}") },
    { "gemma4", "proportional rope pairs whole heads", "a quarter of a head",
      CONFIG("rope_parameters",
             "{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1000000.0,"
             "\"partial_rotary_factor\":0.5},\"sliding_attention\":{\"rope_type\":\"default\","
             "\"rope_theta\":10000.0}}") },
    { "gemma4", "scalar of each layer", "1", POKE(no_layer_scalar) },
    { "gemma4", "soft cap on logits", "left out", POKE(no_logit_cap) },
    { "gemma4", "embedding scaled", "not scaled", POKE(no_embed_scale) },
    { "gemma4", "window of W keys", "W + 1", POKE(wider) },
    { "gemma4-moe", "scale of the router's input", "1", FILL("router.scale", QUIRK_ONE) },
    { "gemma4-moe", "scale of each expert", "1", FILL("per_expert_scale", QUIRK_ONE) },
    { "gemma4-moe", "two experts a token", "one", CONFIG("top_k_experts", "1") },
    { "gemma4-moe", "norm of the dense block", "weight 1",
      FILL("post_feedforward_layernorm_1", QUIRK_ONE) },
    { "gemma4-moe", "norm of the experts' input", "weight 1",
      FILL("pre_feedforward_layernorm_2", QUIRK_ONE) },
    { "gemma4-moe", "norm of the experts' output", "weight 1",
      FILL("post_feedforward_layernorm_2", QUIRK_ONE) },
};
/* clang-format on */

const int n_quirks = sizeof quirks / sizeof *quirks;
