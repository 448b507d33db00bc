/* What a result row says: texts cut at stops, end tokens, log-probabilities, echo, several
 * choices, evidence. The made-up model and its coordinator are in job_script.h. */
#include "job_script.h"

#include <jansson.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ls_tokenizer *tokenizer;
static char folder[256];

/* Runs one request line; *choice is borrowed from the row, which the caller decrefs. */
static json_t *run_with(const char *line, enum ls_digest digest, const struct ls_tokenizer *tok,
                        json_t **choice)
{
    struct script_job j = { .tokenizer = tok };
    j.config.digest = digest;
    if (script_job(&j, folder, line, strlen(line)))
        fail_msg("%s: %s", line, j.err.text);
    json_t *row = script_result(folder, 0);
    const json_t *response = json_object_get(row, "response");
    if (json_is_null(response))
        fail_msg("%s: %s", line,
                 json_string_value(json_object_get(json_object_get(row, "error"), "message")));
    *choice = json_array_get(json_object_get(json_object_get(response, "body"), "choices"), 0);
    return row;
}

static json_t *run(const char *line, json_t **choice)
{
    return run_with(line, LS_DIGEST_GENERATED, tokenizer, choice);
}

static void says(const json_t *object, const char *key, const char *text)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || strcmp(json_string_value(value), text))
        fail_msg("%s is %s, expected %s", key, json_string_value(value), text);
}

static void is_ids(const json_t *row, const int32_t *ids, size_t n)
{
    const json_t *list = json_object_get(json_object_get(row, "lockstep"), "token_ids");
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(list, i)), ids[i]);
}

static int64_t usage(const json_t *row, const char *what)
{
    const json_t *body = json_object_get(json_object_get(row, "response"), "body");
    return json_integer_value(json_object_get(json_object_get(body, "usage"), what));
}

/* The model continues <sp> with the bytes given, then </s>. */
static void scripted(char *line, const char *bytes, const char *fields)
{
    int at = sprintf(line, "{\"tokens\":[%d", RIG_SPECIAL);
    for (; *bytes; bytes++)
        at += sprintf(line + at, ",%d", (unsigned char)*bytes);
    sprintf(line + at, "],\"max_tokens\":40%s}", fields);
}

static void ends(const char *bytes, const char *fields, const char *text, const char *reason,
                 size_t n_tokens)
{
    char line[1024];
    json_t *choice;
    scripted(line, bytes, fields);
    json_t *row = run(line, &choice);
    says(choice, "text", text);
    says(choice, "finish_reason", reason);
    const json_t *ids = json_object_get(json_object_get(row, "lockstep"), "token_ids");
    if (json_array_size(ids) != n_tokens)
        fail_msg("%s: %zu tokens, expected %zu", line, json_array_size(ids), n_tokens);
    assert_int_equal(usage(row, "completion_tokens"), n_tokens);
    json_decref(row);
}

static void ends_and_stops(void **state)
{
    (void)state;
    ends("abcdef", "", "abcdef", "stop", 7);
    ends("abcdef", ",\"stop\":\"cd\"", "ab", "stop", 4);
    ends("abcdef", ",\"stop\":[\"ef\",\"bcd\",\"d\"]", "a", "stop", 4);
    ends("abcdef", ",\"stop\":\"a\"", "", "stop", 1);
    ends("abcdef", ",\"stop\":\"xyz\"", "abcdef", "stop", 7);
    ends("abcdef", ",\"stop_token_ids\":[99]", "ab", "stop", 3);
    ends("abc", ",\"ignore_eos\":true,\"stop_token_ids\":[260]", "abc", "stop", 4);
    char fields[64];
    snprintf(fields, sizeof fields, ",\"max_tokens\":3");
    json_t *choice, *row;
    row = run("{\"tokens\":[261,97,98,99],\"max_tokens\":3}", &choice);
    says(choice, "text", "abc");
    says(choice, "finish_reason", "length");
    json_decref(row);
    row = run("{\"tokens\":[261,97,98,99],\"max_tokens\":4}", &choice);
    says(choice, "finish_reason", "stop");
    json_decref(row);
}

