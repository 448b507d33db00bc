/* Architectures: what every fixture resolves to, ends of text, dtypes, visibility and sizes. */
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
    { "mixtral", "mixtral", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "qwen2_moe", "qwen2_moe", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "qwen3_moe", "qwen3_moe", "0/0 0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 10, 20 },
    { "glm4_moe", "glm4_moe", "0/0 0/0 0/0 0/0", LS_FMT_BF16, false, "default", 4, 16 },
    { "gpt_oss", "gpt_oss", "8/0 0/0 8/0 0/0", LS_FMT_BF16, false, "yarn", 8, 16 },
    { "llama4", "llama4_text", "0/0 0/0 0/0 0/-1 0/0", LS_FMT_BF16, false, "default", 8, 16 },
    { "gemma4", "gemma4_text", "8/1 8/1 0/0 8/1 8/1 0/0", LS_FMT_BF16, true, "proportional", 16,
      1 },
    { "gemma4-moe", "gemma4_text", "8/1 8/1 0/0 8/1 0/0", LS_FMT_BF16, true, "proportional", 16,
      1 },
};

static void fixtures_resolve(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof resolved / sizeof *resolved; i++) {
        struct loaded l;
        char layers[256];
        if (load(&l, resolved[i].fixture, &(struct ls_arch_wish){ 0 }))
            fail_msg("%s: %s", resolved[i].fixture, l.err.text);
        rig_layers_text(&l.arch, layers);
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
        json_t *config = rig_config("gemma");
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
    assert_int_equal(n, 20);
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
        cmocka_unit_test(ends_of_text),
        cmocka_unit_test(declared_context),
        cmocka_unit_test(dtype_of_the_weights),
        cmocka_unit_test(visibility),
        cmocka_unit_test(sizes),
        cmocka_unit_test(table_of_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
