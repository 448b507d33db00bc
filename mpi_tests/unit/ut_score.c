/* Scored texts: windows against their definition, the harness's borders on tokens, which rows
 * are asked for, and chats up to the renderer. */
#include "job_rig.h"

#include "jobs/choice.h"
#include "jobs/windows.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* --- windows ---------------------------------------------------------------------------------
 */

/* Every token but the first is scored exactly once, in order; a window feeds no more than
 * `length`, and as many as there are; behind the first it scores at most `stride`. */
static void check_windows(size_t n_stream, uint32_t length, uint32_t stride)
{
    struct ls_windows w = { .n_stream = n_stream, .length = length, .stride = stride };
    struct ls_window window;
    size_t next = 1, n = 0;
    const uint64_t expected = ls_windows_count(&w);
    for (; ls_windows_next(&w, &window); n++) {
        const size_t end = window.first + window.n; /* the last token scored */
        assert_in_range(window.n_scored, 1, n ? stride : length);
        assert_int_equal(end + 1 - window.n_scored, next);
        assert_int_equal(window.n, end < length ? end : length);
        next = end + 1;
    }
    assert_int_equal(next, n_stream > 1 ? n_stream : 1);
    assert_int_equal(n, expected);
}

static void windows_score_each_token_once(void **state)
{
    (void)state;
    for (size_t n = 0; n < 30; n++)
        for (uint32_t length = 1; length <= 9; length++)
            for (uint32_t stride = 1; stride <= length; stride++)
                check_windows(n, length, stride);
    check_windows(100000, 4096, 1);
}

static void one_window_drops_on_the_left(void **state)
{
    (void)state;
    size_t dropped;
    /* a b c + d e at three: b c d is fed, d and e are scored */
    struct ls_window w = ls_window_of(5, 2, 3, &dropped);
    assert_int_equal(dropped, 1);
    assert_int_equal(w.first, 1);
    assert_int_equal(w.n, 3);
    assert_int_equal(w.n_scored, 2);
    w = ls_window_of(4, 3, 3, &dropped); /* just fits: the last token is only scored */
    assert_int_equal(dropped, 0);
    assert_int_equal(w.n, 3);
    w = ls_window_of(2, 1, 1, &dropped);
    assert_int_equal(dropped, 0);
    assert_int_equal(w.n, 1);
}

