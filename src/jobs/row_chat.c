#include "jobs/row_parts.h"

static ls_status add_bytes(struct ls_out *out, int32_t token,
                           const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    struct ls_bytes raw = { 0 };
    ls_out_text(out, ",\"bytes\":");
    if (!tokenizer || !ls_tokenizer_has_id(tokenizer, token)) {
        ls_out_text(out, "null");
        return LS_OK;
    }
    ls_status status = ls_tokenizer_token_bytes(tokenizer, token, &raw, err);
    ls_out_text(out, "[");
    for (size_t i = 0; !status && i < raw.n; i++) {
        ls_out_text(out, i ? "," : "");
        ls_out_u64(out, raw.data[i]);
    }
    ls_out_text(out, "]");
    ls_bytes_finish(&raw);
    return status;
}

/* Leaves the object open. */
static ls_status add_logprob(struct ls_out *out, int32_t token, double logprob,
                             const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    ls_out_text(out, "{\"token\":");
    ls_status status = ls_row_token(out, token, tokenizer, err);
    ls_out_text(out, ",\"logprob\":");
    ls_out_f64(out, logprob);
    return status ? status : add_bytes(out, token, tokenizer, err);
}

static ls_status add_logprobs(struct ls_out *out, const struct ls_choice *c,
                              const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    const struct ls_scores *s = &c->scores;
    size_t n;
    ls_status status = ls_row_n_shown(&n, c, tokenizer, err);
    ls_out_text(out, "{\"content\":[");
    for (size_t at = 0; !status && at < n; at++) {
        const struct ls_top *top = s->tops + at * (size_t)s->n_top;
        ls_out_text(out, at ? "," : "");
        status = add_logprob(out, s->items[at].token, s->items[at].logprob, tokenizer, err);
        ls_out_text(out, ",\"top_logprobs\":[");
        for (int32_t i = 0; !status && i < s->n_top; i++) {
            ls_out_text(out, i ? "," : "");
            status = add_logprob(out, top[i].token, top[i].logprob, tokenizer, err);
            ls_out_text(out, "}");
        }
        ls_out_text(out, "]}");
    }
    ls_out_text(out, "],\"refusal\":null}");
    return status;
}

ls_status ls_row_chat_choice(struct ls_out *out, const struct ls_choice *c,
                             const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    ls_status status = LS_OK;
    ls_out_text(out, "{\"index\":");
    ls_out_u64(out, c->index);
    ls_out_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    ls_out_string(out, c->text.data, c->text.n);
    ls_out_text(out, ",\"refusal\":null},\"logprobs\":");
    if (c->req->logprobs < 0)
        ls_out_text(out, "null");
    else
        status = add_logprobs(out, c, tokenizer, err);
    ls_out_text(out,
                c->stopped ? ",\"finish_reason\":\"stop\"}" : ",\"finish_reason\":\"length\"}");
    return status;
}
