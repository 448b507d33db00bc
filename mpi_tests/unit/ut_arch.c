/* Configs: what every fixture resolves to, and that each setting which is out of range, unknown
 * or contradictory is refused with its key. */
#include "model_rig.h"

#include "model/arch.h"
#include "model/families/families.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loaded {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_err err;
};

static ls_status load(struct loaded *l, const char *fixture, const struct ls_arch_wish *wish)
{
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/families/%s", LS_FIXTURES, fixture);
    memset(l, 0, sizeof *l);
    ls_arena_init(&l->arena);
    return ls_arch_load(&l->arch, dir, wish, &l->arena, &l->err);
}

static json_t *fixture_config(const char *fixture)
{
    char path[4096];
    json_error_t at;
    snprintf(path, sizeof path, "%s/families/%s/config.json", LS_FIXTURES, fixture);
    json_t *config = json_load_file(path, 0, &at);
    if (!config)
        fail_msg("%s: %s", path, at.text);
    return config;
}

/* Windows and ropes of the layers as text: "w12 r0" is "12/0". */
static void layers_text(const struct ls_arch *a, char text[256])
{
    size_t n = 0;
    for (int l = 0; l < a->n_layers && n < 256; l++)
        n += (size_t)snprintf(text + n, 256 - n, "%s%d/%d", l ? " " : "", a->layers[l].window,
                              a->layers[l].rope);
}

static const struct {
    const char *fixture, *family, *layers;
    enum ls_fmt dtype;
    bool tied;
    const char *rope;
    int n_pairs;
    double scale; /* attention scale is 1 / sqrt of this */
} resolved[] = {
    { "llama-f32", "llama", "0/0 0/0 0/0 0/0 0/0", LS_FMT_F32, false, "default", 8, 16 },
    { "llama-bf16", "llama", "0/0 0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "llama-f16", "llama", "0/0 0/0 0/0 0/0", LS_FMT_F16, false, "default", 8, 16 },
    { "llama-bias", "llama", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "llama-headdim", "llama", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 12, 24 },
    { "llama-tied-bf16", "llama", "0/0 0/0 0/0 0/0 0/0 0/0", LS_FMT_BF16, true, "default", 8,
      16 },
    { "llama-rope-linear", "llama", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "linear", 8, 16 },
    { "llama-rope-dynamic", "llama", "0/0 0/0 0/0 0/0", LS_FMT_F32, true, "dynamic", 8, 16 },
    { "llama-rope-llama3", "llama", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "llama3", 8, 16 },
    { "llama-rope-yarn", "llama", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "yarn", 8, 16 },
    { "llama-sharded", "llama", "0/0 0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "mistral", "mistral", "12/0 12/0 12/0 12/0 12/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "mistral-nowindow", "mistral", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 10, 20 },
    { "qwen2", "qwen2", "0/0 0/0 0/0 0/0", LS_FMT_BF16, true, "default", 8, 16 },
    { "qwen2-window", "qwen2", "0/0 0/0 10/0 10/0 10/0", LS_FMT_F16, false, "default", 8, 16 },
    { "qwen3", "qwen3", "0/0 0/0 0/0 0/0 0/0", LS_FMT_BF16, true, "default", 12, 24 },
    { "smollm3", "smollm3", "0/0 0/0 0/0 0/-1 0/0", LS_FMT_BF16, true, "default", 8, 16 },
    { "gemma", "gemma", "0/0 0/0 0/0 0/0", LS_FMT_F32, true, "default", 12, 24 },
    { "gemma2", "gemma2", "8/0 0/0 8/0 0/0 8/0", LS_FMT_BF16, true, "default", 8, 24 },
    { "gemma3", "gemma3_text", "8/1 8/1 0/0 8/1 8/1", LS_FMT_BF16, true, "linear", 12, 20 },
    { "gemma3-mm", "gemma3_text", "8/1 8/1 0/0 8/1 0/0", LS_FMT_BF16, true, "linear", 8, 16 },
    { "phi3", "phi3", "12/0 12/0 12/0 12/0 12/0", LS_FMT_BF16, true, "default", 4, 16 },
    { "phi3-longrope", "phi3", "0/0 0/0 0/0 0/0", LS_FMT_F16, false, "longrope", 6, 16 },
    { "olmo2", "olmo2", "0/0 0/0 0/0 0/0", LS_FMT_F16, false, "default", 8, 16 },
    { "granite", "granite", "0/0 0/0 0/0 0/0", LS_FMT_F32, true, "default", 8, 1 / 0.0225 },
    { "cohere2", "cohere2", "8/0 8/0 8/0 0/-1 8/0", LS_FMT_BF16, true, "default", 8, 16 },
    { "glm4", "glm4", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 4, 16 },
};

static void fixtures_resolve(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof resolved / sizeof *resolved; i++) {
        struct loaded l;
        char layers[256];
        if (load(&l, resolved[i].fixture, &(struct ls_arch_wish){ 0 }))
            fail_msg("%s: %s", resolved[i].fixture, l.err.text);
        layers_text(&l.arch, layers);
        assert_string_equal(l.arch.family, resolved[i].family);
        assert_string_equal(layers, resolved[i].layers);
        assert_int_equal(l.arch.dtype, resolved[i].dtype);
        assert_true(l.arch.dtype_stated);
        assert_int_equal(l.arch.tied, resolved[i].tied);
        assert_string_equal(l.arch.ropes[0].kind, resolved[i].rope);
        assert_int_equal(l.arch.ropes[0].n_pairs, resolved[i].n_pairs);
        assert_true(fabs(l.arch.layers[0].attn_scale - 1 / sqrt(resolved[i].scale)) < 1e-7);
        assert_int_equal(l.arch.context, l.arch.max_positions);
        assert_true(l.arch.n_eos >= 1);
        ls_arena_finish(&l.arena);
    }
}

