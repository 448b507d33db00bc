/* Families with experts and shared caches: where each expert's elements come from, what MXFP4
 * stands for, which layers are sparse, which cuts are refused, which settings. */
#include "model_rig.h"
#include "stage_rig.h"

#include "model/pack.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- weights ---------------------------------------------------------------------------------
 */

struct loaded {
    struct rig_model model;
    struct ls_team *team;
    struct ls_weights w;
};

static void load(struct loaded *l, const char *fixture, int n_members)
{
    struct ls_err err;
    rig_open(&l->model, fixture, false, 0);
    assert_int_equal(ls_team_create(&l->team, n_members, &err), LS_OK);
    const int n = l->model.arch.n_layers;
    if (ls_weights_load(&l->w, &l->model.arch, l->model.ckpt, 0, n, NULL, l->team, &err))
        fail_msg("%s", err.text);
    assert_int_equal(l->w.bytes, ls_weights_bytes(&l->model.arch, l->model.ckpt, 0, n));
}

static void unload(struct loaded *l)
{
    ls_weights_finish(&l->w);
    ls_team_destroy(l->team);
    rig_close(&l->model);
}

/* Element (n, k) of packed bf16, by the layout that kernels.h describes. */
static uint16_t packed_at(const struct ls_matrix *m, int n, int k)
{
    const char *tile = (const char *)m->packed + n / LS_TILE * ((m->k + 1) / 2) * 64;
    uint16_t v;
    assert_int_equal(m->fmt, LS_FMT_BF16);
    memcpy(&v, tile + k / 2 * 64 + n % LS_TILE * 4 + k % 2 * 2, sizeof v);
    return v;
}

static uint16_t stored_at(const struct loaded *l, const char *tensor, uint64_t i)
{
    const struct ls_tensor *t = ls_checkpoint_find(l->model.ckpt, tensor);
    uint16_t v;
    if (!t)
        fail_msg("no tensor %s", tensor);
    assert_true((i + 1) * 2 <= t->bytes);
    memcpy(&v, t->data + i * 2, sizeof v);
    return v;
}

/* Where element (n, k) of expert e lies in the file; kind 0: gate, 1: up, 2: down. */
struct where {
    const char *fixture, *gate, *down; /* names in layer 1; gate: that of gate and up */
    uint64_t (*at)(int kind, int e, int n, int k);
};

/* gpt_oss: 48 hidden, 32 wide; columns gate, up, gate, up. */
static uint64_t at_alternate(int kind, int e, int n, int k)
{
    if (kind == 2)
        return (uint64_t)((e * 32 + k) * 48 + n);
    return (uint64_t)((e * 48 + k) * 64 + 2 * n + kind);
}

/* llama4: the same sizes; gate left of up. */
static uint64_t at_turned(int kind, int e, int n, int k)
{
    if (kind == 2)
        return (uint64_t)((e * 32 + k) * 48 + n);
    return (uint64_t)((e * 48 + k) * 64 + 32 * kind + n);
}

/* gemma4-moe: 48 hidden, 8 wide; gate above up. */
static uint64_t at_fused(int kind, int e, int n, int k)
{
    if (kind == 2)
        return (uint64_t)((e * 48 + n) * 8 + k);
    return (uint64_t)((e * 16 + 8 * kind + n) * 48 + k);
}

static const struct where places[] = {
    { "gpt_oss", "model.layers.1.mlp.experts.gate_up_proj",
      "model.layers.1.mlp.experts.down_proj", at_alternate },
    { "llama4", "model.layers.1.feed_forward.experts.gate_up_proj",
      "model.layers.1.feed_forward.experts.down_proj", at_turned },
    { "gemma4-moe", "model.layers.1.experts.gate_up_proj", "model.layers.1.experts.down_proj",
      at_fused },
};

