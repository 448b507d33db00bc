#include "jobs/request_parts.h"

#include "base/mutant.h"
#include "text/buffer.h"

#include <inttypes.h>
#include <string.h>

static ls_status start_prompts(struct ls_request *req, size_t n, struct ls_err *err)
{
    void *memory;
    if (n > LS_MAX_PROMPTS || n * (size_t)req->n > LS_MAX_CHOICES)
        return ls_request_refuse(req, "too_many_prompts", err,
                                 "%zu prompts of %" PRId32 " choices, expected at most %d "
                                 "prompts and %d choices in all",
                                 n, req->n, LS_MAX_PROMPTS, LS_MAX_CHOICES);
    ls_status status = ls_request_take(req, &memory, n, sizeof(struct ls_prompt), err);
    if (status)
        return status;
    req->prompts = memory;
    return LS_OK;
}

/* The last token is never fed back, so its position need not exist. */
static ls_status check_prompt(struct ls_request *req, const struct ls_request_rules *rules,
                              size_t n, struct ls_err *err)
{
    if (!n)
        return ls_request_refuse(req, "empty_prompt", err, "prompt %" PRIu32 " has no tokens",
                                 req->n_prompts);
    const int64_t last = (int64_t)n + (req->max_tokens ? req->max_tokens - 1 : 0);
    if (n <= (size_t)rules->context && last <= rules->context)
        return LS_OK;
    return ls_request_refuse(req, "context_length_exceeded", err,
                             "a prompt of %zu tokens and max_tokens %" PRId32
                             " do not fit the context of %" PRId32 " tokens",
                             n, req->max_tokens, rules->context);
}

/* A chat that names no limit goes on to its end: the last token needs no position. */
static int32_t what_is_left(const struct ls_request_rules *rules, size_t n_prompt)
{
    return n_prompt <= (size_t)rules->context ? rules->context - (int32_t)n_prompt + 1 : 1;
}

/* Ids beyond the embedding: a tokenizer may know more tokens than the model. */
static ls_status check_ids(struct ls_request *req, const struct ls_request_rules *rules,
                           const int32_t *ids, size_t n, struct ls_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= rules->vocab)
            return ls_request_refuse(req, "token_out_of_range", err,
                                     "token %zu of prompt %" PRIu32 " is %" PRId32
                                     ", expected an id below %" PRId32,
                                     i, req->n_prompts, ids[i], rules->vocab);
    return LS_OK;
}

static ls_status encode(struct ls_request *req, const struct ls_request_rules *rules,
                        struct ls_prompt *p, struct ls_ids *ids, struct ls_err *err)
{
    void *tokens;
    ls_status status =
        ls_tokenizer_encode(rules->tokenizer, p->text, p->n_text, req->add_special, ids, err);
    if (status == LS_E_REQUEST)
        req->code = "invalid_text";
    if (!status && req->kind == LS_KIND_CHAT && !req->given_max)
        req->max_tokens = what_is_left(rules, ids->n);
    if (!status)
        status = check_prompt(req, rules, ids->n, err);
    if (!status)
        status = check_ids(req, rules, ids->data, ids->n, err);
    if (!status)
        status = ls_request_take(req, &tokens, ids->n, sizeof(int32_t), err);
    if (status)
        return status;
    memcpy(tokens, ids->data, ids->n * sizeof(int32_t));
    p->tokens = tokens;
    p->n = (uint32_t)ids->n;
    return LS_OK;
}

static ls_status add_text(struct ls_request *req, const struct ls_request_rules *rules,
                          const char *text, size_t n, struct ls_err *err)
{
    void *copy;
    struct ls_ids ids = { 0 };
    if (!rules->tokenizer)
        return ls_request_refuse(req, "no_tokenizer", err,
                                 "a prompt of text needs a tokenizer, and the checkpoint has "
                                 "none");
    ls_status status = ls_request_take(req, &copy, n, 1, err);
    if (status)
        return status;
    memcpy(copy, text, n);
    struct ls_prompt *p = &req->prompts[req->n_prompts];
    *p = (struct ls_prompt){ .text = copy, .n_text = n };
    status = encode(req, rules, p, &ids, err);
    ls_ids_finish(&ids);
    req->n_prompts += !status;
    return status;
}