static void quirks_of_families(void **state)
{
    (void)state;
    struct loaded l;
    const struct ls_arch_wish as_stored = { 0 }, f32 = { .f32_activations = true };
    struct ls_arch *a = &l.arch;

    assert_int_equal(load(&l, "gemma2", &as_stored), LS_OK);
    assert_true(a->embed_scale == 8 && a->attn_softcap == 3 && a->logit_softcap == 6);
    assert_true(a->residual == LS_RES_BOTH && a->norm_weight == LS_NORM_ONE_PLUS_W);
    assert_true(a->act == LS_ACT_GELU_TANH && a->n_eos == 2 && a->eos[1] == 107 && a->bos == 2);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "gemma", &as_stored), LS_OK);
    assert_true(a->embed_scale == (float)sqrt(48) && a->act == LS_ACT_GELU_TANH);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "gemma3-mm", &f32), LS_OK);
    assert_true(a->dtype == LS_FMT_F32 && a->nested && a->eos[1] == 106 && a->bos == 2);
    assert_true(a->n_ropes == 2 && a->ropes[1].freq[0] == 1 && a->ropes[0].freq[0] == 0.125f);
    assert_true(a->qk_norm == LS_QK_PER_HEAD && a->logit_softcap == 0);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "granite", &as_stored), LS_OK);
    assert_true(a->embed_scale == 3 && a->residual_scale == 0.5f && a->logit_scale == 0.5f);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "cohere2", &as_stored), LS_OK);
    assert_true(a->residual == LS_RES_PARALLEL && a->norm == LS_NORM_LAYER);
    assert_true(a->logit_scale == 0.5f && a->ropes[0].pairs == LS_ROPE_NEIGHBOURS);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "glm4", &as_stored), LS_OK);
    assert_true(a->qkv_bias && !a->o_bias && a->ropes[0].pairs == LS_ROPE_NEIGHBOURS);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "olmo2", &as_stored), LS_OK);
    assert_true(a->residual == LS_RES_POST && a->qk_norm == LS_QK_ALL_HEADS);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "llama-bias", &as_stored), LS_OK);
    assert_true(a->qkv_bias && a->o_bias && a->mlp_bias);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "qwen2", &as_stored), LS_OK);
    assert_true(a->qkv_bias && !a->o_bias && !a->mlp_bias);
    ls_arena_finish(&l.arena);
}

