#include "text/added.h"

#include "text/utf8.h"

const struct ls_added_token *ls_added_of_id(const struct ls_added *a, int32_t id)
{
    if (id < 0 || (uint32_t)id >= a->n_ids || a->of_id[id] < 0)
        return NULL;
    return &a->tokens[a->of_id[id]];
}

struct match {
    size_t begin, end; /* bytes */
    int32_t token;     /* index */
};

/* The longest token that begins at s[at], or false. */
static bool longest_at(const struct ls_trie *t, const uint8_t *s, size_t n, size_t at,
                       struct match *out)
{
    int32_t node = t->roots[s[at]];
    out->token = -1;
    out->begin = at;
    while (node >= 0) {
        at++;
        if (t->nodes[node].token >= 0) {
            out->token = t->nodes[node].token;
            out->end = at;
        }
        if (at == n)
            break;
        node = t->nodes[node].child;
        while (node >= 0 && t->nodes[node].byte != s[at])
            node = t->nodes[node].sibling;
    }
    return out->token >= 0;
}

static bool stands_alone(const uint8_t *s, size_t n, const struct match *m)
{
    size_t at = m->end;
    if (at < n && ls_is_word(ls_utf8_next(s, &at)))
        return false;
    if (!m->begin)
        return true;
    at = ls_utf8_before(s, m->begin);
    return !ls_is_word(ls_utf8_next(s, &at));
}

/* Spaces on the left, but not those that the match before has taken. */
static void strip_left(const uint8_t *s, size_t floor, struct match *m)
{
    while (m->begin > 0) {
        size_t before = ls_utf8_before(s, m->begin), at = before;
        if (!ls_is_space(ls_utf8_next(s, &at)))
            break;
        m->begin = before;
    }
    if (m->begin < floor)
        m->begin = floor;
}

static void strip_right(const uint8_t *s, size_t n, struct match *m)
{
    while (m->end < n) {
        size_t at = m->end;
        if (!ls_is_space(ls_utf8_next(s, &at)))
            break;
        m->end = at;
    }
}

static ls_status push_text(struct ls_piece from, size_t begin, size_t end,
                           struct ls_pieces *out, struct ls_err *err)
{
    if (begin >= end)
        return LS_OK;
    return ls_pieces_push(out,
                          (struct ls_piece){ from.off + (uint32_t)begin,
                                             (uint32_t)(end - begin), -1,
                                             from.first && !begin },
                          err);
}

ls_status ls_added_split(const struct ls_added *a, const struct ls_trie *trie,
                         const uint8_t *text, struct ls_piece from, struct ls_pieces *out,
                         struct ls_err *err)
{
    const uint8_t *s = text + from.off;
    size_t n = from.len, done = 0;
    struct match m = { 0 };
    for (size_t at = 0; at < n && trie->n;) {
        if (trie->roots[s[at]] < 0 || !longest_at(trie, s, n, at, &m)) {
            at++;
            continue;
        }
        const struct ls_added_token *t = &a->tokens[m.token];
        at = m.end;
        if (t->single_word && !stands_alone(s, n, &m))
            continue;
        if (t->lstrip)
            strip_left(s, done, &m);
        if (t->rstrip)
            strip_right(s, n, &m);
        if (m.begin >= m.end)
            continue; /* white space that the match before has taken */
        ls_status st = push_text(from, done, m.begin, out, err);
        if (!st)
            st = ls_pieces_push(out, (struct ls_piece){ .id = t->id }, err);
        if (st)
            return st;
        done = m.end;
    }
    return push_text(from, done, n, out, err);
}
