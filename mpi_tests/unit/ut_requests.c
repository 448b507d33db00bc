/* Request lines: what is accepted and how it is understood, and that every other line is
 * refused with its reason. */
#include "job_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ls_tokenizer *tokenizer;

#define BATCH(body)                                                                            \
    "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{" body "}" \
    "}"
#define TEXT "\"prompt\":\"hello\""

static void read_with(struct rig_request *r, const char *line, enum ls_input_kind kind)
{
    *r = (struct rig_request){ 0 };
    rig_read(r, kind, line, strlen(line), tokenizer);
}

static void good(struct rig_request *r, const char *line)
{
    read_with(r, line, LS_INPUT_JSON);
    if (r->status)
        fail_msg("%s: refused: %s: %s", line, r->req.code, r->err.text);
}

static void read_refused(const char *line, size_t n, enum ls_input_kind kind, const char *code,
                         const char *words)
{
    struct rig_request r = { 0 };
    rig_read(&r, kind, line, n, tokenizer);
    if (r.status != LS_E_REQUEST)
        fail_msg("%s: status %s, expected a refusal", line, ls_status_name(r.status));
    if (strcmp(r.req.code, code) || !strstr(r.err.text, words))
        fail_msg("%s: %s: %s; expected %s: %s", line, r.req.code, r.err.text, code, words);
    ls_request_finish(&r.req);
}

static void refused(const char *line, const char *code, const char *words)
{
    read_refused(line, strlen(line), LS_INPUT_JSON, code, words);
}

static void is_prompt(const struct rig_request *r, uint32_t i, const int32_t *ids, uint32_t n)
{
    assert_true(i < r->req.n_prompts);
    assert_int_equal(r->req.prompts[i].n, n);
    assert_memory_equal(r->req.prompts[i].tokens, ids, n * sizeof *ids);
}

static void batch_lines(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t hello[] = { RIG_BOS, RIG_HE, RIG_LL, 'o' }, three[] = { 3, 4, 5 },
                  six[] = { 6 };
    good(&r, BATCH(TEXT));
    is_prompt(&r, 0, hello, 4);
    assert_int_equal(r.req.n_prompts, 1);
    assert_int_equal(r.req.max_tokens, 16);
    assert_true(r.req.sampling.temperature == 1 && r.req.sampling.top_p == 1);
    assert_int_equal(r.req.n, 1);
    assert_int_equal(r.req.logprobs, -1);
    assert_string_equal(r.req.custom_id, "a");
    assert_int_equal(r.req.line, 7);
    ls_request_finish(&r.req);
    good(&r, BATCH("\"prompt\":[3,4,5]"));
    is_prompt(&r, 0, three, 3);
    assert_null(r.req.prompts[0].text);
    ls_request_finish(&r.req);
    good(&r, BATCH("\"prompt\":[\"hello\",\"\"]"));
    is_prompt(&r, 0, hello, 4);
    is_prompt(&r, 1, hello, 1);
    ls_request_finish(&r.req);
    good(&r, BATCH("\"prompt\":[[3,4,5],[6]]"));
    is_prompt(&r, 0, three, 3);
    is_prompt(&r, 1, six, 1);
    ls_request_finish(&r.req);
}

static void plain_objects(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t ids[] = { 1, 2 };
    good(&r, "{\"prompt\":\"hello\"}");
    assert_string_equal(r.req.custom_id, "line-7");
    assert_true(r.req.sampling.temperature == 0);
    ls_request_finish(&r.req);
    good(&r, "{\"tokens\":[1,2],\"id\":\"x\",\"max_tokens\":3,\"temperature\":0.5}");
    is_prompt(&r, 0, ids, 2);
    assert_string_equal(r.req.custom_id, "x");
    assert_int_equal(r.req.max_tokens, 3);
    assert_true(r.req.sampling.temperature == 0.5);
    ls_request_finish(&r.req);
    good(&r, "  {\"tokens\":[[1,2],[1]],\"custom_id\":\"y\"}\t");
    assert_int_equal(r.req.n_prompts, 2);
    ls_request_finish(&r.req);
}

