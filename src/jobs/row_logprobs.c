#include "jobs/row_parts.h"

#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

/* How a token is shown: its own text, bytes:\xNN... or token_id:N. */
static ls_status show_token(struct ls_bytes *out, int32_t token,
                            const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    char text[32];
    if (!tokenizer || !ls_tokenizer_has_id(tokenizer, token)) {
        snprintf(text, sizeof text, "token_id:%d", (int)token);
        return ls_bytes_text(out, text, err);
    }
    struct ls_bytes raw = { 0 };
    ls_status status = ls_tokenizer_token_bytes(tokenizer, token, &raw, err);
    const bool whole = !status && ls_utf8_check(raw.data, raw.n) == raw.n;
    if (whole)
        status = ls_bytes_append(out, raw.data, raw.n, err);
    else if (!status)
        status = ls_bytes_text(out, "bytes:", err);
    for (size_t i = 0; !status && !whole && i < raw.n; i++) {
        snprintf(text, sizeof text, "\\x%02x", raw.data[i]);
        status = ls_bytes_text(out, text, err);
    }
    ls_bytes_finish(&raw);
    return status;
}

ls_status ls_row_token(struct ls_out *out, int32_t token, const struct ls_tokenizer *tokenizer,
                       struct ls_err *err)
{
    struct ls_bytes shown = { 0 };
    ls_status status = show_token(&shown, token, tokenizer, err);
    if (!status)
        ls_out_string(out, shown.data, shown.n);
    ls_bytes_finish(&shown);
    return status;
}

/* --- OpenAI's object -------------------------------------------------------------------------
 */

/* One position's dictionary by text, in which a text stands once: the likelier token's. */
struct dictionary {
    struct ls_out *out;
    const struct ls_tokenizer *tokenizer;
    struct ls_bytes keys; /* all of them, one behind the other */
    size_t ends[LS_MAX_TOP + 1];
    size_t n;
};

static bool has_last_key(const struct dictionary *d, size_t begin)
{
    const size_t length = d->keys.n - begin;
    for (size_t i = 0, from = 0; i < d->n; from = d->ends[i++])
        if (d->ends[i] - from == length &&
            (!length || !memcmp(d->keys.data + from, d->keys.data + begin, length)))
            return true;
    return false;
}

static ls_status add_entry(struct dictionary *d, int32_t token, double logprob,
                           struct ls_err *err)
{
    const size_t begin = d->keys.n;
    ls_status status = show_token(&d->keys, token, d->tokenizer, err);
    if (status)
        return status;
    if (has_last_key(d, begin)) {
        d->keys.n = begin;
        return LS_OK;
    }
    ls_out_text(d->out, d->n ? "," : "{");
    ls_out_string(d->out, d->keys.n ? d->keys.data + begin : NULL, d->keys.n - begin);
    ls_out_text(d->out, ":");
    ls_out_f64(d->out, logprob);
    d->ends[d->n++] = d->keys.n;
    return LS_OK;
}

ls_status ls_row_top(struct ls_out *out, const struct ls_scores *scores, size_t at,
                     const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    struct dictionary d = { .out = out, .tokenizer = tokenizer };
    const struct ls_score *own = &scores->items[at];
    const struct ls_top *top = scores->tops + at * (size_t)scores->n_top;
    ls_status status = LS_OK;
    for (int32_t i = 0; !status && i < scores->n_top; i++)
        status = add_entry(&d, top[i].token, top[i].logprob, err);
    if (!status && own->rank > scores->n_top)
        status = add_entry(&d, own->token, own->logprob, err);
    ls_out_text(out, "}");
    ls_bytes_finish(&d.keys);
    return status;
}

static ls_status count_shown(size_t *n, const struct ls_choice *c, struct ls_detok *d,
                             struct ls_err *err)
{
    struct ls_bytes text = { 0 };
    ls_status status = c->req->text_alone ? LS_OK : ls_prime_detok(d, c->prompt, err);
    size_t i = 0;
    for (; !status && i < c->tokens.n && text.n < c->text.n; i++)
        status = ls_detok_feed(d, c->tokens.data[i], &text, err);
    ls_bytes_finish(&text);
    *n = i;
    return status;
}

ls_status ls_row_n_shown(size_t *n, const struct ls_choice *c,
                         const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    struct ls_detok *detok;
    *n = c->tokens.n;
    if (!c->cut || !tokenizer)
        return LS_OK;
    ls_status status = ls_detok_create(&detok, tokenizer, true, err);
    if (status)
        return status;
    status = count_shown(n, c, detok, err);
    ls_detok_destroy(detok);
    return status;
}

