/* Weights: packed bytes are the file's, for every family and any cut; what does not fit the
 * config is refused by name; ties; what stays resident. */
#include "model_maker.h"

#include "model/naming.h"
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct model {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    struct ls_team *team;
    struct ls_err err;
};

static void must(ls_status s, const struct ls_err *err)
{
    if (s)
        fail_msg("%s", err->text);
}

static void open_model(struct model *m, const char *dir, int n_members)
{
    memset(m, 0, sizeof *m);
    ls_arena_init(&m->arena);
    must(ls_arch_load(&m->arch, dir, &(struct ls_arch_wish){ 0 }, &m->arena, &m->err), &m->err);
    must(ls_checkpoint_open(&m->ckpt, dir, &m->err), &m->err);
    must(ls_team_create(&m->team, n_members, &m->err), &m->err);
}

static void close_model(struct model *m)
{
    ls_team_destroy(m->team);
    ls_checkpoint_close(m->ckpt);
    ls_arena_finish(&m->arena);
}

/* Element (n, k) of a packed matrix, by the layout that kernels.h describes. */
static uint32_t packed_element(const struct ls_matrix *m, size_t n, size_t k)
{
    const size_t bytes = ls_fmt_bytes(m->fmt), pair = 2 * LS_TILE * bytes;
    const char *at =
        (const char *)m->packed + (n / LS_TILE * (((size_t)m->k + 1) / 2) + k / 2) * pair;
    uint32_t v = 0;
    if (m->fmt == LS_FMT_BF16)
        at += (n % LS_TILE) * 4 + (k % 2) * 2;
    else
        at += ((k % 2) * LS_TILE + n % LS_TILE) * bytes;
    memcpy(&v, at, bytes);
    return v;
}

static float exact_value(const unsigned char *at, enum ls_fmt fmt)
{
    uint32_t bits = 0;
    memcpy(&bits, at, ls_fmt_bytes(fmt));
    if (fmt == LS_FMT_BF16)
        bits <<= 16;
    if (fmt == LS_FMT_F16) {
        const uint32_t sign = bits >> 15 << 31, e = bits >> 10 & 31, f = bits & 0x3ff;
        const float small = (float)ldexp((double)f, -24);
        if (e) {
            bits = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | f << 13;
        } else {
            memcpy(&bits, &small, sizeof bits);
            bits |= sign;
        }
    }
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void check_matrix(const struct model *m, const struct ls_matrix *x, enum ls_role role,
                         int layer)
{
    const struct ls_weight_id id = { .role = role, .layer = layer };
    struct ls_tensor_place place;
    const struct ls_naming naming = ls_naming_of(&m->arch, m->ckpt);
    const struct ls_tensor *t = ls_naming_find(&naming, &m->arch, m->ckpt, &id, &place);
    const size_t bytes = ls_fmt_bytes(x->fmt), rows = ls_tiles((size_t)x->n) * LS_TILE;
    assert_non_null(t);
    assert_int_equal((uintptr_t)x->packed % LS_ALIGN, 0);
    for (size_t n = 0; n < rows; n++)
        for (size_t k = 0; k < ((size_t)x->k + 1) / 2 * 2; k++) {
            uint32_t want = 0;
            if (n < (size_t)x->n && k < (size_t)x->k)
                memcpy(&want,
                       t->data +
                           (place.first + n * place.row_step + k * place.col_step) * bytes,
                       bytes);
            assert_int_equal(packed_element(x, n, k), want);
        }
}

static void check_vector(const struct model *m, const float *v, enum ls_role role, int layer,
                         bool bias)
{
    const struct ls_weight_id id = { .role = role, .layer = layer, .bias = bias };
    struct ls_tensor_place place;
    const struct ls_naming naming = ls_naming_of(&m->arch, m->ckpt);
    const struct ls_tensor *t = ls_naming_find(&naming, &m->arch, m->ckpt, &id, &place);
    const uint64_t n = ls_role_shape(&m->arch, role, layer).rows;
    assert_non_null(t);
    const enum ls_fmt fmt = t->dtype == LS_DTYPE_F32   ? LS_FMT_F32
                            : t->dtype == LS_DTYPE_F16 ? LS_FMT_F16
                                                       : LS_FMT_BF16;
    for (uint64_t i = 0; i < n; i++) {
        const float want =
            exact_value(t->data + (place.first + i * place.row_step) * ls_fmt_bytes(fmt), fmt);
        /* A NaN stays one; widening f16 makes it quiet. */
        if (!isnan(want) || !isnan(v[i]))
            assert_memory_equal(&v[i], &want, sizeof want);
    }
    for (uint64_t i = n; bias && i < ls_tiles(n) * LS_TILE; i++)
        assert_true(v[i] == 0);
}

static void check_layer(const struct model *m, const struct ls_layer_weights *w, int layer)
{
    const struct {
        enum ls_role role;
        const struct ls_matrix *matrix;
    } matrices[] = {
        { LS_ROLE_Q, &w->q },       { LS_ROLE_K, &w->k },   { LS_ROLE_V, &w->v },
        { LS_ROLE_O, &w->o },       { LS_ROLE_UP, &w->up }, { LS_ROLE_DOWN, &w->down },
        { LS_ROLE_GATE, &w->gate },
    };
    const struct {
        enum ls_role role;
        const float *v;
    } vectors[] = {
        { LS_ROLE_ATTN_NORM, w->attn_norm }, { LS_ROLE_POST_ATTN_NORM, w->post_attn_norm },
        { LS_ROLE_FFN_NORM, w->ffn_norm },   { LS_ROLE_POST_FFN_NORM, w->post_ffn_norm },
        { LS_ROLE_Q_NORM, w->q_norm },       { LS_ROLE_K_NORM, w->k_norm },
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        check_matrix(m, matrices[i].matrix, matrices[i].role, layer);
        const bool bias = ls_role_has_bias(&m->arch, matrices[i].role, layer);
        assert_true(bias == (matrices[i].matrix->bias != NULL));
        if (bias)
            check_vector(m, matrices[i].matrix->bias, matrices[i].role, layer, true);
    }
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        assert_true(ls_role_present(&m->arch, vectors[i].role, layer) ==
                    (vectors[i].v != NULL));
        if (vectors[i].v)
            check_vector(m, vectors[i].v, vectors[i].role, layer, false);
    }
}

