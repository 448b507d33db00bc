/* Lines of lm-evaluation-harness and texts to be scored.
 *
 *   {"request_type": "loglikelihood", "context": text, "continuation": text}
 *   {"request_type": "loglikelihood_rolling", "text": text}
 *   {"request_type": "generate_until", "context": text, "gen_kwargs": {...}}
 * or, as the harness keeps them, "arguments": [first, second]. context and continuation may
 * both be lists of ids. Beside them: logprobs, add_bos_token, prefix_token_id, model, and what
 * the harness says about an instance.
 *
 * Without request_type, {"context", "continuation"} is a log-likelihood and {"text"} a
 * document: encoded without special tokens, behind the prefix token, in windows of the run's
 * stride. */
#include "jobs/harness_line.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_GEN_TOKS = 256 }; /* the harness's own, for lines that do not say */

bool ls_request_is_harness(const json_t *line)
{
    return json_object_get(line, "request_type") || json_object_get(line, "continuation") ||
           json_is_string(json_object_get(line, "text"));
}

ls_status ls_harness_refuse(const struct ls_harness_line *h, const char *name,
                            const json_t *value, const char *expected, struct ls_err *err)
{
    char shown[64];
    return ls_request_refuse(h->req, "invalid_value", err, "%s is %s, expected %s", name,
                             ls_json_shown(value, shown), expected);
}

/* --- generation ------------------------------------------------------------------------------
 */

static ls_status add_stops(const struct ls_harness_line *h, json_t *body, const json_t *until,
                           struct ls_err *err)
{
    json_t *list = json_array();
    const bool one = json_is_string(until);
    for (size_t i = 0; i < (one ? 1 : json_array_size(until)); i++) {
        json_t *item = one ? (json_t *)(uintptr_t)until : json_array_get(until, i);
        if (!json_is_string(item) || json_string_length(item))
            json_array_append(list, item);
    }
    if (json_object_set_new(body, "stop", list))
        return ls_fail(err, LS_E_MEMORY, "out of memory for stop texts");
    return one || !until || json_is_null(until) || json_is_array(until)
               ? LS_OK
               : ls_harness_refuse(h, "until", until, "a text or a list of texts", err);
}