static void check_experts(const struct loaded *l, const struct where *at)
{
    const struct ls_experts *arch = &l->model.arch.experts;
    for (int e = 0; e < arch->n; e++) {
        const struct ls_expert_weights *x = &l->w.layers[1].experts[e];
        const struct ls_matrix *const m[3] = { &x->gate, &x->up, &x->down };
        for (int kind = 0; kind < 3; kind++)
            for (int n = 0; n < m[kind]->n; n++)
                for (int k = 0; k < m[kind]->k; k++)
                    assert_int_equal(
                        packed_at(m[kind], n, k),
                        stored_at(l, kind == 2 ? at->down : at->gate, at->at(kind, e, n, k)));
    }
}

static void fused_experts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct loaded l;
        load(&l, places[i].fixture, (int)i + 1);
        check_experts(&l, &places[i]);
        unload(&l);
    }
}

static void single_experts(void **state)
{
    (void)state;
    struct loaded l;
    load(&l, "mixtral", 2);
    for (int e = 0; e < 6; e++) {
        const struct ls_expert_weights *x = &l.w.layers[2].experts[e];
        const struct ls_matrix *const m[3] = { &x->gate, &x->down, &x->up };
        for (int w = 0; w < 3; w++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.2.block_sparse_moe.experts.%d.w%d.weight",
                     e, w + 1);
            for (int n = 0; n < m[w]->n; n++)
                for (int k = 0; k < m[w]->k; k++)
                    assert_int_equal(packed_at(m[w], n, k),
                                     stored_at(&l, name, (uint64_t)(n * m[w]->k + k)));
        }
    }
    unload(&l);
}

/* Biases of alternate columns: gate's are the even ones. */
static void biases_of_experts(void **state)
{
    (void)state;
    struct loaded l;
    load(&l, "gpt_oss", 1);
    static const char name[] = "model.layers.3.mlp.experts.gate_up_proj_bias";
    for (int e = 0; e < 4; e++)
        for (int n = 0; n < 32; n++) {
            const struct ls_expert_weights *x = &l.w.layers[3].experts[e];
            const uint32_t gate = (uint32_t)stored_at(&l, name, (uint64_t)(e * 64 + 2 * n))
                                  << 16;
            const uint32_t up = (uint32_t)stored_at(&l, name, (uint64_t)(e * 64 + 2 * n + 1))
                                << 16;
            assert_memory_equal(&x->gate.bias[n], &gate, 4);
            assert_memory_equal(&x->up.bias[n], &up, 4);
        }
    assert_non_null(l.w.layers[0].router.bias);
    assert_non_null(l.w.layers[0].sinks);
    unload(&l);
}

/* Every scale with every number, against the definition in binary64. */
static void mxfp4_values(void **state)
{
    static const double e2m1[8] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    unsigned char data[16], scale;
    char scratch[16 * 32 * 2], packed[16 * 64];
    struct ls_matrix m = { .fmt = LS_FMT_BF16, .n = 1, .k = 32, .packed = packed };
    (void)state;
    for (int i = 0; i < 16; i++)
        data[i] = (unsigned char)((i << 4) | (15 - i));
    for (int s = 0; s < 256; s++) {
        const struct ls_pack_source src = {
            .data = data, .scales = &scale, .row_step = 32, .col_step = 1, .fmt = LS_FMT_BF16
        };
        scale = (unsigned char)s;
        assert_true(ls_pack_scratch(&src, &m) <= sizeof scratch);
        ls_pack_tiles(&src, &m, 0, 1, scratch);
        for (int k = 0; k < 32; k++) {
            const int code = k % 2 ? k / 2 : 15 - k / 2;
            const uint32_t bits = (uint32_t)packed_at(&m, 0, k) << 16;
            const double want = ldexp(e2m1[code & 7], s - 127);
            float got;
            memcpy(&got, &bits, sizeof got);
            if (s == 255)
                assert_true(isnan(got));
            else if (want >= 0x1p128)
                assert_true(isinf(got) && !signbit(got) == !(code & 8));
            else
                assert_true(fabs((double)got) == want && !signbit(got) == !(code & 8));
        }
    }
}