/* sqrt(640) is 25.298; in bf16 it is 25.25, in f16 25.296875. */
static void embedding_scale_is_rounded(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        float scale;
    } cases[] = { { "bfloat16", 25.25f },
                  { "float16", 25.296875f },
                  { "float32", 25.298221f } };
    for (int i = 0; i < 3; i++) {
        struct loaded l = { .arena = { 0 } };
        json_t *config = fixture_config("gemma");
        json_object_set_new(config, "hidden_size", json_integer(640));
        json_object_set_new(config, "torch_dtype", json_string(cases[i].dtype));
        char *text = json_dumps(config, 0);
        assert_int_equal(ls_arch_parse(&l.arch, text, strlen(text), NULL, 0,
                                       &(struct ls_arch_wish){ 0 }, &l.arena, &l.err),
                         LS_OK);
        assert_true(l.arch.embed_scale == cases[i].scale);
        free(text);
        json_decref(config);
        ls_arena_finish(&l.arena);
    }
}

/* One change of a fixture's config: key (a dot leads into an object), its new value as JSON
 * ("" takes it away), and what must come of it. */
struct change {
    const char *fixture, *key, *value;
    ls_status status;
    const char *says; /* in the message; or, on success, the layers' text ("" for any) */
};

static ls_status parse_changed(const struct change *c, struct loaded *l)
{
    json_t *config = fixture_config(c->fixture), *at = config;
    const char *dot = strchr(c->key, '.'), *key = dot ? dot + 1 : c->key;
    if (dot) {
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - c->key), c->key);
        at = json_object_get(config, outer);
        assert_non_null(at);
    }
    if (*c->value) {
        json_t *value = json_loads(c->value, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_object_set_new(at, key, value);
    } else {
        assert_int_equal(json_object_del(at, key), 0);
    }
    char *text = json_dumps(config, 0);
    memset(l, 0, sizeof *l);
    ls_arena_init(&l->arena);
    ls_status s = ls_arch_parse(&l->arch, text, strlen(text), NULL, 0,
                                &(struct ls_arch_wish){ 0 }, &l->arena, &l->err);
    free(text);
    json_decref(config);
    return s;
}

#define F    LS_E_FORMAT
#define R    LS_E_REFUSED
#define L    "llama-bf16"
#define YARN "llama-rope-yarn"

