#include "text/pretokenizer.h"

#include "text/utf8.h"

/* One step over one list. */
struct run {
    const struct ls_pretokenizer *pt;
    const struct ls_pre_step *step;
    struct ls_pre_work *work;
    struct ls_matcher *m;
    const uint8_t *text;    /* what the pieces that come in refer to */
    struct ls_bytes *out;   /* text of the pieces that go out, when the step changes it */
    struct ls_pieces *next; /* pieces that go out */
    struct ls_err *err;
};

/* Bytes of a piece as their letters, cut at the spans that were found in it. */
static ls_status put_letters(struct run *r, const uint8_t *s, struct ls_piece p)
{
    const struct ls_byte_letters *t = &r->pt->letters;
    const struct ls_spans *spans = &r->work->spans;
    ls_status st = ls_bytes_reserve(r->out, (size_t)p.len * 2, r->err);
    for (size_t i = 0; !st && i < spans->n; i++) {
        size_t from = r->out->n;
        uint8_t *to = r->out->data + from;
        for (uint32_t k = spans->data[i].begin; k < spans->data[i].end; k++) {
            to[0] = t->text[s[k]][0];
            to[1] = t->text[s[k]][1];
            to += t->len[s[k]];
        }
        r->out->n = (size_t)(to - r->out->data);
        struct ls_piece made = { (uint32_t)from, (uint32_t)(r->out->n - from), -1,
                                 p.first && !spans->data[i].begin };
        if (made.len)
            st = ls_pieces_push(r->next, made, r->err);
    }
    return st;
}

static ls_status byte_level(struct run *r, struct ls_piece p)
{
    const uint8_t *s = r->text + p.off;
    ls_status st = LS_OK;
    if (r->step->prefix_space && s[0] != ' ') {
        struct ls_bytes *b = &r->work->scratch;
        b->n = 0;
        st = ls_bytes_append(b, " ", 1, r->err);
        if (!st)
            st = ls_bytes_append(b, s, p.len, r->err);
        if (st)
            return st;
        s = b->data;
        p.len++;
    }
    if (r->step->re) {
        st = ls_spans_of_regex(&r->work->spans, r->step->re, r->m, s, p.len, r->err);
    } else {
        struct ls_spans *spans = &r->work->spans;
        void *data = spans->data;
        st = ls_grow(&data, 0, &spans->cap, 1, sizeof *spans->data, r->err);
        spans->data = data;
        if (st)
            return st;
        spans->data[0] = (struct ls_span){ 0, p.len, false };
        spans->n = 1;
    }
    return st ? st : put_letters(r, s, p);
}

/* Spaces become the mark; returns where the new text begins in r->out. */
static ls_status put_marks(struct run *r, const uint8_t *s, struct ls_piece p, size_t *from)
{
    uint8_t mark[4];
    size_t n_mark = ls_utf8_put(mark, r->step->mark), at = 0;
    uint32_t head = ls_utf8_next(s, &at);
    bool wanted = r->step->prepend == LS_PREPEND_ALWAYS ||
                  (r->step->prepend == LS_PREPEND_FIRST && p.first);
    ls_status st = ls_bytes_reserve(r->out, ((size_t)p.len + 1) * n_mark, r->err);
    *from = r->out->n;
    if (!st && wanted && head != ' ' && head != r->step->mark)
        st = ls_bytes_append(r->out, mark, n_mark, r->err);
    for (uint32_t k = 0; !st && k < p.len; k++)
        st = s[k] == ' ' ? ls_bytes_append(r->out, mark, n_mark, r->err)
                         : ls_bytes_append(r->out, s + k, 1, r->err);
    return st;
}

static ls_status metaspace(struct run *r, struct ls_piece p)
{
    size_t from;
    ls_status st = put_marks(r, r->text + p.off, p, &from);
    if (st)
        return st;
    struct ls_piece made = { (uint32_t)from, (uint32_t)(r->out->n - from), -1, p.first };
    if (!r->step->split)
        return ls_pieces_push(r->next, made, r->err);
    st =
        ls_spans_of_char(&r->work->spans, r->step->mark, r->out->data + from, made.len, r->err);
    return st ? st
              : ls_spans_emit(&r->work->spans, LS_SPLIT_MERGED_NEXT, false, made, r->next,
                              r->err);
}