static void only_whole_characters(void **state)
{
    (void)state;
    ends("\xe2\x82\xac!", "", "\xe2\x82\xac!", "stop", 5);
    ends("a\xe2\x82\xac!", ",\"stop\":\"\xe2\x82\xac\"", "a", "stop", 4);
    json_t *choice, *row;
    row = run("{\"tokens\":[261,226,130,172],\"max_tokens\":2}", &choice);
    says(choice, "text", "\xef\xbf\xbd");
    json_decref(row);
    /* a character begun by the prompt */
    row = run("{\"tokens\":[97,195],\"max_tokens\":1,\"logit_bias\":{\"169\":100}}", &choice);
    says(choice, "text", "\xc3\xa9");
    json_decref(row);
    /* a special token has no text, and the space in front of the first word stays */
    row = run("{\"tokens\":[261,32,97,261,98],\"max_tokens\":10}", &choice);
    says(choice, "text", " ab");
    json_decref(row);
}

static void nothing_to_generate(void **state)
{
    (void)state;
    json_t *choice,
        *row = run("{\"prompt\":\"hello\",\"max_tokens\":0,\"echo\":true}", &choice);
    says(choice, "text", "hello");
    says(choice, "finish_reason", "length");
    assert_int_equal(usage(row, "prompt_tokens"), 4);
    assert_int_equal(usage(row, "completion_tokens"), 0);
    is_ids(row, NULL, 0);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(row, "lockstep"), "rows")), 0);
    json_decref(row);
}

/* --- log-probabilities -----------------------------------------------------------------------
 */

static double log_prob(const float *row, int32_t token)
{
    double sum = 0, max = row[0];
    for (int i = 1; i < RIG_VOCAB; i++)
        max = row[i] > max ? row[i] : max;
    for (int i = 0; i < RIG_VOCAB; i++)
        sum += exp(row[i] - max);
    return row[token] - max - log(sum);
}

static int32_t rank(const float *row, int32_t token)
{
    int32_t r = 1;
    for (int i = 0; i < RIG_VOCAB; i++)
        r += row[i] > row[token] || (row[i] == row[token] && i < token);
    return r;
}

static void is_near(const json_t *value, double expected)
{
    if (!json_is_real(value) || fabs(json_real_value(value) - expected) > 1e-5)
        fail_msg("log-probability %.17g, expected %.17g", json_real_value(value), expected);
}

static void shown(int32_t token, char out[64])
{
    if (token >= 0x20 && token < 0x7f)
        snprintf(out, 64, "%c", (char)token);
    else if (token < 128)
        snprintf(out, 64, "%c", (char)token);
    else if (token < 256)
        snprintf(out, 64, "bytes:\\x%02x", token);
    else if (token >= 262)
        snprintf(out, 64, "token_id:%d", token);
    else
        snprintf(out, 64, "%s",
                 (const char *[]){ "he", "ll", " w", "<s>", "</s>", "<sp>" }[token - 256]);
}

/* Position `at` of a logprobs object against the row that scored it. */
static void check_scored(const json_t *lp, size_t at, const float *row, int32_t token,
                         int n_top)
{
    char text[64];
    shown(token, text);
    if (token) /* jansson's texts end at a zero */
        assert_string_equal(
            json_string_value(json_array_get(json_object_get(lp, "tokens"), at)), text);
    is_near(json_array_get(json_object_get(lp, "token_logprobs"), at), log_prob(row, token));
    json_t *top = json_array_get(json_object_get(lp, "top_logprobs"), at);
    const bool listed = rank(row, token) <= n_top;
    assert_int_equal(json_object_size(top), n_top + !listed);
    for (int32_t i = 1; i < RIG_VOCAB; i++)
        if (rank(row, i) <= n_top || i == token) {
            shown(i, text);
            is_near(json_object_get(top, text), log_prob(row, i));
        }
}