static void mxfp4_refused(void **state)
{
    static const struct {
        const char *from, *to, *says;
    } bad[] = {
        { "\"hidden_size\": 64", "\"hidden_size\": 48", "multiple of 32" },
        { "\"mxfp4\"", "\"gptq\"", "supported is only mxfp4" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rig_folder folder;
        struct ls_arena arena;
        struct ls_arch arch;
        struct ls_err err;
        rig_copy_fixture(&folder, "gpt_oss-mxfp4");
        rig_replace(&folder, "config.json", bad[i].from, bad[i].to);
        ls_arena_init(&arena);
        assert_int_not_equal(
            ls_arch_load(&arch, folder.path, &(struct ls_arch_wish){ 0 }, &arena, &err), LS_OK);
        assert_non_null(strstr(err.text, bad[i].says));
        ls_arena_finish(&arena);
        rig_folder_remove(&folder);
    }
}

/* Scales are part of the check: missing, or of another shape. */
static void mxfp4_scales_checked(void **state)
{
    static const char name[] = "model.layers.1.mlp.experts.down_proj_scales";
    struct rig_folder folder;
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    struct ls_err err;
    size_t n;
    (void)state;
    rig_copy_fixture(&folder, "gpt_oss-mxfp4");
    rig_replace(&folder, "model.safetensors", name,
                "model.layers.1.mlp.experts.down_proj_scalez");
    ls_arena_init(&arena);
    assert_int_equal(
        ls_arch_load(&arch, folder.path, &(struct ls_arch_wish){ 0 }, &arena, &err), LS_OK);
    assert_int_equal(ls_checkpoint_open(&ckpt, folder.path, &err), LS_OK);
    rig_expect(ls_weights_check(&arch, ckpt, &n, NULL, &err), &err, LS_E_FORMAT, name,
               "is missing", NULL);
    ls_checkpoint_close(ckpt);
    ls_arena_finish(&arena);
    rig_folder_remove(&folder);
}

/* --- architectures ---------------------------------------------------------------------------
 */

/* One letter a layer: d dense, e experts. */
static const struct {
    const char *fixture, *layers;
    int n, n_chosen, width, shared;
} sparse[] = {
    { "mixtral", "eeee", 6, 2, 24, 0 },     { "qwen2_moe", "edee", 8, 3, 16, 48 },
    { "qwen3_moe", "deded", 8, 2, 16, 0 },  { "glm4_moe", "deee", 8, 3, 16, 16 },
    { "gpt_oss", "eeee", 4, 2, 32, 0 },     { "llama4", "deded", 4, 1, 32, 32 },
    { "gemma4-moe", "eeeee", 8, 2, 8, 32 }, { "gemma4", "dddddd", 0, 0, 0, 0 },
};

static void sparse_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        struct rig_model m;
        rig_open(&m, sparse[i].fixture, false, 0);
        const struct ls_experts *e = &m.arch.experts;
        assert_int_equal(e->n, sparse[i].n);
        assert_int_equal(e->n_chosen, sparse[i].n_chosen);
        assert_int_equal(e->intermediate, sparse[i].width);
        for (int l = 0; l < m.arch.n_layers; l++) {
            const bool is_sparse = m.arch.layers[l].ffn == LS_FFN_EXPERTS;
            assert_int_equal(is_sparse ? 'e' : 'd', sparse[i].layers[l]);
            if (is_sparse)
                assert_int_equal(m.arch.layers[l].intermediate, sparse[i].shared);
        }
        rig_close(&m);
    }
}