static const struct change refusals[] = {
    { L, "model_type", "\"mamba\"", R, "supported are llama" },
    { L, "model_type", "\"mixtral\"", R, "mixtral" },
    { L, "model_type", "", R, "model_type = absent" },
    { L, "model_type", "7", F, "model_type = 7" },
    { L, "hidden_size", "", F, "hidden_size = absent" },
    { L, "hidden_size", "64.0", F, "hidden_size = 64.0: expected a whole number" },
    { L, "hidden_size", "true", F, "hidden_size = true" },
    { L, "hidden_size", "\"64\"", F, "hidden_size = \"64\"" },
    { L, "hidden_size", "0", F, "hidden_size" },
    { L, "hidden_size", "4294967360", F, "hidden_size" },
    { L, "hidden_size", "66", F, "does not divide hidden_size 66" },
    { L, "vocab_size", "0", F, "vocab_size" },
    { L, "vocab_size", "-1", F, "vocab_size" },
    { L, "vocab_size", "99999999", F, "vocab_size" },
    { L, "num_hidden_layers", "0", F, "num_hidden_layers" },
    { L, "num_hidden_layers", "4097", F, "num_hidden_layers" },
    { L, "num_attention_heads", "0", F, "num_attention_heads" },
    { L, "num_key_value_heads", "3", F, "num_key_value_heads = 3: does not divide" },
    { L, "num_key_value_heads", "0", F, "num_key_value_heads" },
    { L, "num_key_value_heads", "8", F, "num_key_value_heads" },
    { L, "head_dim", "0", F, "head_dim" },
    { L, "head_dim", "15", F, "head_dim" },
    { L, "head_dim", "524288", F, "head_dim" },
    { L, "intermediate_size", "0", F, "intermediate_size" },
    { L, "rms_norm_eps", "-1e-5", F, "rms_norm_eps" },
    { L, "rms_norm_eps", "true", F, "rms_norm_eps" },
    { L, "max_position_embeddings", "0", F, "max_position_embeddings" },
    { L, "max_position_embeddings", "67108865", F, "max_position_embeddings" },
    { L, "attention_bias", "1", F, "attention_bias = 1: expected true or false" },
    { L, "tie_word_embeddings", "\"no\"", F, "tie_word_embeddings" },
    { L, "hidden_act", "\"relu\"", R, "hidden_act = \"relu\": supported activations" },
    { L, "hidden_act", "\"gelu\"", R, "hidden_act" },
    { L, "hidden_act", "[]", F, "hidden_act" },
    { L, "dtype", "\"float64\"", R, "dtype = \"float64\"" },
    { L, "dtype", "\"float8_e4m3fn\"", R, "supported are float32" },
    { L, "torch_dtype", "\"float16\"", R, "contradicts dtype" },
    { L, "eos_token_id", "-2", F, "eos_token_id" },
    { L, "eos_token_id", "true", F, "eos_token_id" },
    { L, "eos_token_id", "[2, null]", F, "eos_token_id" },
    { L, "eos_token_id", "\"</s>\"", F, "eos_token_id" },
    { L, "bos_token_id", "1.5", F, "bos_token_id" },
    { L, "quantization_config", "{\"quant_method\":\"fp8\"}", R, "quantization_config = {" },
    { L, "is_encoder_decoder", "true", R, "is_encoder_decoder" },
    { L, "use_bidirectional_attention", "true", R, "use_bidirectional_attention" },
    { L, "num_experts", "8", R, "num_experts" },
    { L, "sliding_window", "4096", R, "sliding_window = 4096: not supported for model_type" },
    { L, "final_logit_softcapping", "30.0", R, "final_logit_softcapping" },
    { L, "embedding_multiplier", "12.0", R, "embedding_multiplier" },
    { L, "partial_rotary_factor", "0.5", R, "partial_rotary_factor" },
    { L, "no_rope_layers", "[1,1,0,1,1]", R, "no_rope_layers" },
    { L, "layer_types", "[\"full_attention\"]", F, "layer_types" },
    { L, "layer_types",
      "[\"full_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\","
      "\"full_attention\"]",
      R, "layer_types" },
    { L, "layer_types",
      "[\"full_attention\",\"full_attention\",\"linear_attention\",\"full_attention\","
      "\"full_attention\"]",
      R, "linear_attention" },
    { "qwen3", "attention_bias", "null", LS_OK, "" },
    { "mistral", "attention_bias", "true", R, "attention_bias" },
    { "mistral", "sliding_window", "0", F, "sliding_window" },
    { "mistral", "sliding_window", "12.0", F, "sliding_window" },
    { "qwen2-window", "sliding_window", "false", F, "sliding_window" },
    { "qwen2-window", "use_sliding_window", "\"yes\"", F, "use_sliding_window" },
    { "qwen2", "layer_types",
      "[\"full_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]", R,
      "no sliding_window is in force" },
    { "gemma2", "sliding_window", "null", R, "need a window" },
    { "gemma2", "attn_logit_softcapping", "0", F, "attn_logit_softcapping" },
    { "gemma2", "hidden_activation", "\"gelu\"", R, "hidden_activation" },
    { "gemma3", "attn_logit_softcapping", "50.0", R, "attn_logit_softcapping" },
    { "gemma3", "use_bidirectional_attention", "true", R, "use_bidirectional_attention" },
    { "gemma3-mm", "quantization_config", "{\"bits\":4}", R, "quantization_config" },
    { "gemma3-mm", "text_config.model_type", "\"gemma9_text\"", R, "text_config.model_type" },
    { "gemma3-mm", "text_config.rope_parameters", "{\"global\":{}}", R,
      "rope_parameters.global" },
    { "gemma3-mm", "text_config.rope_theta", "5", R, "rope_theta = 5: contradicts" },
    { "smollm3", "no_rope_layers", "[1,1,1,0]", F, "no_rope_layers" },
    { "smollm3", "no_rope_layers", "[1,1,1,0,2]", F, "entry 4" },
    { "smollm3", "no_rope_layers", "[1,1,1,0,true]", F, "entry 4" },
    { "smollm3", "no_rope_layer_interval", "0", F, "no_rope_layer_interval" },
    { "phi3", "rope_scaling", "{\"type\":\"linear\",\"factor\":2}", R, "default and longrope" },
    { "phi3", "partial_rotary_factor", "0.2", F, "3 of 16 elements" },
    { "phi3", "partial_rotary_factor", "1.5", F, "partial_rotary_factor" },
    { "phi3-longrope", "rope_scaling.long_factor", "[1,2,3]", F, "need 6 numbers" },
    { "phi3-longrope", "rope_scaling.short_factor", "[1,1,1,1,1,0]", F, "short_factor" },
    { "phi3-longrope", "rope_scaling.short_factor", "", F, "short_factor" },
    { "phi3-longrope", "rope_scaling.short_mscale", "1.2", R, "short_mscale" },
    { "granite", "residual_multiplier", "0", F, "residual_multiplier" },
    { "granite", "logits_scaling", "0", F, "logits_scaling" },
    { "cohere2", "use_qk_norm", "true", R, "use_qk_norm" },
    { L, "rope_parameters", "7", F, "rope_parameters" },
    { L, "rope_parameters.rope_type", "\"ntk\"", R, "supported rope types are default" },
    { L, "rope_parameters.rope_type", "3", F, "rope_type" },
    { L, "rope_parameters.type", "\"linear\"", R, "contradicts rope_type" },
    { L, "rope_parameters.rope_theta", "0", F, "rope_theta" },
    { L, "rope_parameters.rope_theta", "\"1e4\"", F, "rope_theta" },
    { L, "rope_parameters.factor", "2.0", R, "rope_parameters.factor = 2.0" },
    { L, "rope_parameters.mrope_section", "[2,3,3]", R, "mrope_section" },
    { L, "rope_parameters.partial_rotary_factor", "0.5", R, "partial_rotary_factor" },
    { L, "rope_theta", "500000.0", R, "rope_theta = 500000.0: contradicts 10000" },
    { L, "rope_scaling", "{\"type\":\"linear\",\"factor\":2.0}", R,
      "contradicts rope_parameters" },
    { YARN, "rope_parameters.factor", "0", F, "factor" },
    { YARN, "rope_parameters.factor", "true", F, "factor" },
    { YARN, "rope_parameters.beta_fast", "0.5", R, "beta_fast" },
    { YARN, "rope_parameters.attention_factor", "0", F, "attention_factor" },
    { YARN, "rope_parameters.attn_factor", "1.0", R, "attn_factor" },
    { YARN, "rope_parameters.truncate", "1", F, "truncate" },
    { YARN, "original_max_position_embeddings", "65", R, "contradicts 64" },
    { YARN, "rope_parameters.rope_theta", "1", F, "yarn needs a base above 1" },
    { "llama-rope-llama3", "rope_parameters.high_freq_factor", "1.0", R, "high_freq_factor" },
    { "llama-rope-llama3", "rope_parameters.low_freq_factor", "", F, "low_freq_factor" },
    { "llama-rope-linear", "rope_scaling.factor", "", F, "factor = absent" },
    { "llama-rope-dynamic", "rope_scaling.alpha", "1000.0", R, "alpha" },
};