static void generated_logprobs(void **state)
{
    (void)state;
    for (int n_top = 0; n_top <= 20; n_top += 5) {
        char line[256];
        json_t *choice;
        snprintf(line, sizeof line,
                 "{\"tokens\":[1,2,3],\"id\":\"x\",\"max_tokens\":12,\"temperature\":1.7,"
                 "\"ignore_eos\":true,\"logprobs\":%d}",
                 n_top);
        json_t *row = run(line, &choice);
        const json_t *ids = json_object_get(json_object_get(row, "lockstep"), "token_ids");
        const json_t *lp = json_object_get(choice, "logprobs");
        int32_t tokens[15] = { 1, 2, 3 };
        assert_int_equal(json_array_size(json_object_get(lp, "tokens")), 12);
        assert_int_equal(json_array_size(json_object_get(lp, "text_offset")), 12);
        for (uint32_t i = 0; i < 12; i++) {
            float logits[RIG_VOCAB];
            script_row(logits, tokens, 2 + i, 3);
            tokens[3 + i] = (int32_t)json_integer_value(json_array_get(ids, i));
            check_scored(lp, i, logits, tokens[3 + i], n_top);
        }
        json_decref(row);
    }
}

/* Of a text cut at a stop only the tokens that begin in it are listed. */
static void logprobs_end_with_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *fields;
        size_t n; /* listed */
    } cases[] = {
        { "abcdef", "", 7 },
        { "abcdef", ",\"stop\":\"cd\"", 2 },
        { "abcdef", ",\"stop\":[\"ef\",\"bcd\",\"d\"]", 1 },
        { "abcdef", ",\"stop\":\"a\"", 0 },
        { "abcdef", ",\"stop_token_ids\":[99]", 3 },
        { "a\xe2\x82\xac!", ",\"stop\":\"\xe2\x82\xac\"", 1 },
        { "a\xe2\x82\xac!b", ",\"stop\":\"b\"", 5 },
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        char line[1024], fields[128];
        json_t *choice;
        const bool echo = i % 2;
        snprintf(fields, sizeof fields, "%s,\"logprobs\":1%s", cases[i / 2].fields,
                 echo ? ",\"echo\":true" : "");
        scripted(line, cases[i / 2].bytes, fields);
        json_t *row = run(line, &choice);
        const json_t *lp = json_object_get(choice, "logprobs");
        const json_t *offsets = json_object_get(lp, "text_offset");
        const size_t n_prompt = echo ? 1 + strlen(cases[i / 2].bytes) : 0;
        const size_t n = n_prompt + cases[i / 2].n;
        if (json_array_size(offsets) != n)
            fail_msg("%s: %zu tokens, expected %zu", line, json_array_size(offsets), n);
        assert_int_equal(json_array_size(json_object_get(lp, "tokens")), n);
        assert_int_equal(json_array_size(json_object_get(lp, "token_logprobs")), n);
        assert_int_equal(json_array_size(json_object_get(lp, "top_logprobs")), n);
        for (size_t k = 0; k < n; k++)
            assert_true((size_t)json_integer_value(json_array_get(offsets, k)) <=
                        json_string_length(json_object_get(choice, "text")));
        json_decref(row);
    }
}

static void echoed_logprobs(void **state)
{
    (void)state;
    json_t *choice;
    json_t *row = run("{\"prompt\":\"hello w\",\"max_tokens\":1,\"echo\":true,\"logprobs\":2,"
                      "\"ignore_eos\":true,"
                      "\"prompt_logprobs\":3}",
                      &choice);
    const int32_t tokens[] = { RIG_BOS, RIG_HE, RIG_LL, 'o', RIG_W };
    const json_t *lp = json_object_get(choice, "logprobs");
    assert_int_equal(json_array_size(json_object_get(lp, "tokens")), 6);
    assert_true(json_is_null(json_array_get(json_object_get(lp, "token_logprobs"), 0)));
    assert_true(json_is_null(json_array_get(json_object_get(lp, "top_logprobs"), 0)));
    static const int offsets[] = { 0, 0, 2, 4, 5, 7 };
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(lp, "text_offset"), i)),
            offsets[i]);
    const json_t *listed = json_object_get(choice, "prompt_logprobs");
    assert_int_equal(json_array_size(listed), 5);
    assert_true(json_is_null(json_array_get(listed, 0)));
    for (uint32_t i = 1; i < 5; i++) {
        float logits[RIG_VOCAB];
        char key[16], text[64];
        script_row(logits, tokens, i - 1, 5);
        check_scored(lp, i, logits, tokens[i], 2);
        json_t *at = json_array_get(listed, i);
        assert_int_equal(json_object_size(at), 3 + (rank(logits, tokens[i]) > 3));
        snprintf(key, sizeof key, "%d", tokens[i]);
        shown(tokens[i], text);
        json_t *own = json_object_get(at, key);
        is_near(json_object_get(own, "logprob"), log_prob(logits, tokens[i]));
        assert_int_equal(json_integer_value(json_object_get(own, "rank")),
                         rank(logits, tokens[i]));
        says(own, "decoded_token", text);
    }
    says(choice, "finish_reason", "length");
    json_decref(row);
}

