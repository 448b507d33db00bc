/* The option table's machinery: command line, YAML files, --print-config, help, man page. */
#include "base/nearest.h"
#include "base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUN, SHOW, N_CMDS };
enum { MODEL, THREADS, MEMORY, HEAT, DTYPE, DRY, CONFIG, DEPTH, SEED, N_OPTS };

static const char *const sections[] = { "All", "Rest" };

static const struct ls_option table[N_OPTS] = {
    [MODEL] = { .name = "model",
                .arg = "DIR",
                .type = LS_VALUE_TEXT,
                .commands = 3,
                .required_by = 1 << RUN,
                .help = "The model." },
    [THREADS] = { .name = "threads",
                  .arg = "T",
                  .type = LS_VALUE_NUMBER,
                  .min = 1,
                  .max = 64,
                  .standard_note = "all cores",
                  .commands = 1,
                  .help = "Threads." },
    [MEMORY] = { .name = "kv-memory",
                 .arg = "SIZE",
                 .type = LS_VALUE_SIZE,
                 .min = 1,
                 .max = (uint64_t)1 << 50,
                 .commands = 1,
                 .help = "Bytes." },
    [HEAT] = { .name = "temperature",
               .arg = "X",
               .type = LS_VALUE_REAL,
               .real_max = 2,
               .commands = 1,
               .help = "Heat." },
    [DTYPE] = { .name = "dtype",
                .arg = "auto|f32",
                .type = LS_VALUE_CHOICE,
                .standard = "auto",
                .commands = 1,
                .section = 1,
                .help = "Format." },
    [DRY] = { .name = "dry-run", .type = LS_VALUE_FLAG, .commands = 1, .help = ".dots first." },
    [CONFIG] = { .name = "config",
                 .arg = "FILE",
                 .type = LS_VALUE_TEXT,
                 .commands = 1,
                 .argv_only = true,
                 .help = "A file." },
    [DEPTH] = { .name = "depth",
                .arg = "N",
                .type = LS_VALUE_NUMBER,
                .max = 9,
                .commands = 1 << SHOW,
                .help = "Depth." },
    [SEED] = { .name = "seed",
               .arg = "N",
               .type = LS_VALUE_NUMBER,
               .max = UINT64_MAX,
               .standard = "0",
               .commands = 1,
               .help = "Seed." },
};

static const struct ls_command commands[N_CMDS] = {
    [RUN] = { "run", "", 0, 0, "runs", "Runs it.\nThen ends." },
    [SHOW] = { "show", "A B", 2, 2, "shows", "Shows it." },
};

static const struct ls_option_group groups[] = { { table, N_OPTS } };

static const struct ls_option_set set = { .program = "prog",
                                          .version = "1",
                                          .tagline = "a test",
                                          .sections = sections,
                                          .n_sections = 2,
                                          .groups = groups,
                                          .n_options = N_OPTS,
                                          .commands = commands,
                                          .n_commands = N_CMDS };

static struct ls_options o;
static struct ls_err err;

static ls_status parse_as(int command, const char *line)
{
    static char words[256];
    static char *argv[32];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    ls_options_finish(&o);
    ls_options_init(&o, &set, command);
    err = (struct ls_err){ 0 };
    return ls_options_parse(&o, argc, argv, &err);
}

static ls_status read_yaml(const char *yaml)
{
    err = (struct ls_err){ 0 };
    return ls_options_read_yaml(&o, "c.yaml", yaml, strlen(yaml), &err);
}

static void refused(ls_status s, const char *part)
{
    if (s != LS_E_USAGE || !strstr(err.text, part))
        fail_msg("status %s, message '%s', expected '%s' in it", ls_status_name(s), err.text,
                 part);
}

static void accepts_each_type(void **state)
{
    (void)state;
    assert_int_equal(parse_as(RUN, "--model=a=b --threads 3 --kv-memory 2G --temperature 0.5 "
                                   "--dtype f32 --dry-run --seed 18446744073709551615"),
                     LS_OK);
    assert_string_equal(ls_options_text(&o, MODEL), "a=b");
    assert_int_equal(ls_options_number(&o, THREADS), 3);
    assert_true(ls_options_number(&o, MEMORY) == (uint64_t)2 << 30);
    assert_true(ls_options_real(&o, HEAT) == 0.5);
    assert_int_equal(ls_options_number(&o, DTYPE), 1);
    assert_true(ls_options_flag(&o, DRY));
    assert_true(ls_options_number(&o, SEED) == UINT64_MAX);
    assert_int_equal(ls_options_check(&o, &err), LS_OK);
}