static const struct change accepted[] = {
    { L, "num_key_value_heads", "null", LS_OK, "" },
    { L, "num_key_value_heads", "", LS_OK, "" },
    { L, "head_dim", "null", LS_OK, "" },
    { L, "quantization_config", "null", LS_OK, "" },
    { L, "eos_token_id", "null", LS_OK, "" },
    { L, "bos_token_id", "null", LS_OK, "" },
    { L, "dtype", "\"torch.bfloat16\"", LS_OK, "" },
    { L, "torch_dtype", "\"bfloat16\"", LS_OK, "" },
    { L, "rms_norm_eps", "", LS_OK, "" },
    { L, "partial_rotary_factor", "1.0", LS_OK, "" },
    { L, "embedding_multiplier", "1", LS_OK, "" },
    { L, "sliding_window", "null", LS_OK, "" },
    { L, "unknown_to_everyone", "{\"a\":1}", LS_OK, "" },
    { L, "rope_theta", "10000", LS_OK, "" },
    { L, "rope_scaling", "null", LS_OK, "" },
    { L, "rope_scaling", "{\"type\":\"default\"}", LS_OK, "" },
    { L, "rope_parameters.type", "\"default\"", LS_OK, "" },
    { YARN, "original_max_position_embeddings", "64", LS_OK, "" },
    { YARN, "rope_parameters.beta_fast", "null", LS_OK, "" },
    { YARN, "rope_parameters.finetuned", "true", LS_OK, "" },
    { "mistral", "sliding_window", "null", LS_OK, "0/0 0/0 0/0 0/0 0/0" },
    { "mistral", "sliding_window", "", LS_OK, "4096/0 4096/0 4096/0 4096/0 4096/0" },
    { "qwen2", "use_sliding_window", "true", LS_OK, "0/0 0/0 8/0 8/0" },
    { "qwen2-window", "use_sliding_window", "false", LS_OK, "0/0 0/0 0/0 0/0 0/0" },
    { "qwen2-window", "sliding_window", "null", LS_OK, "0/0 0/0 0/0 0/0 0/0" },
    { "qwen2-window", "max_window_layers", "0", LS_OK, "10/0 10/0 10/0 10/0 10/0" },
    { "qwen2-window", "max_window_layers", "9", LS_OK, "0/0 0/0 0/0 0/0 0/0" },
    { "qwen2-window", "layer_types",
      "[\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
      "\"sliding_attention\"]",
      LS_OK, "10/0 0/0 0/0 0/0 10/0" },
    { "smollm3", "no_rope_layers", "null", LS_OK, "0/0 0/0 0/0 0/-1 0/0" },
    { "smollm3", "no_rope_layers", "[0,1,1,1,0]", LS_OK, "0/-1 0/0 0/0 0/0 0/-1" },
    { "smollm3", "sliding_window", "6", LS_OK, "0/0 0/0 0/0 0/-1 0/0" },
    { "gemma2", "final_logit_softcapping", "null", LS_OK, "" },
    { "gemma3", "sliding_window_pattern", "2", LS_OK, "8/1 0/0 8/1 0/0 8/1" },
    { "gemma3", "sliding_window_pattern", "", LS_OK, "8/1 8/1 8/1 8/1 8/1" },
    { "gemma3-mm", "text_config.rope_parameters", "null", LS_OK, "8/1 8/1 0/0 8/1 0/0" },
    { "gemma3-mm", "text_config.num_attention_heads", "", LS_OK, "" },
    { "cohere2", "sliding_window_pattern", "2", LS_OK, "8/0 0/-1 8/0 0/-1 8/0" },
    { "phi3", "sliding_window", "", LS_OK, "0/0 0/0 0/0 0/0 0/0" },
    { "phi3-longrope", "rope_scaling.type", "\"su\"", LS_OK, "" },
};