static const struct {
    const char *fixture, *key, *value, *says;
} refused[] = {
    { "mixtral", "num_experts_per_tok", "7", "more than there are experts" },
    { "mixtral", "num_local_experts", "0", "num_local_experts" },
    { "mixtral", "quantization_config", "{\"quant_method\":\"awq\"}", "quantization_config" },
    { "qwen2_moe", "mlp_only_layers", "[4]", "no layer number" },
    { "qwen2_moe", "mlp_only_layers", "\"1\"", "list of layer numbers" },
    { "qwen2_moe", "shared_expert_intermediate_size", "0", "shared_expert" },
    { "qwen3_moe", "decoder_sparse_step", "0", "decoder_sparse_step" },
    { "qwen3_moe", "shared_expert_intermediate_size", "16", "shared_expert" },
    { "glm4_moe", "scoring_func", "\"softmax\"", "supported is only sigmoid" },
    { "glm4_moe", "topk_method", "\"greedy\"", "supported is only noaux_tc" },
    { "glm4_moe", "n_group", "3", "n_group" },
    { "glm4_moe", "n_group", "8", "groups of two or more" },
    { "glm4_moe", "topk_group", "2", "more than n_group" },
    { "glm4_moe-groups", "num_experts_per_tok", "7", "fewer experts" },
    { "gpt_oss", "rope_scaling", "null", "rope_scaling" },
    { "gpt_oss", "sliding_window", "null", "need a window" },
    { "gpt_oss", "hidden_act", "\"relu\"", "hidden_act" },
    { "gpt_oss", "layer_types",
      "[\"full_attention\",\"chunked_attention\",\"full_attention\","
      "\"full_attention\"]",
      "chunked_attention" },
    { "llama4", "layer_types",
      "[\"sliding_attention\",\"full_attention\",\"full_attention\","
      "\"full_attention\",\"full_attention\"]",
      "sliding_attention" },
    { "llama4", "attention_chunk_size", "0", "attention_chunk_size" },
    { "llama4", "moe_layers", "[5]", "no layer number" },
    { "gemma4", "use_bidirectional_attention", "\"all\"", "left to right" },
    { "gemma4", "num_kv_shared_layers", "6", "no layer of 6" },
    { "gemma4", "num_kv_shared_layers", "4", "no layer of its type" },
    { "gemma4", "vocab_size_per_layer_input", "300", "would have no row" },
    { "gemma4", "global_head_dim", "31", "even size" },
    { "gemma4-moe", "num_experts", "null", "num_experts" },
    { "llama-bf16", "num_kv_shared_layers", "2", "num_kv_shared_layers" },
    { "llama-bf16", "attention_k_eq_v", "true", "attention_k_eq_v" },
    { "llama-bf16", "n_group", "4", "n_group" },
    { "llama-bf16", "swiglu_limit", "7.0", "swiglu_limit" },
    { "qwen3", "moe_layers", "[1]", "moe_layers" },
};

static void settings_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char path[4096];
        struct ls_arena arena;
        struct ls_arch arch;
        struct ls_err err = { 0 };
        snprintf(path, sizeof path, "%s/families/%s/config.json", LS_FIXTURES,
                 refused[i].fixture);
        json_t *config = json_load_file(path, 0, NULL);
        json_object_set_new(config, refused[i].key,
                            json_loads(refused[i].value, JSON_DECODE_ANY, NULL));
        char *text = json_dumps(config, 0);
        ls_arena_init(&arena);
        ls_status s = ls_arch_parse(&arch, text, strlen(text), NULL, 0,
                                    &(struct ls_arch_wish){ 0 }, &arena, &err);
        if ((s != LS_E_REFUSED && s != LS_E_FORMAT) || !strstr(err.text, refused[i].says))
            fail_msg("%s %s = %s: %s (%s)", refused[i].fixture, refused[i].key,
                     refused[i].value, ls_status_name(s), err.text);
        ls_arena_finish(&arena);
        free(text);
        json_decref(config);
    }
}