static void check_range(struct model *m, int first, int last)
{
    struct ls_weights w;
    must(ls_weights_load(&w, &m->arch, m->ckpt, first, last, NULL, m->team, &m->err), &m->err);
    assert_int_equal(w.bytes, ls_weights_bytes(&m->arch, m->ckpt, first, last));
    assert_true((first == 0) == (w.embed != NULL));
    assert_true((last == m->arch.n_layers) == (w.head.packed != NULL));
    assert_true((last == m->arch.n_layers) == (w.final_norm != NULL));
    for (int l = first; l < last; l++)
        check_layer(m, &w.layers[l - first], l);
    if (w.head.packed) {
        check_matrix(m, &w.head, LS_ROLE_HEAD, 0);
        check_vector(m, w.final_norm, LS_ROLE_FINAL_NORM, 0, false);
    }
    ls_weights_finish(&w);
}

static const char *const fixtures[] = {
    "llama-f32", "llama-bias", "llama-f16",     "llama-tied-bf16", "llama-sharded", "mistral",
    "qwen2",     "qwen3",      "gemma2",        "gemma3",          "gemma3-mm",     "phi3",
    "olmo2",     "granite",    "phi3-longrope", "cohere2",         "glm4",
};

static void packed_bytes_are_the_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        struct model m;
        char dir[4096];
        size_t n_ignored = 0;
        snprintf(dir, sizeof dir, "%s/families/%s", LS_FIXTURES, fixtures[i]);
        open_model(&m, dir, (int)(i % 3) + 1);
        must(ls_weights_check(&m.arch, m.ckpt, &n_ignored, NULL, &m.err), &m.err);
        assert_int_equal(n_ignored, m.arch.nested ? 23 : 0);
        check_range(&m, 0, m.arch.n_layers);
        for (int l = 0; l < m.arch.n_layers; l++)
            check_range(&m, l, l + 1);
        close_model(&m);
    }
}

static void check_row(const struct model *m, const struct ls_matrix *x, const char *tensor,
                      size_t row)
{
    const struct ls_tensor *t = ls_checkpoint_find(m->ckpt, tensor);
    for (size_t k = 0; k < (size_t)x->k; k++) {
        uint16_t want;
        memcpy(&want, t->data + (row * (size_t)x->k + k) * 2, 2);
        assert_int_equal(packed_element(x, 0, k), want);
    }
}

