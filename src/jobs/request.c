#include "jobs/request.h"

#include "base/size.h"
#include "jobs/json_line.h"
#include "jobs/request_parts.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

ls_status ls_request_refuse(struct ls_request *req, const char *code, struct ls_err *err,
                            const char *fmt, ...)
{
    char text[LS_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    req->code = code;
    return ls_fail(err, LS_E_REQUEST, "%s", text);
}

ls_status ls_request_take(struct ls_request *req, void **out, size_t n, size_t size,
                          struct ls_err *err)
{
    uint64_t bytes;
    *out = ls_mul_u64(n, size, &bytes) ? ls_arena_take(&req->arena, bytes) : NULL;
    if (*out)
        return LS_OK;
    return ls_fail(err, LS_E_MEMORY, "out of memory for the request of line %" PRIu64,
                   req->line);
}

static ls_status keep_id(struct ls_request *req, const char *text, size_t n, struct ls_err *err)
{
    void *id;
    ls_status status = ls_request_take(req, &id, n + 1, 1, err);
    if (status)
        return status;
    memcpy(id, text, n);
    req->custom_id = id;
    req->n_custom_id = n;
    return LS_OK;
}

static ls_status line_id(struct ls_request *req, struct ls_err *err)
{
    char text[32];
    int n = snprintf(text, sizeof text, "line-%" PRIu64, req->line);
    return keep_id(req, text, (size_t)n, err);
}

static ls_status read_id(struct ls_request *req, const json_t *value, const char *name,
                         struct ls_err *err)
{
    char shown[64];
    if (!json_is_string(value) || !json_string_length(value))
        return ls_request_refuse(req, "invalid_custom_id", err,
                                 "%s is %s, expected a text that is not empty", name,
                                 ls_json_shown(value, shown));
    /* it becomes a key of index.json, and there are readers of JSON that refuse such a key */
    if (memchr(json_string_value(value), 0, json_string_length(value)))
        return ls_request_refuse(req, "invalid_custom_id", err, "%s has a zero character",
                                 name);
    return keep_id(req, json_string_value(value), json_string_length(value), err);
}

/* --- an OpenAI batch line --------------------------------------------------------------------
 */

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           !memcmp(json_string_value(value), text, strlen(text));
}

static ls_status check_address(struct ls_request *req, const json_t *line, struct ls_err *err)
{
    char shown[64];
    const json_t *method = json_object_get(line, "method"), *url = json_object_get(line, "url");
    if (!is_text(method, "POST"))
        return ls_request_refuse(req, "invalid_method", err, "method is %s, expected \"POST\"",
                                 ls_json_shown(method, shown));
    if (is_text(url, "/v1/chat/completions"))
        req->kind = LS_KIND_CHAT;
    else if (!is_text(url, "/v1/completions"))
        return ls_request_refuse(req, "unknown_url", err,
                                 "url is %s, expected \"/v1/completions\" or "
                                 "\"/v1/chat/completions\"",
                                 ls_json_shown(url, shown));
    return LS_OK;
}

static ls_status check_batch_keys(struct ls_request *req, const json_t *line,
                                  struct ls_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(
        (json_t *)(uintptr_t)line, key,
        value) if (strcmp(key, "custom_id") && strcmp(key, "method") && strcmp(key, "url") &&
                   strcmp(key, "body")) return ls_request_refuse(req, "unknown_field", err,
                                                                 "unknown field '%.64s' beside "
                                                                 "custom_id, method, url and "
                                                                 "body",
                                                                 key);
    return LS_OK;
}

static ls_status read_batch(struct ls_request *req, const struct ls_request_rules *rules,
                            const json_t *line, struct ls_err *err)
{
    char shown[64];
    if (!req->custom_id)
        return ls_request_refuse(req, "missing_custom_id", err, "custom_id is missing");
    ls_status status = check_address(req, line, err);
    if (!status)
        status = check_batch_keys(req, line, err);
    if (status)
        return status;
    const json_t *body = json_object_get(line, "body");
    if (!json_is_object(body))
        return ls_request_refuse(req, "invalid_body", err, "body is %s, expected an object",
                                 ls_json_shown(body, shown));
    if (req->kind == LS_KIND_CHAT)
        return ls_request_read_chat(req, rules, body, false, err);
    const json_t *prompt = json_object_get(body, "prompt");
    status = ls_request_read_fields(req, rules, body, false, err);
    return status ? status : ls_request_read_prompts(req, rules, prompt, "prompt", err);
}

/* --- a plain object --------------------------------------------------------------------------
 */

static ls_status read_plain(struct ls_request *req, const struct ls_request_rules *rules,
                            const json_t *line, struct ls_err *err)
{
    const json_t *prompt = json_object_get(line, "prompt");
    const json_t *tokens = json_object_get(line, "tokens");
    if (ls_request_is_harness(line))
        return ls_request_read_harness(req, rules, line, err);
    if (json_object_get(line, "messages"))
        return ls_request_read_chat(req, rules, line, true, err);
    if (!prompt && !tokens)
        return ls_request_refuse(req, "invalid_request", err,
                                 "neither a batch line (custom_id, method, url, body) nor an "
                                 "object with prompt, tokens, messages or request_type");
    if (prompt && tokens)
        return ls_request_refuse(req, "invalid_request", err,
                                 "both prompt and tokens, expected one of them");
    ls_status status = ls_request_read_fields(req, rules, line, true, err);
    if (status)
        return status;
    return ls_request_read_prompts(req, rules, prompt ? prompt : tokens,
                                   prompt ? "prompt" : "tokens", err);
}

