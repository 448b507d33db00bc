#include "text/bpe.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <string.h>

void ls_bpe_work_finish(struct ls_bpe_work *w)
{
    ls_free(w->symbols);
    ls_free(w->heap);
    ls_free(w->cache);
    ls_bytes_finish(&w->text);
    *w = (struct ls_bpe_work){ 0 };
}

static ls_status add_symbol(struct ls_bpe_work *w, int32_t id, struct ls_err *err)
{
    if (w->n == w->cap) {
        void *data = w->symbols;
        ls_status s = ls_grow(&data, w->n, &w->cap, w->n + 1, sizeof *w->symbols, err);
        w->symbols = data;
        if (s)
            return s;
    }
    int32_t at = (int32_t)w->n++;
    w->symbols[at] = (struct ls_symbol){ id, at - 1, at + 1 };
    return LS_OK;
}

/* Id of one character of a word, with the model's prefix and suffix where they belong. The
 * spelling looked up is left in *s, *n for the byte fallback. */
static ls_status find_char(const struct ls_bpe *m, struct ls_bpe_work *w, bool first, bool last,
                           const uint8_t **s, size_t *n, int32_t *id, struct ls_err *err)
{
    bool prefixed = m->prefix.n && !first, suffixed = m->suffix.n && last;
    if (!prefixed && !suffixed) {
        size_t at = 0;
        uint32_t c = ls_utf8_next(*s, &at);
        *id = c < LS_BPE_DIRECT ? m->direct[c] : ls_vocab_find(&m->vocab, *s, *n);
        return LS_OK;
    }
    w->text.n = 0;
    ls_status st =
        prefixed ? ls_bytes_append(&w->text, m->prefix.data, m->prefix.n, err) : LS_OK;
    if (!st)
        st = ls_bytes_append(&w->text, *s, *n, err);
    if (!st && suffixed)
        st = ls_bytes_append(&w->text, m->suffix.data, m->suffix.n, err);
    if (st)
        return st;
    *s = w->text.data;
    *n = w->text.n;
    *id = ls_vocab_find(&m->vocab, *s, *n);
    return LS_OK;
}

/* All bytes have a token, or none is used. */
static ls_status fall_back(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                           size_t n, bool *done, struct ls_err *err)
{
    *done = false;
    if (!m->byte_fallback)
        return LS_OK;
    for (size_t i = 0; i < n; i++)
        if (m->byte_ids[s[i]] < 0)
            return LS_OK;
    *done = true;
    ls_status st = LS_OK;
    for (size_t i = 0; !st && i < n; i++)
        st = add_symbol(w, m->byte_ids[s[i]], err);
    return st;
}

/* Unknown characters wait in *pending until a known one comes, so that they may be fused; byte
 * tokens overtake them, as in the reference. Without an unk_token they vanish. */
static ls_status add_unknown(const struct ls_bpe *m, struct ls_bpe_work *w, bool *pending,
                             struct ls_err *err)
{
    if (!m->unk_text.n)
        return LS_OK;
    if (m->unk < 0)
        return ls_fail(err, LS_E_REQUEST,
                       "a character has no token, and unk_token %.*s is not in the vocabulary",
                       (int)(m->unk_text.n > 200 ? 200 : m->unk_text.n),
                       (const char *)m->unk_text.data);
    ls_status s = *pending && !m->fuse_unk ? add_symbol(w, m->unk, err) : LS_OK;
    *pending = true;
    return s;
}

static ls_status first_symbols(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                               size_t n, struct ls_err *err)
{
    bool pending = false, done;
    ls_status st = LS_OK;
    w->n = 0;
    for (size_t at = 0, next; !st && at < n; at = next) {
        next = at + ls_utf8_len(s[at]);
        const uint8_t *text = s + at;
        size_t n_text = next - at;
        int32_t id;
        st = find_char(m, w, at == 0, next == n, &text, &n_text, &id, err);
        if (!st && id >= 0) {
            if (pending)
                st = add_symbol(w, m->unk, err);
            pending = false;
            if (!st)
                st = add_symbol(w, id, err);
            continue;
        }
        if (!st)
            st = fall_back(m, w, text, n_text, &done, err);
        if (!st && !done)
            st = add_unknown(m, w, &pending, err);
    }
    if (!st && pending)
        st = add_symbol(w, m->unk, err);
    if (w->n)
        w->symbols[w->n - 1].next = -1;
    return st;
}