/* Row numbers written out: 4 query heads, 2 KV heads of 16, a feed-forward of 80. */
static void fused_rows(void **state)
{
    (void)state;
    struct model m;
    struct ls_weights w;
    char dir[4096];
    static const char qkv[] = "model.layers.1.self_attn.qkv_proj.weight";
    static const char gate_up[] = "model.layers.1.mlp.gate_up_proj.weight";
    snprintf(dir, sizeof dir, "%s/families/phi3", LS_FIXTURES);
    open_model(&m, dir, 1);
    must(ls_weights_load(&w, &m.arch, m.ckpt, 1, 2, NULL, m.team, &m.err), &m.err);
    check_row(&m, &w.layers[0].q, qkv, 0);
    check_row(&m, &w.layers[0].k, qkv, 64);
    check_row(&m, &w.layers[0].v, qkv, 96);
    check_row(&m, &w.layers[0].gate, gate_up, 0);
    check_row(&m, &w.layers[0].up, gate_up, 80);
    ls_weights_finish(&w);
    close_model(&m);
}

/* A second copy that is only looked at has the same bytes at its own addresses, and changes
 * nothing; one of other layers is refused. */
static void a_copy_is_shared(void **state)
{
    (void)state;
    struct model m;
    struct ls_weights own, offered, adopted, wrong;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/families/llama-bias", LS_FIXTURES);
    open_model(&m, dir, 2);
    struct ls_weights_home home = { .kind = LS_WEIGHTS_OFFERED, .tag = "these" };
    must(ls_weights_load(&own, &m.arch, m.ckpt, 0, 2, NULL, m.team, &m.err), &m.err);
    must(ls_weights_load(&offered, &m.arch, m.ckpt, 0, 2, &home, m.team, &m.err), &m.err);
    home = (struct ls_weights_home){ .kind = LS_WEIGHTS_ADOPTED,
                                     .pid = (uint32_t)getpid(),
                                     .fd = offered.shared.fd,
                                     .tag = "these" };
    must(ls_weights_load(&adopted, &m.arch, m.ckpt, 0, 2, &home, m.team, &m.err), &m.err);
    assert_int_equal(adopted.bytes, own.bytes);
    assert_int_equal(adopted.bytes, offered.bytes);
    for (int l = 0; l < 2; l++) {
        const struct ls_matrix *a = &own.layers[l].q, *b = &adopted.layers[l].q;
        assert_ptr_not_equal(b->packed, offered.layers[l].q.packed);
        assert_memory_equal(a->packed, b->packed,
                            ls_packed_bytes(a->fmt, (size_t)a->n, (size_t)a->k));
        assert_memory_equal(a->bias, b->bias, (size_t)a->n * sizeof(float));
        check_layer(&m, &adopted.layers[l], l);
    }
    home.tag[0] ^= 1;
    rig_expect(ls_weights_load(&wrong, &m.arch, m.ckpt, 0, 2, &home, m.team, &m.err), &m.err,
               LS_E_REFUSED, "holds other weights", NULL);
    home.tag[0] ^= 1;
    rig_expect(ls_weights_load(&wrong, &m.arch, m.ckpt, 1, 2, &home, m.team, &m.err), &m.err,
               LS_E_REFUSED, "has not the", NULL);
    ls_weights_finish(&adopted);
    ls_weights_finish(&offered);
    ls_weights_finish(&own);
    close_model(&m);
}

/* Parts of a cut take together what the whole takes. */
static void cuts_add_up(void **state)
{
    (void)state;
    struct model m;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/families/llama-tied-bf16", LS_FIXTURES);
    open_model(&m, dir, 1);
    const int n = m.arch.n_layers;
    const uint64_t whole = ls_weights_bytes(&m.arch, m.ckpt, 0, n);
    for (int a = 1; a < n; a++)
        for (int b = a + 1; b < n; b++)
            assert_int_equal(whole, ls_weights_bytes(&m.arch, m.ckpt, 0, a) +
                                        ls_weights_bytes(&m.arch, m.ckpt, a, b) +
                                        ls_weights_bytes(&m.arch, m.ckpt, b, n));
    struct ls_weights w;
    rig_expect(ls_weights_load(&w, &m.arch, m.ckpt, 2, 2, NULL, m.team, &m.err), &m.err,
               LS_E_INTERNAL, NULL);
    rig_expect(ls_weights_load(&w, &m.arch, m.ckpt, 0, n + 1, NULL, m.team, &m.err), &m.err,
               LS_E_INTERNAL, NULL);
    close_model(&m);
}

