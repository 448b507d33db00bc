#include "jobs/float_text.h"
#include "jobs/json_line.h"
#include "jobs/request_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1, CHAT = 2, BOTH = 3 }; /* requests that know a field */

struct reading {
    struct ls_request *req;
    const struct ls_request_rules *rules;
    int32_t best_of;        /* -1: not said */
    int32_t top_logprobs;   /* of a chat; -1: not said */
    int32_t max_completion; /* of a chat; -1: not said */
    bool logprobs;          /* of a chat */
};

struct field {
    const char *name;
    unsigned of;
    ls_status (*read)(struct reading *r, const struct field *f, const json_t *value,
                      struct ls_err *err);
    size_t offset; /* into struct ls_request, for plain numbers and flags */
    double lo, hi; /* range, both ends included */
    bool above_lo; /* lo itself is refused */
};

const char *ls_json_shown(const json_t *value, char out[64])
{
    const char *large = ls_json_large(value);
    if (large) {
        snprintf(out, 64, "%.40s%s", large, strlen(large) > 40 ? "..." : "");
        return out;
    }
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        snprintf(out, 64, "\"%.40s\"%s", json_string_value(value),
                 json_string_length(value) > 40 ? "..." : "");
        return out;
    case JSON_INTEGER:
        snprintf(out, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out;
    case JSON_REAL:
        ls_float_text(out, json_real_value(value));
        return out;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        break;
    }
    return value ? "null" : "missing";
}

static ls_status refuse(struct reading *r, const char *name, const json_t *value,
                        const char *expected, struct ls_err *err)
{
    char shown[64];
    return ls_request_refuse(r->req, "invalid_value", err, "%s is %s, expected %s", name,
                             ls_json_shown(value, shown), expected);
}

static ls_status refuse_range(struct reading *r, const struct field *f, const json_t *value,
                              const char *what, struct ls_err *err)
{
    char expected[96];
    snprintf(expected, sizeof expected, "%s %s %.10g to %.10g", what,
             f->above_lo ? "above" : "from", f->lo, f->hi);
    return refuse(r, f->name, value, expected, err);
}

bool ls_json_integer(const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    const double x = json_real_value(value);
    if (!json_is_real(value) || !(fabs(x) <= 0x1p53) || x != (double)(int64_t)x)
        return false;
    *out = (int64_t)x;
    return true;
}

/* --- numbers and flags -----------------------------------------------------------------------
 */

static ls_status read_int(struct reading *r, const struct field *f, const json_t *value,
                          struct ls_err *err)
{
    int64_t v;
    if (!ls_json_integer(value, &v) || v < (int64_t)f->lo || v > (int64_t)f->hi)
        return refuse_range(r, f, value, "an integer", err);
    const int32_t small = (int32_t)v;
    memcpy((char *)r->req + f->offset, &small, sizeof small);
    return LS_OK;
}

static ls_status read_real(struct reading *r, const struct field *f, const json_t *value,
                           struct ls_err *err)
{
    const double v = json_number_value(value);
    if (!json_is_number(value) || !(v >= f->lo && v <= f->hi) || (f->above_lo && v == f->lo))
        return refuse_range(r, f, value, "a number", err);
    memcpy((char *)r->req + f->offset, &v, sizeof v);
    return LS_OK;
}

static ls_status read_flag(struct reading *r, const struct field *f, const json_t *value,
                           struct ls_err *err)
{
    if (!json_is_boolean(value))
        return refuse(r, f->name, value, "true or false", err);
    const bool v = json_is_true(value);
    memcpy((char *)r->req + f->offset, &v, sizeof v);
    return LS_OK;
}

static ls_status read_top_k(struct reading *r, const struct field *f, const json_t *value,
                            struct ls_err *err)
{
    if (!ls_json_integer(value, &r->req->sampling.top_k) || r->req->sampling.top_k < -1)
        return refuse(r, f->name, value, "a positive integer, or 0 or -1 for all tokens", err);
    return LS_OK;
}

static ls_status read_seed(struct reading *r, const struct field *f, const json_t *value,
                           struct ls_err *err)
{
    r->req->has_seed = true;
    if (!ls_json_integer(value, &r->req->seed))
        return refuse(r, f->name, value, "an integer from -2^63 to 2^63-1", err);
    return LS_OK;
}

