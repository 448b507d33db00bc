#include "text/pieces.h"

#include "base/alloc.h"
#include "text/utf8.h"

ls_status ls_pieces_push(struct ls_pieces *p, struct ls_piece piece, struct ls_err *err)
{
    if (p->n == p->cap) {
        void *data = p->data;
        ls_status s = ls_grow(&data, p->n, &p->cap, p->n + 1, sizeof *p->data, err);
        p->data = data;
        if (s)
            return s;
    }
    p->data[p->n++] = piece;
    return LS_OK;
}

void ls_pieces_finish(struct ls_pieces *p)
{
    ls_free(p->data);
    *p = (struct ls_pieces){ 0 };
}

static ls_status push_span(struct ls_spans *p, size_t begin, size_t end, bool match,
                           struct ls_err *err)
{
    if (p->n == p->cap) {
        void *data = p->data;
        ls_status s = ls_grow(&data, p->n, &p->cap, p->n + 1, sizeof *p->data, err);
        p->data = data;
        if (s)
            return s;
    }
    p->data[p->n++] = (struct ls_span){ (uint32_t)begin, (uint32_t)end, match };
    return LS_OK;
}

void ls_spans_finish(struct ls_spans *p)
{
    ls_free(p->data);
    *p = (struct ls_spans){ 0 };
}

ls_status ls_spans_of_regex(struct ls_spans *out, const struct ls_regex *re,
                            struct ls_matcher *m, const uint8_t *s, size_t n,
                            struct ls_err *err)
{
    struct ls_search it = ls_search_start(re, m, s, n);
    size_t done = 0;
    bool found;
    ls_status st;
    out->n = 0;
    while (!(st = ls_search_next(&it, &found, err)) && found) {
        if (done != it.begin)
            st = push_span(out, done, it.begin, false, err);
        if (!st)
            st = push_span(out, it.begin, it.end, true, err);
        if (st)
            return st;
        done = it.end;
    }
    if (!st && done != n)
        st = push_span(out, done, n, false, err);
    return st;
}

/* is NULL: the one character c. */
static ls_status spans_by_char(struct ls_spans *out, bool (*is)(uint32_t), uint32_t c,
                               const uint8_t *s, size_t n, struct ls_err *err)
{
    size_t done = 0, at = 0;
    ls_status st = LS_OK;
    out->n = 0;
    while (!st && at < n) {
        size_t begin = at;
        uint32_t x = ls_utf8_next(s, &at);
        if (is ? !is(x) : x != c)
            continue;
        if (done != begin)
            st = push_span(out, done, begin, false, err);
        if (!st)
            st = push_span(out, begin, at, true, err);
        done = at;
    }
    if (!st && done != n)
        st = push_span(out, done, n, false, err);
    return st;
}

ls_status ls_spans_of_chars(struct ls_spans *out, bool (*is)(uint32_t c), const uint8_t *s,
                            size_t n, struct ls_err *err)
{
    return spans_by_char(out, is, 0, s, n, err);
}

ls_status ls_spans_of_char(struct ls_spans *out, uint32_t c, const uint8_t *s, size_t n,
                           struct ls_err *err)
{
    return spans_by_char(out, NULL, c, s, n, err);
}

/* Whether span i goes into the same piece as span i - 1. */
static bool joins_previous(const struct ls_spans *spans, size_t i, enum ls_split how,
                           bool invert)
{
    bool now = spans->data[i].match != invert;
    bool before = spans->data[i - 1].match != invert;
    switch (how) {
    case LS_SPLIT_CONTIGUOUS:
        return now == before;
    case LS_SPLIT_MERGED_PREVIOUS:
        return now && !before;
    case LS_SPLIT_MERGED_NEXT:
        return before && !now;
    default:
        return false;
    }
}

ls_status ls_spans_emit(const struct ls_spans *spans, enum ls_split how, bool invert,
                        struct ls_piece from, struct ls_pieces *out, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (size_t i = 0, next; !s && i < spans->n; i = next) {
        next = i + 1;
        while (next < spans->n && joins_previous(spans, next, how, invert))
            next++;
        uint32_t begin = spans->data[i].begin, end = spans->data[next - 1].end;
        bool removed = how == LS_SPLIT_REMOVED && spans->data[i].match != invert;
        if (begin == end || removed)
            continue;
        struct ls_piece p = { from.off + begin, end - begin, -1, from.first && !begin };
        s = ls_pieces_push(out, p, err);
    }
    return s;
}