/* Runs of word characters, runs of others, spaces dropped. */
static ls_status whitespace(struct run *r, struct ls_piece p)
{
    const uint8_t *s = r->text + p.off;
    size_t at = 0, begin = 0;
    int before = 0; /* 0 space, 1 word, 2 other */
    ls_status st = LS_OK;
    while (!st && at <= p.len) {
        size_t here = at;
        int kind = 0;
        if (at < p.len) {
            uint32_t c = ls_utf8_next(s, &at);
            kind = ls_is_word(c) ? 1 : ls_is_space(c) ? 0 : 2;
        } else {
            at++;
        }
        if (kind == before)
            continue;
        struct ls_piece made = { p.off + (uint32_t)begin, (uint32_t)(here - begin), -1,
                                 p.first && !begin };
        if (before)
            st = ls_pieces_push(r->next, made, r->err);
        begin = here;
        before = kind;
    }
    return st;
}

static ls_status cut(struct run *r, struct ls_piece p)
{
    const struct ls_pre_step *step = r->step;
    struct ls_spans *spans = &r->work->spans;
    const uint8_t *s = r->text + p.off;
    enum ls_split how = step->how;
    ls_status st;
    switch (step->kind) {
    case LS_PRE_SPLIT:
        st = ls_spans_of_regex(spans, step->re, r->m, s, p.len, r->err);
        break;
    case LS_PRE_DIGITS:
        st = ls_spans_of_chars(spans, ls_is_numeric, s, p.len, r->err);
        break;
    case LS_PRE_PUNCTUATION:
        st = ls_spans_of_chars(spans, ls_is_punct, s, p.len, r->err);
        break;
    default:
        st = ls_spans_of_chars(spans, ls_is_space, s, p.len, r->err);
        how = LS_SPLIT_REMOVED;
    }
    return st ? st : ls_spans_emit(spans, how, step->invert, p, r->next, r->err);
}

static ls_status step_piece(struct run *r, struct ls_piece p)
{
    if (p.id >= 0)
        return ls_pieces_push(r->next, p, r->err);
    switch (r->step->kind) {
    case LS_PRE_BYTE_LEVEL:
        return byte_level(r, p);
    case LS_PRE_METASPACE:
        return metaspace(r, p);
    case LS_PRE_WHITESPACE:
        return whitespace(r, p);
    default:
        return cut(r, p);
    }
}

ls_status ls_pretokenizer_apply(const struct ls_pretokenizer *pt, struct ls_pre_work *work,
                                struct ls_matcher *m, const uint8_t **text,
                                const struct ls_pieces **pieces, struct ls_err *err)
{
    int n_texts = 0;
    for (size_t i = 0; i < pt->n; i++) {
        const struct ls_pre_step *step = &pt->steps[i];
        struct run r = {
            pt, step, work, m, *text, &work->text[n_texts % 2], &work->pieces[i % 2], err
        };
        r.next->n = 0;
        bool rewrites = step->kind == LS_PRE_BYTE_LEVEL || step->kind == LS_PRE_METASPACE;
        if (rewrites)
            r.out->n = 0;
        for (size_t k = 0; k < (*pieces)->n; k++) {
            ls_status s = step_piece(&r, (*pieces)->data[k]);
            if (s)
                return s;
        }
        if (rewrites) {
            *text = r.out->data;
            n_texts++;
        }
        *pieces = r.next;
    }
    return LS_OK;
}

void ls_pre_work_finish(struct ls_pre_work *work)
{
    ls_spans_finish(&work->spans);
    ls_bytes_finish(&work->scratch);
    for (int i = 0; i < 2; i++) {
        ls_bytes_finish(&work->text[i]);
        ls_pieces_finish(&work->pieces[i]);
    }
}
