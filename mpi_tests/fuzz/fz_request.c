/* One request line, first byte 't' for text and anything else for JSON: whatever it is, it
 * becomes a request within all limits, or a refusal whose error row is one line of JSON. */
#include "jobs/request.h"
#include "jobs/row.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 1000, CONTEXT = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void check_sampling(const struct ls_sampling *s)
{
    must(s->temperature >= 0 && s->temperature <= 2 && s->top_p > 0 && s->top_p <= 1);
    must(s->min_p >= 0 && s->min_p <= 1 && s->top_k >= -1);
    must(s->repetition_penalty > 0 && s->repetition_penalty <= 100);
    must(s->presence_penalty >= -2 && s->presence_penalty <= 2);
    must(s->frequency_penalty >= -2 && s->frequency_penalty <= 2);
    for (size_t i = 0; i < s->n_bias; i++) {
        must(s->bias[i].token >= 0 && s->bias[i].token < VOCAB);
        must(s->bias[i].value >= -100 && s->bias[i].value <= 100);
    }
}

static void check_request(const struct ls_request *r)
{
    must(r->custom_id && r->n_custom_id > 0 && r->n >= 1 && r->n <= LS_MAX_N);
    must(r->n_prompts >= 1 && r->n_prompts <= LS_MAX_PROMPTS);
    must(r->n_prompts * (uint32_t)r->n <= LS_MAX_CHOICES);
    must(r->logprobs >= -1 && r->logprobs <= LS_MAX_TOP);
    must(r->prompt_logprobs >= -1 && r->prompt_logprobs <= LS_MAX_TOP);
    must(r->stops.n == 0 && r->n_stop_ids <= LS_MAX_STOP_IDS && r->max_tokens >= 0);
    for (size_t i = 0; i < r->n_stop_ids; i++)
        must(r->stop_ids[i] >= 0 && r->stop_ids[i] < VOCAB);
    for (uint32_t p = 0; p < r->n_prompts; p++) {
        must(r->prompts[p].n >= 1 && r->prompts[p].n + (uint32_t)r->max_tokens <= CONTEXT + 1);
        must(r->prompts[p].n_scored <= r->prompts[p].n);
        const uint32_t n_held = r->prompts[p].n + (r->prompts[p].n_scored > 0);
        for (uint32_t i = 0; i < n_held; i++)
            must(r->prompts[p].tokens[i] >= 0 && r->prompts[p].tokens[i] < VOCAB);
    }
    check_sampling(&r->sampling);
}

static void check_refusal(const struct ls_request *r, const struct ls_err *err)
{
    struct ls_out row = { 0 };
    must(r->code && *r->code && err->status == LS_E_REQUEST && *err->text);
    ls_row_error(&row, r, r->code, err->text);
    must(!row.failed && memchr(row.data, '\n', row.n) == row.data + row.n - 1);
    json_t *back = json_loadb(row.data, row.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    must(json_is_object(json_object_get(back, "error")));
    json_decref(back);
    ls_out_finish(&row);
}

/* A chat that was let through is whole JSON with messages in it. */
static ls_status render(void *arg, const char *request, size_t n, struct ls_bytes *text,
                        struct ls_err *err)
{
    (void)arg;
    json_t *asked = json_loadb(request, n, JSON_ALLOW_NUL, NULL);
    must(json_array_size(json_object_get(asked, "messages")) > 0);
    must(json_is_object(json_object_get(asked, "variables")));
    json_decref(asked);
    return ls_bytes_append(text, "x", 1, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ls_request_defaults defaults = { 0 };
    const struct ls_chat chat = { .render = render };
    const struct ls_request_rules rules = {
        .defaults = &defaults, .chat = &chat, .vocab = VOCAB, .context = CONTEXT
    };
    const bool text = size && data[0] == 't';
    const struct ls_line line = { .data = (const char *)data + text,
                                  .n = size - text,
                                  .number = 1 };
    struct ls_request request;
    struct ls_err err = { 0 };
    ls_status status =
        ls_request_read(&request, text ? LS_INPUT_TEXT : LS_INPUT_JSON, &line, &rules, &err);
    if (status)
        check_refusal(&request, &err);
    else
        check_request(&request);
    ls_request_finish(&request);
    ls_input_kind("-", (const char *)data, size);
    return 0;
}