static void sizes_have_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = { { "7", 7 },
                  { "7B", 7 },
                  { "1K", 1024 },
                  { "1KiB", 1024 },
                  { "3m", 3u << 20 },
                  { "1T", (uint64_t)1 << 40 },
                  { "2GB", (uint64_t)2 << 30 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--kv-memory %s", cases[i].text);
        assert_int_equal(parse_as(RUN, line), LS_OK);
        assert_true(ls_options_number(&o, MEMORY) == cases[i].bytes);
    }
    static const char *const bad[] = {
        "G",   "1X",  "1.5G", "-1", "1KK", "99999999999999999999", "18014398509481984K",
        "1 G", "0x10"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--kv-memory=%s", bad[i]);
        if (!strchr(bad[i], ' '))
            refused(parse_as(RUN, line), "--kv-memory: ");
    }
    refused(parse_as(RUN, "--kv-memory 0"), "outside 1 to");
}

static void refuses_bad_words(void **state)
{
    (void)state;
    refused(parse_as(RUN, "--thread 3"),
            "'--thread' of run; the nearest known one is '--threads'");
    refused(parse_as(RUN, "--tempreature=1"), "'--temperature'");
    refused(parse_as(RUN, "-threads 3"), "unknown option '-threads'");
    refused(parse_as(RUN, "---threads 3"), "unknown option '---threads'");
    refused(parse_as(RUN, "-x"), "unknown option '-x'");
    refused(parse_as(RUN, "--depth 3"), "--depth is an option of show, not of run");
    refused(parse_as(RUN, "--threads"), "--threads needs a value: --threads T");
    refused(parse_as(RUN, "--model --threads 3"), "--model needs a value");
    refused(parse_as(RUN, "--model="), "--model: the value is empty");
    refused(parse_as(RUN, "--dry-run=yes"), "--dry-run takes no value");
    refused(parse_as(RUN, "word"), "unexpected word 'word'");
    refused(parse_as(RUN, "-- --threads"), "unexpected word '--threads'");
    refused(parse_as(SHOW, "a b c"), "unexpected word 'c'");
    char longest[240] = "--";
    memset(longest + 2, 'x', 200);
    refused(parse_as(RUN, longest), "unknown option");
}

static void refuses_bad_values(void **state)
{
    (void)state;
    refused(parse_as(RUN, "--threads two"),
            "--threads: 'two' is not a whole number from 1 to 64");
    refused(parse_as(RUN, "--threads 1.5"), "not a whole number");
    refused(parse_as(RUN, "--threads -1"), "not a whole number");
    refused(parse_as(RUN, "--threads +1"), "not a whole number");
    refused(parse_as(RUN, "--threads 0"), "0 is outside 1 to 64");
    refused(parse_as(RUN, "--threads 65"), "65 is outside 1 to 64");
    refused(parse_as(RUN, "--seed 18446744073709551616"), "not a whole number");
    refused(parse_as(RUN, "--temperature warm"), "'warm' is not a number");
    refused(parse_as(RUN, "--temperature nan"), "not a number");
    refused(parse_as(RUN, "--temperature 0x1"), "not a number");
    refused(parse_as(RUN, "--temperature 1e"), "not a number");
    refused(parse_as(RUN, "--temperature -0.5"), "-0.5 is outside 0 to 2");
    refused(parse_as(RUN, "--temperature 1e999"), "outside 0 to 2");
    refused(parse_as(RUN, "--dtype f16"), "--dtype: 'f16' is not one of auto|f32");
    refused(parse_as(RUN, "--dtype auto|f32"), "is not one of");
}

static void requires_what_a_command_needs(void **state)
{
    (void)state;
    assert_int_equal(parse_as(RUN, "--threads 2"), LS_OK);
    refused(ls_options_check(&o, &err), "run needs --model DIR");
    assert_int_equal(parse_as(SHOW, "a"), LS_OK);
    refused(ls_options_check(&o, &err), "show needs A B, found 1 of 2");
    assert_int_equal(parse_as(SHOW, "a --depth 0 -- -b"), LS_OK);
    assert_int_equal(ls_options_check(&o, &err), LS_OK);
    assert_string_equal(o.operands[1], "-b");
}