/* --- the envelope ----------------------------------------------------------------------------
 */

static void envelope(void **state)
{
    (void)state;
    json_t *choice, *row = run("{\"custom_id\":\"\\u00e9\\n\",\"method\":\"POST\",\"url\":"
                               "\"/v1/completions\",\"body\":{\"model\":\"m\",\"prompt\":[1,2],"
                               "\"max_tokens\":2,\"ignore_eos\":true,\"temperature\":0}}",
                               &choice);
    const json_t *response = json_object_get(row, "response");
    const json_t *body = json_object_get(response, "body");
    says(row, "custom_id", "\xc3\xa9\n");
    assert_true(json_is_null(json_object_get(row, "error")));
    assert_int_equal(json_integer_value(json_object_get(response, "status_code")), 200);
    says(body, "object", "text_completion");
    says(body, "model", "m");
    assert_int_equal(json_integer_value(json_object_get(body, "created")), 0);
    assert_true(json_is_null(json_object_get(choice, "logprobs")));
    assert_null(json_object_get(choice, "prompt_logprobs"));
    assert_int_equal(usage(row, "total_tokens"), 4);
    assert_int_equal(strlen(json_string_value(json_object_get(row, "id"))), 10 + 24);
    json_decref(row);
}

static void model_name_of_the_run(void **state)
{
    (void)state;
    json_t *choice, *row = run("{\"prompt\":\"x\",\"max_tokens\":1}", &choice);
    says(json_object_get(json_object_get(row, "response"), "body"), "model", "tiny");
    json_decref(row);
}

/* The digest that the scripted coordinator made, over the rows that a reader would expect. */
static void expect_digest(const json_t *evidence, const int32_t *tokens, uint32_t from,
                          uint32_t end, uint32_t n_prompt)
{
    crypto_generichash_state state;
    unsigned char digest[32];
    char text[68] = "b2:";
    crypto_generichash_init(&state, NULL, 0, 32);
    for (uint32_t pos = from; pos < end; pos++) {
        float row[RIG_VOCAB];
        script_row(row, tokens, pos, n_prompt);
        crypto_generichash_update(&state, (unsigned char *)row, sizeof row);
    }
    crypto_generichash_final(&state, digest, 32);
    sodium_bin2hex(text + 3, 65, digest, 32);
    says(evidence, "logits_digest", text);
    assert_int_equal(json_integer_value(json_object_get(evidence, "rows")), end - from);
}

static void digests(void **state)
{
    (void)state;
    static const char line[] =
        "{\"tokens\":[261,97,98,99],\"max_tokens\":3,\"prompt_logprobs\":0}";
    const int32_t tokens[] = { 261, 97, 98, 99, 97, 98, 99 };
    json_t *choice, *row = run_with(line, LS_DIGEST_GENERATED, tokenizer, &choice);
    expect_digest(json_object_get(row, "lockstep"), tokens, 3, 6, 4);
    json_decref(row);
    row = run_with(line, LS_DIGEST_ALL, tokenizer, &choice);
    expect_digest(json_object_get(row, "lockstep"), tokens, 0, 6, 4);
    json_decref(row);
    row = run_with(line, LS_DIGEST_NONE, tokenizer, &choice);
    const json_t *evidence = json_object_get(row, "lockstep");
    assert_true(json_is_null(json_object_get(evidence, "logits_digest")));
    assert_int_equal(json_integer_value(json_object_get(evidence, "rows")), 0);
    json_decref(row);
}

