/* Quirks: each mutation of the table moves the logits of its fixture beyond the bound that the
 * fixture itself keeps. The page of families is made of the same runs, so that it cannot say
 * more than was seen. Usage: ut_quirks [--page FILE | --check FILE]. */
#include "model_rig.h"
#include "quirk_table.h"
#include "truth_rig.h"

#include "tensor/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- mutating a copy -------------------------------------------------------------------------
 */

static void edit_config(const struct rig_folder *folder, const struct quirk *q)
{
    struct rig_bytes old = rig_get(folder, "config.json");
    json_t *config = json_loadb((const char *)old.bytes, old.size, 0, NULL), *at = config;
    const char *dot = strchr(q->key, '.'), *key = dot ? dot + 1 : q->key;
    char outer[64];
    if (dot) {
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - q->key), q->key);
        at = json_object_get(config, outer);
    }
    json_t *value = json_loads(q->value, JSON_DECODE_ANY, NULL);
    assert_true(value && json_object_get(at, key) != value);
    json_object_set_new(at, key, value);
    char *text = json_dumps(config, JSON_INDENT(1));
    rig_put_text(folder, "config.json", text);
    free(text);
    json_decref(config);
    free(old.bytes);
}

static float filled(float old, enum quirk_fill fill)
{
    if (fill != QUIRK_ROUND_ONE_PLUS)
        return fill == QUIRK_ONE;
    const float sum = 1 + old;
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded - 1;
}

static void fill_tensor(unsigned char *data, const struct ls_tensor *t, enum quirk_fill fill)
{
    const size_t each = ls_dtype_bytes(t->dtype);
    for (uint64_t at = 0; at < t->bytes; at += each) {
        uint32_t bits = 0;
        float x;
        memcpy((char *)&bits + (4 - each), data + at, each);
        memcpy(&x, &bits, sizeof x);
        x = filled(x, fill);
        memcpy(&bits, &x, sizeof bits);
        memcpy(data + at, (char *)&bits + (4 - each), each);
    }
}

static void fill_weights(const struct rig_folder *folder, const struct quirk *q)
{
    struct rig_bytes file = rig_get(folder, "model.safetensors");
    struct ls_arena arena;
    struct ls_tensor *tensors;
    struct ls_err err;
    size_t n, n_filled = 0;
    ls_arena_init(&arena);
    assert_int_equal(ls_safetensors_parse(file.bytes, file.size, &arena, &tensors, &n, &err),
                     LS_OK);
    for (size_t i = 0; i < n; i++) {
        if (!strstr(tensors[i].name, q->tensors))
            continue;
        assert_true(tensors[i].dtype == LS_DTYPE_BF16 || tensors[i].dtype == LS_DTYPE_F32);
        fill_tensor(file.bytes + (tensors[i].data - file.bytes), &tensors[i], q->fill);
        n_filled++;
    }
    assert_true(n_filled > 0);
    rig_put(folder, "model.safetensors", file.bytes, file.size);
    ls_arena_finish(&arena);
    free(file.bytes);
}

/* The largest difference with the mutation in place, on the longest prompt. */
static double error_with(const struct quirk *q)
{
    struct truth_run run = { .fixture = q->fixture, .f32 = true, .poke = q->poke };
    struct rig_folder folder;
    run.first_prompt = RIG_PROMPTS - 1;
    rig_copy_fixture(&folder, q->fixture);
    if (q->key)
        edit_config(&folder, q);
    if (q->tensors)
        fill_weights(&folder, q);
    run.folder = folder.path;
    double error = truth_compare(&run).max;
    rig_folder_remove(&folder);
    return error;
}

static double error_without(const char *fixture)
{
    struct truth_run run = { .fixture = fixture, .f32 = true };
    run.first_prompt = RIG_PROMPTS - 1;
    return truth_compare(&run).max;
}

/* --- tests -----------------------------------------------------------------------------------
 */

enum { CLEARLY = 10 }; /* times the bound: no accident */