static void later_values_win(void **state)
{
    (void)state;
    assert_int_equal(parse_as(RUN, "--threads 2 --threads 3"), LS_OK);
    assert_int_equal(ls_options_number(&o, THREADS), 3);
    assert_int_equal(read_yaml("# a comment\nthreads: 4\nkv-memory: 1K\ndry-run: true\n"),
                     LS_OK);
    assert_int_equal(ls_options_number(&o, THREADS), 3);
    assert_int_equal(ls_options_number(&o, MEMORY), 1024);
    assert_int_equal(o.values[MEMORY].line, 3);
    assert_true(ls_options_flag(&o, DRY));
    assert_int_equal(o.values[DTYPE].source, LS_FROM_DEFAULT);
    refused(read_yaml("threads: 99\n"), "c.yaml:1: threads: 99 is outside 1 to 64");
}

static void refuses_bad_yaml(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *part;
    } cases[] = {
        { "model: x\nthread: 3\n",
          "c.yaml:2: unknown key 'thread'; the nearest known one is 'threads'" },
        { "kv_memory: 3\n", "nearest known one is 'kv-memory'" },
        { "threads: 1\nmodel: x\nthreads: 2\n", "c.yaml:3: 'threads' is given a second time" },
        { "threads: two\n", "c.yaml:1: threads: 'two' is not a whole number" },
        { "threads: [1, 2]\n", "c.yaml:1: threads is not a single value" },
        { "threads:\n  count: 2\n", "threads is not a single value" },
        { "threads:\n", "threads: no value" },
        { "model: ~\n", "model: no value" },
        { "model: \"\"\n", "model: the value is empty" },
        { "dry-run: yes\n", "dry-run: 'yes' is neither true nor false" },
        { "depth: 10\n", "depth: 10 is outside 0 to 9" },
        { "config: a.yaml\n", "'config' can only be given on the command line" },
        { "- threads\n", "expected 'option: value' lines" },
        { "threads\n", "expected 'option: value' lines" },
        { "[a]: 3\n", "a key is not a single value" },
        { "threads: 1\n---\nthreads: 2\n", "a second document" },
        { "model: &a x\n", "model has a tag or an anchor" },
        { "model: *a\n", "c.yaml:1: " },
        { "threads: !!int 3\n", "has a tag" },
        { "model: \"a\\0b\"\n", "holds a zero byte" },
        { "model: \"open\n", "c.yaml:" },
        { "a: b: c\n", "c.yaml:1: " },
        { "model: \xff\xfe\n", "c.yaml:" },
        { "\tmodel: x\n", "c.yaml:1: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse_as(RUN, ""), LS_OK);
        refused(read_yaml(cases[i].yaml), cases[i].part);
    }
    assert_int_equal(read_yaml(""), LS_OK);
    assert_int_equal(read_yaml("# nothing\n"), LS_OK);
    assert_int_equal(read_yaml("{}\n"), LS_OK);
    assert_int_equal(read_yaml("depth: 3\n"), LS_OK); /* another command's */
}

static void deep_yaml_is_harmless(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *const text = malloc(N + 1);
    memset(text, '[', N);
    text[N] = 0;
    assert_int_equal(parse_as(RUN, ""), LS_OK);
    refused(read_yaml(text), "c.yaml:1: ");
    free(text);
}

static void config_files_must_be_readable(void **state)
{
    (void)state;
    assert_int_equal(parse_as(RUN, ""), LS_OK);
    refused(ls_options_read_file(&o, "/nonexistent/c.yaml", &err),
            "--config /nonexistent/c.yaml");
    refused(ls_options_read_file(&o, "/", &err), "--config /");
    char path[] = "/tmp/ut_options.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "threads: 5\n", 11), 11);
    assert_int_equal(ls_options_read_file(&o, path, &err), LS_OK);
    assert_int_equal(ls_options_number(&o, THREADS), 5);
    assert_int_equal(ftruncate(fd, LS_MAX_CONFIG_BYTES + 1), 0);
    refused(ls_options_read_file(&o, path, &err), "longer than");
    close(fd);
    unlink(path);
}

/* What fn writes, as text the caller frees. */
static char *captured(void (*fn)(FILE *out))
{
    char *text = NULL;
    size_t n = 0;
    FILE *const f = open_memstream(&text, &n);
    fn(f);
    fclose(f);
    return text;
}

static void print_it(FILE *out)
{
    ls_options_print(&o, out);
}