static void check_change(const struct change *c)
{
    struct loaded l;
    char layers[256];
    ls_status s = parse_changed(c, &l);
    if (s != c->status)
        fail_msg("%s %s = %s: expected %s, got %s (%s)", c->fixture, c->key, c->value,
                 ls_status_name(c->status), ls_status_name(s), l.err.text);
    if (s) {
        rig_expect(s, &l.err, c->status, c->says, "config.json: ", NULL);
    } else if (*c->says) {
        layers_text(&l.arch, layers);
        assert_string_equal(layers, c->says);
    }
    ls_arena_finish(&l.arena);
}

static void changes_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_change(&refusals[i]);
}

static void changes_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        check_change(&accepted[i]);
}

/* What a config leaves out is what the reference's own class has. */
static void absent_keys(void **state)
{
    (void)state;
    struct loaded l;
    const struct change bias = { "glm4", "attention_bias", "", LS_OK, "" };
    const struct change part = { "glm4", "partial_rotary_factor", "", LS_OK, "" };
    const struct change cap = { "gemma2", "attn_logit_softcapping", "", LS_OK, "" };
    const struct change no_cap = { "gemma2", "attn_logit_softcapping", "null", LS_OK, "" };
    const struct change query = { "gemma3", "query_pre_attn_scalar", "", LS_OK, "" };
    const struct change scale = { "cohere2", "logit_scale", "", LS_OK, "" };
    const struct change tie = { "gemma", "tie_word_embeddings", "", LS_OK, "" };
    const struct change base = { "smollm3", "rope_theta", "", LS_OK, "" };
    assert_int_equal(parse_changed(&bias, &l), LS_OK);
    assert_true(l.arch.qkv_bias);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&part, &l), LS_OK);
    assert_int_equal(l.arch.ropes[0].n_pairs, 4);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&cap, &l), LS_OK);
    assert_true(l.arch.attn_softcap == 50);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&no_cap, &l), LS_OK);
    assert_true(l.arch.attn_softcap == 0);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&query, &l), LS_OK);
    assert_true(l.arch.layers[0].attn_scale == 0.0625f);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&scale, &l), LS_OK);
    assert_true(l.arch.logit_scale == 0.0625f);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&tie, &l), LS_OK);
    assert_true(l.arch.tied);
    ls_arena_finish(&l.arena);
    assert_int_equal(parse_changed(&base, &l), LS_OK);
    assert_true(fabs(l.arch.ropes[0].freq[1] - pow(2e6, -0.125)) < 1e-7);
    ls_arena_finish(&l.arena);
}