static ls_status read_best_of(struct reading *r, const struct field *f, const json_t *value,
                              struct ls_err *err)
{
    int64_t v;
    if (!ls_json_integer(value, &v) || v < 1 || v > LS_MAX_N)
        return refuse_range(r, f, value, "an integer", err);
    r->best_of = (int32_t)v;
    return LS_OK;
}

/* --- texts and lists -------------------------------------------------------------------------
 */

static ls_status read_model(struct reading *r, const struct field *f, const json_t *value,
                            struct ls_err *err)
{
    void *text;
    if (!json_is_string(value))
        return refuse(r, f->name, value, "a text", err);
    const size_t n = strlen(json_string_value(value));
    ls_status status = ls_request_take(r->req, &text, n + 1, 1, err);
    if (status)
        return status;
    memcpy(text, json_string_value(value), n + 1);
    r->req->model = text;
    return LS_OK;
}

static ls_status keep_stop(struct reading *r, struct ls_stop *stop, const json_t *value,
                           struct ls_err *err)
{
    void *text;
    if (!json_is_string(value) || !json_string_length(value))
        return refuse(r, "stop", value, "texts that are not empty", err);
    const size_t n = json_string_length(value);
    ls_status status = ls_request_take(r->req, &text, n, 1, err);
    if (status)
        return status;
    memcpy(text, json_string_value(value), n);
    *stop = (struct ls_stop){ .text = text, .n = n };
    if (n > r->req->stops.longest)
        r->req->stops.longest = n;
    return LS_OK;
}

static ls_status read_stop(struct reading *r, const struct field *f, const json_t *value,
                           struct ls_err *err)
{
    const bool list = json_is_array(value);
    const size_t n = list ? json_array_size(value) : 1;
    if (n > LS_MAX_STOPS)
        return ls_request_refuse(r->req, "invalid_value", err,
                                 "%s has %zu texts, expected at most %d", f->name, n,
                                 LS_MAX_STOPS);
    void *items;
    ls_status status = ls_request_take(r->req, &items, n, sizeof(struct ls_stop), err);
    for (size_t i = 0; !status && i < n; i++)
        status = keep_stop(r, (struct ls_stop *)items + i,
                           list ? json_array_get(value, i) : value, err);
    if (status)
        return status;
    r->req->stops.items = items;
    r->req->stops.n = n;
    if (n && !r->rules->tokenizer)
        return ls_request_refuse(r->req, "no_tokenizer", err,
                                 "stop needs a tokenizer, and the checkpoint has none");
    return LS_OK;
}

static ls_status read_stop_ids(struct reading *r, const struct field *f, const json_t *value,
                               struct ls_err *err)
{
    const size_t n = json_array_size(value);
    if (!json_is_array(value) || n > LS_MAX_STOP_IDS)
        return refuse(r, f->name, value, "a list of at most 1024 token ids", err);
    void *ids;
    ls_status status = ls_request_take(r->req, &ids, n, sizeof(int32_t), err);
    for (size_t i = 0; !status && i < n; i++) {
        int64_t id;
        const json_t *item = json_array_get(value, i);
        if (!ls_json_integer(item, &id) || id < 0 || id >= r->rules->vocab)
            return refuse(r, f->name, item, "token ids of the vocabulary", err);
        ((int32_t *)ids)[i] = (int32_t)id;
    }
    r->req->stop_ids = ids;
    r->req->n_stop_ids = n;
    return status;
}

/* Decimal digits as JSON writes a number, so that one token has one spelling. */
static bool token_of(const char *key, int32_t vocab, int32_t *token)
{
    const size_t n = strlen(key);
    if (!n || n > 9 || strspn(key, "0123456789") != n || (key[0] == '0' && n > 1))
        return false;
    *token = atoi(key);
    return *token < vocab;
}