static uint32_t n_chars(const uint8_t *text, size_t n)
{
    uint32_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += (text[i] & 0xc0) != 0x80;
    return chars;
}

/* How many characters of the whole text stand in front of each token that is shown. */
static ls_status add_offsets(struct ls_out *out, const struct ls_choice *c, size_t n_shown,
                             struct ls_detok *d, struct ls_err *err)
{
    struct ls_bytes text = { 0 };
    uint32_t chars = 0;
    const size_t n_prompt = c->req->echo ? c->prompt->n : 0;
    ls_status status = LS_OK;
    if (d && !n_prompt && !c->req->text_alone)
        status = ls_prime_detok(d, c->prompt, err);
    for (size_t i = 0; !status && i < n_prompt + n_shown; i++) {
        ls_out_text(out, i ? "," : "");
        ls_out_u64(out, chars);
        text.n = 0;
        int32_t token = i < n_prompt ? c->prompt->tokens[i] : c->tokens.data[i - n_prompt];
        status = d ? ls_detok_feed(d, token, &text, err) : LS_OK;
        chars += n_chars(text.data, text.n);
    }
    ls_bytes_finish(&text);
    return status;
}

static ls_status add_text_offset(struct ls_out *out, const struct ls_choice *c, size_t n_shown,
                                 const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    struct ls_detok *detok = NULL;
    ls_status status = tokenizer ? ls_detok_create(&detok, tokenizer, true, err) : LS_OK;
    ls_out_text(out, "],\"text_offset\":[");
    if (!status)
        status = add_offsets(out, c, n_shown, detok, err);
    ls_out_text(out, "]}");
    ls_detok_destroy(detok);
    return status;
}

ls_status ls_row_logprobs(struct ls_out *out, const struct ls_choice *choice,
                          const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    const struct ls_scores *s = &choice->scores;
    const bool echo = choice->req->echo;
    size_t n_shown;
    ls_status status = ls_row_n_shown(&n_shown, choice, tokenizer, err);
    const size_t n = s->n - (choice->tokens.n - n_shown);
    ls_out_text(out, "{\"tokens\":[");
    if (!status && echo)
        status = ls_row_token(out, choice->prompt->tokens[0], tokenizer, err);
    for (size_t i = 0; !status && i < n; i++) {
        ls_out_text(out, i || echo ? "," : "");
        status = ls_row_token(out, s->items[i].token, tokenizer, err);
    }
    ls_out_text(out, echo ? "],\"token_logprobs\":[null" : "],\"token_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        ls_out_text(out, i || echo ? "," : "");
        ls_out_f64(out, s->items[i].logprob);
    }
    ls_out_text(out, echo ? "],\"top_logprobs\":[null" : "],\"top_logprobs\":[");
    for (size_t i = 0; !status && i < n; i++) {
        ls_out_text(out, i || echo ? "," : "");
        status = ls_row_top(out, s, i, tokenizer, err);
    }
    return status ? status : add_text_offset(out, choice, n_shown, tokenizer, err);
}

/* --- vLLM's list -----------------------------------------------------------------------------
 */

static ls_status add_ranked(struct ls_out *out, bool first, int32_t token, int32_t rank,
                            double logprob, const struct ls_tokenizer *tokenizer,
                            struct ls_err *err)
{
    ls_out_text(out, first ? "{\"" : ",\"");
    ls_out_i64(out, token);
    ls_out_text(out, "\":{\"logprob\":");
    ls_out_f64(out, logprob);
    ls_out_text(out, ",\"rank\":");
    ls_out_i64(out, rank);
    ls_out_text(out, ",\"decoded_token\":");
    ls_status status = ls_row_token(out, token, tokenizer, err);
    ls_out_text(out, "}");
    return status;
}

ls_status ls_row_prompt_logprobs(struct ls_out *out, const struct ls_choice *choice,
                                 const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    const struct ls_scores *s = &choice->prompt_scores;
    ls_status status = LS_OK;
    ls_out_text(out, "[null");
    for (size_t at = 0; !status && at < s->n; at++) {
        const struct ls_score *own = &s->items[at];
        const struct ls_top *top = s->tops + at * (size_t)s->n_top;
        ls_out_text(out, ",");
        for (int32_t i = 0; !status && i < s->n_top; i++)
            status = add_ranked(out, !i, top[i].token, i + 1, top[i].logprob, tokenizer, err);
        if (!status && own->rank > s->n_top)
            status =
                add_ranked(out, !s->n_top, own->token, own->rank, own->logprob, tokenizer, err);
        ls_out_text(out, "}");
    }
    ls_out_text(out, "]");
    return status;
}
