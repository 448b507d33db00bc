/* Special tokens, refusals, and use from several threads. */
#include "base/alloc.h"
#include "text_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A tokenizer.json with the given members beside its model; vocabulary a=0 b=1 ab=2 <s>=3. */
#define MODEL                                                                                  \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3},"              \
    "\"merges\":[\"a b\"]}"
#define FILE_WITH(members) "{" members MODEL "}"
#define TEMPLATE                                                                               \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"      \
    "\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"             \
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[3],\"tokens\":[\"<s>\"]}}},"
#define BYTE_LEVEL "\"post_processor\":{\"type\":\"ByteLevel\"},"
#define LLAMA      "{\"tokenizer_class\":\"LlamaTokenizerFast\","
#define ADDED                                                                                  \
    "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true},"                       \
    "{\"id\":4,\"content\":\"</s>\",\"special\":true}],"

/* Ids as "3 2 0 ". */
static const char *ids_of(const struct ls_tokenizer *tok, const char *text, bool add_special)
{
    static char out[256];
    struct ls_ids ids = { 0 };
    struct ls_err err = { 0 };
    size_t k = 0;
    if (ls_tokenizer_encode(tok, text, strlen(text), add_special, &ids, &err))
        fail_msg("%s", err.text);
    out[0] = 0;
    for (size_t i = 0; i < ids.n; i++)
        k += (size_t)snprintf(out + k, sizeof out - k, "%d ", ids.data[i]);
    ls_ids_finish(&ids);
    return out;
}

static void bos_is_put_once(void **state)
{
    static const struct {
        const char *file, *config, *with, *without;
    } cases[] = {
        { FILE_WITH(TEMPLATE), NULL, "3 2 ", "2 " },
        { FILE_WITH(TEMPLATE ADDED), "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", "3 2 ",
          "2 " },
        { FILE_WITH(TEMPLATE ADDED), "{\"bos_token\":\"<s>\",\"add_bos_token\":false}", "3 2 ",
          "2 " },
        { FILE_WITH(ADDED), "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", "2 ", "2 " },
        { FILE_WITH(TEMPLATE ADDED), LLAMA "\"bos_token\":\"<s>\",\"add_bos_token\":true}",
          "3 2 ", "2 " },
        { FILE_WITH(ADDED), LLAMA "\"bos_token\":\"<s>\",\"add_bos_token\":true}", "3 2 ",
          "2 " },
        { FILE_WITH(ADDED), LLAMA "\"bos_token\":\"<s>\",\"add_bos_token\":false}", "2 ",
          "2 " },
        { FILE_WITH(ADDED), LLAMA "\"bos_token\":\"<s>\"}", "2 ", "2 " },
        { FILE_WITH(ADDED), LLAMA "\"add_bos_token\":true,\"bos_token\":null}", "2 ", "2 " },
        { FILE_WITH(BYTE_LEVEL ADDED),
          LLAMA "\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
                "\"add_bos_token\":true,\"add_eos_token\":true}",
          "3 2 4 ", "2 " },
        { FILE_WITH(ADDED), LLAMA "\"eos_token\":\"</s>\",\"add_eos_token\":true}", "2 4 ",
          "2 " },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ls_tokenizer *tok = rig_make(cases[i].file, cases[i].config);
        assert_string_equal(ids_of(tok, "ab", true), cases[i].with);
        assert_string_equal(ids_of(tok, "ab", false), cases[i].without);
        ls_tokenizer_destroy(tok);
    }
}

/* A chat template has written the BOS already: without special tokens there is no second. */
static void bos_in_the_text_stays_alone(void **state)
{
    (void)state;
    struct ls_tokenizer *tok = rig_make(FILE_WITH(TEMPLATE ADDED), "{\"bos_token\":\"<s>\"}");
    assert_string_equal(ids_of(tok, "<s>ab", false), "3 2 ");
    ls_tokenizer_destroy(tok);
}

/* A bos_token that tokenizer.json does not list as added is special all the same, and so are
 * the tokens that only the configuration adds. */