static void every_field(void **state)
{
    (void)state;
    struct rig_request r;
    good(&r, BATCH(TEXT ",\"model\":\"m\",\"max_tokens\":5.0,\"temperature\":2,\"top_p\":0.25,"
                        "\"top_k\":-1,\"min_p\":0.125,\"n\":3,\"best_of\":3,\"logprobs\":0,"
                        "\"prompt_logprobs\":20,\"seed\":-9223372036854775808,\"echo\":true,"
                        "\"ignore_eos\":true,\"stop\":[\"\\u0000x\",\"yy\"],"
                        "\"stop_token_ids\":[1,263],\"presence_penalty\":-2,"
                        "\"frequency_penalty\":2,\"repetition_penalty\":0.5,"
                        "\"logit_bias\":{\"0\":-100,\"263\":1.5},\"user\":\"u\","
                        "\"metadata\":{\"k\":[1]},\"stream\":true,\"suffix\":null,"
                        "\"tools\":null"));
    const struct ls_request *q = &r.req;
    assert_string_equal(q->model, "m");
    assert_int_equal(q->max_tokens, 5);
    assert_true(q->sampling.temperature == 2 && q->sampling.top_p == 0.25);
    assert_true(q->sampling.top_k == -1 && q->sampling.min_p == 0.125);
    assert_int_equal(q->n, 3);
    assert_int_equal(q->logprobs, 0);
    assert_int_equal(q->prompt_logprobs, 20);
    assert_true(q->has_seed && q->seed == INT64_MIN && q->echo && q->ignore_eos);
    assert_int_equal(q->stops.n, 2);
    assert_int_equal(q->stops.longest, 2);
    assert_memory_equal(q->stops.items[0].text, "\0x", 2);
    assert_int_equal(q->n_stop_ids, 2);
    assert_int_equal(q->stop_ids[1], 263);
    assert_true(q->sampling.presence_penalty == -2 && q->sampling.frequency_penalty == 2);
    assert_true(q->sampling.repetition_penalty == 0.5);
    assert_int_equal(q->sampling.n_bias, 2);
    assert_int_equal(q->sampling.bias[1].token, 263);
    assert_true(q->sampling.bias[1].value == 1.5);
    ls_request_finish(&r.req);
}

static void null_is_absent(void **state)
{
    (void)state;
    static const char *const names[] = { "model",
                                         "max_tokens",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "n",
                                         "best_of",
                                         "logprobs",
                                         "prompt_logprobs",
                                         "seed",
                                         "echo",
                                         "ignore_eos",
                                         "stop",
                                         "stop_token_ids",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "repetition_penalty",
                                         "logit_bias",
                                         "user",
                                         "metadata",
                                         "stream",
                                         "suffix",
                                         "tools",
                                         "response_format" };
    struct rig_request r;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, BATCH(TEXT ",\"%s\":null"), names[i]);
        good(&r, line);
        assert_int_equal(r.req.max_tokens, 16);
        assert_true(r.req.sampling.temperature == 1 && !r.req.has_seed);
        ls_request_finish(&r.req);
    }
}

static void defaults_apply(void **state)
{
    (void)state;
    struct rig_request r = { 0 };
    r.defaults = (struct ls_request_defaults){ .has_temperature = true,
                                               .has_max_tokens = true,
                                               .has_top_p = true,
                                               .has_top_k = true,
                                               .has_min_p = true,
                                               .temperature = 0.25,
                                               .top_p = 0.5,
                                               .min_p = 0.75,
                                               .max_tokens = 2,
                                               .top_k = 9,
                                               .ignore_eos = true };
    const char *line = BATCH(TEXT ",\"top_k\":3,\"ignore_eos\":false");
    rig_read(&r, LS_INPUT_JSON, line, strlen(line), tokenizer);
    assert_int_equal(r.status, LS_OK);
    assert_true(r.req.sampling.temperature == 0.25 && r.req.sampling.top_p == 0.5);
    assert_true(r.req.sampling.min_p == 0.75 && r.req.sampling.top_k == 3);
    assert_int_equal(r.req.max_tokens, 2);
    assert_false(r.req.ignore_eos);
    ls_request_finish(&r.req);
    rig_read(&r, LS_INPUT_TEXT, "hello", 5, tokenizer);
    assert_true(r.req.ignore_eos && r.req.sampling.temperature == 0.25);
    ls_request_finish(&r.req);
}