static void space_is_what_python_strips(void **state)
{
    (void)state;
    static const char *const spaces[] = { " ",      "\t",     "\n",     "\v",        "\f",
                                          "\r",     "\x1c",   "\x1f",   "\xc2\x85",  "\u00a0",
                                          "\u1680", "\u2000", "\u200a", "\u2028",    "\u2029",
                                          "\u202f", "\u205f", "\u3000", " \u3000\n " };
    static const char *const others[] = { "x", "\u200b", "\u180e", "\ufeff", "\x1b", "\u00e9" };
    char text[64];
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        const int n = snprintf(text, sizeof text, "\u00fcber x%s", spaces[i]);
        assert_int_equal(ls_trailing_space(text, (size_t)n), strlen(spaces[i]));
        assert_int_equal(ls_trailing_space(spaces[i], strlen(spaces[i])), strlen(spaces[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(ls_trailing_space(others[i], strlen(others[i])), 0);
    assert_int_equal(ls_trailing_space("", 0), 0);
}

/* --- requests --------------------------------------------------------------------------------
 */

static struct ls_tokenizer *tokenizer;
static char *last_rendered;

static ls_status render(void *arg, const char *request, size_t n, struct ls_bytes *text,
                        struct ls_err *err)
{
    free(last_rendered);
    last_rendered = strndup(request, n);
    if (arg)
        return ls_fail(err, *(ls_status *)arg, "as told");
    return ls_bytes_text(text, "<s>hello", err);
}

static void read_line(struct rig_request *r, const char *text, int32_t context)
{
    static struct ls_chat chat = { .render = render };
    const struct ls_line line = { .data = text, .n = strlen(text), .number = 7 };
    *r = (struct rig_request){ 0 };
    r->rules = (struct ls_request_rules){ .defaults = &r->defaults,
                                          .tokenizer = tokenizer,
                                          .chat = &chat,
                                          .vocab = RIG_VOCAB,
                                          .context = context,
                                          .prefix = RIG_BOS };
    r->status = ls_request_read(&r->req, LS_INPUT_JSON, &line, &r->rules, &r->err);
}

/* The one prompt's tokens with the last scored one, and how many are scored. */
static void is_scored(const char *text, int32_t context, const int32_t *ids, size_t n,
                      uint32_t n_scored, bool truncated)
{
    struct rig_request r;
    read_line(&r, text, context);
    if (r.status)
        fail_msg("%s: %s", text, r.err.text);
    assert_int_equal(r.req.n_prompts, 1);
    assert_int_equal(r.req.prompts[0].n + 1, n);
    assert_int_equal(r.req.prompts[0].n_scored, n_scored);
    assert_memory_equal(r.req.prompts[0].tokens, ids, n * sizeof *ids);
    assert_int_equal(r.req.truncated, truncated);
    assert_int_equal(r.req.max_tokens, 0);
    ls_request_finish(&r.req);
}

static void is_refused(const char *text, int32_t context, const char *code)
{
    struct rig_request r;
    read_line(&r, text, context);
    assert_int_equal(r.status, LS_E_REQUEST);
    assert_string_equal(r.req.code, code);
    ls_request_finish(&r.req);
}

#define PAIR(context, continuation)                                                            \
    "{\"context\":\"" context "\",\"continuation\":\"" continuation "\"}"

static void borders(void **state)
{
    (void)state;
    const int32_t answer[] = { RIG_BOS, 'A', 'n', 's', 'w', 'e', 'r' };
    is_scored(PAIR("Ans", "wer"), 64, answer, 7, 3, false);
    /* spaces at the end go over to the continuation */
    const int32_t moved[] = { RIG_BOS, 'a', RIG_W, 'x' };
    is_scored(PAIR("a ", "wx"), 64, moved, 4, 2, false);
    /* the border cuts a token in two: the context's own tokens, then what the whole has left */
    const int32_t merged[] = { RIG_BOS, 'h', 'y' };
    is_scored(PAIR("h", "ey"), 64, merged, 3, 1, false);
    is_refused(PAIR("h", "e"), 64, "empty_continuation");
    const int32_t alone[] = { RIG_BOS, 'x' };
    is_scored(PAIR("", "x"), 64, alone, 2, 1, false);
    is_scored(PAIR("", "<s>x"), 64, alone, 2, 1, false);
    const int32_t spelled[] = { RIG_BOS, 'a', 'b' };
    is_scored(PAIR("<s>a", "b"), 64, spelled, 3, 1, false);
    const int32_t cut[] = { 'b', 'c', 'd', 'e' };
    is_scored(PAIR("abc", "de"), 3, cut, 4, 2, true);
    is_scored("{\"context\":[97,98,99],\"continuation\":[100,101]}", 3, cut, 4, 2, true);
    is_refused(PAIR("a", "bcde"), 3, "context_length_exceeded");
    is_refused(PAIR("a", ""), 64, "empty_continuation");
}

static void rolling(void **state)
{
    (void)state;
    struct rig_request r;
    read_line(&r, "{\"request_type\":\"loglikelihood_rolling\",\"text\":\"abcdef\"}", 3);
    assert_int_equal(r.status, LS_OK);
    /* <s> <s> a b c d e f, as the harness has it; seven are scored */
    assert_int_equal(r.req.n_prompts, 3);
    assert_int_equal(r.req.prompts[2].n, 3);
    assert_int_equal(r.req.prompts[2].n_scored, 1);
    assert_int_equal(r.req.prompts[2].tokens[3], 'f');
    assert_int_equal(r.req.n_bytes, 6);
    ls_request_finish(&r.req);
    read_line(&r, "{\"text\":\"abcdef\"}", 64); /* a document: BOS once */
    assert_int_equal(r.req.prompts[0].n, 6);
    assert_int_equal(r.req.prompts[0].tokens[1], 'a');
    ls_request_finish(&r.req);
}

static void only_scored_rows_are_asked_for(void **state)
{
    (void)state;
    struct rig_request r;
    struct ls_choice choice;
    struct ls_sequence seq = { 0 };
    const struct ls_choice_rules rules = { .tokenizer = tokenizer,
                                           .vocab = RIG_VOCAB,
                                           .digest = LS_DIGEST_GENERATED };
    read_line(&r, PAIR("a long context before it", "xyz"), 64);
    assert_int_equal(ls_choice_init(&choice, &r.req, 0, &rules, &r.err), LS_OK);
    ls_choice_sequence(&choice, &rules, &seq);
    assert_int_equal(seq.n_send, 3);
    assert_int_equal(seq.n_digest, 0);
    assert_int_equal(seq.max_new, 0);
    ls_choice_finish(&choice, &rules);
    ls_request_finish(&r.req);
}

static void generation_is_cut_on_the_left(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t kept[] = { 'd', 'e', 'f' };
    read_line(&r,
              "{\"request_type\":\"generate_until\",\"context\":\"abcdef\",\"gen_kwargs\":"
              "{\"until\":[\"</s>\",\"\",\"q\"],\"max_gen_toks\":5}}",
              8);
    assert_int_equal(r.status, LS_OK);
    assert_int_equal(r.req.prompts[0].n, 3);
    assert_memory_equal(r.req.prompts[0].tokens, kept, sizeof kept);
    assert_true(r.req.truncated && r.req.text_alone);
    assert_int_equal(r.req.max_tokens, 5);
    assert_int_equal(r.req.stops.n, 2);
    assert_int_equal(r.req.n_stop_ids, 1);
    assert_int_equal(r.req.stop_ids[0], RIG_EOS);
    assert_true(r.req.sampling.temperature == 0);
    ls_request_finish(&r.req);
    is_refused("{\"request_type\":\"generate_until\",\"context\":\"a\"}", 64,
               "context_length_exceeded"); /* 256 tokens by default */
}

/* --- chats -----------------------------------------------------------------------------------
 */

#define CHAT(fields)                                                                           \
    "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":"      \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]" fields "}}"

static void chats_are_rendered_and_get_no_second_bos(void **state)
{
    (void)state;
    struct rig_request r;
    const int32_t ids[] = { RIG_BOS, RIG_HE, RIG_LL, 'o' };
    read_line(&r, CHAT(",\"chat_template_kwargs\":{\"k\":1},\"add_generation_prompt\":false"),
              16);
    assert_int_equal(r.status, LS_OK);
    assert_int_equal(r.req.kind, LS_KIND_CHAT);
    assert_int_equal(r.req.prompts[0].n, 4);
    assert_memory_equal(r.req.prompts[0].tokens, ids, sizeof ids);
    assert_int_equal(r.req.max_tokens, 13); /* to the end of the context */
    json_t *asked = json_loads(last_rendered, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(asked, "messages")), 1);
    assert_true(json_is_false(json_object_get(asked, "add_generation_prompt")));
    json_t *variables = json_object_get(asked, "variables");
    assert_int_equal(json_integer_value(json_object_get(variables, "k")), 1);
    json_decref(asked);
    ls_request_finish(&r.req);
    read_line(&r, CHAT(",\"rendered_prompt\":\"<s>x\",\"max_completion_tokens\":2"), 16);
    assert_int_equal(r.req.prompts[0].n, 2);
    assert_int_equal(r.req.max_tokens, 2);
    ls_request_finish(&r.req);
    is_refused(CHAT(",\"rendered_error\":\"why\""), 16, "chat_template_error");
}

static void a_renderer_that_fails_costs_the_line(void **state)
{
    (void)state;
    const ls_status outcomes[] = { LS_E_REQUEST, LS_E_REFUSED };
    const char *const codes[] = { "chat_template_error", "chat_unavailable" };
    for (int i = 0; i < 2; i++) {
        ls_status outcome = outcomes[i];
        const struct ls_chat chat = { .arg = &outcome, .render = render };
        const char *text = CHAT("");
        const struct ls_line line = { .data = text, .n = strlen(text), .number = 7 };
        struct rig_request r = { 0 };
        r.rules = (struct ls_request_rules){ .defaults = &r.defaults,
                                             .tokenizer = tokenizer,
                                             .chat = &chat,
                                             .vocab = RIG_VOCAB,
                                             .context = 16 };
        r.status = ls_request_read(&r.req, LS_INPUT_JSON, &line, &r.rules, &r.err);
        assert_int_equal(r.status, LS_E_REQUEST);
        assert_int_equal(r.err.status, LS_E_REQUEST);
        assert_string_equal(r.req.code, codes[i]);
        assert_string_equal(r.err.text, "as told");
        ls_request_finish(&r.req);
    }
}

static int set_up(void **state)
{
    (void)state;
    tokenizer = rig_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(last_rendered);
    ls_tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_score_each_token_once),
        cmocka_unit_test(one_window_drops_on_the_left),
        cmocka_unit_test(space_is_what_python_strips),
        cmocka_unit_test(borders),
        cmocka_unit_test(rolling),
        cmocka_unit_test(only_scored_rows_are_asked_for),
        cmocka_unit_test(generation_is_cut_on_the_left),
        cmocka_unit_test(chats_are_rendered_and_get_no_second_bos),
        cmocka_unit_test(a_renderer_that_fails_costs_the_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