static void config_tokens_are_special(void **state)
{
    (void)state;
    struct ls_tokenizer *tok = rig_make(
        FILE_WITH(""), "{\"bos_token\":\"<s>\",\"added_tokens_decoder\":{\"5\":{\"content\":"
                       "\"<y>\"},\"4\":{\"content\":\"<x>\",\"special\":true}}}");
    assert_string_equal(ids_of(tok, "a<s>b<x><y>", false), "0 3 1 4 5 ");
    assert_int_equal(ls_tokenizer_bos(tok), 3);
    assert_int_equal(ls_tokenizer_eos(tok), -1);
    assert_true(ls_tokenizer_is_special(tok, 3) && ls_tokenizer_is_special(tok, 4));
    assert_false(ls_tokenizer_is_special(tok, 5) || ls_tokenizer_is_special(tok, 0) ||
                 ls_tokenizer_is_special(tok, 6) || ls_tokenizer_is_special(tok, -1));
    assert_int_equal(ls_tokenizer_vocab_size(tok), 6);
    assert_true(ls_tokenizer_has_id(tok, 5));
    assert_false(ls_tokenizer_has_id(tok, 6) || ls_tokenizer_has_id(tok, -1));
    assert_int_equal(ls_tokenizer_id_of(tok, "<y>", 3), 5);
    assert_int_equal(ls_tokenizer_id_of(tok, "ab", 2), 2);
    assert_int_equal(ls_tokenizer_id_of(tok, "c", 1), -1);
    assert_int_equal(ls_tokenizer_id_of(tok, "", 0), -1);
    ls_tokenizer_destroy(tok);
}

/* What must not be in a file, and a part of the line that says so. */
static const struct {
    const char *file, *config, *says;
} refusals[] = {
    { "", NULL, "tokenizer.json: line" },
    { "[]", NULL, "expected a JSON object" },
    { "{}", NULL, "no model" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"vocab\":{}}}", NULL, "duplicate" },
    { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", NULL, "Unigram is not supported" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", NULL, "WordPiece is not supported" },
    { "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", NULL, "no vocab" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", NULL, "no merges" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", NULL,
      "dropout" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", NULL, "entry a" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", NULL, "entry a" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967295},\"merges\":[]}}", NULL,
      "entry a" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1e2},\"merges\":[]}}", NULL, "entry a" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}",
      NULL, "too big" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0,\"c\":2},\"merges\":[]}}", NULL,
      "id 0 is both" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", NULL,
      "token b is not in the vocabulary" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", NULL,
      "result aa is not in the vocabulary" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", NULL,
      "merge 0 is not a pair" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", NULL,
      "merge 0 is not a pair" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}", NULL,
      "merge 0 is not a pair" },
    { FILE_WITH("\"normalizer\":{\"type\":\"Nmt\"},"), NULL, "normalizer Nmt" },
    { FILE_WITH("\"normalizer\":{\"type\":7},"), NULL, "normalizer: no type" },
    { FILE_WITH("\"normalizer\":{\"type\":\"Prepend\"},"), NULL, "no prepend" },
    { FILE_WITH("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":1},"), NULL, "strip_left" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},"), NULL, "UnicodeScripts" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
                "\"behavior\":\"Isolated\"},"),
      NULL, "group without end" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a**\"},"
                "\"behavior\":\"Sideways\"},"),
      NULL, "" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
                "\"behavior\":\"Sideways\"},"),
      NULL, "behavior Sideways" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}},"), NULL,
      "no behavior" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"__\"},"), NULL,
      "one character" },
    { FILE_WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
                "\"add_prefix_space\":false,\"prepend_scheme\":\"first\"},"),
      NULL, "add_prefix_space" },
    { FILE_WITH("\"post_processor\":{\"type\":\"Other\"},"), NULL, "post_processor Other" },
    { FILE_WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"<s>\",3],"
                "\"sep\":[\"x\",9]},"),
      NULL, "id 9" },
    { FILE_WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"<s>\"]},"), NULL,
      "cls" },
    { FILE_WITH("\"decoder\":{\"type\":\"WordPiece\"},"), NULL, "decoder WordPiece" },
    { FILE_WITH("\"added_tokens\":{},"), NULL, "not an array" },
    { FILE_WITH("\"added_tokens\":[7],"), NULL, "not an object" },
    { FILE_WITH("\"added_tokens\":[{\"id\":7,\"content\":\"<x>\"}],"), NULL,
      "<x> has id 7, expected 4" },
    { FILE_WITH("\"added_tokens\":[{\"id\":2,\"content\":\"a\"}],"), NULL, "expected 0" },
    { FILE_WITH("\"added_tokens\":[{\"id\":1e9,\"content\":\"a\"}],"), NULL, "field id" },
    { FILE_WITH(""), LLAMA "\"bos_token\":\"<q>\",\"add_bos_token\":true}", "has no id" },
    { FILE_WITH(""), "{\"bos_token\":7}", "bos_token" },
    { FILE_WITH(""), "{\"added_tokens_decoder\":{\"x\":{}}}", "not an id" },
    { FILE_WITH(""), "{", "tokenizer_config.json: line" },
};

