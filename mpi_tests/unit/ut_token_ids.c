/* Ids and text against Hugging Face: 157 awkward strings for each of six tokenizers, two
 * carried (small, and demo with its own prompts) and five real ones, which are made by
 * fixtures/tokenizers/get_tokenizers.py and found through the environment variable
 * LOCKSTEP_TOKENIZERS. Absent ones are a skip (77), or a failure under LOCKSTEP_REQUIRE_REAL=1.
 *
 * ut_token_ids [NAME]: one of the real tokenizers; without it the carried ones. */
#include "text_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_STRINGS = 157, SKIPPED = 77 };

static const char fixtures[] = LS_FIXTURES "/tokenizers";
static const char *real_name, *real_folder;

struct check {
    struct ls_tokenizer *tok;
    const json_t *strings;
};

/* Each field that a line has is checked. */
static int check_line(const json_t *line, void *arg)
{
    const struct check *c = arg;
    const json_t *i = json_object_get(line, "i"), *text = json_object_get(line, "text");
    const json_t *ids = json_object_get(line, "ids");
    const json_t *special = json_object_get(line, "ids_special");
    const json_t *decoded = json_object_get(line, "decoded");
    const json_t *decode = json_object_get(line, "decode");
    const json_t *skipped = json_object_get(line, "skipped");
    int bad = 0;
    if (i)
        text = json_array_get(c->strings, (size_t)json_integer_value(i));
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    if (ids)
        bad += !rig_encodes(c->tok, s, n, false, ids);
    if (special)
        bad += !rig_encodes(c->tok, s, n, true, special);
    if (decoded)
        bad += !rig_decodes(c->tok, decode ? decode : ids, false, json_string_value(decoded),
                            json_string_length(decoded));
    if (skipped)
        bad += !rig_decodes(c->tok, decode, true, json_string_value(skipped),
                            json_string_length(skipped));
    return bad;
}

static json_t *load_strings(void)
{
    size_t n = 0;
    char *text = rig_read(LS_FIXTURES "/tokenizers/strings.json", &n);
    assert_non_null(text);
    json_t *strings = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    free(text);
    assert_int_equal(json_array_size(strings), N_STRINGS);
    return strings;
}

/* Once without and once with the configuration, whose BOS must be the template's, not a second
 * one. */
static void check_folder(const char *name, const char *folder, int n_expected)
{
    char path[4096];
    json_t *strings = load_strings();
    snprintf(path, sizeof path, "%s/%s.jsonl", fixtures, name);
    for (int config = 0; config < 2; config++) {
        struct check c = { rig_open(folder, config), strings };
        int n_lines;
        if (!c.tok)
            fail_msg("no tokenizer.json in %s", folder);
        assert_int_equal(rig_each_line(path, check_line, &c, &n_lines), 0);
        assert_int_equal(n_lines, n_expected);
        ls_tokenizer_destroy(c.tok);
    }
    json_decref(strings);
}

static void small_matches(void **state)
{
    (void)state;
    check_folder("small", LS_FIXTURES "/tokenizers/small", N_STRINGS);
}

static void demo_matches(void **state)
{
    (void)state;
    check_folder("demo", LS_FIXTURES "/tokenizers/demo", 25);
}

/* kinds.jsonl: a tokenizer a line. */
static int check_kind(const json_t *line, void *arg)
{
    struct check c = { rig_make_value(json_object_get(line, "tokenizer"), NULL), NULL };
    size_t i;
    const json_t *one;
    int bad = 0;
    (void)arg;
    json_array_foreach(json_object_get(line, "cases"), i, one) bad += check_line(one, &c);
    if (bad)
        print_error("%s: %d of %zu wrong\n", json_string_value(json_object_get(line, "name")),
                    bad, json_array_size(json_object_get(line, "cases")));
    ls_tokenizer_destroy(c.tok);
    return bad;
}

static void every_kind_matches(void **state)
{
    int n_lines;
    (void)state;
    assert_int_equal(
        rig_each_line(LS_FIXTURES "/tokenizers/kinds.jsonl", check_kind, NULL, &n_lines), 0);
    assert_true(n_lines > 100);
}

static void real_matches(void **state)
{
    char folder[4096];
    (void)state;
    snprintf(folder, sizeof folder, "%s/%s", real_folder, real_name);
    check_folder(real_name, folder, N_STRINGS);
}

static int run_real(void)
{
    const char *require = getenv("LOCKSTEP_REQUIRE_REAL");
    const struct CMUnitTest tests[] = { cmocka_unit_test(real_matches) };
    real_folder = getenv("LOCKSTEP_TOKENIZERS");
    if (real_folder && *real_folder)
        return cmocka_run_group_tests_name(real_name, tests, NULL, NULL);
    printf("%s: LOCKSTEP_TOKENIZERS does not name the real tokenizers' folder\n", real_name);
    return require && !strcmp(require, "1") ? 1 : SKIPPED;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_matches),
        cmocka_unit_test(demo_matches),
        cmocka_unit_test(every_kind_matches),
    };
    if (argc > 1) {
        real_name = argv[1];
        return run_real();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
