#include "jobs/harness_line.h"
#include "jobs/windows.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_WINDOWS = 65536 };

/* --- tokens ----------------------------------------------------------------------------------
 */

static ls_status encode(const struct ls_harness_line *h, const char *text, size_t n,
                        bool add_special, struct ls_ids *ids, struct ls_err *err)
{
    const struct ls_tokenizer *tokenizer = h->rules->tokenizer;
    if (!tokenizer)
        return ls_request_refuse(h->req, "no_tokenizer", err,
                                 "a text needs a tokenizer, and the checkpoint has none");
    ls_status status = ls_tokenizer_encode(tokenizer, text, n, add_special, ids, err);
    if (status == LS_E_REQUEST)
        h->req->code = "invalid_text";
    return status;
}

/* Whether the text spells that token at its beginning. */
static ls_status begins_with(const struct ls_harness_line *h, int32_t token, const char *text,
                             size_t n, bool *yes, struct ls_err *err)
{
    struct ls_bytes spelled = { 0 };
    ls_status status =
        h->rules->tokenizer && token >= 0
            ? ls_tokenizer_decode(h->rules->tokenizer, &token, 1, false, &spelled, err)
            : LS_OK;
    *yes = !status && spelled.n && spelled.n <= n && !memcmp(text, spelled.data, spelled.n);
    ls_bytes_finish(&spelled);
    return status;
}

ls_status ls_harness_encode(const struct ls_harness_line *h, int32_t bos, const char *text,
                            size_t n, struct ls_ids *ids, struct ls_err *err)
{
    bool spelled;
    ls_status status = begins_with(h, bos, text, n, &spelled, err);
    return status ? status : encode(h, text, n, !spelled && h->bos != 0, ids, err);
}

static ls_status need_prefix(const struct ls_harness_line *h, struct ls_err *err)
{
    if (h->prefix >= 0)
        return LS_OK;
    return ls_request_refuse(h->req, "no_prefix_token", err,
                             "nothing to score the first token by: the checkpoint names no BOS "
                             "or EOS token, and the request no prefix_token_id");
}

ls_status ls_harness_prefix(const struct ls_harness_line *h, struct ls_ids *ids,
                            struct ls_err *err)
{
    ls_status status = need_prefix(h, err);
    return status ? status : ls_ids_push(ids, h->prefix, err);
}

/* The request's own copy of a stream; every id is checked. */
static ls_status keep_stream(const struct ls_harness_line *h, const struct ls_ids *ids,
                             const int32_t **stream, struct ls_err *err)
{
    void *copy;
    for (size_t i = 0; i < ids->n; i++)
        if (ids->data[i] < 0 || ids->data[i] >= h->rules->vocab)
            return ls_request_refuse(h->req, "token_out_of_range", err,
                                     "token %zu is %" PRId32 ", expected an id below %" PRId32,
                                     i, ids->data[i], h->rules->vocab);
    ls_status status = ls_request_take(h->req, &copy, ids->n, sizeof(int32_t), err);
    if (status)
        return status;
    memcpy(copy, ids->data, ids->n * sizeof(int32_t));
    *stream = copy;
    return LS_OK;
}

ls_status ls_harness_prompts(const struct ls_harness_line *h, size_t n, struct ls_err *err)
{
    void *memory;
    ls_status status = ls_request_take(h->req, &memory, n, sizeof(struct ls_prompt), err);
    if (!status)
        h->req->prompts = memory;
    return status;
}

static void add_window(struct ls_request *req, const int32_t *stream,
                       const struct ls_window *window)
{
    req->prompts[req->n_prompts++] = (struct ls_prompt){ .tokens = stream + window->first,
                                                         .n = window->n,
                                                         .n_scored = window->n_scored };
}

/* --- log-likelihood --------------------------------------------------------------------------
 */

/* ids: context and continuation, which begins at n_context. */
static ls_status score_pair(const struct ls_harness_line *h, struct ls_ids *ids,
                            size_t n_context, struct ls_err *err)
{
    const int32_t *stream;
    size_t n_dropped;
    const size_t n_scored = ids->n > n_context ? ids->n - n_context : 0;
    if (!n_scored)
        return ls_request_refuse(h->req, "empty_continuation", err,
                                 "the continuation adds no token to the context");
    if (n_scored > (size_t)h->rules->context)
        return ls_request_refuse(h->req, "context_length_exceeded", err,
                                 "a continuation of %zu tokens is longer than the context of "
                                 "%" PRId32 " tokens",
                                 n_scored, h->rules->context);
    ls_status status = keep_stream(h, ids, &stream, err);
    if (!status)
        status = ls_harness_prompts(h, 1, err);
    if (status)
        return status;
    const struct ls_window window =
        ls_window_of(ids->n, (uint32_t)n_scored, (uint32_t)h->rules->context, &n_dropped);
    h->req->truncated = n_dropped > 0;
    add_window(h->req, stream, &window);
    return LS_OK;
}

static ls_status append_ids(const struct ls_harness_line *h, const json_t *list,
                            const char *name, struct ls_ids *ids, struct ls_err *err)
{
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= h->rules->vocab)
            return ls_harness_refuse(h, name, item, "token ids of the vocabulary", err);
        status = ls_ids_push(ids, (int32_t)id, err);
    }
    return status;
}

static ls_status pair_of_ids(const struct ls_harness_line *h, struct ls_ids *ids,
                             struct ls_err *err)
{
    ls_status status = LS_OK;
    if (!json_array_size(h->first))
        status = ls_harness_prefix(h, ids, err);
    if (!status)
        status = append_ids(h, h->first, "context", ids, err);
    const size_t n_context = ids->n;
    if (!status)
        status = append_ids(h, h->second, "continuation", ids, err);
    return status ? status : score_pair(h, ids, n_context, err);
}