/* Chunks are blocks of absolute positions; what is gone stays gone. */
static void chunks(void **state)
{
    const struct ls_layer layer = { .chunk = 16 };
    (void)state;
    assert_int_equal(ls_first_visible(&layer, 0, 0), 0);
    assert_int_equal(ls_first_visible(&layer, 15, 0), 0);
    assert_int_equal(ls_first_visible(&layer, 16, 0), 16);
    assert_int_equal(ls_first_visible(&layer, 31, 0), 16);
    assert_int_equal(ls_first_visible(&layer, 32, 0), 32);
    assert_int_equal(ls_first_visible(&layer, 47, 40), 40);
}

/* --- cuts ------------------------------------------------------------------------------------
 */

static void shared_caches_are_not_cut_off(void **state)
{
    struct rig_model m;
    int reader = -1;
    (void)state;
    rig_open(&m, "gemma4", false, 0); /* layers 3, 4 read 1, layer 5 reads 2 */
    for (int l = 0; l <= 6; l++)
        assert_int_equal(ls_cut_allowed(&m.arch, l, &reader), l < 2 || l == 6);
    assert_false(ls_cut_allowed(&m.arch, 2, &reader));
    assert_int_equal(reader, 3);
    assert_int_equal(ls_kv_block_bytes(&m.arch, 3), 0);
    assert_true(ls_kv_block_bytes(&m.arch, 2) == 2 * ls_kv_block_bytes(&m.arch, 1));
    /* 48 hidden, and 8 for each layer that is still to come */
    for (int l = 0; l <= 6; l++)
        assert_int_equal(ls_inbound_width(&m.arch, l), 48 + 8 * (6 - l));
    rig_close(&m);
}

static void refused_cut_says_why(void **state)
{
    struct rig_model m;
    struct ls_stage *stage;
    struct ls_err err;
    (void)state;
    rig_open(&m, "gemma4", false, 0);
    const struct rig_layout layout = rig_plain(&m, 8);
    struct ls_stage_config config = { .arch = &m.arch,
                                      .ckpt = m.ckpt,
                                      .kernels = layout.kernels,
                                      .first_layer = 2,
                                      .last_layer = 6,
                                      .n_threads = 1,
                                      .limits = layout.limits,
                                      .max_logit_rows = 8 };
    rig_expect(ls_stage_create(&stage, &config, &err), &err, LS_E_REFUSED,
               "cut in front of layer 2", "layer 3 reads", "of layer 1", NULL);
    config.first_layer = 0;
    config.last_layer = 4;
    rig_expect(ls_stage_create(&stage, &config, &err), &err, LS_E_REFUSED,
               "cut in front of layer 4", "layer 4 reads", "of layer 1", NULL);
    rig_close(&m);
}

/* --- NaN -------------------------------------------------------------------------------------
 */

/* One step of six tokens of one sequence from layer 1 on; the token `poisoned` arrives as NaN.
 */
static void run_from_layer_1(struct rig_chain *c, int poisoned, float *out)
{
    struct ls_step *step = &c->step;
    const size_t width = (size_t)ls_inbound_width(&c->model->arch, 1);
    step->n_rows = 1;
    step->n_events = 2;
    step->n_tokens = 6;
    step->events[0] = (struct ls_step_event){ LS_EVENT_OPEN, 0, 0 };
    step->events[1] = (struct ls_step_event){ LS_EVENT_ASSIGN, 0, 0 };
    step->rows[0] = (struct ls_step_row){ .count = 6, .n_send = 6, .nan_layer = LS_NO_LAYER };
    for (int t = 0; t < 6; t++)
        step->tokens[t] = 20 + t;
    assert_int_equal(ls_stage_run(c->stages[0], step, NULL, c->hidden[0], NULL), LS_OK);
    if (poisoned >= 0)
        ((uint16_t *)(void *)c->hidden[0])[(size_t)poisoned * width + 5] = 0x7fc0;
    assert_int_equal(ls_stage_run(c->stages[1], step, c->hidden[0], NULL, NULL), LS_OK);
    ls_stage_logits(c->stages[1], step, 0, 6, out);
}