/* --- refusals --------------------------------------------------------------------------------
 */

static const char *const bad_fields[] = { "\"max_tokens\":-1",
                                          "\"max_tokens\":1.5",
                                          "\"max_tokens\":\"5\"",
                                          "\"max_tokens\":true",
                                          "\"max_tokens\":2147483648",
                                          "\"temperature\":-0.1",
                                          "\"temperature\":2.01",
                                          "\"temperature\":\"1\"",
                                          "\"temperature\":false",
                                          "\"top_p\":0",
                                          "\"top_p\":1.1",
                                          "\"top_p\":[]",
                                          "\"top_k\":-2",
                                          "\"top_k\":0.5",
                                          "\"top_k\":\"all\"",
                                          "\"min_p\":-0.01",
                                          "\"min_p\":1.01",
                                          "\"n\":0",
                                          "\"n\":129",
                                          "\"n\":{}",
                                          "\"best_of\":0",
                                          "\"logprobs\":-1",
                                          "\"logprobs\":21",
                                          "\"logprobs\":true",
                                          "\"prompt_logprobs\":21",
                                          "\"seed\":0.5",
                                          "\"seed\":\"7\"",
                                          "\"echo\":1",
                                          "\"echo\":\"true\"",
                                          "\"ignore_eos\":0",
                                          "\"stop\":\"\"",
                                          "\"stop\":[\"\"]",
                                          "\"stop\":[1]",
                                          "\"stop\":7",
                                          "\"stop\":{}",
                                          "\"stop_token_ids\":5",
                                          "\"stop_token_ids\":[264]",
                                          "\"stop_token_ids\":[-1]",
                                          "\"stop_token_ids\":[\"1\"]",
                                          "\"presence_penalty\":2.1",
                                          "\"presence_penalty\":-2.1",
                                          "\"frequency_penalty\":3",
                                          "\"repetition_penalty\":0",
                                          "\"repetition_penalty\":-1",
                                          "\"repetition_penalty\":101",
                                          "\"logit_bias\":[]",
                                          "\"logit_bias\":{\"264\":1}",
                                          "\"logit_bias\":{\"-1\":1}",
                                          "\"logit_bias\":{\"01\":1}",
                                          "\"logit_bias\":{\"x\":1}",
                                          "\"logit_bias\":{\"\":1}",
                                          "\"logit_bias\":{\"99999999999\":1}",
                                          "\"logit_bias\":{\"1\":101}",
                                          "\"logit_bias\":{\"1\":-101}",
                                          "\"logit_bias\":{\"1\":\"5\"}",
                                          "\"logit_bias\":{\"1\":null}",
                                          "\"model\":5",
                                          "\"stream\":1",
                                          "\"n\":2,\"best_of\":3",
                                          "\"best_of\":2" };

static void values_out_of_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_fields / sizeof bad_fields[0]; i++) {
        char line[256], name[64];
        snprintf(line, sizeof line, BATCH(TEXT ",%s"), bad_fields[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(bad_fields[i] + 1, "\""),
                 bad_fields[i] + 1);
        refused(line, "invalid_value", strstr(bad_fields[i], "best_of") ? "best_of" : name);
        snprintf(line, sizeof line, "{\"tokens\":[1],%s}", bad_fields[i]);
        refused(line, "invalid_value", strstr(bad_fields[i], "best_of") ? "best_of" : name);
    }
}

