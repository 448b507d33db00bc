#include "jobs/row_parts.h"

#include "base/le.h"

#include <string.h>

#include <sodium.h>

static uint32_t n_choices(const struct ls_request *req)
{
    return req->n_prompts * (uint32_t)req->n;
}

/* A quoted id: prefix and 24 hex digits of BLAKE2b-256 over prefix, custom_id, the line's
 * digest, and (of an error row) its number. */
static void add_id(struct ls_out *out, const char *prefix, const struct ls_request *req,
                   uint64_t line)
{
    unsigned char number[8], digest[32];
    ls_le_put(number, line, sizeof number);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    crypto_generichash_update(&state, (const unsigned char *)prefix, strlen(prefix) + 1);
    crypto_generichash_update(&state, req->digest, sizeof req->digest);
    crypto_generichash_update(&state, number, sizeof number);
    if (req->custom_id)
        crypto_generichash_update(&state, (const unsigned char *)req->custom_id,
                                  req->n_custom_id);
    crypto_generichash_final(&state, digest, sizeof digest);
    ls_out_text(out, "\"");
    ls_out_text(out, prefix);
    ls_out_hex(out, digest, 12);
    ls_out_text(out, "\"");
}

static void add_front(struct ls_out *out, const struct ls_request *req, uint64_t line)
{
    ls_out_text(out, "{\"id\":");
    add_id(out, "batch_req_", req, line);
    ls_out_text(out, ",\"custom_id\":");
    if (req->custom_id)
        ls_out_string(out, req->custom_id, req->n_custom_id);
    else
        ls_out_text(out, "null");
}

void ls_row_error(struct ls_out *out, const struct ls_request *req, const char *code,
                  const char *message)
{
    add_front(out, req, req->line);
    ls_out_text(out, ",\"response\":null,\"error\":{\"code\":");
    ls_out_string(out, code, strlen(code));
    ls_out_text(out, ",\"message\":");
    ls_out_string(out, message, strlen(message));
    ls_out_text(out, ",\"line\":");
    ls_out_u64(out, req->line);
    ls_out_text(out, "}}\n");
}

/* --- the body --------------------------------------------------------------------------------
 */

/* The text as it was given; a prompt of ids as the tokenizer decodes it. */
static ls_status add_prompt_text(struct ls_bytes *text, const struct ls_prompt *prompt,
                                 const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    if (prompt->text)
        return ls_bytes_append(text, prompt->text, prompt->n_text, err);
    if (!tokenizer)
        return LS_OK;
    return ls_tokenizer_decode(tokenizer, prompt->tokens, prompt->n, true, text, err);
}

static ls_status add_text(struct ls_out *out, const struct ls_choice *c,
                          const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    if (!c->req->echo) {
        ls_out_string(out, c->text.data, c->text.n);
        return LS_OK;
    }
    struct ls_bytes whole = { 0 };
    ls_status status = add_prompt_text(&whole, c->prompt, tokenizer, err);
    if (!status)
        status = ls_bytes_append(&whole, c->text.data, c->text.n, err);
    if (!status)
        ls_out_string(out, whole.data, whole.n);
    ls_bytes_finish(&whole);
    return status;
}

static ls_status add_choice(struct ls_out *out, const struct ls_choice *c,
                            const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    ls_out_text(out, "{\"index\":");
    ls_out_u64(out, c->index);
    ls_out_text(out, ",\"text\":");
    ls_status status = add_text(out, c, tokenizer, err);
    ls_out_text(out, ",\"logprobs\":");
    if (status || c->req->logprobs < 0)
        ls_out_text(out, "null");
    else
        status = ls_row_logprobs(out, c, tokenizer, err);
    ls_out_text(out,
                c->stopped ? ",\"finish_reason\":\"stop\"" : ",\"finish_reason\":\"length\"");
    if (!status && c->req->prompt_logprobs >= 0) {
        ls_out_text(out, ",\"prompt_logprobs\":");
        status = ls_row_prompt_logprobs(out, c, tokenizer, err);
    }
    ls_out_text(out, "}");
    return status;
}

static void add_usage(struct ls_out *out, const struct ls_request *req,
                      const struct ls_choice *choices)
{
    uint64_t prompt = 0, completion = 0;
    for (uint32_t i = 0; i < req->n_prompts; i++)
        prompt += req->prompts[i].n;
    for (uint32_t i = 0; i < n_choices(req); i++)
        completion += choices[i].tokens.n;
    ls_out_text(out, ",\"usage\":{\"prompt_tokens\":");
    ls_out_u64(out, prompt);
    ls_out_text(out, ",\"completion_tokens\":");
    ls_out_u64(out, completion);
    ls_out_text(out, ",\"total_tokens\":");
    ls_out_u64(out, prompt + completion);
    ls_out_text(out, "}");
}

