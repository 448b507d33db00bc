#include "text/decoder.h"

#include "text/utf8.h"

static const uint8_t broken[] = { 0xef, 0xbf, 0xbd }; /* U+FFFD */

/* Hands a chunk of n bytes to stage i; `end` marks the last chunk of a token. */
static ls_status hand(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                      struct ls_err *err);

/* Collects a token; *whole is set when *s, *n are all of it. */
static ls_status collect(struct ls_dec_state *st, const uint8_t **s, size_t *n, bool end,
                         bool *whole, struct ls_err *err)
{
    *whole = end;
    if (end && !st->held.n)
        return LS_OK;
    ls_status status = ls_bytes_append(&st->held, *s, *n, err);
    *s = st->held.data;
    *n = st->held.n;
    return status;
}

static ls_status replace(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                         struct ls_err *err)
{
    const struct ls_dec_stage *stage = &run->d->stages[i];
    struct ls_dec_state *st = &run->st[i];
    struct ls_view content = { (const char *)stage->content.data, stage->content.n };
    bool whole = true;
    ls_status status = LS_OK;
    if (!ls_regex_is_one_char(stage->re))
        status = collect(st, &s, &n, end, &whole, err);
    if (status || !whole)
        return status;
    st->made.n = 0;
    status = ls_regex_replace(stage->re, run->m, s, n, content, &st->made, err);
    st->held.n = 0;
    return status ? status : hand(run, i + 1, st->made.data, st->made.n, end, err);
}

/* A run of byte tokens that is valid as a whole is one token, else one U+FFFD for each. */
static ls_status end_bytes(struct ls_dec_run *run, int i, struct ls_err *err)
{
    struct ls_bytes *bytes = &run->st[i].made;
    size_t n = bytes->n;
    bool valid = ls_utf8_check(bytes->data, n) == n;
    bytes->n = 0;
    if (!n)
        return LS_OK;
    if (valid)
        return hand(run, i + 1, bytes->data, n, true, err);
    ls_status s = LS_OK;
    for (size_t k = 0; !s && k < n; k++)
        s = hand(run, i + 1, broken, sizeof broken, true, err);
    return s;
}

static ls_status byte_fallback(struct ls_dec_run *run, int i, const uint8_t *s, size_t n,
                               bool end, struct ls_err *err)
{
    struct ls_dec_state *st = &run->st[i];
    bool whole;
    ls_status status = collect(st, &s, &n, end, &whole, err);
    if (status || !whole)
        return status;
    int b = ls_byte_token(s, n);
    if (b >= 0) {
        status = ls_bytes_append(&st->made, &(uint8_t){ (uint8_t)b }, 1, err);
    } else {
        status = end_bytes(run, i, err);
        if (!status)
            status = hand(run, i + 1, s, n, true, err);
    }
    st->held.n = 0;
    return status;
}

static ls_status metaspace(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                           struct ls_err *err)
{
    const struct ls_dec_stage *stage = &run->d->stages[i];
    struct ls_dec_state *st = &run->st[i];
    bool drop = stage->drop_first && !st->n_tokens;
    ls_status status = LS_OK;
    st->made.n = 0;
    for (size_t at = 0, begin = 0; !status && at < n; begin = at) {
        if (ls_utf8_next(s, &at) != stage->mark)
            status = ls_bytes_append(&st->made, s + begin, at - begin, err);
        else if (!drop)
            status = ls_bytes_append(&st->made, " ", 1, err);
    }
    st->n_tokens += end;
    return status ? status : hand(run, i + 1, st->made.data, st->made.n, end, err);
}

/* Bytes at the end of a token that are at most `most` marks. */
static size_t marks_at_end(const uint8_t *s, size_t n, uint32_t mark, int64_t most)
{
    size_t end = n;
    for (int64_t k = 0; k < most && end > 0; k++) {
        size_t before = ls_utf8_before(s, end), at = before;
        if (ls_utf8_next(s, &at) != mark)
            break;
        end = before;
    }
    return n - end;
}

static ls_status strip(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                       struct ls_err *err)
{
    const struct ls_dec_stage *stage = &run->d->stages[i];
    struct ls_dec_state *st = &run->st[i];
    bool whole = true;
    ls_status status = LS_OK;
    if (stage->stop)
        status = collect(st, &s, &n, end, &whole, err);
    if (status || !whole)
        return status;
    size_t tail = stage->stop ? marks_at_end(s, n, stage->mark, stage->stop) : 0, head = 0;
    while (head < n && !st->in_text && st->n_taken < stage->start) {
        size_t at = head;
        st->in_text = ls_utf8_next(s, &at) != stage->mark;
        if (st->in_text)
            break;
        st->n_taken++;
        head = at;
    }
    if (head < n)
        st->in_text = true;
    if (end) {
        st->in_text = false;
        st->n_taken = 0;
    }
    size_t stop = n - tail > head ? n - tail : head;
    status = hand(run, i + 1, s + head, stop - head, end, err);
    st->held.n = 0;
    return status;
}

