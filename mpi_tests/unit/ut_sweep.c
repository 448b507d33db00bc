/* Sweep files and mapping files: grids, defaults, ranks, names; patterns of a dump's files. */
#include "parity/external.h"
#include "parity/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL, STAGES, REPLICAS, LAYERS, BUDGET, OUTPUT, CONFIG, OTHER, N_OPTS };

static const char *const sections[] = { "All" };
static const struct ls_option options[N_OPTS] = {
    [MODEL] = { .name = "model", .arg = "D", .type = LS_VALUE_TEXT, .commands = 1, .help = "" },
    [STAGES] = { .name = "stages",
                 .arg = "S",
                 .type = LS_VALUE_NUMBER,
                 .min = 1,
                 .max = 1024,
                 .commands = 1,
                 .help = "" },
    [REPLICAS] = { .name = "replicas",
                   .arg = "R",
                   .type = LS_VALUE_TEXT,
                   .commands = 1,
                   .help = "" },
    [LAYERS] = { .name = "layers",
                 .arg = "L",
                 .type = LS_VALUE_TEXT,
                 .commands = 1,
                 .help = "" },
    [BUDGET] = { .name = "budget",
                 .arg = "T",
                 .type = LS_VALUE_NUMBER,
                 .min = 1,
                 .max = 512,
                 .commands = 1,
                 .help = "" },
    [OUTPUT] = { .name = "output",
                 .arg = "F",
                 .type = LS_VALUE_TEXT,
                 .commands = 1,
                 .help = "" },
    [CONFIG] = { .name = "config",
                 .arg = "F",
                 .type = LS_VALUE_TEXT,
                 .commands = 1,
                 .argv_only = true,
                 .help = "" },
    [OTHER] = { .name = "others",
                .arg = "X",
                .type = LS_VALUE_TEXT,
                .commands = 2,
                .help = "" },
};
static const struct ls_command commands[] = { { "run", "", 0, 0, "", "" },
                                              { "other", "", 0, 0, "", "" } };
static const struct ls_option_group groups[] = { { options, N_OPTS } };
static const struct ls_option_set set = { .program = "p",
                                          .version = "1",
                                          .tagline = "",
                                          .sections = sections,
                                          .n_sections = 1,
                                          .groups = groups,
                                          .n_options = N_OPTS,
                                          .commands = commands,
                                          .n_commands = 2 };
static const struct ls_sweep_rules rules = { .set = &set, .command = 0 };
static struct ls_err err;

static void parse(struct ls_sweep *sweep, const char *text)
{
    if (ls_sweep_parse(sweep, "dir/s.x.yaml", text, strlen(text), &rules, &err))
        fail_msg("%s", err.text);
}

static void expect_refusal(const char *text, const char *wanted)
{
    struct ls_sweep sweep;
    assert_int_equal(ls_sweep_parse(&sweep, "s", text, strlen(text), &rules, &err), LS_E_USAGE);
    if (!strstr(err.text, wanted))
        fail_msg("'%s', expected '%s'", err.text, wanted);
}

#define HEAD "prompts: p\ndefaults: {model: m, budget: 9}\nreference: {name: r}\n"

static void makes_products(void **state)
{
    static const char *const names[] = { "r",
                                         "stages=1 budget=3",
                                         "stages=1 budget=4",
                                         "stages=2 budget=4",
                                         "layers=0-1,2-3 name=more",
                                         "stages=7",
                                         "budget=5" };
    static const int ranks[] = { 1, 1, 1, 2, 2, 7, 2 };
    struct ls_sweep s;
    (void)state;
    parse(&s, HEAD "grid:\n"
                   "  - stages: [1, 2]\n"
                   "    budget: [3, 4]\n"
                   "    exclude: [{stages: 2, budget: 3}]\n"
                   "    include: [{layers: '0-1,2-3', name: more}, {stages: 7}]\n"
                   "  - {stages: 2, budget: [5]}\n");
    assert_int_equal(s.n, 7);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(s.arms[i].name, i == 4 ? "more" : names[i]);
        assert_int_equal(s.arms[i].ranks, ranks[i]);
        assert_string_equal(ls_arm_option(&s.arms[i], "model"), "m");
    }
    assert_string_equal(ls_arm_option(&s.arms[0], "budget"), "9");
    assert_string_equal(ls_arm_option(&s.arms[3], "budget"), "4");
    assert_string_equal(ls_arm_option(&s.arms[5], "budget"), "9");
    assert_null(ls_arm_option(&s.arms[0], "stages"));
    assert_string_equal(s.name, "s.x");
    ls_sweep_finish(&s);
}

