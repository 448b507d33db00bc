#include "jobs/request_parts.h"

#include <stdlib.h>
#include <string.h>

/* --- messages --------------------------------------------------------------------------------
 */

static ls_status refuse_part(struct ls_request *req, size_t m, size_t p, const json_t *part,
                             struct ls_err *err)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type && strcmp(type, "text"))
        return ls_request_refuse(req, "unsupported_field", err,
                                 "messages[%zu].content[%zu]: parts of type %.40s are not "
                                 "supported",
                                 m, p, type);
    return ls_request_refuse(req, "invalid_messages", err,
                             "messages[%zu].content[%zu] is not {\"type\": \"text\", "
                             "\"text\": ...}",
                             m, p);
}

static bool is_text_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type && !strcmp(type, "text") && json_is_string(json_object_get(part, "text"));
}

static ls_status check_content(struct ls_request *req, size_t m, const json_t *content,
                               struct ls_err *err)
{
    char shown[64];
    if (json_is_string(content))
        return LS_OK;
    if (!json_is_array(content) || !json_array_size(content))
        return ls_request_refuse(req, "invalid_messages", err,
                                 "messages[%zu].content is %s, expected a text or a list of "
                                 "text parts",
                                 m, ls_json_shown(content, shown));
    for (size_t p = 0; p < json_array_size(content); p++)
        if (!is_text_part(json_array_get(content, p)))
            return refuse_part(req, m, p, json_array_get(content, p), err);
    return LS_OK;
}

/* Tool use and sounds would change what is rendered. Empty ones are as if absent. */
static ls_status check_keys(struct ls_request *req, size_t m, const json_t *message,
                            struct ls_err *err)
{
    static const char *const refused[] = { "tool_calls", "tool_call_id", "function_call",
                                           "audio", "refusal" };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const json_t *value = json_object_get(message, refused[i]);
        const bool empty =
            !value || json_is_null(value) || (json_is_array(value) && !json_array_size(value));
        if (!empty)
            return ls_request_refuse(req, "unsupported_field", err,
                                     "messages[%zu].%s is not supported", m, refused[i]);
    }
    return LS_OK;
}

static ls_status check_message(struct ls_request *req, size_t m, const json_t *message,
                               struct ls_err *err)
{
    char shown[64];
    const json_t *role = json_object_get(message, "role");
    const char *name = json_string_value(role);
    if (!json_is_object(message))
        return ls_request_refuse(req, "invalid_messages", err,
                                 "messages[%zu] is %s, expected an object", m,
                                 ls_json_shown(message, shown));
    if (!name || !name[0])
        return ls_request_refuse(req, "invalid_messages", err,
                                 "messages[%zu].role is %s, expected system, user or "
                                 "assistant",
                                 m, ls_json_shown(role, shown));
    if (!strcmp(name, "tool") || !strcmp(name, "function"))
        return ls_request_refuse(req, "unsupported_field", err,
                                 "messages[%zu].role %s is not supported", m, name);
    ls_status status = check_keys(req, m, message, err);
    return status ? status : check_content(req, m, json_object_get(message, "content"), err);
}

static ls_status check_messages(struct ls_request *req, const json_t *messages,
                                struct ls_err *err)
{
    char shown[64];
    ls_status status = LS_OK;
    if (!json_is_array(messages) || !json_array_size(messages))
        return ls_request_refuse(req, "invalid_messages", err,
                                 "messages is %s, expected a list that is not empty",
                                 ls_json_shown(messages, shown));
    for (size_t m = 0; !status && m < json_array_size(messages); m++)
        status = check_message(req, m, json_array_get(messages, m), err);
    return status;
}

/* --- rendering -------------------------------------------------------------------------------
 */

/* The renderer's request; NULL when memory is exhausted. The caller frees it. */
static char *request_text(const json_t *messages, bool prompt, json_t *variables)
{
    json_t *request =
        json_pack("{s:O, s:b, s:o}", "messages", (json_t *)(uintptr_t)messages,
                  "add_generation_prompt", prompt, "variables", json_deep_copy(variables));
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return text;
}