static ls_status read_logit_bias(struct reading *r, const struct field *f, const json_t *value,
                                 struct ls_err *err)
{
    if (!json_is_object(value))
        return refuse(r, f->name, value, "an object of token ids", err);
    void *memory;
    struct ls_sampling *s = &r->req->sampling;
    ls_status status =
        ls_request_take(r->req, &memory, json_object_size(value), sizeof(struct ls_bias), err);
    if (status)
        return status;
    s->bias = memory;
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        struct ls_bias *b = &s->bias[s->n_bias++];
        if (!token_of(key, r->rules->vocab, &b->token))
            return ls_request_refuse(r->req, "invalid_value", err,
                                     "logit_bias has key \"%.40s\", expected a token id below "
                                     "%" PRId32,
                                     key, r->rules->vocab);
        b->value = json_number_value(item);
        if (!json_is_number(item) || !(fabs(b->value) <= 100))
            return refuse(r, f->name, item, "numbers from -100 to 100", err);
    }
    return LS_OK;
}

static ls_status read_max(struct reading *r, const struct field *f, const json_t *value,
                          struct ls_err *err)
{
    r->req->given_max = true;
    return read_int(r, f, value, err);
}

/* --- of a chat -------------------------------------------------------------------------------
 */

static ls_status read_small(struct reading *r, const struct field *f, const json_t *value,
                            int32_t *out, struct ls_err *err)
{
    int64_t v;
    if (!ls_json_integer(value, &v) || v < (int64_t)f->lo || v > (int64_t)f->hi)
        return refuse_range(r, f, value, "an integer", err);
    *out = (int32_t)v;
    return LS_OK;
}

static ls_status read_max_completion(struct reading *r, const struct field *f,
                                     const json_t *value, struct ls_err *err)
{
    return read_small(r, f, value, &r->max_completion, err);
}

static ls_status read_top_logprobs(struct reading *r, const struct field *f,
                                   const json_t *value, struct ls_err *err)
{
    return read_small(r, f, value, &r->top_logprobs, err);
}

static ls_status read_chat_logprobs(struct reading *r, const struct field *f,
                                    const json_t *value, struct ls_err *err)
{
    r->logprobs = json_is_true(value);
    return json_is_boolean(value) ? LS_OK : refuse(r, f->name, value, "true or false", err);
}

/* Settings that ask for plain text, in so many words. */
static ls_status read_format(struct reading *r, const struct field *f, const json_t *value,
                             struct ls_err *err)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    if (type && !strcmp(type, "text") && json_object_size(value) == 1)
        return LS_OK;
    return ls_request_refuse(r->req, "unsupported_field", err,
                             "%s is not supported, except {\"type\": \"text\"}", f->name);
}

static ls_status read_modalities(struct reading *r, const struct field *f, const json_t *value,
                                 struct ls_err *err)
{
    const char *only = json_string_value(json_array_get(value, 0));
    if (json_array_size(value) == 1 && only && !strcmp(only, "text"))
        return LS_OK;
    return ls_request_refuse(r->req, "unsupported_field", err,
                             "%s is not supported, except [\"text\"]", f->name);
}

static ls_status read_no_tools(struct reading *r, const struct field *f, const json_t *value,
                               struct ls_err *err)
{
    if (json_is_array(value) && !json_array_size(value))
        return LS_OK;
    return ls_request_refuse(r->req, "unsupported_field", err, "%s is not supported", f->name);
}

static ls_status read_no_choice(struct reading *r, const struct field *f, const json_t *value,
                                struct ls_err *err)
{
    const char *word = json_string_value(value);
    if (word && (!strcmp(word, "none") || !strcmp(word, "auto")))
        return LS_OK;
    return ls_request_refuse(r->req, "unsupported_field", err, "%s is not supported", f->name);
}

static ls_status accept(struct reading *r, const struct field *f, const json_t *value,
                        struct ls_err *err)
{
    (void)r, (void)f, (void)value, (void)err;
    return LS_OK;
}

/* A batch has nowhere to stream to: the same answer either way. */
static ls_status read_stream(struct reading *r, const struct field *f, const json_t *value,
                             struct ls_err *err)
{
    return json_is_boolean(value) ? LS_OK : refuse(r, f->name, value, "true or false", err);
}

static ls_status read_unsupported(struct reading *r, const struct field *f, const json_t *value,
                                  struct ls_err *err)
{
    (void)value;
    return ls_request_refuse(r->req, "unsupported_field", err, "%s is not supported", f->name);
}

/* --- the table -------------------------------------------------------------------------------
 */

#define AT(member) offsetof(struct ls_request, member)

