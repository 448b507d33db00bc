#include "text/detok.h"

#include "base/alloc.h"
#include "text/parts.h"
#include "text/utf8.h"

struct ls_detok {
    const struct ls_tokenizer *tok;
    struct ls_dec_run run;
    struct ls_matcher matcher;
    bool skip_special;
};

static void start(struct ls_detok *d, const struct ls_tokenizer *tok, bool skip_special)
{
    *d = (struct ls_detok){ .tok = tok, .skip_special = skip_special };
    d->run.d = &tok->decoder;
    d->run.m = &d->matcher;
}

static void stop(struct ls_detok *d)
{
    ls_dec_run_finish(&d->run);
    ls_matcher_finish(&d->matcher);
}

ls_status ls_detok_create(struct ls_detok **out, const struct ls_tokenizer *tok,
                          bool skip_special, struct ls_err *err)
{
    void *p;
    ls_status s = ls_alloc(&p, sizeof **out, "detokeniser", err);
    if (s)
        return s;
    start(p, tok, skip_special);
    *out = p;
    return LS_OK;
}

void ls_detok_destroy(struct ls_detok *d)
{
    if (!d)
        return;
    stop(d);
    ls_free(d);
}

ls_status ls_detok_feed(struct ls_detok *d, int32_t id, struct ls_bytes *out,
                        struct ls_err *err)
{
    struct ls_view token = ls_token_shown(d->tok, id);
    if (!token.s || (d->skip_special && ls_tokenizer_is_special(d->tok, id)))
        return LS_OK;
    d->run.out = out;
    return ls_decoder_feed(&d->run, token, err);
}

ls_status ls_detok_finish(struct ls_detok *d, struct ls_bytes *out, struct ls_err *err)
{
    d->run.out = out;
    return ls_decoder_flush(&d->run, err);
}

void ls_detok_reset(struct ls_detok *d)
{
    ls_decoder_reset(&d->run);
}

ls_status ls_tokenizer_decode(const struct ls_tokenizer *tok, const int32_t *ids, size_t n,
                              bool skip_special, struct ls_bytes *out, struct ls_err *err)
{
    struct ls_detok d;
    size_t before = out->n;
    ls_status s = LS_OK;
    start(&d, tok, skip_special);
    for (size_t i = 0; !s && i < n; i++)
        s = ls_detok_feed(&d, ids[i], out, err);
    if (!s)
        s = ls_detok_finish(&d, out, err);
    if (s)
        out->n = before;
    stop(&d);
    return s;
}

static ls_status token_bytes(const struct ls_tokenizer *tok, struct ls_scratch *w, int32_t id,
                             struct ls_bytes *out, struct ls_err *err)
{
    struct ls_view token = ls_token_shown(tok, id);
    if (!token.s)
        return LS_OK;
    return ls_decoder_token_bytes(&tok->decoder, &w->matcher, token, w->token, out, err);
}

ls_status ls_tokenizer_token_bytes(const struct ls_tokenizer *tok, int32_t id,
                                   struct ls_bytes *out, struct ls_err *err)
{
    struct ls_scratch *w;
    ls_status s = ls_scratch_take(tok, &w, err);
    if (s)
        return s;
    s = token_bytes(tok, w, id, out, err);
    ls_scratch_give(tok, w);
    return s;
}

ls_status ls_tokenizer_token_text(const struct ls_tokenizer *tok, int32_t id,
                                  struct ls_bytes *out, struct ls_err *err)
{
    static const uint8_t broken[] = { 0xef, 0xbf, 0xbd };
    struct ls_scratch *w;
    ls_status s = ls_scratch_take(tok, &w, err);
    if (s)
        return s;
    struct ls_bytes *raw = &w->token[2];
    raw->n = 0;
    s = token_bytes(tok, w, id, raw, err);
    for (size_t at = 0, len; !s && at < raw->n; at += len) {
        bool whole = ls_utf8_scan(raw->data + at, raw->n - at, &len) == LS_UTF8_WHOLE;
        s = whole ? ls_bytes_append(out, raw->data + at, len, err)
                  : ls_bytes_append(out, broken, sizeof broken, err);
    }
    ls_scratch_give(tok, w);
    return s;
}