static bool goes_first(struct ls_candidate a, struct ls_candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

/* The pair that begins at symbol `at`, if it merges. The heap has room: a word of n symbols
 * offers at most n - 1 pairs at first and two more for each merge. */
static void offer(const struct ls_bpe *m, struct ls_bpe_work *w, int32_t at)
{
    const struct ls_symbol *left = &w->symbols[at];
    if (left->next < 0)
        return;
    const struct ls_merge *e = ls_bpe_merge(m, left->id, w->symbols[left->next].id);
    if (!e)
        return;
    struct ls_candidate c = { e->rank, at, e->id };
    size_t i = w->n_heap++;
    for (; i && goes_first(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static struct ls_candidate take(struct ls_bpe_work *w)
{
    struct ls_candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        if (child + 1 < w->n_heap && goes_first(w->heap[child + 1], w->heap[child]))
            child++;
        if (!goes_first(w->heap[child], last))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

static void merge_all(const struct ls_bpe *m, struct ls_bpe_work *w)
{
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n; i++)
        offer(m, w, (int32_t)i);
    while (w->n_heap) {
        struct ls_candidate c = take(w);
        struct ls_symbol *left = &w->symbols[c.at];
        if (left->id < 0 || left->next < 0)
            continue;
        struct ls_symbol *right = &w->symbols[left->next];
        const struct ls_merge *e = ls_bpe_merge(m, left->id, right->id);
        if (!e || e->id != c.id)
            continue; /* one of the two has been merged since */
        left->id = c.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0)
            w->symbols[left->next].prev = c.at;
        if (left->prev >= 0)
            offer(m, w, left->prev);
        offer(m, w, c.at);
    }
}

static ls_status encode_word(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                             size_t n, struct ls_ids *out, struct ls_err *err)
{
    ls_status st = first_symbols(m, w, s, n, err);
    if (st)
        return st;
    void *data = w->heap;
    st = ls_grow(&data, 0, &w->cap_heap, 3 * w->n, sizeof *w->heap, err);
    w->heap = data;
    if (!st)
        st = ls_ids_reserve(out, w->n, err);
    if (st)
        return st;
    merge_all(m, w);
    for (size_t i = 0; i < w->n; i++)
        if (w->symbols[i].id >= 0)
            out->data[out->n++] = w->symbols[i].id;
    return LS_OK;
}

/* The slot for a word; *hit tells whether it holds that word. NULL for words never kept. */
static struct ls_cached_word *look_up(struct ls_bpe_work *w, const uint8_t *s, size_t n,
                                      bool *hit)
{
    void *p;
    *hit = false;
    if (n > LS_CACHE_KEY)
        return NULL;
    if (!w->cache) {
        if (ls_alloc(&p, LS_CACHE_SLOTS * sizeof *w->cache, "word cache", NULL))
            return NULL; /* slower, not wrong */
        w->cache = p;
    }
    struct ls_cached_word *c = &w->cache[ls_text_hash(s, n) & (LS_CACHE_SLOTS - 1)];
    *hit = c->len == n && !memcmp(c->key, s, n);
    return c;
}

/* A word that is not cut further. */
static ls_status encode_whole(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                              size_t n, struct ls_ids *out, struct ls_err *err)
{
    bool hit;
    struct ls_cached_word *c = look_up(w, s, n, &hit);
    if (hit)
        return ls_ids_append(out, c->ids, c->n_ids, err);
    if (m->ignore_merges) {
        int32_t whole = ls_vocab_find(&m->vocab, s, n);
        if (whole >= 0)
            return ls_ids_push(out, whole, err);
    }
    size_t before = out->n;
    ls_status st = encode_word(m, w, s, n, out, err);
    if (st || !c || out->n - before > LS_CACHE_IDS)
        return st;
    c->len = (uint8_t)n;
    c->n_ids = (uint8_t)(out->n - before);
    memcpy(c->key, s, n);
    if (c->n_ids)
        memcpy(c->ids, out->data + before, c->n_ids * sizeof *c->ids);
    return LS_OK;
}

ls_status ls_bpe_encode(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                        size_t n, struct ls_ids *out, struct ls_err *err)
{
    if (!m->joins)
        return encode_whole(m, w, s, n, out, err);
    size_t begin = 0, at = 0;
    uint32_t left = ls_utf8_next(s, &at);
    ls_status st = LS_OK;
    while (!st && at < n) {
        size_t cut = at;
        uint32_t right = ls_utf8_next(s, &at);
        if (!ls_bpe_joins(m, left, right)) {
            st = encode_whole(m, w, s + begin, cut - begin, out, err);
            begin = cut;
        }
        left = right;
    }
    return st ? st : encode_whole(m, w, s + begin, n - begin, out, err);
}