/* Whether the answer is to be opened, and what else the template is told. */
static ls_status read_options(struct ls_request *req, const json_t *body, bool *prompt,
                              json_t **variables, struct ls_err *err)
{
    char shown[64];
    const json_t *flag = json_object_get(body, "add_generation_prompt");
    json_t *named = json_object_get(body, "chat_template_kwargs");
    *prompt = !json_is_false(flag);
    if (flag && !json_is_null(flag) && !json_is_boolean(flag))
        return ls_request_refuse(req, "invalid_value", err,
                                 "add_generation_prompt is %s, expected true or false",
                                 ls_json_shown(flag, shown));
    if (named && !json_is_null(named) && !json_is_object(named))
        return ls_request_refuse(req, "invalid_value", err,
                                 "chat_template_kwargs is %s, expected an object",
                                 ls_json_shown(named, shown));
    *variables = json_is_object(named) ? json_incref(named) : json_object();
    return *variables ? LS_OK
                      : ls_fail(err, LS_E_MEMORY, "out of memory for a chat's variables");
}

static ls_status render(struct ls_request *req, const struct ls_chat *chat, const json_t *body,
                        struct ls_bytes *text, struct ls_err *err)
{
    bool prompt;
    json_t *variables = NULL;
    ls_status status = read_options(req, body, &prompt, &variables, err);
    if (status)
        return status;
    char *request = request_text(json_object_get(body, "messages"), prompt, variables);
    json_decref(variables);
    if (!request)
        return ls_fail(err, LS_E_MEMORY, "out of memory for a chat");
    status = chat->render(chat->arg, request, strlen(request), text, err);
    free(request);
    if (status == LS_E_REQUEST)
        req->code = "chat_template_error";
    if (status != LS_E_REFUSED)
        return status;
    /* this line's loss, not the run's: lines that need no template are still done */
    req->code = "chat_unavailable";
    if (err)
        err->status = LS_E_REQUEST;
    return LS_E_REQUEST;
}

ls_status ls_request_render(struct ls_request *req, const struct ls_chat *chat,
                            const json_t *body, struct ls_bytes *text, struct ls_err *err)
{
    ls_status status = check_messages(req, json_object_get(body, "messages"), err);
    if (!status && !chat)
        status =
            ls_request_refuse(req, "chat_unavailable", err, "chats cannot be rendered here");
    return status ? status : render(req, chat, body, text, err);
}

/* What `lockstep render` left in the body: a text, or why there is none. */
static ls_status take_rendered(struct ls_request *req, const json_t *body, bool *done,
                               struct ls_bytes *text, struct ls_err *err)
{
    char shown[64];
    const json_t *rendered = json_object_get(body, "rendered_prompt");
    const json_t *error = json_object_get(body, "rendered_error");
    *done = json_is_string(rendered);
    if (*done)
        return ls_bytes_append(text, json_string_value(rendered), json_string_length(rendered),
                               err);
    if (json_is_string(error))
        return ls_request_refuse(req, "chat_template_error", err, "%s",
                                 json_string_value(error));
    if (rendered && !json_is_null(rendered))
        return ls_request_refuse(req, "invalid_value", err,
                                 "rendered_prompt is %s, expected a text",
                                 ls_json_shown(rendered, shown));
    return LS_OK;
}

ls_status ls_request_read_chat(struct ls_request *req, const struct ls_request_rules *rules,
                               const json_t *body, bool is_line, struct ls_err *err)
{
    struct ls_bytes text = { 0 };
    bool rendered = false;
    req->kind = LS_KIND_CHAT;
    ls_status status = ls_request_read_fields(req, rules, body, is_line, err);
    req->add_special = false; /* the template spells them */
    if (!status)
        status = take_rendered(req, body, &rendered, &text, err);
    if (!status && !rendered)
        status = ls_request_render(req, rules->chat, body, &text, err);
    if (!status)
        status = ls_request_read_text(req, rules, (const char *)text.data, text.n, err);
    ls_bytes_finish(&text);
    return status;
}