static ls_status read_object(struct ls_request *req, const struct ls_request_rules *rules,
                             const json_t *line, struct ls_err *err)
{
    const json_t *custom_id = json_object_get(line, "custom_id");
    const json_t *id = json_object_get(line, "id");
    const bool batch = json_object_get(line, "body") || json_object_get(line, "url") ||
                       json_object_get(line, "method");
    ls_status status = LS_OK;
    if (custom_id)
        status = read_id(req, custom_id, "custom_id", err);
    else if (id && !batch)
        status = read_id(req, id, "id", err);
    else if (!batch)
        status = line_id(req, err);
    if (!status && custom_id && id && !batch)
        status = ls_request_refuse(req, "invalid_custom_id", err,
                                   "both custom_id and id, expected one of them");
    if (status)
        return status;
    return batch ? read_batch(req, rules, line, err) : read_plain(req, rules, line, err);
}

static ls_status read_json(struct ls_request *req, const struct ls_request_rules *rules,
                           const struct ls_line *line, struct ls_err *err)
{
    json_error_t why;
    json_t *root = ls_json_line(line->data, line->n, &why);
    if (!root)
        return ls_request_refuse(req, "invalid_json", err, "broken JSON at byte %d: %s",
                                 why.position, why.text);
    ls_status status;
    if (json_is_object(root))
        status = read_object(req, rules, root, err);
    else
        status =
            ls_request_refuse(req, "invalid_request", err, "the line is not a JSON object");
    json_decref(root);
    return status;
}

/* --- a line ----------------------------------------------------------------------------------
 */

static bool is_blank(const char *data, size_t n, bool spaces_too)
{
    for (size_t i = 0; i < n; i++)
        if (!spaces_too || !strchr(" \t\r\n\v\f", data[i]) || !data[i])
            return false;
    return true;
}

static ls_status read_text(struct ls_request *req, const struct ls_request_rules *rules,
                           const struct ls_line *line, struct ls_err *err)
{
    ls_status status = line_id(req, err);
    if (status)
        return status;
    if (rules->scores)
        return ls_request_read_document(req, rules, line->data, line->n, err);
    if (memchr(line->data, 0, line->n))
        return ls_request_refuse(req, "invalid_text", err, "a zero byte in a line of text");
    status = ls_request_read_fields(req, rules, NULL, true, err);
    return status ? status : ls_request_read_text(req, rules, line->data, line->n, err);
}

ls_status ls_request_read(struct ls_request *req, enum ls_input_kind kind,
                          const struct ls_line *line, const struct ls_request_rules *rules,
                          struct ls_err *err)
{
    const bool is_document = kind == LS_INPUT_DOCUMENT;
    *req = (struct ls_request){ .line = line->number };
    ls_arena_init(&req->arena);
    crypto_generichash(req->digest, sizeof req->digest, (const unsigned char *)line->data,
                       line->n, NULL, 0);
    if (line->too_long)
        return ls_request_refuse(req, "line_too_long", err, "%s is longer than %d bytes",
                                 is_document ? "the text" : "the line",
                                 is_document ? LS_MAX_DOCUMENT : LS_MAX_LINE);
    if (is_blank(line->data, line->n, kind == LS_INPUT_JSON))
        return ls_request_refuse(req, "blank_line", err, "the line is blank");
    size_t bad = ls_utf8_check((const uint8_t *)line->data, line->n);
    if (bad < line->n)
        return ls_request_refuse(req, "invalid_utf8", err, "not UTF-8 at byte %zu", bad);
    return kind == LS_INPUT_JSON ? read_json(req, rules, line, err)
                                 : read_text(req, rules, line, err);
}

void ls_request_finish(struct ls_request *req)
{
    ls_arena_finish(&req->arena);
    *req = (struct ls_request){ 0 };
}

/* --- kind of an input ------------------------------------------------------------------------
 */

static bool is_request_object(const char *data, size_t n)
{
    json_t *root = ls_json_line(data, n, NULL);
    const bool is = json_object_get(root, "custom_id") || json_object_get(root, "body") ||
                    json_object_get(root, "prompt") || json_object_get(root, "tokens") ||
                    json_object_get(root, "messages") || ls_request_is_harness(root);
    json_decref(root);
    return is;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

enum ls_input_kind ls_input_kind(const char *name, const char *data, size_t n)
{
    bool first = true;
    for (size_t at = 0; at < n;) {
        const char *lf = memchr(data + at, '\n', n - at);
        const size_t length = lf ? (size_t)(lf - data) - at : n - at;
        size_t skip = 0;
        while (skip < length && strchr(" \t\r", data[at + skip]) && data[at + skip])
            skip++;
        const bool brace = skip < length && data[at + skip] == '{';
        if (brace && (first || is_request_object(data + at, length)))
            return LS_INPUT_JSON;
        first = first && skip == length;
        at += length + 1;
    }
    return ends_in(name, ".jsonl") || ends_in(name, ".ndjson") ? LS_INPUT_JSON : LS_INPUT_TEXT;
}
