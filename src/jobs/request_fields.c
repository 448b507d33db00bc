#include "jobs/request_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct ls_request *req;
    const struct ls_request_rules *rules;
    int32_t best_of; /* -1: not said */
};

struct field {
    const char *name;
    ls_status (*read)(struct reading *r, const struct field *f, const json_t *value,
                      struct ls_err *err);
    size_t offset; /* into struct ls_request, for plain numbers and flags */
    double lo, hi; /* range, both ends included */
    bool above_lo; /* lo itself is refused */
};

const char *ls_json_shown(const json_t *value, char out[64])
{
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
        snprintf(out, 64, "%.17g", json_real_value(value));
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

/* 16 and 16.0 are the same integer. */
static bool integer_of(const json_t *value, int64_t *out)
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
    if (!integer_of(value, &v) || v < (int64_t)f->lo || v > (int64_t)f->hi)
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
    if (!integer_of(value, &r->req->sampling.top_k) || r->req->sampling.top_k < -1)
        return refuse(r, f->name, value, "a positive integer, or 0 or -1 for all tokens", err);
    return LS_OK;
}

static ls_status read_seed(struct reading *r, const struct field *f, const json_t *value,
                           struct ls_err *err)
{
    r->req->has_seed = true;
    if (!integer_of(value, &r->req->seed))
        return refuse(r, f->name, value, "an integer of 64 bits", err);
    return LS_OK;
}

static ls_status read_best_of(struct reading *r, const struct field *f, const json_t *value,
                              struct ls_err *err)
{
    int64_t v;
    if (!integer_of(value, &v) || v < 1 || v > LS_MAX_N)
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
        if (!integer_of(item, &id) || id < 0 || id >= r->rules->vocab)
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

static ls_status read_stream(struct reading *r, const struct field *f, const json_t *value,
                             struct ls_err *err)
{
    if (!json_is_false(value))
        return refuse(r, f->name, value, "false: a batch does not stream", err);
    return LS_OK;
}

static ls_status accept(struct reading *r, const struct field *f, const json_t *value,
                        struct ls_err *err)
{
    (void)r, (void)f, (void)value, (void)err;
    return LS_OK;
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
    { "best_of", read_best_of, 0, 1, LS_MAX_N, false },
    { "echo", read_flag, AT(echo), 0, 0, false },
    { "frequency_penalty", read_real, AT(sampling.frequency_penalty), -2, 2, false },
    { "ignore_eos", read_flag, AT(ignore_eos), 0, 0, false },
    { "logit_bias", read_logit_bias, 0, 0, 0, false },
    { "logprobs", read_int, AT(logprobs), 0, LS_MAX_TOP, false },
    { "max_tokens", read_int, AT(max_tokens), 0, INT32_MAX, false },
    { "metadata", accept, 0, 0, 0, false },
    { "min_p", read_real, AT(sampling.min_p), 0, 1, false },
    { "model", read_model, 0, 0, 0, false },
    { "n", read_int, AT(n), 1, LS_MAX_N, false },
    { "presence_penalty", read_real, AT(sampling.presence_penalty), -2, 2, false },
    { "prompt_logprobs", read_int, AT(prompt_logprobs), 0, LS_MAX_TOP, false },
    { "repetition_penalty", read_real, AT(sampling.repetition_penalty), 0, 100, true },
    { "seed", read_seed, 0, 0, 0, false },
    { "service_tier", accept, 0, 0, 0, false },
    { "stop", read_stop, 0, 0, 0, false },
    { "stop_token_ids", read_stop_ids, 0, 0, 0, false },
    { "store", accept, 0, 0, 0, false },
    { "stream", read_stream, 0, 0, 0, false },
    { "temperature", read_real, AT(sampling.temperature), 0, 2, false },
    { "top_k", read_top_k, 0, 0, 0, false },
    { "top_p", read_real, AT(sampling.top_p), 0, 1, true },
    { "user", accept, 0, 0, 0, false },
    /* known elsewhere, and they would change the answer */
    { "audio", read_unsupported, 0, 0, 0, false },
    { "function_call", read_unsupported, 0, 0, 0, false },
    { "functions", read_unsupported, 0, 0, 0, false },
    { "guided_json", read_unsupported, 0, 0, 0, false },
    { "guided_regex", read_unsupported, 0, 0, 0, false },
    { "images", read_unsupported, 0, 0, 0, false },
    { "messages", read_unsupported, 0, 0, 0, false },
    { "min_tokens", read_unsupported, 0, 0, 0, false },
    { "modalities", read_unsupported, 0, 0, 0, false },
    { "response_format", read_unsupported, 0, 0, 0, false },
    { "stream_options", read_unsupported, 0, 0, 0, false },
    { "suffix", read_unsupported, 0, 0, 0, false },
    { "tool_choice", read_unsupported, 0, 0, 0, false },
    { "tools", read_unsupported, 0, 0, 0, false },
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    return NULL;
}

static void set_defaults(struct ls_request *req, const struct ls_request_defaults *d,
                         bool is_line)
{
    req->n = 1;
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

static bool is_line_key(const char *key, bool is_line)
{
    if (!strcmp(key, "prompt"))
        return true;
    return is_line &&
           (!strcmp(key, "tokens") || !strcmp(key, "id") || !strcmp(key, "custom_id"));
}

ls_status ls_request_read_fields(struct ls_request *req, const struct ls_request_rules *rules,
                                 const json_t *object, bool is_line, struct ls_err *err)
{
    struct reading r = { .req = req, .rules = rules, .best_of = -1 };
    set_defaults(req, rules->defaults, is_line);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (is_line_key(key, is_line))
            continue;
        const struct field *f = find_field(key);
        if (!f)
            return ls_request_refuse(req, "unknown_field", err, "unknown field '%.64s'", key);
        ls_status status = json_is_null(value) ? LS_OK : f->read(&r, f, value, err);
        if (status)
            return status;
    }
    if (r.best_of >= 0 && r.best_of != req->n)
        return ls_request_refuse(req, "invalid_value", err,
                                 "best_of is %" PRId32 ", expected the value of n, %" PRId32,
                                 r.best_of, req->n);
    return LS_OK;
}