static void fields_we_do_not_do(void **state)
{
    (void)state;
    static const char *const known[] = { "tools",           "tool_choice", "functions",
                                         "response_format", "messages",    "images",
                                         "suffix",          "min_tokens",  "audio" };
    static const char *const unknown[] = {
        "temprature", "max_completion_tokens", "Max_tokens", "x", "", "body", "custom_id"
    };
    char line[256];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        snprintf(line, sizeof line, BATCH(TEXT ",\"%s\":[1]"), known[i]);
        refused(line, "unsupported_field", known[i]);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        snprintf(line, sizeof line, BATCH(TEXT ",\"%s\":null"), unknown[i]);
        refused(line, "unknown_field", unknown[i]);
    }
    refused("{\"prompt\":\"a\",\"temprature\":1}", "unknown_field", "temprature");
    refused("{\"prompt\":\"a\",\"tools\":[]}", "unsupported_field", "tools");
}

static void broken_lines(void **state)
{
    (void)state;
    static const char *const json[] = { "{",
                                        "}",
                                        "{\"a\"",
                                        "{\"prompt\":\"x\"",
                                        "{\"prompt\":\"x\"} x",
                                        "{\"prompt\":\"x\"}{}",
                                        "{'prompt':'x'}",
                                        "{\"prompt\":x}",
                                        "{\"prompt\":\"\\ud800\"}",
                                        "{\"prompt\":\"\\udc00\\ud800\"}",
                                        "{\"prompt\":\"\\ud800x\"}",
                                        "{\"prompt\":\"\\x41\"}",
                                        "{\"prompt\":\"a\tb\"}",
                                        "{\"prompt\":\"a\",\"prompt\":\"b\"}",
                                        "nul",
                                        "NaN",
                                        "{\"prompt\":\"a\",\"temperature\":NaN}",
                                        "[1,2",
                                        "{\"a\\u0000b\":1}",
                                        "{\"prompt\":\"a\",}",
                                        "{\"prompt\":[1,]}",
                                        "\x01" };
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++)
        refused(json[i], "invalid_json", "broken JSON");
    static const char *const bytes[] = { "{\"prompt\":\"\xff\"}",
                                         "{\"prompt\":\"\xed\xa0\x80\"}",
                                         "{\"prompt\":\"\xc0\xaf\"}", "\xfe\xff", "\xe2\x82" };
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        refused(bytes[i], "invalid_utf8", "UTF-8");
    read_refused("{\"prompt\":\"a\0b\"}", 16, LS_INPUT_JSON, "invalid_json", "broken");
    char deep[6001];
    memset(deep, '[', 6000);
    deep[6000] = 0;
    refused(deep, "invalid_json", "depth");
    static const char *const blank[] = { "", " ", "\t \r", "\v" };
    for (size_t i = 0; i < sizeof blank / sizeof blank[0]; i++)
        refused(blank[i], "blank_line", "blank");
    static const char *const other[] = { "[1,2]",
                                         "[]",
                                         "[{\"prompt\":\"x\"}]",
                                         "{}",
                                         "{\"id\":\"x\"}",
                                         "{\"promt\":\"x\"}",
                                         "{\"prompt\":\"x\",\"tokens\":[1]}" };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        refused(other[i], "invalid_request", "");
}

static void broken_envelopes(void **state)
{
    (void)state;
#define FRONT "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\""
    refused("{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{" TEXT "}}",
            "missing_custom_id", "custom_id");
    refused("{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{" TEXT "}}",
            "invalid_method", "missing");
    refused("{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/completions\",\"body\":{}}",
            "invalid_method", "GET");
    refused("{\"custom_id\":\"a\",\"method\":\"POST\",\"body\":{" TEXT "}}", "unknown_url",
            "missing");
    refused("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
            "unknown_url", "/v1/embeddings");
    refused("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
            "\"body\":{\"messages\":[]}}",
            "invalid_messages", "a list that is not empty");
    refused(FRONT "}", "invalid_body", "missing");
    refused(FRONT ",\"body\":[]}", "invalid_body", "a list");
    refused(FRONT ",\"body\":\"x\"}", "invalid_body", "x");
    refused(FRONT ",\"body\":{" TEXT "},\"extra\":1}", "unknown_field", "extra");
    refused("{\"custom_id\":7,\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}}",
            "invalid_custom_id", "7");
    refused("{\"custom_id\":\"\",\"prompt\":\"x\"}", "invalid_custom_id", "custom_id");
    refused("{\"custom_id\":null,\"prompt\":\"x\"}", "invalid_custom_id", "null");
    refused("{\"id\":7,\"prompt\":\"x\"}", "invalid_custom_id", "id is 7");
    refused("{\"id\":\"a\\u0000b\",\"prompt\":\"x\"}", "invalid_custom_id", "zero");
    refused("{\"id\":\"a\",\"custom_id\":\"b\",\"prompt\":\"x\"}", "invalid_custom_id", "both");
}