/* A router of NaN chooses some experts; the tokens in front are left alone. */
static void nan_stays_with_its_token(void **state)
{
    static const char *const fixtures[] = { "mixtral", "glm4_moe-groups", "gpt_oss",
                                            "llama4",  "gemma4-moe",      "gemma4" };
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        struct rig_model m;
        float *logits[2];
        rig_open(&m, fixtures[i], false, 0);
        struct rig_layout layout = rig_plain(&m, 6);
        layout.n_stages = 2;
        layout.cuts[1] = 1;
        layout.cuts[2] = m.arch.n_layers;
        const size_t vocab = (size_t)m.arch.vocab;
        for (int run = 0; run < 2; run++) {
            struct rig_chain c;
            logits[run] = test_malloc(6 * vocab * sizeof(float));
            rig_chain_open(&c, &m, &layout);
            run_from_layer_1(&c, run ? 3 : -1, logits[run]);
            assert_int_equal(c.step.rows[0].nan_layer, run ? 1 : LS_NO_LAYER);
            rig_chain_close(&c);
        }
        assert_memory_equal(logits[0], logits[1], 3 * vocab * sizeof(float));
        for (size_t v = 3 * vocab; v < 4 * vocab; v++)
            assert_true(isnan(logits[1][v]));
        test_free(logits[0]);
        test_free(logits[1]);
        rig_close(&m);
    }
}

/* --- resources -------------------------------------------------------------------------------
 */

/* Weights of cuts add up to the whole, and the scratch is what the plan was told. */
static void sums(void **state)
{
    static const char *const fixtures[] = { "qwen2_moe", "gpt_oss-mxfp4", "gemma4-moe",
                                            "gemma4", "llama4" };
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        struct rig_model m;
        rig_open(&m, fixtures[i], false, 0);
        const int n = m.arch.n_layers;
        const struct rig_layout layout = rig_plain(&m, 40);
        const uint64_t whole = ls_weights_bytes(&m.arch, m.ckpt, 0, n);
        for (int cut = 1; cut < n; cut++) {
            struct ls_stage_counts counts;
            struct ls_stage *stage;
            assert_int_equal(whole, ls_weights_bytes(&m.arch, m.ckpt, 0, cut) +
                                        ls_weights_bytes(&m.arch, m.ckpt, cut, n));
            if (!ls_cut_allowed(&m.arch, cut, NULL))
                continue;
            const struct ls_stage_config config = { .arch = &m.arch,
                                                    .ckpt = m.ckpt,
                                                    .kernels = layout.kernels,
                                                    .last_layer = cut,
                                                    .n_threads = 2,
                                                    .limits = layout.limits };
            assert_int_equal(ls_stage_create(&stage, &config, NULL), LS_OK);
            ls_stage_get_counts(stage, &counts);
            assert_int_equal(counts.weights_bytes, ls_weights_bytes(&m.arch, m.ckpt, 0, cut));
            assert_int_equal(counts.scratch_bytes,
                             ls_stage_scratch_bytes(&m.arch, 0, cut, 2, &layout.limits, 0));
            ls_stage_destroy(stage);
        }
        rig_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_experts),
        cmocka_unit_test(single_experts),
        cmocka_unit_test(biases_of_experts),
        cmocka_unit_test(mxfp4_values),
        cmocka_unit_test(mxfp4_refused),
        cmocka_unit_test(mxfp4_scales_checked),
        cmocka_unit_test(sparse_layers),
        cmocka_unit_test(settings_refused),
        cmocka_unit_test(chunks),
        cmocka_unit_test(shared_caches_are_not_cut_off),
        cmocka_unit_test(refused_cut_says_why),
        cmocka_unit_test(nan_stays_with_its_token),
        cmocka_unit_test(sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