static ls_status add_choices(struct ls_out *out, const struct ls_request *req,
                             const struct ls_choice *choices,
                             const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    if (ls_row_is_score(req))
        return ls_row_score_choice(out, req, choices, tokenizer, err);
    ls_status status = LS_OK;
    for (uint32_t i = 0; !status && i < n_choices(req); i++) {
        ls_out_text(out, i ? "," : "");
        status = req->kind == LS_KIND_CHAT
                     ? ls_row_chat_choice(out, &choices[i], tokenizer, err)
                     : add_choice(out, &choices[i], tokenizer, err);
    }
    return status;
}

static ls_status add_body(struct ls_out *out, const struct ls_request *req,
                          const struct ls_choice *choices, const struct ls_row_rules *rules,
                          struct ls_err *err)
{
    const bool is_chat = req->kind == LS_KIND_CHAT;
    const char *model = req->model ? req->model : rules->model_name;
    ls_out_text(out, "{\"id\":");
    add_id(out, is_chat ? "chatcmpl-" : "cmpl-", req, 0);
    ls_out_text(out, is_chat ? ",\"object\":\"chat.completion\""
                             : ",\"object\":\"text_completion\"");
    ls_out_text(out, ",\"created\":0,\"model\":");
    ls_out_string(out, model, strlen(model));
    ls_out_text(out, ",\"choices\":[");
    ls_status status = add_choices(out, req, choices, rules->tokenizer, err);
    ls_out_text(out, "]");
    add_usage(out, req, choices);
    if (ls_row_is_score(req))
        ls_row_score_sums(out, req, choices);
    else if (req->kind == LS_KIND_GENERATE)
        ls_out_text(out, req->truncated ? ",\"truncated\":true" : ",\"truncated\":false");
    ls_out_text(out, "}");
    return status;
}

/* --- evidence --------------------------------------------------------------------------------
 */

static void add_digest(struct ls_out *out, const unsigned char digest[32], uint64_t rows,
                       enum ls_digest kind)
{
    ls_out_text(out, "\"logits_digest\":");
    if (kind == LS_DIGEST_NONE) {
        ls_out_text(out, "null");
    } else {
        ls_out_text(out, "\"b2:");
        ls_out_hex(out, digest, 32);
        ls_out_text(out, "\"");
    }
    ls_out_text(out, ",\"rows\":");
    ls_out_u64(out, rows);
    ls_out_text(out, "}");
}

static void add_choice_evidence(struct ls_out *out, const struct ls_choice *c,
                                enum ls_digest kind)
{
    ls_out_text(out, "{\"token_ids\":[");
    for (size_t i = 0; i < c->tokens.n; i++) {
        ls_out_text(out, i ? "," : "");
        ls_out_i64(out, c->tokens.data[i]);
    }
    ls_out_text(out, "],");
    add_digest(out, c->digest, c->n_digested, kind);
}

static void add_evidence(struct ls_out *out, const struct ls_request *req,
                         const struct ls_choice *choices, enum ls_digest kind,
                         const unsigned char digest[32])
{
    uint64_t rows = 0;
    if (ls_row_is_score(req)) {
        for (uint32_t i = 0; i < n_choices(req); i++)
            rows += choices[i].n_digested;
        ls_row_score_ids(out, req, choices);
        add_digest(out, digest, rows, kind);
        return;
    }
    if (n_choices(req) == 1) {
        add_choice_evidence(out, choices, kind);
        return;
    }
    ls_out_text(out, "{\"choices\":[");
    for (uint32_t i = 0; i < n_choices(req); i++) {
        ls_out_text(out, i ? "," : "");
        add_choice_evidence(out, &choices[i], kind);
        rows += choices[i].n_digested;
    }
    ls_out_text(out, "],");
    add_digest(out, digest, rows, kind);
}

static void digest_of(const struct ls_request *req, const struct ls_choice *choices,
                      enum ls_digest kind, unsigned char digest[32])
{
    memset(digest, 0, 32);
    if (kind == LS_DIGEST_NONE)
        return;
    if (n_choices(req) == 1) {
        memcpy(digest, choices[0].digest, 32);
        return;
    }
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 32);
    for (uint32_t i = 0; i < n_choices(req); i++)
        crypto_generichash_update(&state, choices[i].digest, 32);
    crypto_generichash_final(&state, digest, 32);
}

ls_status ls_row_write(struct ls_out *out, const struct ls_request *req,
                       const struct ls_choice *choices, const struct ls_row_rules *rules,
                       unsigned char digest[32], struct ls_err *err)
{
    /* scores come with a digest only when it was asked for in so many words */
    const bool bare = ls_row_is_score(req) && rules->digest == LS_DIGEST_GENERATED;
    const enum ls_digest kind = bare ? LS_DIGEST_NONE : rules->digest;
    digest_of(req, choices, kind, digest);
    add_front(out, req, 0);
    ls_out_text(out, ",\"response\":{\"status_code\":200,\"request_id\":");
    add_id(out, "req_", req, 0);
    ls_out_text(out, ",\"body\":");
    ls_status status = add_body(out, req, choices, rules, err);
    ls_out_text(out, "},\"error\":null,\"lockstep\":");
    add_evidence(out, req, choices, kind, digest);
    ls_out_text(out, "}\n");
    return status ? status : ls_out_check(out, "a result row", err);
}