/* Checks a made checkpoint; on success *ignored and *name are what was left aside. */
static ls_status check_made(const struct maker *spec, struct ls_err *err, size_t *ignored,
                            char name[200])
{
    struct rig_folder f;
    struct model m;
    const char *first = NULL;
    rig_folder_make(&f);
    maker_write(spec, &f);
    open_model(&m, f.path, 1);
    ls_status s = ls_weights_check(&m.arch, m.ckpt, ignored, &first, err);
    snprintf(name, 200, "%s", !s && first ? first : "");
    if (!s)
        check_range(&m, 0, m.arch.n_layers);
    close_model(&m);
    rig_folder_remove(&f);
    return s;
}

static void expect_made(const struct maker *spec, const char *says, const char *tensor)
{
    struct ls_err err = { 0 };
    char name[200];
    size_t n;
    rig_expect(check_made(spec, &err, &n, name), &err, LS_E_FORMAT, says, tensor,
               "model.safetensors", NULL);
}

static void expect_ignored(const struct maker *spec, size_t n_expected, const char *first)
{
    struct ls_err err = { 0 };
    char name[200];
    size_t n = 0;
    must(check_made(spec, &err, &n, name), &err);
    assert_int_equal(n, n_expected);
    assert_string_equal(name, first);
}

static void ties(void **state)
{
    (void)state;
    struct maker spec = maker_small();
    expect_ignored(&spec, 0, "");
    spec.head = false;
    expect_made(&spec, "is missing", "'lm_head.weight'");
    spec.tied = true;
    expect_ignored(&spec, 0, "");
    spec.head = true;
    expect_ignored(&spec, 1, "lm_head.weight");
    spec.without = "model.embed_tokens.weight";
    expect_made(&spec, "is missing", "'model.embed_tokens.weight'");
}

/* The tied head is the embedding, whatever copy of a head lies beside it. */
static void tied_head_is_the_embedding(void **state)
{
    (void)state;
    for (int head = 0; head < 2; head++) {
        struct rig_folder f;
        struct model m;
        struct ls_weights w;
        struct maker spec = maker_small();
        spec.tied = true;
        spec.head = head;
        rig_folder_make(&f);
        maker_write(&spec, &f);
        open_model(&m, f.path, 2);
        must(ls_weights_load(&w, &m.arch, m.ckpt, 2, 3, NULL, m.team, &m.err), &m.err);
        check_matrix(&m, &w.head, LS_ROLE_EMBED, 0);
        assert_null(w.embed);
        ls_weights_finish(&w);
        close_model(&m);
        rig_folder_remove(&f);
    }
}

static void tensors_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *odd;
        enum ls_dtype dtype;
        int rows;
        const char *says;
    } cases[] = {
        { "model.layers.1.self_attn.q_proj.weight", LS_DTYPE_BF16, 25, "[25, 24]" },
        { "model.layers.2.mlp.down_proj.weight", LS_DTYPE_BF16, 20, "asks for [24, 20]" },
        { "model.layers.0.input_layernorm.weight", LS_DTYPE_BF16, 23, "asks for [24]" },
        { "model.embed_tokens.weight", LS_DTYPE_BF16, 32, "asks for [33, 24]" },
        { "lm_head.weight", LS_DTYPE_BF16, 34, "[34, 24]" },
        { "model.norm.weight", LS_DTYPE_BF16, 48, "[48]" },
        { "model.layers.1.mlp.up_proj.weight", LS_DTYPE_F64, 0, "dtype F64" },
        { "model.layers.1.mlp.up_proj.weight", LS_DTYPE_I8, 0, "dtype I8" },
        { "model.norm.weight", LS_DTYPE_F8_E4M3, 0, "dtype F8_E4M3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct maker spec = maker_small();
        spec.odd = cases[i].odd;
        spec.odd_dtype = cases[i].dtype;
        spec.odd_rows = cases[i].rows;
        expect_made(&spec, cases[i].says, cases[i].odd);
    }
}

