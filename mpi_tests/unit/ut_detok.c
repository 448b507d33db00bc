/* Streaming detokenisation: whole characters, each once, and what the parts of a stream are. */
#include "text_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Byte-level letters of E2 82 AC (the euro sign) and F0 9F 98 80 (a face), and a special. */
static const char byte_level[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true}],"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{"
    "\"\\u00e2\":0,\"\\u0124\":1,\"\\u00ac\":2,\"\\u00f0\\u0141\":3,\"\\u013a\\u0122\":4,"
    "\"\\u0120a\":5},\"merges\":[]}}";

static const char fallback[] =
    "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\"\\u2581\"},\"content\":\" "
    "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
    "\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\","
    "\"vocab\":{\"<0xE4>\":0,\"<0xBD>\":1,\"<0xA0>\":2,\"\\u2581a\":3,\"b\":4},\"merges\":[]}}";

/* Feeds the ids and notes what each of them put out: "part|part|...|rest". */
static const char *parts_of(const char *json, const int32_t *ids, size_t n, bool skip_special)
{
    static char out[512];
    struct ls_tokenizer *tok = rig_make(json, NULL);
    struct ls_detok *d = NULL;
    struct ls_err err = { 0 };
    size_t k = 0;
    assert_int_equal(ls_detok_create(&d, tok, skip_special, &err), LS_OK);
    for (size_t i = 0; i <= n; i++) {
        struct ls_bytes part = { 0 };
        ls_status s =
            i < n ? ls_detok_feed(d, ids[i], &part, &err) : ls_detok_finish(d, &part, &err);
        assert_int_equal(s, LS_OK);
        k += (size_t)snprintf(out + k, sizeof out - k, "%.*s%s", (int)part.n,
                              part.n ? (char *)part.data : "", i < n ? "|" : "");
        ls_bytes_finish(&part);
    }
    ls_detok_destroy(d);
    ls_tokenizer_destroy(tok);
    return out;
}

#define PARTS(json, skip, ...)                                                                 \
    parts_of(json, (const int32_t[]){ __VA_ARGS__ },                                           \
             sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), skip)

static void characters_come_whole(void **state)
{
    (void)state;
    assert_string_equal(PARTS(byte_level, false, 0, 1, 2, 5), "||\xe2\x82\xac| a|");
    assert_string_equal(PARTS(byte_level, false, 3, 4, 0), "|\xf0\x9f\x98\x80||\xef\xbf\xbd");
}

static void broken_bytes_are_replaced_once(void **state)
{
    (void)state;
    assert_string_equal(PARTS(byte_level, false, 0, 1, 5), "||\xef\xbf\xbd a|");
    assert_string_equal(PARTS(byte_level, false, 2, 5), "\xef\xbf\xbd| a|");
    assert_string_equal(PARTS(byte_level, false, 0, 1), "||\xef\xbf\xbd");
}

static void special_tokens_are_skipped(void **state)
{
    (void)state;
    assert_string_equal(PARTS(byte_level, false, 5, 6, 5), " a|<s>| a|");
    assert_string_equal(PARTS(byte_level, true, 5, 6, 5), " a|| a|");
    /* A skipped token does not part the bytes of a character. */
    assert_string_equal(PARTS(byte_level, true, 0, 1, 6, 2), "|||\xe2\x82\xac|");
}

static void unknown_ids_add_nothing(void **state)
{
    (void)state;
    assert_string_equal(PARTS(byte_level, false, -1, 7, 5, INT32_MAX, INT32_MIN), "|| a|||");
}

/* A run of byte tokens is decided by its end: valid as a whole, or one U+FFFD for each. */
static void byte_runs_wait_for_their_end(void **state)
{
    (void)state;
    assert_string_equal(PARTS(fallback, false, 3, 0, 1, 2, 4), "a||||\xe4\xbd\xa0"
                                                               "b|");
    assert_string_equal(PARTS(fallback, false, 0, 1, 2, 0, 4),
                        "||||\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "b|");
    assert_string_equal(PARTS(fallback, false, 0, 1), "||\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(PARTS(fallback, false, 3, 3), "a| a|");
}

static void a_stream_can_be_used_again(void **state)
{
    (void)state;
    struct ls_tokenizer *tok = rig_make(fallback, NULL);
    struct ls_detok *d = NULL;
    struct ls_err err = { 0 };
    struct ls_bytes out = { 0 };
    assert_int_equal(ls_detok_create(&d, tok, false, &err), LS_OK);
    ls_detok_feed(d, 3, &out, &err);
    ls_detok_feed(d, 0, &out, &err);
    ls_detok_reset(d);
    ls_detok_feed(d, 3, &out, &err);
    ls_detok_finish(d, &out, &err);
    ls_detok_feed(d, 3, &out, &err);
    ls_detok_finish(d, &out, &err);
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.data, "aaa", 3);
    ls_bytes_finish(&out);
    ls_detok_destroy(d);
    ls_tokenizer_destroy(tok);
}

static void check_token(const struct ls_tokenizer *tok, int32_t id, const char *bytes,
                        const char *text)
{
    struct ls_bytes raw = { 0 }, shown = { 0 };
    struct ls_err err = { 0 };
    assert_int_equal(ls_tokenizer_token_bytes(tok, id, &raw, &err), LS_OK);
    assert_int_equal(ls_tokenizer_token_text(tok, id, &shown, &err), LS_OK);
    assert_int_equal(raw.n, strlen(bytes));
    assert_int_equal(shown.n, strlen(text));
    if (raw.n)
        assert_memory_equal(raw.data, bytes, raw.n);
    if (shown.n)
        assert_memory_equal(shown.data, text, shown.n);
    ls_bytes_finish(&raw);
    ls_bytes_finish(&shown);
}

static void tokens_have_bytes(void **state)
{
    (void)state;
    struct ls_tokenizer *tok = rig_make(byte_level, NULL);
    check_token(tok, 5, " a", " a");
    check_token(tok, 3, "\xf0\x9f", "\xef\xbf\xbd");
    check_token(tok, 2, "\xac", "\xef\xbf\xbd");
    check_token(tok, 6, "<s>", "<s>");
    check_token(tok, 99, "", "");
    ls_tokenizer_destroy(tok);
    tok = rig_make(fallback, NULL);
    check_token(tok, 3, " a", " a");
    check_token(tok, 0, "\xe4", "\xef\xbf\xbd");
    check_token(tok, 4, "b", "b");
    ls_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(broken_bytes_are_replaced_once),
        cmocka_unit_test(special_tokens_are_skipped),
        cmocka_unit_test(unknown_ids_add_nothing),
        cmocka_unit_test(byte_runs_wait_for_their_end),
        cmocka_unit_test(a_stream_can_be_used_again),
        cmocka_unit_test(tokens_have_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