static void bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct ls_tokenizer *tok = NULL;
        struct ls_err err = { 0 };
        const char *file = refusals[i].file, *config = refusals[i].config;
        ls_status s = ls_tokenizer_create(&tok, file, strlen(file), config,
                                          config ? strlen(config) : 0, &err);
        if (s != LS_E_FORMAT || tok || !strstr(err.text, refusals[i].says))
            fail_msg("case %zu: status %s, '%s', expected '%s'", i, ls_status_name(s), err.text,
                     refusals[i].says);
    }
}

/* A component nested `depth` times in Sequence. */
static char *nested(const char *field, const char *list, const char *inner, int depth)
{
    size_t n = 256 + (size_t)depth * 64, k;
    char *out = malloc(n);
    assert_non_null(out);
    k = (size_t)snprintf(out, n, "{\"%s\":", field);
    for (int i = 0; i < depth; i++)
        k += (size_t)snprintf(out + k, n - k, "{\"type\":\"Sequence\",\"%s\":[", list);
    k += (size_t)snprintf(out + k, n - k, "{\"type\":\"%s\"}", inner);
    for (int i = 0; i < depth; i++)
        k += (size_t)snprintf(out + k, n - k, "]}");
    snprintf(out + k, n - k, ",%s}", MODEL);
    return out;
}

static void deep_nesting_is_refused(void **state)
{
    static const char *const fields[][3] = { { "normalizer", "normalizers", "NFC" },
                                             { "pre_tokenizer", "pretokenizers", "Whitespace" },
                                             { "post_processor", "processors", "ByteLevel" },
                                             { "decoder", "decoders", "Fuse" } };
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int depth = 16; depth <= 400; depth *= 5) {
            char *json = nested(fields[i][0], fields[i][1], fields[i][2], depth);
            struct ls_tokenizer *tok = NULL;
            struct ls_err err = { 0 };
            ls_status s = ls_tokenizer_create(&tok, json, strlen(json), NULL, 0, &err);
            assert_int_equal(s, depth == 16 ? LS_OK : LS_E_FORMAT);
            ls_tokenizer_destroy(tok);
            free(json);
        }
}

static void bad_text_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = { { "ab\xff", "0xff at offset 2" },       { "\xc0\x80", "offset 0" },
                  { "a\xed\xa0\x80", "offset 1" },        { "a\xe4\xbd", "offset 1" },
                  { "\xf4\x90\x80\x80", "offset 0" },     { "aa\x80", "offset 2" },
                  { "b\xe4\xbd\xa0\xe4\xbd", "offset 4" } };
    (void)state;
    struct ls_tokenizer *tok = rig_make(FILE_WITH(TEMPLATE), NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ls_ids ids = { 0 };
        struct ls_err err = { 0 };
        const char *text = cases[i].text;
        ls_ids_push(&ids, 42, &err);
        assert_int_equal(ls_tokenizer_encode(tok, text, strlen(text), true, &ids, &err),
                         LS_E_REQUEST);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(ids.n, 1);
        ls_ids_finish(&ids);
    }
    ls_tokenizer_destroy(tok);
}

/* An unk_token that is missing matters only where it is needed. */
static void missing_unk_fails_the_text(void **state)
{
    (void)state;
    struct ls_tokenizer *tok =
        rig_make("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"vocab\":{\"a\":0},"
                 "\"merges\":[]}}",
                 NULL);
    struct ls_ids ids = { 0 };
    struct ls_err err = { 0 };
    assert_string_equal(ids_of(tok, "aa", false), "0 0 ");
    assert_int_equal(ls_tokenizer_encode(tok, "ab", 2, false, &ids, &err), LS_E_REQUEST);
    assert_non_null(strstr(err.text, "<u>"));
    ls_ids_finish(&ids);
    ls_tokenizer_destroy(tok);
}