static void quirks_are_seen(void **state)
{
    bool all = true;
    (void)state;
    for (int i = 0; i < n_quirks; i++) {
        const struct quirk *q = &quirks[i];
        double bound = truth_bound(q->fixture), error = error_with(q);
        bool caught = error > CLEARLY * bound && error_without(q->fixture) <= bound;
        if (!caught)
            print_message("%s, %s: %s moves logits by %.2e only\n", q->fixture, q->what,
                          q->mutation, error);
        all = all && caught;
    }
    assert_true(all);
}

/* Equal logits go to the lower expert: two experts whose router rows are alike give the bits of
 * a model in which the higher one is out of reach, and not of one in which the lower one is. */
static void raise_bias(const struct rig_folder *folder, float first, float second)
{
    static const char tensor[] = "mlp.router.bias";
    struct rig_bytes file = rig_get(folder, "model.safetensors");
    struct ls_arena arena;
    struct ls_tensor *tensors;
    struct ls_err err;
    size_t n;
    const float value[2] = { first, second };
    ls_arena_init(&arena);
    assert_int_equal(ls_safetensors_parse(file.bytes, file.size, &arena, &tensors, &n, &err),
                     LS_OK);
    for (size_t i = 0; i < n; i++) {
        unsigned char *data = file.bytes + (tensors[i].data - file.bytes);
        if (strstr(tensors[i].name, "mlp.router.weight"))
            memset(data, 0, tensors[i].bytes); /* the biases alone are the logits */
        for (int e = 0; e < 2 && strstr(tensors[i].name, tensor); e++)
            memcpy(data + (1 + 2 * e) * 2, (const char *)&value[e] + 2, 2); /* experts 1, 3 */
    }
    rig_put(folder, "model.safetensors", file.bytes, file.size);
    ls_arena_finish(&arena);
    free(file.bytes);
}

static void run_biased(float first, float second, float *logits)
{
    static const struct quirk one = { .key = "num_experts_per_tok", .value = "1" };
    static const int32_t ids[4] = { 9, 10, 11, 12 };
    struct rig_folder folder;
    struct rig_model m;
    unsigned char digest[32];
    rig_copy_fixture(&folder, "gpt_oss");
    edit_config(&folder, &one);
    raise_bias(&folder, first, second);
    rig_open_folder(&m, folder.path, false, 0);
    rig_plain_run(&m, ids, 4, logits, digest);
    rig_close(&m);
    rig_folder_remove(&folder);
}

static void ties_go_to_the_lower_expert(void **state)
{
    enum { FLOATS = 4 * 320 };
    float *tied = test_malloc(FLOATS * 4), *lower = test_malloc(FLOATS * 4);
    float *higher = test_malloc(FLOATS * 4);
    (void)state;
    run_biased(8, 8, tied);
    run_biased(8, 4, lower);
    run_biased(4, 8, higher);
    assert_memory_equal(tied, lower, FLOATS * 4);
    assert_int_not_equal(memcmp(tied, higher, FLOATS * 4), 0);
    test_free(tied);
    test_free(lower);
    test_free(higher);
}

/* Two checkpoints of the same numbers, one in MXFP4. */
static void mxfp4_is_exact(void **state)
{
    static const char *const pair[2] = { "gpt_oss-mxfp4", "gpt_oss-expanded" };
    struct rig_reference ref;
    uint32_t n;
    float *logits[2];
    (void)state;
    rig_reference_open(&ref, pair[0]);
    const int32_t *ids = rig_ids(&ref, 3, &n);
    for (int f32 = 0; f32 < 2; f32++) {
        unsigned char digest[2][32];
        for (int i = 0; i < 2; i++) {
            struct rig_model m;
            rig_open(&m, pair[i], f32, 0);
            logits[i] = test_malloc(n * (size_t)m.arch.vocab * sizeof(float));
            rig_plain_run(&m, ids, n, logits[i], digest[i]);
            rig_close(&m);
        }
        assert_memory_equal(digest[0], digest[1], 32);
        test_free(logits[0]);
        test_free(logits[1]);
    }
    rig_reference_close(&ref);
}

/* --- the page --------------------------------------------------------------------------------
 */