static void reads_its_keys(void **state)
{
    struct ls_sweep s;
    (void)state;
    parse(&s,
          HEAD "arms: [{name: a, stages: 3, replicas: 2, env: {A: b c, B: ''}, binary: x},\n"
               "  {name: b, layers: '0-1,2-2,3-9', replicas: 4}]\n"
               "launcher: ' srun  -n{ranks} --exact '\nslots: 5\ntimeout: 7\noutput: o\n"
               "name: 'n n'\nmode: free\n");
    assert_int_equal(s.n, 3);
    assert_int_equal(s.arms[1].ranks, 6);
    assert_int_equal(s.arms[2].ranks, 12);
    assert_int_equal(s.arms[1].env.n, 2);
    assert_string_equal(s.arms[1].env.list[0].value, "b c");
    assert_string_equal(s.arms[1].binary, "x");
    assert_int_equal(s.arms[2].env.n, 0);
    assert_int_equal(s.n_launcher, 3);
    assert_string_equal(s.launcher[1], "-n{ranks}");
    assert_string_equal(s.launcher[2], "--exact");
    assert_int_equal(s.slots, 5);
    assert_int_equal(s.timeout_s, 7);
    assert_int_equal(s.mode, LS_SWEEP_FREE);
    assert_string_equal(s.name, "n n");
    assert_true(s.locate);
    ls_sweep_finish(&s);
    parse(&s, HEAD "arms: [{name: a}]\nlocate: false\n");
    assert_false(s.locate);
    ls_sweep_finish(&s);
}

static void refuses(void **state)
{
    char many[4096] = HEAD "grid: {budget: [1";
    (void)state;
    expect_refusal("", "no 'prompts'");
    expect_refusal("x", "expected 'key: value' lines");
    expect_refusal(HEAD, "no arm beside the reference");
    expect_refusal(HEAD "arms: {a: b}", "'arms' is not a list");
    expect_refusal(HEAD "arms: [{name: a, bugdet: 1}]",
                   "s:4: unknown key 'bugdet'; the nearest known one is 'budget'");
    expect_refusal(HEAD "arms: [{name: a, others: 1}]", "unknown key 'others'");
    expect_refusal(HEAD "arms: [{name: a, config: x}]", "unknown key 'config'");
    expect_refusal(HEAD "arms: [{name: a, output: x}]", "'output' is set by the sweep itself");
    expect_refusal(HEAD "arms: [{name: a, budget: 513}]", "s:4: budget");
    expect_refusal(HEAD "arms: [{name: a, replicas: auto}]", "needs a number");
    expect_refusal(HEAD "arms: [{name: a, stages: 1024, replicas: 5}]",
                   "5120 ranks in one arm");
    expect_refusal(HEAD "arms: [{name: a, mapping: x}]", "has a mapping and no dump");
    expect_refusal(HEAD "arms: [{name: a, env: {'a=b': c}}]", "no name of a variable");
    expect_refusal("prompts: p\ndefaults: {name: x}\nreference: {model: m}\n", "holds a name");
    expect_refusal(HEAD "locate: 'no'", "locate is 'no', expected true or false");
    expect_refusal(HEAD "launcher: ''", "'launcher' has no words");
    expect_refusal(HEAD "launcher: {a: b}", "neither words nor a list");
    expect_refusal(HEAD "grid: {exclude: 3}", "'exclude' is not a list");
    expect_refusal(HEAD "grid: {name: [a, b]}", "named by their axes");
    expect_refusal(HEAD "grid: {budget: [[1]]}", "is not a single value");
    expect_refusal(HEAD "grid: [3]", "a grid is a mapping of axes");
    expect_refusal("prompts: p\nprompts: q\n", "s:2: 'prompts' is given a second time");
    expect_refusal("prompts: *a\n", "s:1:");
    expect_refusal("a: [[[[[[[[[[1]]]]]]]]]]", "nested too deep");
    expect_refusal("---\na: b\n---\nc: d\n", "a second document");
    for (int i = 0; i < 60; i++)
        strcat(many, ", 1");
    strcat(many, "], stages: [1");
    for (int i = 0; i < 99; i++)
        strcat(many, ", 1");
    strcat(many, "]}\n");
    expect_refusal(many, "more than 1024 combinations");
}