/* Sends the whole characters that are held, each broken stretch as one U+FFFD. */
static ls_status drain(struct ls_dec_run *run, int i, bool all, struct ls_err *err)
{
    struct ls_bytes *held = &run->st[i].held, *made = &run->st[i].made;
    size_t at = 0, len;
    ls_status s = LS_OK;
    made->n = 0;
    while (!s && at < held->n) {
        enum ls_utf8_state state = ls_utf8_scan(held->data + at, held->n - at, &len);
        if (state == LS_UTF8_CUT && !all)
            break;
        s = state == LS_UTF8_WHOLE ? ls_bytes_append(made, held->data + at, len, err)
                                   : ls_bytes_append(made, broken, sizeof broken, err);
        at += len;
    }
    if (s)
        return s;
    for (size_t k = at; k < held->n; k++) /* at most three bytes */
        held->data[k - at] = held->data[k];
    held->n -= at;
    return hand(run, i + 1, made->data, made->n, false, err);
}

static ls_status byte_level(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                            struct ls_err *err)
{
    /* What comes in is one token for each call, except behind Fuse; made holds its parts. */
    struct ls_dec_state *st = &run->st[i];
    bool cut = !end || st->in_text;
    if (cut) {
        st->in_text = !end;
        ls_status status = ls_bytes_append(&st->made, s, n, err);
        if (status || !end)
            return status;
        s = st->made.data;
        n = st->made.n;
    }
    ls_status status = ls_byte_level_undo(&run->d->letters, s, n, &st->held, err);
    return status ? status : drain(run, i, false, err);
}

static ls_status join(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                      struct ls_err *err)
{
    struct ls_dec_state *st = &run->st[i];
    ls_status status =
        st->n_tokens ? hand(run, i + 1, (const uint8_t *)" ", 1, false, err) : LS_OK;
    st->n_tokens++;
    return status ? status : hand(run, i + 1, s, n, end, err);
}

static ls_status hand(struct ls_dec_run *run, int i, const uint8_t *s, size_t n, bool end,
                      struct ls_err *err)
{
    static const uint8_t nothing;
    if (!s)
        s = &nothing;
    if (i == run->d->n)
        return ls_bytes_append(run->out, s, n, err);
    switch (run->d->stages[i].kind) {
    case LS_DEC_BYTE_LEVEL:
        return byte_level(run, i, s, n, end, err);
    case LS_DEC_BYTE_FALLBACK:
        return byte_fallback(run, i, s, n, end, err);
    case LS_DEC_METASPACE:
        return metaspace(run, i, s, n, end, err);
    case LS_DEC_REPLACE:
        return replace(run, i, s, n, end, err);
    case LS_DEC_STRIP:
        return strip(run, i, s, n, end, err);
    case LS_DEC_JOIN:
        return join(run, i, s, n, end, err);
    default: /* LS_DEC_FUSE */
        return hand(run, i + 1, s, n, false, err);
    }
}

ls_status ls_decoder_feed(struct ls_dec_run *run, struct ls_view token, struct ls_err *err)
{
    return hand(run, 0, (const uint8_t *)token.s, token.n, true, err);
}

/* What stage i still holds, now that nothing more comes in. */
static ls_status flush_stage(struct ls_dec_run *run, int i, struct ls_err *err)
{
    ls_status s = LS_OK;
    switch (run->d->stages[i].kind) {
    case LS_DEC_FUSE:
        return hand(run, i + 1, NULL, 0, true, err);
    case LS_DEC_BYTE_LEVEL:
        s = drain(run, i, true, err);
        return s ? s : hand(run, i + 1, NULL, 0, true, err);
    case LS_DEC_BYTE_FALLBACK:
        return end_bytes(run, i, err);
    default:
        return LS_OK;
    }
}

ls_status ls_decoder_flush(struct ls_dec_run *run, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (int i = 0; !s && i < run->d->n; i++)
        s = flush_stage(run, i, err);
    ls_decoder_reset(run);
    return s;
}

void ls_decoder_reset(struct ls_dec_run *run)
{
    for (int i = 0; i < LS_MAX_DEC_STAGES; i++) {
        struct ls_dec_state *st = &run->st[i];
        st->held.n = st->made.n = 0;
        st->n_tokens = 0;
        st->n_taken = 0;
        st->in_text = false;
    }
}

void ls_dec_run_finish(struct ls_dec_run *run)
{
    for (int i = 0; i < LS_MAX_DEC_STAGES; i++) {
        ls_bytes_finish(&run->st[i].held);
        ls_bytes_finish(&run->st[i].made);
    }
}