/* The first of the harness's names for the limit that is there. */
static const json_t *limit_of(const json_t *kwargs)
{
    static const char *const names[] = { "max_gen_toks", "max_new_tokens", "max_tokens",
                                         "max_completion_tokens" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(kwargs, names[i]);
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}

static bool is_of_harness(const char *key)
{
    static const char *const names[] = {
        "until",          "do_sample",  "temperature",          "max_gen_toks",
        "max_new_tokens", "max_tokens", "max_completion_tokens"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(key, names[i]))
            return true;
    return false;
}

/* gen_kwargs as the fields of a completion: greedy unless it is to sample. */
static ls_status body_of(const struct ls_harness_line *h, json_t *body, struct ls_err *err)
{
    json_t *kwargs = (json_t *)(uintptr_t)h->second, *value;
    const char *key;
    const json_t *sample = json_object_get(kwargs, "do_sample"), *limit = limit_of(kwargs);
    json_t *temperature = json_object_get(kwargs, "temperature");
    if (kwargs && !json_is_object(kwargs))
        return ls_harness_refuse(h, "gen_kwargs", kwargs, "an object", err);
    json_object_foreach(kwargs, key, value)
    {
        if (!is_of_harness(key) &&
            !(!strcmp(key, "num_beams") && json_integer_value(value) == 1))
            json_object_set(body, key, value);
    }
    if (!temperature || json_is_null(temperature) || json_is_false(sample))
        json_object_set_new(body, "temperature", json_integer(0));
    else
        json_object_set(body, "temperature", temperature);
    json_object_set_new(body, "max_tokens",
                        limit ? json_deep_copy(limit) : json_integer(MAX_GEN_TOKS));
    return add_stops(h, body, json_object_get(kwargs, "until"), err);
}

/* A stop text that spells a special token never shows up in the text: the token itself stops.
 */
static ls_status stop_at_special(const struct ls_harness_line *h, struct ls_err *err)
{
    void *memory;
    struct ls_request *req = h->req;
    ls_status status = ls_request_take(req, &memory, req->stops.n, sizeof(int32_t), err);
    if (status)
        return status;
    int32_t *ids = memory;
    for (size_t i = 0; i < req->stops.n; i++) {
        const struct ls_stop *stop = &req->stops.items[i];
        const int32_t id = ls_tokenizer_id_of(h->rules->tokenizer, stop->text, stop->n);
        if (id >= 0 && ls_tokenizer_is_special(h->rules->tokenizer, id))
            ids[req->n_stop_ids++] = id;
    }
    req->stop_ids = ids;
    return LS_OK;
}

static ls_status read_generate(const struct ls_harness_line *h, struct ls_err *err)
{
    struct ls_request *req = h->req;
    struct ls_ids ids = { 0 };
    if (!json_is_string(h->first))
        return ls_harness_refuse(h, "context", h->first, "a text", err);
    const int64_t room = (int64_t)h->rules->context - req->max_tokens;
    if (room < 1)
        return ls_request_refuse(req, "context_length_exceeded", err,
                                 "max_gen_toks is %" PRId32 ", expected less than the context "
                                 "of %" PRId32 " tokens",
                                 req->max_tokens, h->rules->context);
    req->text_alone = true;
    const int32_t bos = h->rules->tokenizer ? ls_tokenizer_bos(h->rules->tokenizer) : -1;
    ls_status status = ls_harness_encode(h, bos, json_string_value(h->first),
                                         json_string_length(h->first), &ids, err);
    if (!status && !ids.n)
        status = ls_harness_prefix(h, &ids, err);
    if (!status && req->stops.n)
        status = stop_at_special(h, err);
    if (!status)
        status = ls_harness_prompts(h, 1, err);
    const size_t n_dropped = ids.n > (size_t)room ? ids.n - (size_t)room : 0;
    req->truncated = n_dropped > 0;
    if (!status)
        status =
            ls_request_add_ids(req, h->rules, ids.data + n_dropped, ids.n - n_dropped, 0, err);
    ls_ids_finish(&ids);
    return status;
}

/* --- a line ----------------------------------------------------------------------------------
 */

static ls_status read_kind(struct ls_harness_line *h, const json_t *line, struct ls_err *err)
{
    const json_t *type = json_object_get(line, "request_type");
    const char *name = json_string_value(type);
    h->is_document = !type && json_object_get(line, "text");
    if (!type)
        h->req->kind = h->is_document ? LS_KIND_ROLLING : LS_KIND_LOGLIKELIHOOD;
    else if (name && !strcmp(name, "loglikelihood"))
        h->req->kind = LS_KIND_LOGLIKELIHOOD;
    else if (name && !strcmp(name, "loglikelihood_rolling"))
        h->req->kind = LS_KIND_ROLLING;
    else if (name && !strcmp(name, "generate_until"))
        h->req->kind = LS_KIND_GENERATE;
    else
        return ls_harness_refuse(h, "request_type", type,
                                 "loglikelihood, loglikelihood_rolling or generate_until", err);
    return LS_OK;
}

/* The two arguments, named or as the harness keeps and logs them. */
static ls_status find_arguments(struct ls_harness_line *h, const json_t *line,
                                struct ls_err *err)
{
    const json_t *list = json_object_get(line, "arguments");
    const json_t *logged = json_object_get(list, "gen_args_0");
    const bool rolling = h->req->kind == LS_KIND_ROLLING;
    if (!list) {
        h->first = json_object_get(line, rolling ? "text" : "context");
        h->second = json_object_get(line, h->req->kind == LS_KIND_GENERATE ? "gen_kwargs"
                                                                           : "continuation");
        return LS_OK;
    }
    logged = logged ? logged : list;
    h->first =
        json_is_object(logged) ? json_object_get(logged, "arg_0") : json_array_get(list, 0);
    h->second =
        json_is_object(logged) ? json_object_get(logged, "arg_1") : json_array_get(list, 1);
    if (h->first && json_array_size(list) <= (rolling ? 1 : 2))
        return LS_OK;
    return ls_harness_refuse(h, "arguments", list,
                             rolling ? "a list of one text" : "a list of two", err);
}

static ls_status check_names(const struct ls_harness_line *h, const json_t *line,
                             struct ls_err *err)
{
    static const char *const known[] = {
        "request_type", "arguments", "context",   "continuation",    "text",    "gen_kwargs",
        "logprobs",     "model",     "custom_id", "add_bos_token",   "id",      "doc_id",
        "doc",          "idx",       "task_name", "prefix_token_id", "repeats", "metadata"
    };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)line, key, value)
    {
        bool is = false;
        for (size_t i = 0; !is && i < sizeof known / sizeof known[0]; i++)
            is = !strcmp(key, known[i]);
        if (!is)
            return ls_request_refuse(h->req, "unknown_field", err, "unknown field '%.64s'",
                                     key);
    }
    return LS_OK;
}