static const struct field fields[] = {
    { "add_special_tokens", TEXT, read_flag, AT(add_special), 0, 0, false },
    { "best_of", TEXT, read_best_of, 0, 1, LS_MAX_N, false },
    { "echo", TEXT, read_flag, AT(echo), 0, 0, false },
    { "frequency_penalty", BOTH, read_real, AT(sampling.frequency_penalty), -2, 2, false },
    { "ignore_eos", BOTH, read_flag, AT(ignore_eos), 0, 0, false },
    { "logit_bias", BOTH, read_logit_bias, 0, 0, 0, false },
    { "logprobs", TEXT, read_int, AT(logprobs), 0, LS_MAX_TOP, false },
    { "logprobs", CHAT, read_chat_logprobs, 0, 0, 0, false },
    { "max_completion_tokens", CHAT, read_max_completion, 0, 0, INT32_MAX, false },
    { "max_tokens", BOTH, read_max, AT(max_tokens), 0, INT32_MAX, false },
    { "min_p", BOTH, read_real, AT(sampling.min_p), 0, 1, false },
    { "model", BOTH, read_model, 0, 0, 0, false },
    { "n", BOTH, read_int, AT(n), 1, LS_MAX_N, false },
    { "presence_penalty", BOTH, read_real, AT(sampling.presence_penalty), -2, 2, false },
    { "prompt_logprobs", TEXT, read_int, AT(prompt_logprobs), 0, LS_MAX_TOP, false },
    { "repetition_penalty", BOTH, read_real, AT(sampling.repetition_penalty), 0, 100, true },
    { "seed", BOTH, read_seed, 0, 0, 0, false },
    { "stop", BOTH, read_stop, 0, 0, 0, false },
    { "stop_token_ids", BOTH, read_stop_ids, 0, 0, 0, false },
    { "temperature", BOTH, read_real, AT(sampling.temperature), 0, 2, false },
    { "top_k", BOTH, read_top_k, 0, 0, 0, false },
    { "top_logprobs", CHAT, read_top_logprobs, 0, 0, LS_MAX_TOP, false },
    { "top_p", BOTH, read_real, AT(sampling.top_p), 0, 1, true },
    /* without effect on the answer */
    { "metadata", BOTH, accept, 0, 0, 0, false },
    { "parallel_tool_calls", CHAT, accept, 0, 0, 0, false },
    { "prompt_cache_key", BOTH, accept, 0, 0, 0, false },
    { "prompt_cache_retention", BOTH, accept, 0, 0, 0, false },
    { "safety_identifier", BOTH, accept, 0, 0, 0, false },
    { "service_tier", BOTH, accept, 0, 0, 0, false },
    { "store", BOTH, accept, 0, 0, 0, false },
    { "stream", BOTH, read_stream, 0, 0, 0, false },
    { "stream_options", BOTH, accept, 0, 0, 0, false },
    { "user", BOTH, accept, 0, 0, 0, false },
    /* accepted when they ask for what is done anyway */
    { "function_call", CHAT, read_no_choice, 0, 0, 0, false },
    { "functions", CHAT, read_no_tools, 0, 0, 0, false },
    { "modalities", CHAT, read_modalities, 0, 0, 0, false },
    { "response_format", BOTH, read_format, 0, 0, 0, false },
    { "tool_choice", CHAT, read_no_choice, 0, 0, 0, false },
    { "tools", CHAT, read_no_tools, 0, 0, 0, false },
    /* known elsewhere, and they would change the answer */
    { "audio", BOTH, read_unsupported, 0, 0, 0, false },
    { "chat_template", CHAT, read_unsupported, 0, 0, 0, false },
    { "continue_final_message", CHAT, read_unsupported, 0, 0, 0, false },
    { "documents", CHAT, read_unsupported, 0, 0, 0, false },
    { "function_call", TEXT, read_unsupported, 0, 0, 0, false },
    { "functions", TEXT, read_unsupported, 0, 0, 0, false },
    { "guided_json", BOTH, read_unsupported, 0, 0, 0, false },
    { "guided_regex", BOTH, read_unsupported, 0, 0, 0, false },
    { "images", BOTH, read_unsupported, 0, 0, 0, false },
    { "messages", TEXT, read_unsupported, 0, 0, 0, false },
    { "min_tokens", BOTH, read_unsupported, 0, 0, 0, false },
    { "modalities", TEXT, read_unsupported, 0, 0, 0, false },
    { "prediction", CHAT, read_unsupported, 0, 0, 0, false },
    { "reasoning_effort", CHAT, read_unsupported, 0, 0, 0, false },
    { "suffix", TEXT, read_unsupported, 0, 0, 0, false },
    { "tool_choice", TEXT, read_unsupported, 0, 0, 0, false },
    { "tools", TEXT, read_unsupported, 0, 0, 0, false },
    { "verbosity", CHAT, read_unsupported, 0, 0, 0, false },
    { "web_search_options", CHAT, read_unsupported, 0, 0, 0, false },
};