/* One long word, and many added tokens beside each other, take linear or n log n steps: a
 * quadratic way would not end within the test's time limit. */
static void long_words_end(void **state)
{
    enum { N = 4 << 20 };
    (void)state;
    struct ls_tokenizer *tok = rig_make(FILE_WITH(ADDED), NULL);
    char *text = malloc(N);
    struct ls_ids ids = { 0 };
    struct ls_err err = { 0 };
    assert_non_null(text);
    for (size_t i = 0; i < N; i++)
        text[i] = "ab"[i & 1];
    assert_int_equal(ls_tokenizer_encode(tok, text, N, false, &ids, &err), LS_OK);
    assert_int_equal(ids.n, N / 2);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.data[i], 2);
    ids.n = 0;
    memset(text, '<', N);
    assert_int_equal(ls_tokenizer_encode(tok, text, N, false, &ids, &err), LS_OK);
    assert_int_equal(ids.n, 0);
    free(text);
    ls_ids_finish(&ids);
    ls_tokenizer_destroy(tok);
}

/* The second time nothing is allocated: work space is kept. */
static void repeating_allocates_nothing(void **state)
{
    static const char text[] = "The ferry leaves <|eos|> the harbour at 7, na\xc3\xafvely.";
    struct ls_ids ids = { 0 };
    struct ls_bytes out = { 0 };
    struct ls_detok *d = NULL;
    struct ls_err err = { 0 };
    uint64_t before = 0;
    (void)state;
    struct ls_tokenizer *tok = rig_open(LS_FIXTURES "/tokenizers/small", true);
    assert_int_equal(ls_detok_create(&d, tok, true, &err), LS_OK);
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            before = ls_alloc_count();
        ids.n = out.n = 0;
        assert_int_equal(ls_tokenizer_encode(tok, text, sizeof text - 1, true, &ids, &err),
                         LS_OK);
        for (size_t i = 0; i < ids.n; i++) {
            assert_int_equal(ls_detok_feed(d, ids.data[i], &out, &err), LS_OK);
            assert_int_equal(ls_tokenizer_token_text(tok, ids.data[i], &out, &err), LS_OK);
        }
        assert_int_equal(ls_detok_finish(d, &out, &err), LS_OK);
    }
    assert_int_equal(ls_alloc_count(), before);
    ls_detok_destroy(d);
    ls_ids_finish(&ids);
    ls_bytes_finish(&out);
    ls_tokenizer_destroy(tok);
}

enum { N_THREADS = 4, N_ROUNDS = 200 };

static void *encode_again_and_again(void *arg)
{
    const struct ls_tokenizer *tok = arg;
    struct ls_ids ids = { 0 };
    struct ls_err err = { 0 };
    static const char text[] = "The ferry leaves the harbour, <|eos|> 12 crates \xe4\xbd\xa0.";
    size_t n_first = 0;
    for (int i = 0; i < N_ROUNDS; i++) {
        struct ls_bytes out = { 0 };
        ids.n = 0;
        if (ls_tokenizer_encode(tok, text, sizeof text - 1, false, &ids, &err) ||
            ls_tokenizer_decode(tok, ids.data, ids.n, false, &out, &err) ||
            out.n != sizeof text - 1 || memcmp(out.data, text, out.n) ||
            (n_first && n_first != ids.n))
            arg = NULL;
        n_first = ids.n;
        ls_bytes_finish(&out);
    }
    ls_ids_finish(&ids);
    return arg;
}

static void threads_share_a_tokenizer(void **state)
{
    pthread_t threads[N_THREADS];
    (void)state;
    struct ls_tokenizer *tok = rig_open(LS_FIXTURES "/tokenizers/small", true);
    assert_non_null(tok);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_again_and_again, tok), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, tok);
    }
    ls_tokenizer_destroy(tok);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bos_is_put_once),
        cmocka_unit_test(bos_in_the_text_stays_alone),
        cmocka_unit_test(config_tokens_are_special),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(missing_unk_fails_the_text),
        cmocka_unit_test(long_words_end),
        cmocka_unit_test(repeating_allocates_nothing),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
