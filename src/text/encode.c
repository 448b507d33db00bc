#include "text/parts.h"

#include "base/alloc.h"
#include "base/mutant.h"
#include "text/utf8.h"

static void free_scratch(struct ls_scratch *s)
{
    ls_matcher_finish(&s->matcher);
    ls_bytes_finish(&s->norm.a);
    ls_bytes_finish(&s->norm.b);
    ls_bytes_finish(&s->normal);
    ls_pieces_finish(&s->raw);
    ls_pieces_finish(&s->pieces);
    ls_pre_work_finish(&s->pre);
    ls_bpe_work_finish(&s->bpe);
    ls_ids_finish(&s->ids);
    for (int i = 0; i < 3; i++)
        ls_bytes_finish(&s->token[i]);
    ls_free(s);
}

/* The pool is a cache behind a lock, which is why a const tokenizer may lend from it. */
static struct ls_tokenizer *lender(const struct ls_tokenizer *tok)
{
    return (struct ls_tokenizer *)(uintptr_t)tok;
}

ls_status ls_scratch_take(const struct ls_tokenizer *tok, struct ls_scratch **out,
                          struct ls_err *err)
{
    struct ls_tokenizer *t = lender(tok);
    pthread_mutex_lock(&t->lock);
    struct ls_scratch *s = t->pool;
    if (s) {
        t->pool = s->next;
        t->n_pool--;
    }
    pthread_mutex_unlock(&t->lock);
    if (!s) {
        void *p;
        ls_status st = ls_alloc(&p, sizeof *s, "tokenizer work space", err);
        if (st)
            return st;
        s = p;
    }
    *out = s;
    return LS_OK;
}

void ls_scratch_give(const struct ls_tokenizer *tok, struct ls_scratch *s)
{
    struct ls_tokenizer *t = lender(tok);
    pthread_mutex_lock(&t->lock);
    bool keep = t->n_pool < LS_POOL_MOST;
    if (keep) {
        s->next = t->pool;
        t->pool = s;
        t->n_pool++;
    }
    pthread_mutex_unlock(&t->lock);
    if (!keep)
        free_scratch(s);
}

void ls_scratch_free_all(struct ls_tokenizer *tok)
{
    while (tok->pool) {
        struct ls_scratch *next = tok->pool->next;
        free_scratch(tok->pool);
        tok->pool = next;
    }
}

/* One stretch of raw text between added tokens, normalised and searched for the others. */
static ls_status normalize_piece(const struct ls_tokenizer *tok, struct ls_scratch *w,
                                 const uint8_t *text, struct ls_piece p, struct ls_err *err)
{
    bool lost_head;
    size_t from = w->normal.n;
    ls_status s = ls_normalizer_apply(&tok->normalizer, &w->norm, &w->matcher, text + p.off,
                                      p.len, &w->normal, &lost_head, err);
    if (s || w->normal.n == from)
        return s;
    struct ls_piece made = { (uint32_t)from, (uint32_t)(w->normal.n - from), -1,
                             p.first && !lost_head };
    return ls_added_split(&tok->added, &tok->added.normalized, w->normal.data, made, &w->pieces,
                          err);
}

/* Both passes of added tokens, with the normaliser between them. */
static ls_status find_added(const struct ls_tokenizer *tok, struct ls_scratch *w,
                            const uint8_t *text, size_t n, struct ls_err *err)
{
    struct ls_piece whole = { 0, (uint32_t)n, -1, true };
    w->raw.n = w->pieces.n = w->normal.n = 0;
    ls_status s = ls_added_split(&tok->added, &tok->added.raw, text, whole, &w->raw, err);
    for (size_t i = 0; !s && i < w->raw.n; i++)
        s = w->raw.data[i].id >= 0 ? ls_pieces_push(&w->pieces, w->raw.data[i], err)
                                   : normalize_piece(tok, w, text, w->raw.data[i], err);
    return s;
}

static ls_status encode_pieces(const struct ls_tokenizer *tok, struct ls_scratch *w,
                               struct ls_err *err)
{
    const uint8_t *text = w->normal.data;
    const struct ls_pieces *pieces = &w->pieces;
    ls_status s =
        ls_pretokenizer_apply(&tok->pretokenizer, &w->pre, &w->matcher, &text, &pieces, err);
    w->ids.n = 0;
    for (size_t i = 0; !s && i < pieces->n; i++) {
        struct ls_piece p = pieces->data[i];
        s = p.id >= 0 ? ls_ids_push(&w->ids, p.id, err)
                      : ls_bpe_encode(&tok->model, &w->bpe, text + p.off, p.len, &w->ids, err);
    }
    return s;
}

static ls_status check_text(const uint8_t *text, size_t n, struct ls_err *err)
{
    if (n > LS_MAX_TEXT_BYTES)
        return ls_fail(err, LS_E_REQUEST, "text of %zu bytes is too long, at most %d", n,
                       LS_MAX_TEXT_BYTES);
    size_t bad = ls_utf8_check(text, n);
    if (bad < n)
        return ls_fail(err, LS_E_REQUEST, "text is not valid UTF-8: byte 0x%02x at offset %zu",
                       text[bad], bad);
    return LS_OK;
}

/* The first token of the template once more, when the negative control asks for it. */
static ls_status double_first(const struct ls_tokenizer *tok, bool add_special,
                              struct ls_ids *out, struct ls_err *err)
{
    const struct ls_ids *items = &tok->post.items;
    if (!LS_MUTANT(BOS_DOUBLED) || !add_special || !items->n || items->data[0] == LS_POST_TEXT)
        return LS_OK;
    return ls_ids_push(out, items->data[0], err);
}

ls_status ls_tokenizer_encode(const struct ls_tokenizer *tok, const char *text, size_t n,
                              bool add_special, struct ls_ids *out, struct ls_err *err)
{
    static const uint8_t nothing;
    const uint8_t *s = n ? (const uint8_t *)text : &nothing;
    struct ls_scratch *w;
    size_t before = out->n;
    ls_status st = check_text(s, n, err);
    if (!st)
        st = ls_scratch_take(tok, &w, err);
    if (st)
        return st;
    st = find_added(tok, w, s, n, err);
    if (!st)
        st = encode_pieces(tok, w, err);
    if (!st)
        st = double_first(tok, add_special, out, err);
    if (!st)
        st = ls_postprocess_apply(&tok->post, add_special, &w->ids, out, err);
    if (st)
        out->n = before;
    ls_scratch_give(tok, w);
    return st;
}
