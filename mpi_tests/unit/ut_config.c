/* Configs changed in one place: each setting that is out of range, unknown or contradictory is
 * refused with its key, and what may be left out or written in another way is accepted. */
#include "model_rig.h"

#include "model/arch.h"

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

/* One change of a fixture's config: key (a dot leads into an object), its new value as JSON
 * ("" takes it away), and what must come of it. */
struct change {
    const char *fixture, *key, *value;
    ls_status status;
    const char *says; /* in the message; or, on success, the layers' text ("" for any) */
};

/* Both levels of a nested config speak of the tie. */
static void nested_ties(void **state)
{
    (void)state;
    static const int8_t flags[] = { -1, 0, 1 }; /* absent, false, true */
    for (int i = 0; i < 9; i++) {
        const int outer = flags[i / 3], inner = flags[i % 3];
        struct loaded l = { .arena = { 0 } };
        json_t *config = rig_config("gemma3-mm");
        if (outer >= 0)
            json_object_set_new(config, "tie_word_embeddings", json_boolean(outer));
        if (inner >= 0)
            json_object_set_new(json_object_get(config, "text_config"), "tie_word_embeddings",
                                json_boolean(inner));
        char *text = json_dumps(config, 0);
        ls_status s = ls_arch_parse(&l.arch, text, strlen(text), NULL, 0,
                                    &(struct ls_arch_wish){ 0 }, &l.arena, &l.err);
        if (outer >= 0 && inner >= 0 && outer != inner) {
            rig_expect(s, &l.err, LS_E_REFUSED, "tie_word_embeddings", "contradicts", NULL);
        } else {
            assert_int_equal(s, LS_OK);
            assert_int_equal(l.arch.tied, outer >= 0 ? outer : inner >= 0 ? inner : 1);
        }
        free(text);
        json_decref(config);
        ls_arena_finish(&l.arena);
    }
}

static ls_status parse_changed(const struct change *c, struct loaded *l)
{
    json_t *config = rig_config(c->fixture), *at = config;
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
    { L, "model_type", "\"jamba\"", R, "jamba" },
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
    { L, "partial_rotary_factor", "0.3", R, "partial_rotary_factor = 0.3:" },
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
    { "gemma2", "hidden_act", "\"relu\"", R,
      "hidden_act = \"relu\": contradicts hidden_activation" },
    { "gemma4", "hidden_act", "\"silu\"", R, "contradicts hidden_activation" },
    { "gemma", "hidden_activation", "\"silu\"", R, "contradicts hidden_act" },
    { "gemma", "hidden_activation", "7", F, "hidden_activation = 7: expected a text" },
    { "gemma3", "attn_logit_softcapping", "50.0", R, "attn_logit_softcapping" },
    { "gemma3", "use_bidirectional_attention", "true", R, "use_bidirectional_attention" },
    { "gemma3-mm", "quantization_config", "{\"bits\":4}", R, "quantization_config" },
    { "gemma3-mm", "text_config.model_type", "\"gemma9_text\"", R, "text_config.model_type" },
    { "gemma3-mm", "text_config.rope_parameters", "{\"global\":{}}", R,
      "rope_parameters.global" },
    { "gemma3-mm", "text_config.rope_theta", "5", R, "rope_theta = 5: contradicts" },
    { "gemma3-mm", "text_config", "7", R, "model_type = \"gemma3\"" },
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
    { "llama-rope-llama3", "rope_parameters.high_freq_factor", "0.5", R, "high_freq_factor" },
    { "llama-rope-llama3", "rope_parameters.low_freq_factor", "", F, "low_freq_factor" },
    { "llama-rope-linear", "rope_scaling.factor", "", F, "rope_scaling.factor = absent" },
    { "llama-rope-linear", "rope_scaling.factor", "null", F, "rope_scaling.factor = null" },
    { "llama-rope-dynamic", "rope_scaling.factor", "", F, "rope_scaling.factor = absent" },
    { YARN, "rope_parameters.factor", "", F, "rope_parameters.factor = absent" },
    { YARN, "rope_parameters.factor", "null", F, "rope_parameters.factor = null" },
    { "llama-rope-llama3", "rope_parameters.factor", "", F, "rope_parameters.factor = absent" },
    { "llama-rope-llama3", "rope_parameters.high_freq_factor", "", F,
      "rope_parameters.high_freq_factor = absent" },
    { "llama-rope-llama3", "rope_parameters.original_max_position_embeddings", "", F,
      "original_max_position_embeddings = absent: llama3 rope needs it" },
    { "phi3-longrope", "rope_scaling.long_factor", "", F, "rope_scaling.long_factor = absent" },
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
    { "llama-rope-llama3", "rope_parameters.high_freq_factor", "1.0", LS_OK, "" },
    { "llama4", "attn_temperature_tuning", "4", LS_OK, "" },
    { "llama4", "no_rope_layers", "[]", LS_OK, "0/0 0/0 0/0 0/-1 0/0" },
    { "llama4", "attention_chunk_size", "null", LS_OK, "0/0 0/0 0/0 0/-1 0/0" },
    { "gemma4", "use_bidirectional_attention", "\"vision\"", LS_OK, "" },
    { "gemma4", "use_bidirectional_attention", "false", LS_OK, "" },
    { "gemma4-moe", "layer_types",
      "[\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\","
      "\"sliding_attention\"]",
      LS_OK, "0/0 8/1 0/0 8/1 0/0" },
    { "gpt_oss", "layer_types", "null", LS_OK, "8/0 0/0 8/0 0/0" },
    { "qwen2_moe", "use_sliding_window", "true", LS_OK, "8/0 0/0 0/0 0/0" },
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
    { "gemma2", "hidden_act", "\"gelu\"", LS_OK, "" },
    { "gemma", "hidden_activation", "\"gelu_pytorch_tanh\"", LS_OK, "" },
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
        rig_layers_text(&l.arch, layers);
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
    json_t *config = rig_config("smollm3");
    json_object_set_new(config, "use_sliding_window", json_true());
    json_object_set_new(config, "sliding_window", json_integer(6));
    char *text = json_dumps(config, 0);
    assert_int_equal(ls_arch_parse(&l.arch, text, strlen(text), NULL, 0,
                                   &(struct ls_arch_wish){ 0 }, &l.arena, &l.err),
                     LS_OK);
    rig_layers_text(&l.arch, layers);
    assert_string_equal(layers, "0/0 0/0 0/0 6/-1 0/0");
    free(text);
    json_decref(config);
    ls_arena_finish(&l.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_refused), cmocka_unit_test(changes_accepted),
        cmocka_unit_test(absent_keys),     cmocka_unit_test(nested_ties),
        cmocka_unit_test(smollm3_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