static void smollm3_windows(void **state)
{
    (void)state;
    struct loaded l = { .arena = { 0 } };
    char layers[256];
    json_t *config = fixture_config("smollm3");
    json_object_set_new(config, "use_sliding_window", json_true());
    json_object_set_new(config, "sliding_window", json_integer(6));
    char *text = json_dumps(config, 0);
    assert_int_equal(ls_arch_parse(&l.arch, text, strlen(text), NULL, 0,
                                   &(struct ls_arch_wish){ 0 }, &l.arena, &l.err),
                     LS_OK);
    layers_text(&l.arch, layers);
    assert_string_equal(layers, "0/0 0/0 0/0 6/-1 0/0");
    free(text);
    json_decref(config);
    ls_arena_finish(&l.arena);
}

static ls_status parse_ends(struct loaded *l, const char *config_eos, const char *generation)
{
    char config[1024];
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"vocab_size\":32,\"hidden_size\":8,"
             "\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
             "\"eos_token_id\":%s}",
             config_eos);
    memset(l, 0, sizeof *l);
    ls_arena_init(&l->arena);
    return ls_arch_parse(&l->arch, config, strlen(config), generation,
                         generation ? strlen(generation) : 0, &(struct ls_arch_wish){ 0 },
                         &l->arena, &l->err);
}

static void ends_of_text(void **state)
{
    (void)state;
    static const struct {
        const char *config, *generation;
        int n, first;
    } cases[] = {
        { "2", NULL, 1, 2 },
        { "[2, 3, 2]", NULL, 2, 2 },
        { "null", NULL, 0, 0 },
        { "[]", NULL, 0, 0 },
        { "2", "{\"eos_token_id\": [7, 2]}", 2, 7 },
        { "2", "{\"eos_token_id\": 9, \"bos_token_id\": 4}", 1, 9 },
        { "2", "{\"eos_token_id\": null}", 1, 2 },
        { "2", "{}", 1, 2 },
        { "null", "{\"eos_token_id\": 0}", 1, 0 },
    };
    struct loaded l;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse_ends(&l, cases[i].config, cases[i].generation))
            fail_msg("%s", l.err.text);
        assert_int_equal(l.arch.n_eos, cases[i].n);
        if (cases[i].n)
            assert_int_equal(l.arch.eos[0], cases[i].first);
        ls_arena_finish(&l.arena);
    }
    rig_expect(parse_ends(&l, "2", "{\"eos_token_id\": -1}"), &l.err, LS_E_FORMAT,
               "generation_config.json: eos_token_id = -1", NULL);
    ls_arena_finish(&l.arena);
    rig_expect(parse_ends(&l, "2", "[]"), &l.err, LS_E_FORMAT, "generation_config.json", NULL);
    ls_arena_finish(&l.arena);
    rig_expect(parse_ends(&l, "2, \"eos_token_id\": 3", NULL), &l.err, LS_E_FORMAT, "uplicate",
               "config.json", NULL);
    ls_arena_finish(&l.arena);
}

static void declared_context(void **state)
{
    (void)state;
    struct loaded l;
    assert_int_equal(load(&l, "llama-bf16", &(struct ls_arch_wish){ .context = 1000 }), LS_OK);
    assert_int_equal(l.arch.context, 1000);
    assert_int_equal(l.arch.max_positions, 256);
    ls_arena_finish(&l.arena);
    rig_expect(load(&l, "llama-bf16", &(struct ls_arch_wish){ .context = -1 }), &l.err,
               LS_E_USAGE, "context: -1", NULL);
    ls_arena_finish(&l.arena);
    rig_expect(load(&l, "no-such-fixture", &(struct ls_arch_wish){ 0 }), &l.err, LS_E_IO,
               "config.json", "no-such-fixture", NULL);
    ls_arena_finish(&l.arena);
}