/* Without a context the prefix stands for it, unless the continuation begins with that token.
 */
static ls_status lone_continuation(const struct ls_harness_line *h, struct ls_ids *ids,
                                   const char *text, size_t n, struct ls_err *err)
{
    ls_status status = ls_harness_prefix(h, ids, err);
    if (!status)
        status = encode(h, text, n, false, ids, err);
    if (status)
        return status;
    if (ids->n < 2 || ids->data[1] != h->prefix)
        return score_pair(h, ids, 1, err);
    memmove(ids->data, ids->data + 1, (ids->n - 1) * sizeof *ids->data);
    ids->n--;
    return score_pair(h, ids, 1, err);
}

/* whole [n]: context and continuation. The context is encoded by itself; the continuation is
 * what the whole has behind as many tokens, also where the border merges two of them. */
static ls_status split_whole(const struct ls_harness_line *h, struct ls_ids *ids,
                             const char *whole, size_t n, size_t n_context_text,
                             struct ls_err *err)
{
    struct ls_ids both = { 0 };
    ls_status status = ls_harness_encode(h, h->prefix, whole, n_context_text, ids, err);
    const size_t n_context = ids->n;
    if (!status && !n_context)
        status = ls_harness_prefix(h, ids, err);
    if (!status)
        status = ls_harness_encode(h, h->prefix, whole, n, &both, err);
    if (!status && both.n > n_context)
        status = ls_ids_append(ids, both.data + n_context, both.n - n_context, err);
    ls_ids_finish(&both);
    return status ? status : score_pair(h, ids, n_context ? n_context : 1, err);
}

static ls_status keep_scored(const struct ls_harness_line *h, const char *text, size_t n,
                             struct ls_err *err)
{
    void *copy;
    ls_status status = ls_request_take(h->req, &copy, n, 1, err);
    if (status)
        return status;
    memcpy(copy, text, n);
    h->req->scored = copy;
    h->req->n_scored_text = n;
    return LS_OK;
}

static ls_status pair_of_texts(const struct ls_harness_line *h, struct ls_ids *ids,
                               struct ls_err *err)
{
    const size_t n_first = json_string_length(h->first);
    const size_t n_second = json_string_length(h->second);
    const char *first = json_string_value(h->first), *second = json_string_value(h->second);
    struct ls_bytes whole = { 0 };
    ls_status status = keep_scored(h, second, n_second, err);
    if (!status && !n_first)
        return lone_continuation(h, ids, second, n_second, err);
    if (!status)
        status = ls_bytes_append(&whole, first, n_first, err);
    if (!status)
        status = ls_bytes_append(&whole, second, n_second, err);
    if (!status)
        status = split_whole(h, ids, (const char *)whole.data, whole.n,
                             n_first - ls_trailing_space(first, n_first), err);
    ls_bytes_finish(&whole);
    return status;
}

ls_status ls_harness_pair(const struct ls_harness_line *h, struct ls_err *err)
{
    struct ls_ids ids = { 0 };
    ls_status status;
    if (json_is_array(h->first) && json_is_array(h->second))
        status = pair_of_ids(h, &ids, err);
    else if (!json_is_string(h->first))
        status = ls_harness_refuse(h, "context", h->first, "a text", err);
    else if (!json_is_string(h->second))
        status = ls_harness_refuse(h, "continuation", h->second, "a text", err);
    else
        status = pair_of_texts(h, &ids, err);
    ls_ids_finish(&ids);
    return status;
}

/* --- a whole text ----------------------------------------------------------------------------
 */

static ls_status score_stream(const struct ls_harness_line *h, const struct ls_ids *ids,
                              uint32_t stride, struct ls_err *err)
{
    const int32_t *stream;
    struct ls_window window;
    struct ls_windows windows = { .n_stream = ids->n,
                                  .length = (uint32_t)h->rules->context,
                                  .stride = stride };
    const uint64_t n = ls_windows_count(&windows);
    if (!n)
        return ls_request_refuse(h->req, "empty_text", err, "the text has no token to score");
    if (n > MAX_WINDOWS)
        return ls_request_refuse(h->req, "too_many_windows", err,
                                 "%zu tokens need %" PRIu64 " windows, expected at most %d: "
                                 "a larger stride or context, or a shorter text",
                                 ids->n, n, MAX_WINDOWS);
    ls_status status = keep_stream(h, ids, &stream, err);
    if (!status)
        status = ls_harness_prompts(h, n, err);
    while (!status && ls_windows_next(&windows, &window))
        add_window(h->req, stream, &window);
    return status;
}

ls_status ls_harness_text(const struct ls_harness_line *h, const char *text, size_t n,
                          struct ls_err *err)
{
    struct ls_ids ids = { 0 };
    const bool bare = h->is_document && h->rules->no_prefix;
    uint32_t stride = (uint32_t)h->rules->context;
    if (h->is_document && h->rules->stride > 0 && h->rules->stride < h->rules->context)
        stride = (uint32_t)h->rules->stride;
    h->req->n_bytes = n;
    ls_status status = bare ? LS_OK : ls_harness_prefix(h, &ids, err);
    if (!status && h->is_document)
        status = encode(h, text, n, false, &ids, err);
    else if (!status)
        status = ls_harness_encode(h, h->prefix, text, n, &ids, err);
    if (!status)
        status = score_stream(h, &ids, stride, err);
    ls_ids_finish(&ids);
    return status;
}