static void several_choices(void **state)
{
    (void)state;
    json_t *choice;
    json_t *row = run("{\"prompt\":[\"he\",\"hello\"],\"n\":3,\"max_tokens\":4,\"id\":\"x\","
                      "\"temperature\":1,\"ignore_eos\":true}",
                      &choice);
    const json_t *evidence = json_object_get(row, "lockstep");
    const json_t *each = json_object_get(evidence, "choices");
    const json_t *choices =
        json_object_get(json_object_get(json_object_get(row, "response"), "body"), "choices");
    unsigned char all[6 * 32], digest[32];
    char text[68] = "b2:";
    assert_int_equal(json_array_size(choices), 6);
    assert_int_equal(json_array_size(each), 6);
    for (size_t i = 0; i < 6; i++) {
        const char *hex =
            json_string_value(json_object_get(json_array_get(each, i), "logits_digest"));
        assert_int_equal(
            json_integer_value(json_object_get(json_array_get(choices, i), "index")), i);
        sodium_hex2bin(all + 32 * i, 32, hex + 3, 64, NULL, NULL, NULL);
        for (size_t k = 0; k < i; k++)
            assert_false(json_equal(json_object_get(json_array_get(each, i), "token_ids"),
                                    json_object_get(json_array_get(each, k), "token_ids")));
    }
    crypto_generichash(digest, 32, all, sizeof all, NULL, 0);
    sodium_bin2hex(text + 3, 65, digest, 32);
    says(evidence, "logits_digest", text);
    assert_int_equal(json_integer_value(json_object_get(evidence, "rows")), 24);
    assert_int_equal(usage(row, "prompt_tokens"), 2 + 4);
    assert_int_equal(usage(row, "completion_tokens"), 24);
    json_decref(row);
}

/* A choice of several is what it is alone: the key holds its index, nothing else. */
static void seeds(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"id\":\"x\",\"tokens\":[1],\"temperature\":1,\"ignore_eos\":true}",
        "{\"id\":\"x\",\"tokens\":[1],\"temperature\":1,\"ignore_eos\":true,\"seed\":0}",
        "{\"id\":\"x\",\"tokens\":[1],\"temperature\":1,\"ignore_eos\":true,\"seed\":1}",
        "{\"id\":\"y\",\"tokens\":[1],\"temperature\":1,\"ignore_eos\":true}",
    };
    json_t *rows[4], *choice;
    for (int i = 0; i < 4; i++) {
        rows[i] = run(lines[i], &choice);
        for (int k = 0; k < i; k++)
            assert_false(
                json_equal(json_object_get(json_object_get(rows[i], "lockstep"), "token_ids"),
                           json_object_get(json_object_get(rows[k], "lockstep"), "token_ids")));
    }
    for (int i = 0; i < 4; i++)
        json_decref(rows[i]);
}

static void without_a_tokenizer(void **state)
{
    (void)state;
    json_t *choice;
    json_t *row = run_with("{\"tokens\":[261,97,98],\"max_tokens\":9,\"echo\":true,"
                           "\"logprobs\":1,\"prompt_logprobs\":0}",
                           LS_DIGEST_GENERATED, NULL, &choice);
    const int32_t ids[] = { 97, 98, RIG_EOS };
    says(choice, "text", "");
    says(choice, "finish_reason", "stop");
    is_ids(row, ids, 3);
    const json_t *tokens = json_object_get(json_object_get(choice, "logprobs"), "tokens");
    assert_string_equal(json_string_value(json_array_get(tokens, 3)), "token_id:97");
    json_decref(row);
}

static int make(void **state)
{
    (void)state;
    tokenizer = rig_tokenizer();
    rig_folder_new(folder);
    return sodium_init() < 0;
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
        cmocka_unit_test(ends_and_stops),
        cmocka_unit_test(only_whole_characters),
        cmocka_unit_test(nothing_to_generate),
        cmocka_unit_test(generated_logprobs),
        cmocka_unit_test(logprobs_end_with_the_text),
        cmocka_unit_test(echoed_logprobs),
        cmocka_unit_test(envelope),
        cmocka_unit_test(model_name_of_the_run),
        cmocka_unit_test(digests),
        cmocka_unit_test(several_choices),
        cmocka_unit_test(seeds),
        cmocka_unit_test(without_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