/* --- mappings --------------------------------------------------------------------------------
 */

static void expands_patterns(void **state)
{
    char out[24];
    (void)state;
    assert_true(ls_external_expand(out, sizeof out, "a.{id}.{number}", "x y", 12, -1));
    assert_string_equal(out, "a.x y.12");
    assert_true(ls_external_expand(out, sizeof out, "{layer}{id", "x", 1, 3));
    assert_string_equal(out, "3{id");
    assert_true(ls_external_expand(out, sizeof out, "{layer}", "x", 1, -1));
    assert_string_equal(out, "{layer}");
    assert_false(ls_external_expand(out, sizeof out, "{id}{id}", "twelve bytes", 1, -1));
    assert_true(ls_external_expand(out, sizeof out, "{id}{id}", "eleven byte", 1, -1));
}

static void opens(const char *mapping, const char *id, const char *file, const char *wanted)
{
    struct ls_external x;
    struct ls_dump *d;
    const uint64_t number = 4;
    if (ls_external_parse(&x, "m", mapping, strlen(mapping), &err))
        fail_msg("%s", err.text);
    const ls_status s = ls_external_open(&d, &x, "folder", &id, &number, 1, &err);
    if (!s) {
        assert_null(wanted);
        assert_string_equal(ls_dump_entry(d, 0)->file, file);
        assert_string_equal(ls_dump_entry(d, 0)->name, id);
        ls_dump_close(d);
    } else if (!wanted || !strstr(err.text, wanted)) {
        fail_msg("%s", err.text);
    }
    ls_external_finish(&x);
}

static void stays_in_its_folder(void **state)
{
    (void)state;
    opens("logits: {file: '{number}.npy'}", "a", "folder/4.npy", NULL);
    opens("{\"logits\": {\"file\": \"x/{id}\"}}", "a", "folder/x/a", NULL);
    opens("logits: {file: y}\nrequests: {a: {file: z, first_position: 3}}", "a", "folder/z",
          NULL);
    opens("logits: {file: '{id}'}", "../a", NULL, "not in the dump's folder");
    opens("logits: {file: '{id}'}", "..", NULL, "not in the dump's folder");
    opens("logits: {file: '{id}'}", "a/../../b", NULL, "not in the dump's folder");
    opens("logits: {file: '{id}'}", "/etc/passwd", NULL, "not in the dump's folder");
    opens("logits: {file: '{id}'}", "a..b", "folder/a..b", NULL);
}

static void refuses_mappings(void **state)
{
    static const char *const bad[][2] = {
        { "", "no 'logits'" },
        { "logits: x", "'logits' is not a mapping" },
        { "logits: {tensor: x}", "has no file" },
        { "logits: {file: x, tenser: y}",
          "unknown key 'tenser'; the nearest known one is 'tensor'" },
        { "logitz: {file: x}", "unknown key 'logitz'; the nearest known one is 'logits'" },
        { "logits: {file: x, first_position: -1}", "first_position is '-1'" },
        { "logits: {file: x}\nrequests: [a]", "'requests' is not a mapping" },
        { "logits: {file: [x]}", "is not a single value" },
    };
    struct ls_external x;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ls_external_parse(&x, "m", bad[i][0], strlen(bad[i][0]), &err),
                         LS_E_USAGE);
        if (!strstr(err.text, bad[i][1]))
            fail_msg("'%s', expected '%s'", err.text, bad[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_products),
        cmocka_unit_test(reads_its_keys),
        cmocka_unit_test(refuses),
        cmocka_unit_test(expands_patterns),
        cmocka_unit_test(stays_in_its_folder),
        cmocka_unit_test(refuses_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