static void missing_and_unknown(void **state)
{
    (void)state;
    static const char *const needed[] = {
        "model.layers.0.self_attn.v_proj.weight",
        "model.layers.2.post_attention_layernorm.weight",
        "model.norm.weight",
        "model.embed_tokens.weight",
    };
    static const char *const refused[] = {
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.2.mlp.experts.0.w1.weight",
        "model.layers.1.self_attn.q_norm.weight",
        "model.layers.0",
        "model.norm.bias",
        "lm_head.bias",
        "model.embed_tokens.scale",
    };
    static const char *const ignored[] = {
        "model.layers.1.self_attn.rotary_emb.inv_freq",
        "model.layers.3.eh_proj.weight",
        "model.layers.99999999999999999999.x",
        "model.rotary_emb.inv_freq",
        "vision_tower.layers.0.weight",
        "model.layers.x.weight",
    };
    struct maker spec = maker_small();
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        spec.without = needed[i];
        expect_made(&spec, "is missing", needed[i]);
    }
    spec.without = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        spec.extra = refused[i];
        expect_made(&spec, "not part of a llama model", refused[i]);
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        spec.extra = ignored[i];
        expect_ignored(&spec, 1, ignored[i]);
    }
}

static void formats_may_be_mixed(void **state)
{
    (void)state;
    static const enum ls_dtype kinds[] = { LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16 };
    for (int i = 0; i < 9; i++) {
        struct maker spec = maker_small();
        spec.dtype = kinds[i / 3];
        spec.norm_dtype = kinds[i % 3];
        expect_ignored(&spec, 0, "");
        spec.odd = "model.layers.1.self_attn.k_proj.weight";
        spec.odd_dtype = kinds[i % 3];
        expect_ignored(&spec, 0, "");
    }
}

/* A body saved without its head has no "model." in front. */
static void body_without_prefix(void **state)
{
    (void)state;
    struct maker spec = maker_small();
    spec.prefix = "";
    expect_ignored(&spec, 0, "");
    spec.extra = "norm.bias";
    expect_made(&spec, "not part", "'norm.bias'");
}

static uint64_t process_resident(void)
{
    unsigned long long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &size, &resident), 2);
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Half of the layers of a 40 MB checkpoint cost what those layers take, within 10 %. */
static void resident_memory(void **state)
{
    (void)state;
    struct rig_folder f;
    struct model m;
    struct ls_weights w;
    uint64_t mapped = 0;
    const struct maker spec = { .vocab = 4096,
                                .hidden = 512,
                                .intermediate = 1536,
                                .n_layers = 6,
                                .n_heads = 8,
                                .n_kv_heads = 8,
                                .dtype = LS_DTYPE_BF16,
                                .tied = true };
    rig_folder_make(&f);
    maker_write(&spec, &f);
    open_model(&m, f.path, 2);
    const uint64_t before = process_resident();
    must(ls_weights_load(&w, &m.arch, m.ckpt, 2, 5, NULL, m.team, &m.err), &m.err);
    const uint64_t grown = process_resident() - before;
    must(ls_checkpoint_resident_bytes(m.ckpt, &mapped, &m.err), &m.err);
    const uint64_t need = 3 * (4 * 512 * 512 + 3 * 512 * 1536) * 2 + 6 * 512 * sizeof(float);
    print_message("needed %llu, packed %llu, still mapped %llu, process grew by %llu bytes\n",
                  (unsigned long long)need, (unsigned long long)w.bytes,
                  (unsigned long long)mapped, (unsigned long long)grown);
    assert_int_equal(w.bytes, need);
    assert_in_range(mapped + w.bytes, need, need + need / 10);
    assert_in_range(grown, 0, need + need / 10);
    /* Touched on purpose, pages come back and are counted. */
    volatile unsigned char sum = 0;
    const struct ls_tensor *t = ls_checkpoint_find(m.ckpt, "model.embed_tokens.weight");
    for (uint64_t i = 0; i < t->bytes; i += 4096)
        sum = (unsigned char)(sum + t->data[i]);
    must(ls_checkpoint_resident_bytes(m.ckpt, &mapped, &m.err), &m.err);
    assert_true(mapped >= t->bytes);
    ls_checkpoint_release(m.ckpt, t);
    ls_weights_finish(&w);
    close_model(&m);
    rig_folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_bytes_are_the_files),
        cmocka_unit_test(fused_rows),
        cmocka_unit_test(a_copy_is_shared),
        cmocka_unit_test(cuts_add_up),
        cmocka_unit_test(ties),
        cmocka_unit_test(tied_head_is_the_embedding),
        cmocka_unit_test(tensors_that_do_not_fit),
        cmocka_unit_test(missing_and_unknown),
        cmocka_unit_test(formats_may_be_mixed),
        cmocka_unit_test(body_without_prefix),
        cmocka_unit_test(resident_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
