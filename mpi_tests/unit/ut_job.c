/* Whole jobs under a scripted coordinator: the output file is the same bytes whatever the order
 * and company; a bad line costs its own row; files that cannot be read or written end the job.
 */
#include "job_script.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ls_tokenizer *tokenizer;
static char folder[256];

static const char mixed[] =
    "{\"id\":\"greedy\",\"prompt\":\"hello\",\"max_tokens\":12}\n"
    "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/"
    "completions\",\"body\":{\"model\":\"m\","
    "\"prompt\":[\"hello\",\"he\"],\"n\":3,\"max_tokens\":9,\"seed\":5,\"logprobs\":2}}\n"
    "\n"
    "{\"broken\":\n"
    "{\"id\":\"greedy\",\"prompt\":\"again\"}\n"
    "{\"tokens\":[1,2,3],\"max_tokens\":30,\"temperature\":1.5,\"top_p\":0.9,\"top_k\":50,"
    "\"repetition_penalty\":1.2,\"ignore_eos\":true,\"logit_bias\":{\"7\":3}}\n"
    "{\"id\":\"echo\",\"prompt\":\"hello\",\"echo\":true,\"logprobs\":3,\"max_tokens\":0,"
    "\"prompt_logprobs\":1}\n"
    "{\"id\":\"nan\",\"tokens\":[262,2,4,1,7],\"max_tokens\":4,\"n\":2,\"prompt_logprobs\":1}\n"
    "{\"id\":\"late nan\",\"tokens\":[262,5,0,9],\"max_tokens\":8,\"ignore_eos\":true}\n"
    "{\"id\":\"long\",\"tokens\":[9,9,9],\"max_tokens\":60,\"ignore_eos\":true}\n"
    "{\"id\":\"too long\",\"tokens\":[9,9,9],\"max_tokens\":63,\"ignore_eos\":true}\n"
    "{\"id\":\"said\",\"tokens\":[261,256,257,111],\"max_tokens\":20,\"stop\":[\"lo\"]}";

static void same_bytes_in_any_order(void **state)
{
    (void)state;
    char *first = NULL;
    size_t n_first = 0;
    char digest[68] = "";
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct script_job j = { .tokenizer = tokenizer,
                                .script = { .seed = seed, .max_running = 1 + (int)seed % 13 } };
        j.config.digest = LS_DIGEST_ALL;
        j.config.seed = 11;
        if (script_job(&j, folder, mixed, strlen(mixed)))
            fail_msg("seed %llu: %s", (unsigned long long)seed, j.err.text);
        size_t n;
        char *text = rig_slurp(rig_in(folder, "out.jsonl"), &n);
        assert_int_equal(j.counts.rows, 12);
        assert_int_equal(j.counts.error_rows, 6);
        assert_int_equal(j.counts.bytes_written, n);
        if (!first) {
            first = text;
            n_first = n;
            memcpy(digest, j.digest, sizeof digest);
            continue;
        }
        if (n != n_first || memcmp(text, first, n))
            fail_msg("seed %llu: other bytes", (unsigned long long)seed);
        assert_string_equal(j.digest, digest);
        free(text);
    }
    free(first);
}

static void is_error(size_t row, const char *custom_id, const char *code, const char *words,
                     json_int_t line)
{
    json_t *r = script_result(folder, row);
    const char *id, *got_code, *message;
    json_int_t got_line;
    if (custom_id)
        assert_string_equal(json_string_value(json_object_get(r, "custom_id")), custom_id);
    else
        assert_true(json_is_null(json_object_get(r, "custom_id")));
    assert_true(json_is_null(json_object_get(r, "response")));
    assert_int_equal(json_unpack(r, "{s:s, s:{s:s, s:s, s:I}}", "id", &id, "error", "code",
                                 &got_code, "message", &message, "line", &got_line),
                     0);
    assert_int_equal(strncmp(id, "batch_req_", 10), 0);
    assert_string_equal(got_code, code);
    if (!strstr(message, words))
        fail_msg("%s; expected %s", message, words);
    assert_int_equal(got_line, line);
    json_decref(r);
}

static void rows_are_in_place(void **state)
{
    (void)state;
    struct script_job j = { .tokenizer = tokenizer, .script = { .seed = 3, .max_running = 8 } };
    assert_int_equal(script_job(&j, folder, mixed, strlen(mixed)), LS_OK);
    is_error(2, NULL, "blank_line", "blank", 3);
    is_error(3, NULL, "invalid_json", "broken", 4);
    is_error(4, "greedy", "duplicate_custom_id", "greedy", 5);
    is_error(7, "nan", "nan_logits",
             "choice 0: NaN in the logits of position 2, first produced by layer 3", 8);
    is_error(8, "late nan", "nan_logits",
             "NaN in the logits of position 5, produced by no layer but the head", 9);
    is_error(10, "too long", "context_length_exceeded", "3 tokens and max_tokens 63", 11);
    static const struct {
        size_t row;
        const char *id;
    } good[] = { { 0, "greedy" }, { 1, "b" },    { 5, "line-6" },
                 { 6, "echo" },   { 9, "long" }, { 11, "said" } };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        json_t *r = script_result(folder, good[i].row);
        assert_string_equal(json_string_value(json_object_get(r, "custom_id")), good[i].id);
        assert_true(json_is_null(json_object_get(r, "error")));
        json_decref(r);
    }
}