static const struct field *find_field(const char *name, unsigned of)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((fields[i].of & of) && !strcmp(fields[i].name, name))
            return &fields[i];
    return NULL;
}

static void set_defaults(struct ls_request *req, const struct ls_request_defaults *d,
                         bool is_line)
{
    req->n = 1;
    req->add_special = true;
    req->given_max = d->has_max_tokens;
    req->max_tokens = d->has_max_tokens ? d->max_tokens : 16;
    req->logprobs = req->prompt_logprobs = -1;
    req->ignore_eos = d->ignore_eos;
    req->sampling = (struct ls_sampling){
        .temperature = d->has_temperature ? d->temperature
                       : is_line          ? 0
                                          : 1,
        .top_p = d->has_top_p ? d->top_p : 1,
        .top_k = d->has_top_k ? d->top_k : 0,
        .min_p = d->has_min_p ? d->min_p : 0,
        .repetition_penalty = 1,
    };
}

static bool is_line_key(const char *key, bool is_chat, bool is_line)
{
    static const char *const chat[] = { "messages", "add_generation_prompt",
                                        "chat_template_kwargs", "rendered_prompt",
                                        "rendered_error" };
    for (size_t i = 0; is_chat && i < sizeof chat / sizeof chat[0]; i++)
        if (!strcmp(key, chat[i]))
            return true;
    if (!is_chat && (!strcmp(key, "prompt") || (is_line && !strcmp(key, "tokens"))))
        return true;
    return is_line && (!strcmp(key, "id") || !strcmp(key, "custom_id"));
}

/* What two fields say together. */
static ls_status settle(struct reading *r, bool both_max, struct ls_err *err)
{
    struct ls_request *req = r->req;
    if (r->best_of >= 0 && r->best_of != req->n)
        return ls_request_refuse(req, "invalid_value", err,
                                 "best_of is %" PRId32 ", expected the value of n, %" PRId32,
                                 r->best_of, req->n);
    if (r->top_logprobs >= 0 && !r->logprobs)
        return ls_request_refuse(req, "invalid_value", err,
                                 "top_logprobs is given, expected logprobs true with it");
    if (r->logprobs)
        req->logprobs = r->top_logprobs >= 0 ? r->top_logprobs : 0;
    if (r->max_completion < 0)
        return LS_OK;
    if (both_max && r->max_completion != req->max_tokens)
        return ls_request_refuse(req, "invalid_value", err,
                                 "max_tokens is %" PRId32 ", expected the value of "
                                 "max_completion_tokens, %" PRId32,
                                 req->max_tokens, r->max_completion);
    req->max_tokens = r->max_completion;
    req->given_max = true;
    return LS_OK;
}

ls_status ls_request_read_fields(struct ls_request *req, const struct ls_request_rules *rules,
                                 const json_t *object, bool is_line, struct ls_err *err)
{
    struct reading r = {
        .req = req, .rules = rules, .best_of = -1, .top_logprobs = -1, .max_completion = -1
    };
    const bool is_chat = req->kind == LS_KIND_CHAT;
    set_defaults(req, rules->defaults, is_line);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (is_line_key(key, is_chat, is_line))
            continue;
        const struct field *f = find_field(key, is_chat ? CHAT : TEXT);
        if (!f)
            return ls_request_refuse(req, "unknown_field", err, "unknown field '%.64s'", key);
        ls_status status = json_is_null(value) ? LS_OK : f->read(&r, f, value, err);
        if (status)
            return status;
    }
    return settle(&r, json_is_number(json_object_get(object, "max_tokens")), err);
}