/* A config without a dtype takes that of the stored embedding, unless float32 is wished. */
static void dtype_of_the_weights(void **state)
{
    (void)state;
    struct rig_folder f;
    struct loaded l = { .arena = { 0 } };
    struct ls_arch_wish wish = { 0 };
    rig_copy_fixture(&f, "gemma3-mm");
    rig_replace(&f, "config.json", "\"dtype\": \"bfloat16\",", "");
    assert_int_equal(ls_arch_load(&l.arch, f.path, &wish, &l.arena, &l.err), LS_OK);
    assert_int_equal(l.arch.dtype, LS_FMT_BF16);
    assert_false(l.arch.dtype_stated);
    wish.f32_activations = true;
    assert_int_equal(ls_arch_load(&l.arch, f.path, &wish, &l.arena, &l.err), LS_OK);
    assert_int_equal(l.arch.dtype, LS_FMT_F32);
    rig_remove(&f, "generation_config.json");
    assert_int_equal(ls_arch_load(&l.arch, f.path, &wish, &l.arena, &l.err), LS_OK);
    assert_int_equal(l.arch.n_eos, 2);
    ls_arena_finish(&l.arena);
    rig_folder_remove(&f);
}

/* The token at i sees i - W + 1 .. i, and never what the cache no longer holds. */
static void visibility(void **state)
{
    (void)state;
    const struct ls_layer all = { .window = 0 };
    assert_int_equal(ls_first_visible(&all, 1000000, 0), 0);
    assert_int_equal(ls_first_visible(&all, 1000, 64), 64);
    for (int w = 1; w <= 40; w++) {
        const struct ls_layer layer = { .window = w };
        for (int pos = 0; pos < 100; pos++) {
            const int first = ls_first_visible(&layer, pos, 0);
            assert_int_equal(pos - first + 1, pos + 1 < w ? pos + 1 : w);
            assert_int_equal(ls_first_visible(&layer, pos, first + 1), first + 1);
        }
        assert_int_equal(ls_first_visible(&layer, w - 1, 0), 0);
        assert_int_equal(ls_first_visible(&layer, w, 0), 1);
        assert_int_equal(ls_first_visible(&layer, w + 1, 0), 2);
    }
    const struct ls_layer wide = { .window = LS_MAX_CONTEXT };
    assert_int_equal(ls_first_visible(&wide, INT32_MAX, 0), INT32_MAX - LS_MAX_CONTEXT + 1);
}

static void sizes(void **state)
{
    (void)state;
    struct loaded l;
    assert_int_equal(load(&l, "llama-headdim", &(struct ls_arch_wish){ 0 }), LS_OK);
    for (int i = 0; i <= l.arch.n_layers; i++)
        assert_int_equal(ls_inbound_width(&l.arch, i), 64);
    /* one KV head, K and V, 32 positions, 24 elements of 2 bytes */
    assert_int_equal(ls_kv_block_bytes(&l.arch, 0), 2 * 32 * 24 * 2);
    ls_arena_finish(&l.arena);
    assert_int_equal(load(&l, "llama-f32", &(struct ls_arch_wish){ 0 }), LS_OK);
    assert_int_equal(ls_kv_block_bytes(&l.arch, 4), 3 * 2 * 32 * 16 * 4);
    ls_arena_finish(&l.arena);
}

static void table_of_families(void **state)
{
    (void)state;
    int n = 0;
    for (; ls_family_at(n); n++)
        assert_ptr_equal(ls_family_find(ls_family_at(n)->model_type), ls_family_at(n));
    assert_int_equal(n, 13);
    assert_null(ls_family_at(-1));
    assert_null(ls_family_find("gemma3"));
    assert_null(ls_family_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_resolve),
        cmocka_unit_test(quirks_of_families),
        cmocka_unit_test(embedding_scale_is_rounded),
        cmocka_unit_test(changes_refused),
        cmocka_unit_test(changes_accepted),
        cmocka_unit_test(absent_keys),
        cmocka_unit_test(smollm3_windows),
        cmocka_unit_test(ends_of_text),
        cmocka_unit_test(declared_context),
        cmocka_unit_test(dtype_of_the_weights),
        cmocka_unit_test(visibility),
        cmocka_unit_test(sizes),
        cmocka_unit_test(table_of_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