static void broken_prompts(void **state)
{
    (void)state;
    static const char *const wrong[] = { "5",           "null",      "true",
                                         "{}",          "[\"a\",1]", "[\"a\",[1]]",
                                         "[[1],\"a\"]", "[[1],2]",   "[\"a\",null]" };
    char line[512];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(line, sizeof line, BATCH("\"prompt\":%s"), wrong[i]);
        refused(line, "invalid_prompt", "prompt");
    }
    refused(BATCH("\"max_tokens\":1"), "invalid_prompt", "missing");
    refused("{\"tokens\":\"hello\"}", "invalid_prompt", "a list of token ids");
    refused("{\"tokens\":[\"hello\"]}", "token_out_of_range", "hello");
    static const char *const ids[] = {
        "[264]", "[-1]", "[1,null]", "[1.5]", "[true]", "[1,\"a\"]", "[9223372036854775807]"
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        snprintf(line, sizeof line, BATCH("\"prompt\":%s"), ids[i]);
        refused(line, "token_out_of_range", "token");
    }
    refused(BATCH("\"prompt\":[]"), "empty_prompt", "no tokens");
    refused(BATCH("\"prompt\":[[]]"), "empty_prompt", "no tokens");
    refused(BATCH("\"prompt\":[[1],[]]"), "empty_prompt", "prompt 1");
}

static void context_is_kept(void **state)
{
    (void)state;
    struct rig_request r;
    char line[1024];
    for (int n = 60; n <= 66; n++)
        for (int max = 0; max <= 8; max++) {
            int at = snprintf(line, sizeof line, "{\"max_tokens\":%d,\"tokens\":[1", max);
            for (int i = 1; i < n; i++)
                at += snprintf(line + at, sizeof line - (size_t)at, ",1");
            snprintf(line + at, sizeof line - (size_t)at, "]}");
            /* the last token needs no position */
            const bool fits = n + (max ? max - 1 : 0) <= RIG_CONTEXT;
            if (fits) {
                good(&r, line);
                ls_request_finish(&r.req);
                continue;
            }
            char words[128];
            snprintf(words, sizeof words,
                     "a prompt of %d tokens and max_tokens %d do not fit the "
                     "context of 64",
                     n, max);
            refused(line, "context_length_exceeded", words);
        }
    refused(BATCH(TEXT ",\"max_tokens\":2147483647"), "context_length_exceeded", "2147483647");
}

static void too_many(void **state)
{
    (void)state;
    char *line = malloc(1 << 16);
    int at = sprintf(line, "{\"n\":128,\"prompt\":[[1]");
    for (int i = 0; i < 128; i++)
        at += sprintf(line + at, ",[1]");
    sprintf(line + at, "]}");
    refused(line, "too_many_prompts", "129 prompts");
    at = sprintf(line, "{\"prompt\":[[1]");
    for (int i = 0; i < 2048; i++)
        at += sprintf(line + at, ",[1]");
    sprintf(line + at, "]}");
    refused(line, "too_many_prompts", "2049 prompts");
    at = sprintf(line, "{\"tokens\":[1],\"stop\":[\"a\"");
    for (int i = 0; i < 64; i++)
        at += sprintf(line + at, ",\"a\"");
    sprintf(line + at, "]}");
    refused(line, "invalid_value", "stop has 65");
    free(line);
}