static void print_head(FILE *out)
{
    fputs("# Families\n\n"
          "Made by `ut_quirks --page docs/families.md` from the runs that it checks; not "
          "written by hand. A test compares\nthis page with what it would be now.\n\n"
          "## Sizes tried, and how far from the reference\n\n"
          "Errors are relative to the rms of the reference's logits. *f32*: the largest "
          "difference of `--dtype f32` from the\nreference in float32, and the bound that it "
          "keeps. *16 bits*: the median over positions of the rms in the\ncheckpoint's own "
          "dtype, and of the reference's own run in that dtype.\n\n"
          "| fixture | family | layers | hidden | heads / KV | experts | f32 | bound | 16 bits "
          "| reference |\n|---|---|---|---|---|---|---|---|---|---|\n",
          out);
}

static void print_fixture(FILE *out, const char *fixture)
{
    struct rig_model m;
    struct truth_run run = { .fixture = fixture, .f32 = true };
    char experts[32] = "-", native[48] = "- | -";
    rig_open(&m, fixture, false, 0);
    const struct ls_arch *a = &m.arch;
    double f32 = truth_compare(&run).max;
    if (a->experts.n)
        snprintf(experts, sizeof experts, "%d of %d", a->experts.n_chosen, a->experts.n);
    if (truth_is_16_bit(fixture)) {
        run.f32 = false;
        snprintf(native, sizeof native, "%.1e | %.1e", truth_compare(&run).median_row_rms,
                 truth_number(fixture, "native_vs_f32", "median_row_rms"));
    }
    fprintf(out, "| %s | %s | %d | %d | %d / %d | %s | %.1e | %.1e | %s |\n", fixture,
            a->family, a->n_layers, a->hidden, a->layers[0].n_heads, a->layers[0].n_kv_heads,
            experts, f32, truth_bound(fixture), native);
    rig_close(&m);
}

static void print_page(FILE *out)
{
    print_head(out);
    for (size_t i = 0; truth_fixtures[i]; i++)
        print_fixture(out, truth_fixtures[i]);
    fputs(
        "\n## Quirk, mutation, caught\n\n"
        "Each row's mutation makes the logits of the fixture's longest prompt differ from the "
        "reference by the error shown, in\nfloat32; a run without it stays within the bound. "
        "*Caught* means more than ten times the bound.\n\n"
        "| fixture | quirk | mutation | error | bound | caught |\n|---|---|---|---|---|---|\n",
        out);
    for (int i = 0; i < n_quirks; i++) {
        const struct quirk *q = &quirks[i];
        double error = error_with(q), bound = truth_bound(q->fixture);
        fprintf(out, "| %s | %s | %s | %.1e | %.1e | %s |\n", q->fixture, q->what, q->mutation,
                error, bound, error > CLEARLY * bound ? "yes" : "NO");
    }
    fputs("| gpt_oss | ties of the router go to the lower expert | to the higher | other bits "
          "| equal bits | yes |\n"
          "| gemma2, gemma4 | embedding scale rounded to the model's dtype | not rounded | "
          "other constant | equal | yes (`ut_arch`) |\n",
          out);
}

static const char *page_file;
static bool page_written;

static void page(void **state)
{
    char *text = NULL;
    size_t n = 0;
    (void)state;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    print_page(out);
    fclose(out);
    FILE *file = fopen(page_file, page_written ? "r" : "w");
    if (!file)
        fail_msg("%s cannot be opened", page_file);
    if (page_written) {
        char *old = test_malloc(n + 2);
        size_t n_old = fread(old, 1, n + 1, file);
        if (n_old != n || memcmp(old, text, n))
            fail_msg("%s is not what the runs say now: make it anew with --page", page_file);
        test_free(old);
    } else {
        assert_int_equal(fwrite(text, 1, n, file), n);
    }
    fclose(file);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quirks_are_seen),
        cmocka_unit_test(ties_go_to_the_lower_expert),
        cmocka_unit_test(mxfp4_is_exact),
    };
    const struct CMUnitTest paging[] = { cmocka_unit_test(page) };
    if (argc == 3) {
        page_file = argv[2];
        page_written = !strcmp(argv[1], "--check");
        return cmocka_run_group_tests(paging, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