static void print_config_round_trips(void **state)
{
    (void)state;
    static char odd[] = "--model=a \"b\"\\: #c\n\x01";
    char *argv[] = { odd, "--temperature", "1.5" };
    assert_int_equal(parse_as(RUN, ""), LS_OK);
    assert_int_equal(ls_options_parse(&o, 3, argv, &err), LS_OK);
    assert_int_equal(read_yaml("threads: 4\n\ndry-run: false\n"), LS_OK);
    char *const text = captured(print_it);
    assert_non_null(strstr(text, "threads: 4  # c.yaml:1\n"));
    assert_non_null(strstr(text, "dry-run: false  # c.yaml:3\n"));
    assert_non_null(strstr(text, "temperature: 1.5  # command line\n"));
    assert_non_null(strstr(text, "dtype: auto  # default\n"));
    assert_non_null(strstr(text, "# kv-memory:  # not set\n"));
    assert_null(strstr(text, "depth"));
    assert_null(strstr(text, "config: "));
    assert_int_equal(parse_as(RUN, ""), LS_OK);
    if (read_yaml(text))
        fail_msg("%s in\n%s", err.text, text);
    assert_string_equal(ls_options_text(&o, MODEL), odd + strlen("--model="));
    assert_true(ls_options_real(&o, HEAT) == 1.5);
    assert_int_equal(ls_options_number(&o, THREADS), 4);
    assert_false(ls_options_is_set(&o, MEMORY));
    free(text);
}

static void help_run(FILE *out)
{
    ls_options_help(&set, RUN, out);
}

static void help_all(FILE *out)
{
    ls_options_help(&set, -1, out);
}

static void man_page(FILE *out)
{
    ls_options_man(&set, out);
}

static void help_and_man_come_from_the_table(void **state)
{
    (void)state;
    char *const help = captured(help_run), *const all = captured(help_all);
    char *const man = captured(man_page);
    assert_non_null(strstr(help, "Usage: prog run [OPTION]...\n\nRuns it.\nThen ends.\n"));
    assert_non_null(strstr(help, "  --model DIR             The model. Required.\n"));
    assert_non_null(strstr(help, "Threads. Default: all cores.\n"));
    assert_non_null(strstr(help, "Format. Default: auto.\n"));
    assert_null(strstr(help, "--depth"));
    assert_non_null(strstr(all, "  show       shows\n"));
    for (int i = 0; i < N_OPTS; i++) {
        char line[64] = "\\fB\\-\\-", *p = line + strlen(line);
        for (const char *name = table[i].name; *name; name++)
            p += sprintf(p, *name == '-' ? "\\-" : "%c", *name);
        assert_non_null(strstr(man, line));
    }
    assert_non_null(strstr(man, "\n\\&.dots first."));
    free(help);
    free(all);
    free(man);
}

static void finds_commands_and_help(void **state)
{
    (void)state;
    assert_int_equal(ls_options_command(&set, "show", &err), SHOW);
    assert_int_equal(ls_options_command(&set, "shwo", &err), -1);
    assert_non_null(
        strstr(err.text, "unknown command 'shwo'; the nearest known one is 'show'"));
    char *const yes[] = { "--model", "x", "-h" }, *const no[] = { "--", "--help" };
    assert_true(ls_options_want_help(3, yes));
    assert_false(ls_options_want_help(2, no));
}

static void edit_distances(void **state)
{
    (void)state;
    assert_int_equal(ls_edit_distance("", ""), 0);
    assert_int_equal(ls_edit_distance("abc", ""), 3);
    assert_int_equal(ls_edit_distance("", "ab"), 2);
    assert_int_equal(ls_edit_distance("abcd", "acbd"), 1);
    assert_int_equal(ls_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(ls_edit_distance("threads", "thread"), 1);
}

int main(void)
{
    ls_options_init(&o, &set, RUN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_each_type),
        cmocka_unit_test(sizes_have_suffixes),
        cmocka_unit_test(refuses_bad_words),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(requires_what_a_command_needs),
        cmocka_unit_test(later_values_win),
        cmocka_unit_test(refuses_bad_yaml),
        cmocka_unit_test(deep_yaml_is_harmless),
        cmocka_unit_test(config_files_must_be_readable),
        cmocka_unit_test(print_config_round_trips),
        cmocka_unit_test(help_and_man_come_from_the_table),
        cmocka_unit_test(finds_commands_and_help),
        cmocka_unit_test(edit_distances),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ls_options_finish(&o);
    return failed;
}
