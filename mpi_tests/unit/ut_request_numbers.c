/* Numbers in request lines: too large for the parser, and integers written as reals. */
#include "job_rig.h"

#include <stdio.h>
#include <string.h>

static struct ls_tokenizer *tokenizer;

#define BATCH(body)                                                                            \
    "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{" body "}" \
    "}"
#define TEXT "\"prompt\":\"hello\""

static void good(struct rig_request *r, const char *line)
{
    *r = (struct rig_request){ 0 };
    rig_read(r, LS_INPUT_JSON, line, strlen(line), tokenizer);
    if (r->status)
        fail_msg("%s: refused: %s: %s", line, r->req.code, r->err.text);
}

static void refused(const char *line, const char *code, const char *words)
{
    struct rig_request r = { 0 };
    rig_read(&r, LS_INPUT_JSON, line, strlen(line), tokenizer);
    if (r.status != LS_E_REQUEST || strcmp(r.req.code, code) || !strstr(r.err.text, words))
        fail_msg("%s: %s: %s: %s; expected %s: %s", line, ls_status_name(r.status),
                 r.req.code ? r.req.code : "", r.err.text, code, words);
    ls_request_finish(&r.req);
}

/* Numbers that no machine type holds are JSON all the same: the row keeps its id, and its other
 * fields their values. */
static void large_numbers(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "9223372036854775808",      "18446744073709551615",
        "-9223372036854775809",     "1e400",
        "-12345678901234567890123", "99999999999999999999999.5e999"
    };
    struct rig_request r;
    char line[512], words[128];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(line, sizeof line, BATCH(TEXT ",\"seed\":%s"), numbers[i]);
        snprintf(words, sizeof words, "seed is %s, expected an integer", numbers[i]);
        refused(line, "invalid_value", words);
        snprintf(line, sizeof line, BATCH("\"prompt\":[1,%s]"), numbers[i]);
        snprintf(words, sizeof words, "item 1 of prompt is %s, expected a token id",
                 numbers[i]);
        refused(line, "token_out_of_range", words);
        snprintf(
            line, sizeof line,
            BATCH("\"prompt\":\"7\\\" %s\",\"seed\":9223372036854775807,\"user\":{\"x\":[%s]},"
                  "\"max_tokens\":3"),
            numbers[i], numbers[i]);
        good(&r, line);
        assert_string_equal(r.req.custom_id, "a");
        assert_true(r.req.seed == INT64_MAX && r.req.max_tokens == 3);
        assert_int_equal(r.req.prompts[0].n_text, strlen(numbers[i]) + 3);
        ls_request_finish(&r.req);
    }
    refused(BATCH(TEXT ",\"max_tokens\":99999999999999999999"), "invalid_value",
            "max_tokens is 9999999");
    refused(BATCH(TEXT ",\"temperature\":1e999"), "invalid_value", "temperature is 1e999");
    refused(BATCH(TEXT ",\"temperature\":2.1"), "invalid_value", "temperature is 2.1,");
    refused("{\"a\":9223372036854775808,\"a\":1}", "invalid_json", "duplicate");
    refused("{\"a\":9223372036854775808,,}", "invalid_json", "broken JSON at byte 26:");
    refused("{\"a\":09223372036854775808}", "invalid_json", "broken JSON");
    refused("{\"a\":9223372036854775808.}", "invalid_json", "broken JSON");
}

/* 3.0 is the integer 3 wherever one is expected. */
static void whole_reals(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t three[] = { 3, 4, 5 };
    good(&r, BATCH("\"prompt\":[3.0,4,5e0],\"stop_token_ids\":[1.0],\"n\":1.0,\"seed\":4.0"));
    assert_int_equal(r.req.prompts[0].n, 3);
    assert_memory_equal(r.req.prompts[0].tokens, three, sizeof three);
    assert_true(r.req.seed == 4 && r.req.stop_ids[0] == 1);
    ls_request_finish(&r.req);
    refused(BATCH("\"prompt\":[3.5]"), "token_out_of_range",
            "item 0 of prompt is 3.5, expected a token id below");
}

static int make(void **state)
{
    (void)state;
    tokenizer = rig_tokenizer();
    return 0;
}

static int drop(void **state)
{
    (void)state;
    ls_tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_numbers),
        cmocka_unit_test(whole_reals),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