static ls_status read_bos(struct ls_harness_line *h, const json_t *line, struct ls_err *err)
{
    const json_t *bos = json_object_get(line, "add_bos_token");
    const json_t *prefix = json_object_get(line, "prefix_token_id");
    if (bos && !json_is_null(bos) && !json_is_boolean(bos))
        return ls_harness_refuse(h, "add_bos_token", bos, "true or false", err);
    if (json_is_boolean(bos))
        h->bos = json_is_true(bos);
    if (!prefix || json_is_null(prefix))
        return LS_OK;
    const json_int_t id = json_is_integer(prefix) ? json_integer_value(prefix) : -1;
    if (id < 0 || id >= h->rules->vocab)
        return ls_harness_refuse(h, "prefix_token_id", prefix, "a token id of the vocabulary",
                                 err);
    h->prefix = (int32_t)id;
    return LS_OK;
}

/* The fields that every request has, through the one table of them. */
static ls_status read_fields(struct ls_harness_line *h, const json_t *line, struct ls_err *err)
{
    json_t *body = json_object();
    if (!body)
        return ls_fail(err, LS_E_MEMORY, "out of memory for a request's fields");
    ls_status status = LS_OK;
    if (h->req->kind == LS_KIND_GENERATE)
        status = body_of(h, body, err);
    else
        json_object_set_new(body, "max_tokens", json_integer(0));
    for (int i = 0; i < 2; i++) {
        json_t *value = json_object_get(line, i ? "model" : "logprobs");
        if (value)
            json_object_set(body, i ? "model" : "logprobs", value);
    }
    if (!status)
        status = ls_request_read_fields(h->req, h->rules, body, true, err);
    if (!status && h->is_document && h->rules->listed && h->req->logprobs < 0)
        h->req->logprobs = 0;
    json_decref(body);
    return status;
}

ls_status ls_request_read_harness(struct ls_request *req, const struct ls_request_rules *rules,
                                  const json_t *line, struct ls_err *err)
{
    struct ls_harness_line h = {
        .req = req, .rules = rules, .prefix = rules->prefix, .bos = -1
    };
    ls_status status = read_kind(&h, line, err);
    if (!status)
        status = check_names(&h, line, err);
    if (!status)
        status = find_arguments(&h, line, err);
    if (!status)
        status = read_bos(&h, line, err);
    if (!status)
        status = read_fields(&h, line, err);
    if (status)
        return status;
    if (req->kind == LS_KIND_GENERATE)
        return read_generate(&h, err);
    if (req->kind == LS_KIND_LOGLIKELIHOOD)
        return ls_harness_pair(&h, err);
    if (!json_is_string(h.first))
        return ls_harness_refuse(&h, "text", h.first, "a text", err);
    return ls_harness_text(&h, json_string_value(h.first), json_string_length(h.first), err);
}

ls_status ls_request_read_document(struct ls_request *req, const struct ls_request_rules *rules,
                                   const char *text, size_t n, struct ls_err *err)
{
    struct ls_harness_line h = {
        .req = req, .rules = rules, .prefix = rules->prefix, .bos = -1, .is_document = true
    };
    req->kind = LS_KIND_ROLLING;
    ls_status status = read_fields(&h, NULL, err);
    return status ? status : ls_harness_text(&h, text, n, err);
}