static ls_status add_ids(struct ls_request *req, const struct ls_request_rules *rules,
                         const json_t *list, const char *name, struct ls_err *err)
{
    const size_t n = json_array_size(list);
    char shown[64];
    void *memory;
    ls_status status = check_prompt(req, rules, n, err);
    if (!status)
        status = ls_request_take(req, &memory, n, sizeof(int32_t), err);
    if (status)
        return status;
    int32_t *ids = memory;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        int64_t id;
        if (!ls_json_integer(item, &id) || id < 0 || id >= rules->vocab)
            return ls_request_refuse(req, "token_out_of_range", err,
                                     "item %zu of %s is %s, expected a token id below %" PRId32,
                                     i, name, ls_json_shown(item, shown), rules->vocab);
        ids[i] = (int32_t)id;
    }
    req->prompts[req->n_prompts++] = (struct ls_prompt){ .tokens = ids, .n = (uint32_t)n };
    return LS_OK;
}

ls_status ls_request_add_ids(struct ls_request *req, const struct ls_request_rules *rules,
                             const int32_t *ids, size_t n, size_t n_scored, struct ls_err *err)
{
    void *copy;
    const size_t n_copy = n + (n_scored > 0);
    ls_status status = check_ids(req, rules, ids, n_copy, err);
    if (!status)
        status = ls_request_take(req, &copy, n_copy, sizeof(int32_t), err);
    if (status)
        return status;
    memcpy(copy, ids, n_copy * sizeof(int32_t));
    req->prompts[req->n_prompts++] =
        (struct ls_prompt){ .tokens = copy, .n = (uint32_t)n, .n_scored = (uint32_t)n_scored };
    return LS_OK;
}

static ls_status add_one(struct ls_request *req, const struct ls_request_rules *rules,
                         const json_t *value, const char *name, bool is_text,
                         struct ls_err *err)
{
    char shown[64];
    if (is_text ? !json_is_string(value) : !json_is_array(value))
        return ls_request_refuse(req, "invalid_prompt", err,
                                 "%s is a list with %s in it, expected texts only or lists of "
                                 "token ids only",
                                 name, ls_json_shown(value, shown));
    if (is_text)
        return add_text(req, rules, json_string_value(value), json_string_length(value), err);
    return add_ids(req, rules, value, name, err);
}

ls_status ls_request_read_text(struct ls_request *req, const struct ls_request_rules *rules,
                               const char *text, size_t n, struct ls_err *err)
{
    ls_status status = start_prompts(req, 1, err);
    return status ? status : add_text(req, rules, text, n, err);
}

ls_status ls_request_read_prompts(struct ls_request *req, const struct ls_request_rules *rules,
                                  const json_t *value, const char *name, struct ls_err *err)
{
    char shown[64];
    const bool texts = !strcmp(name, "prompt"); /* "tokens" takes ids only */
    const json_t *first = json_array_get(value, 0);
    const bool several = json_is_array(first) || (texts && json_is_string(first));
    const bool one = (texts && json_is_string(value)) || (json_is_array(value) && !several);
    if (!one && !several)
        return ls_request_refuse(req, "invalid_prompt", err, "%s is %s, expected %s", name,
                                 ls_json_shown(value, shown),
                                 texts ? "a text, a list of token ids, or a list of either"
                                       : "a list of token ids");
    const size_t n = several ? json_array_size(value) : 1;
    ls_status status = start_prompts(req, n, err);
    if (!status && json_is_string(value))
        return add_text(req, rules, json_string_value(value), json_string_length(value), err);
    if (!status && one)
        return add_ids(req, rules, value, name, err);
    for (size_t i = 0; !status && i < n; i++)
        status =
            add_one(req, rules, json_array_get(value, i), name, json_is_string(first), err);
    return status;
}