/* Equal bad lines have ids of their own. */
static void error_ids_differ(void **state)
{
    (void)state;
    struct script_job j = { .tokenizer = tokenizer };
    assert_int_equal(script_job(&j, folder, "{\n{\n\n\n", 6), LS_OK);
    json_t *rows[4];
    for (size_t i = 0; i < 4; i++) {
        rows[i] = script_result(folder, i);
        for (size_t k = 0; k < i; k++)
            assert_false(
                json_equal(json_object_get(rows[i], "id"), json_object_get(rows[k], "id")));
    }
    for (size_t i = 0; i < 4; i++)
        json_decref(rows[i]);
}

/* A sequence of a request in other company, other choices, another run: the same tokens. */
static void company_does_not_matter(void **state)
{
    (void)state;
    static const char one[] = "{\"tokens\":[1,2,3],\"id\":\"x\",\"max_tokens\":30,"
                              "\"temperature\":1.5,\"top_p\":0.9,\"ignore_eos\":true}\n";
    char two[1024];
    snprintf(two, sizeof two, "%s%s", "{\"tokens\":[1],\"id\":\"y\"}\n{\"z\":1}\n", one);
    struct script_job a = { .tokenizer = tokenizer }, b = { .tokenizer = tokenizer };
    b.script = (struct script){ .seed = 5, .max_running = 4 };
    assert_int_equal(script_job(&a, folder, one, strlen(one)), LS_OK);
    json_t *alone = script_result(folder, 0);
    assert_int_equal(script_job(&b, folder, two, strlen(two)), LS_OK);
    json_t *among = script_result(folder, 2);
    assert_true(json_equal(alone, among));
    json_decref(alone);
    json_decref(among);
}

/* A thousand short rows behind a long first one: all wait, and memory of the list is bounded.
 */
static void many_lines(void **state)
{
    (void)state;
    char *input = malloc(1 << 20);
    int at = sprintf(input, "{\"tokens\":[1],\"max_tokens\":64,\"ignore_eos\":true}\n");
    for (int i = 0; i < 3000; i++)
        at += sprintf(input + at, i % 3 ? "{\"tokens\":[%d],\"max_tokens\":1}\n" : "{%d\n",
                      i % 200);
    struct script_job j = { .tokenizer = tokenizer,
                            .script = { .seed = 9, .max_running = 16 } };
    assert_int_equal(script_job(&j, folder, input, (size_t)at), LS_OK);
    assert_int_equal(j.counts.rows, 3001);
    assert_int_equal(j.counts.error_rows, 1000);
    json_t *last = script_result(folder, 3000);
    assert_string_equal(json_string_value(json_object_get(last, "custom_id")), "line-3001");
    json_decref(last);
    free(input);
}

static void text_input(void **state)
{
    (void)state;
    struct script_job j = { .tokenizer = tokenizer };
    rig_write(rig_in(folder, "in.txt"), "hello\r\n\nhe", 10);
    j.config.input = rig_in(folder, "in.txt");
    assert_int_equal(script_job(&j, folder, NULL, 0), LS_OK);
    assert_int_equal(j.counts.rows, 3);
    is_error(1, NULL, "blank_line", "blank", 2);
    json_t *r = script_result(folder, 2);
    assert_string_equal(json_string_value(json_object_get(r, "custom_id")), "line-3");
    json_decref(r);
    j = (struct script_job){ .tokenizer = tokenizer };
    assert_int_equal(script_job(&j, folder, "", 0), LS_OK);
    assert_int_equal(j.counts.rows, 0);
}

/* --- files -----------------------------------------------------------------------------------
 */

static void refused_at_create(const char *input, const char *output, const char *logits,
                              ls_status expected, const char *words)
{
    struct ls_job *job;
    struct ls_err err = { 0 };
    const struct ls_job_config config = { .input = input,
                                          .output = output,
                                          .logits_dir = logits };
    ls_status status = ls_job_create(&job, &config, &err);
    if (status != expected || !strstr(err.text, words))
        fail_msg("%s: %s; expected %s: %s", ls_status_name(status), err.text,
                 ls_status_name(expected), words);
}

static void files_that_cannot_be(void **state)
{
    (void)state;
    const char *in = rig_in(folder, "in.jsonl"), *out = rig_in(folder, "new.jsonl");
    rig_write(in, "{}\n", 3);
    refused_at_create(rig_in(folder, "none"), out, NULL, LS_E_IO, "none");
    refused_at_create(folder, out, NULL, LS_E_USAGE, "folder");
    refused_at_create(in, folder, NULL, LS_E_USAGE, "folder");
    refused_at_create(in, rig_in(folder, "no/such/out"), NULL, LS_E_IO, "no/such/out");
    refused_at_create(in, in, NULL, LS_E_USAGE, "is the input");
    refused_at_create(in, "-", NULL, LS_E_USAGE, "path of a file");
    refused_at_create(in, NULL, NULL, LS_E_USAGE, "output");
    refused_at_create(NULL, out, NULL, LS_E_USAGE, "input");
    refused_at_create(in, out, rig_in(folder, "no/such/logits"), LS_E_IO, "no/such/logits");
    /* nothing was left behind, the input is what it was */
    size_t n;
    char *text = rig_slurp(in, &n);
    assert_string_equal(text, "{}\n");
    free(text);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_not_equal(access(rig_in(folder, "new.jsonl.lockstep"), F_OK), 0);
}