static void without_a_tokenizer(void **state)
{
    (void)state;
    struct rig_request r = { 0 };
    const char *lines[] = { "{\"prompt\":\"x\"}", "{\"tokens\":[1],\"stop\":\"x\"}" };
    for (int i = 0; i < 2; i++) {
        rig_read(&r, LS_INPUT_JSON, lines[i], strlen(lines[i]), NULL);
        assert_int_equal(r.status, LS_E_REQUEST);
        assert_string_equal(r.req.code, "no_tokenizer");
        ls_request_finish(&r.req);
    }
    rig_read(&r, LS_INPUT_JSON, "{\"tokens\":[1]}", 14, NULL);
    assert_int_equal(r.status, LS_OK);
    ls_request_finish(&r.req);
}

static void text_lines(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t ids[] = { RIG_BOS, '{', RIG_HE }, space[] = { RIG_BOS, ' ' };
    read_with(&r, "{he", LS_INPUT_TEXT);
    assert_int_equal(r.status, LS_OK);
    is_prompt(&r, 0, ids, 3);
    assert_string_equal(r.req.custom_id, "line-7");
    ls_request_finish(&r.req);
    read_with(&r, " ", LS_INPUT_TEXT);
    is_prompt(&r, 0, space, 2);
    ls_request_finish(&r.req);
    read_refused("", 0, LS_INPUT_TEXT, "blank_line", "blank");
    read_refused("a\0b", 3, LS_INPUT_TEXT, "invalid_text", "zero byte");
    read_refused("\xff", 1, LS_INPUT_TEXT, "invalid_utf8", "byte 0");
    char *long_line = malloc(200);
    memset(long_line, 'a', 200);
    read_refused(long_line, 200, LS_INPUT_TEXT, "context_length_exceeded", "201 tokens");
    free(long_line);
}

static void refused_lines_keep_their_id(void **state)
{
    (void)state;
    struct rig_request r;
    read_with(&r, BATCH(TEXT ",\"n\":0"), LS_INPUT_JSON);
    assert_int_equal(r.status, LS_E_REQUEST);
    assert_string_equal(r.req.custom_id, "a");
    ls_request_finish(&r.req);
    read_with(&r, "{\"custom_id\":\"a\"", LS_INPUT_JSON);
    assert_null(r.req.custom_id);
    ls_request_finish(&r.req);
}

static void kinds(void **state)
{
    (void)state;
    static const struct {
        const char *name, *data;
        enum ls_input_kind kind;
    } cases[] = {
        { "a.txt", "{\"prompt\":\"x\"}\n", LS_INPUT_JSON },
        { "a.txt", "\n \n  {broken\n", LS_INPUT_JSON },
        { "a.txt", "hello\nworld\n", LS_INPUT_TEXT },
        { "a.txt", "garbage\n{\"tokens\":[1]}\n", LS_INPUT_JSON },
        { "a.txt", "garbage\n{\"custom_id\":\"x\"}", LS_INPUT_JSON },
        { "a.txt", "code\n{ return; }\n{\"a\":1}\n", LS_INPUT_TEXT },
        { "a.jsonl", "garbage\n", LS_INPUT_JSON },
        { "a.ndjson", "", LS_INPUT_JSON },
        { "-", "", LS_INPUT_TEXT },
        { "-", "[1,2]\n", LS_INPUT_TEXT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(ls_input_kind(cases[i].name, cases[i].data, strlen(cases[i].data)),
                         cases[i].kind);
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
        cmocka_unit_test(batch_lines),
        cmocka_unit_test(plain_objects),
        cmocka_unit_test(every_field),
        cmocka_unit_test(null_is_absent),
        cmocka_unit_test(defaults_apply),
        cmocka_unit_test(values_out_of_range),
        cmocka_unit_test(fields_we_do_not_do),
        cmocka_unit_test(broken_lines),
        cmocka_unit_test(broken_envelopes),
        cmocka_unit_test(broken_prompts),
        cmocka_unit_test(context_is_kept),
        cmocka_unit_test(too_many),
        cmocka_unit_test(without_a_tokenizer),
        cmocka_unit_test(text_lines),
        cmocka_unit_test(refused_lines_keep_their_id),
        cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