static void one_job_at_a_time(void **state)
{
    (void)state;
    struct ls_job *job;
    struct ls_err err = { 0 };
    const char *in = rig_in(folder, "in.jsonl"), *out = rig_in(folder, "held.jsonl");
    rig_write(in, "{}\n", 3);
    const struct ls_job_config config = { .input = in, .output = out };
    assert_int_equal(ls_job_create(&job, &config, &err), LS_OK);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    refused_at_create(in, out, NULL, LS_E_REFUSED, pid);
    ls_job_destroy(job);
    assert_int_equal(ls_job_create(&job, &config, &err), LS_OK);
    ls_job_destroy(job);
    /* the lock of a process that was killed */
    pid_t child = fork();
    if (child == 0) {
        if (ls_job_create(&job, &config, &err))
            _exit(1);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_int_equal(access(rig_in(folder, "held.jsonl.lockstep/lock"), F_OK), 0);
    assert_int_equal(ls_job_create(&job, &config, &err), LS_OK);
    ls_job_destroy(job);
}

/* Rows that no journal vouches for are replaced only when that is asked for, and only when the
 * run begins. */
static void old_output_stays(void **state)
{
    (void)state;
    struct ls_job *job;
    struct ls_arch arch;
    size_t n;
    const char *in = rig_in(folder, "in.jsonl"), *out = rig_in(folder, "old.jsonl");
    rig_write(in, "{}\n", 3);
    rig_write(out, "old\n", 4);
    refused_at_create(in, out, NULL, LS_E_REFUSED, "--fresh");
    const struct ls_job_config config = { .input = in, .output = out, .fresh = true };
    rig_arch(&arch);
    assert_int_equal(ls_job_create(&job, &config, NULL), LS_OK);
    ls_job_destroy(job);
    char *text = rig_slurp(out, &n);
    assert_string_equal(text, "old\n");
    free(text);
    assert_int_equal(ls_job_create(&job, &config, NULL), LS_OK);
    assert_int_equal(ls_job_bind(job, &arch, NULL, NULL), LS_OK);
    ls_job_destroy(job);
    text = rig_slurp(out, &n);
    assert_int_equal(n, 0);
    free(text);
}

/* Two hundred rows of some 700 bytes through a file that may hold LIMIT bytes; a custom_id
 * table of 64 KiB lies beside it under the same limit. */
static void disk_full(void **state)
{
    (void)state;
    enum { ROWS = 200, LIMIT = 70000 };
    char *input = malloc(ROWS * 64);
    int at = 0;
    for (int i = 0; i < ROWS; i++)
        at +=
            sprintf(input + at, "{\"tokens\":[%d],\"max_tokens\":60,\"ignore_eos\":true}\n", i);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = { .rlim_cur = LIMIT, .rlim_max = LIMIT };
        struct script_job j = { .tokenizer = tokenizer };
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        ls_status status = script_job(&j, folder, input, (size_t)at);
        _exit(status == LS_E_FULL && strstr(j.err.text, "out.jsonl.lockstep/journal:") ? 0 : 1);
    }
    int how;
    size_t n;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    char *text = rig_slurp(rig_in(folder, "out.jsonl"), &n);
    if (n < LIMIT / 2 || n > LIMIT)
        fail_msg("%zu bytes in the file", n);
    assert_int_equal(text[n - 1], '\n');
    free(text);
    free(input);
}

static void dev_full(void **state)
{
    (void)state;
    struct script_job j = { .tokenizer = tokenizer };
    j.config.output = "/dev/full";
    ls_status status = script_job(&j, folder, "{\"tokens\":[1]}\n", 15);
    rmdir("/dev/full.lockstep");
    assert_true(status == LS_E_FULL || status == LS_E_IO);
    /* without the right to make a folder in /dev the refusal names that instead */
    assert_non_null(strstr(j.err.text, "/dev/full"));
}

static int make(void **state)
{
    (void)state;
    tokenizer = rig_tokenizer();
    rig_folder_new(folder);
    return 0;
}
static int drop(void **state)
{
    (void)state;
    ls_tokenizer_destroy(tokenizer);
    rig_folder_drop(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_in_any_order),
        cmocka_unit_test(rows_are_in_place),
        cmocka_unit_test(error_ids_differ),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(many_lines),
        cmocka_unit_test(text_input),
        cmocka_unit_test(files_that_cannot_be),
        cmocka_unit_test(one_job_at_a_time),
        cmocka_unit_test(old_output_stays),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(dev_full),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
