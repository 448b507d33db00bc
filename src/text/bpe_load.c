#include "text/bpe.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "model.BPE";

static ls_status load_text(const json_t *in, const char *name, struct ls_bytes *out,
                           struct ls_err *err)
{
    struct ls_view v = { 0 };
    ls_status s = ls_field_text(in, where, name, &v, err);
    return s ? s : ls_bytes_append(out, v.s, v.n, err);
}

/* A model that drops merges at random is for training; 0 says the same as null. */
static ls_status check_dropout(const json_t *in, struct ls_err *err)
{
    const json_t *v = json_object_get(in, "dropout");
    if (!v || json_is_null(v) || (json_is_number(v) && json_number_value(v) == 0.0))
        return LS_OK;
    return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: dropout is not supported", where);
}

static ls_status check_type(const json_t *in, struct ls_err *err)
{
    const json_t *type = json_object_get(in, "type");
    if (!type && json_is_object(json_object_get(in, "vocab")) &&
        json_is_array(json_object_get(in, "merges")))
        return LS_OK; /* files older than the field */
    if (!json_is_string(type))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: model: no type named");
    if (strcmp(json_string_value(type), "BPE"))
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: model type %s is not supported, only BPE is",
                       json_string_value(type));
    return LS_OK;
}

static ls_status load_settings(struct ls_bpe *m, const json_t *in, struct ls_err *err)
{
    ls_status s = check_type(in, err);
    if (!s)
        s = check_dropout(in, err);
    if (!s)
        s = load_text(in, "continuing_subword_prefix", &m->prefix, err);
    if (!s)
        s = load_text(in, "end_of_word_suffix", &m->suffix, err);
    if (!s)
        s = load_text(in, "unk_token", &m->unk_text, err);
    if (!s)
        s = ls_field_bool(in, where, "fuse_unk", &m->fuse_unk, err);
    if (!s)
        s = ls_field_bool(in, where, "byte_fallback", &m->byte_fallback, err);
    return s ? s : ls_field_bool(in, where, "ignore_merges", &m->ignore_merges, err);
}

/* "a b" with exactly one space, or ["a", "b"]. */
static bool read_merge(const json_t *in, struct ls_view *left, struct ls_view *right)
{
    if (json_is_array(in)) {
        const json_t *l = json_array_get(in, 0), *r = json_array_get(in, 1);
        if (json_array_size(in) != 2 || !json_is_string(l) || !json_is_string(r))
            return false;
        *left = ls_view_of(l);
        *right = ls_view_of(r);
        return true;
    }
    if (!json_is_string(in))
        return false;
    struct ls_view v = ls_view_of(in);
    const char *space = memchr(v.s, ' ', v.n);
    if (!space)
        return false;
    *left = (struct ls_view){ v.s, (size_t)(space - v.s) };
    *right = (struct ls_view){ space + 1, v.n - left->n - 1 };
    return !memchr(right->s, ' ', right->n);
}

static int32_t find(const struct ls_bpe *m, struct ls_view v)
{
    return ls_vocab_find(&m->vocab, (const uint8_t *)v.s, v.n);
}

/* A later merge of the same pair replaces the earlier one. */
static void insert(struct ls_bpe *m, struct ls_merge e)
{
    uint64_t at = e.pair * 0x9e3779b97f4a7c15u;
    at ^= at >> 32;
    while (m->merges[at & (m->n_slots - 1)].pair != UINT64_MAX &&
           m->merges[at & (m->n_slots - 1)].pair != e.pair)
        at++;
    m->merges[at & (m->n_slots - 1)] = e;
}

static ls_status add_merge(struct ls_bpe *m, const json_t *in, size_t i, uint32_t rank,
                           struct ls_bytes *joined, struct ls_err *err)
{
    struct ls_view l, r;
    if (!read_merge(in, &l, &r))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: merge %zu is not a pair of tokens", i);
    int32_t left = find(m, l), right = find(m, r);
    if (left < 0 || right < 0) {
        struct ls_view bad = left < 0 ? l : r;
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: merge %zu: token %.*s is not in the vocabulary", i,
                       (int)(bad.n > 200 ? 200 : bad.n), bad.s);
    }
    if (r.n < m->prefix.n)
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: merge %zu: second token is shorter than the subword prefix",
                       i);
    joined->n = 0;
    ls_status s = ls_bytes_append(joined, l.s, l.n, err);
    if (!s)
        s = ls_bytes_append(joined, r.s + m->prefix.n, r.n - m->prefix.n, err);
    if (s)
        return s;
    int32_t id = joined->n ? ls_vocab_find(&m->vocab, joined->data, joined->n) : -1;
    if (id < 0)
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: merge %zu: its result %.*s is not in the vocabulary", i,
                       (int)(joined->n > 200 ? 200 : joined->n), (const char *)joined->data);
    insert(m, (struct ls_merge){ (uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, id });
    return LS_OK;
}

/* Files made from merges.txt may carry its version line. */
static bool is_version_line(const json_t *in)
{
    return json_is_string(in) && !strncmp(json_string_value(in), "#version", 8);
}

static ls_status load_merges(struct ls_bpe *m, const json_t *in, struct ls_err *err)
{
    const json_t *list, *one;
    struct ls_bytes joined = { 0 };
    size_t i;
    uint32_t rank = 0;
    void *p;
    ls_status s = ls_field_array(in, where, "merges", &list, err);
    if (!s && !list)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no merges", where);
    if (s)
        return s;
    m->n_slots = 16;
    while (m->n_slots < 2 * json_array_size(list))
        m->n_slots *= 2;
    s = ls_alloc(&p, m->n_slots * sizeof *m->merges, "merges", err);
    if (s)
        return s;
    m->merges = p;
    memset(m->merges, 0xff, m->n_slots * sizeof *m->merges);
    json_array_foreach(list, i, one)
    {
        if (!is_version_line(one) && (s = add_merge(m, one, i, rank++, &joined, err)))
            break;
    }
    ls_bytes_finish(&joined);
    return s;
}

/* What encoding would look up again and again. */
static void fill_tables(struct ls_bpe *m)
{
    char name[8];
    uint8_t text[4];
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        m->byte_ids[b] = ls_vocab_find(&m->vocab, (const uint8_t *)name, 6);
    }
    for (uint32_t c = 0; c < LS_BPE_DIRECT; c++)
        m->direct[c] = ls_vocab_find(&m->vocab, text, ls_utf8_put(text, c));
    m->unk = m->unk_text.n ? ls_vocab_find(&m->vocab, m->unk_text.data, m->unk_text.n) : -1;
}

static bool is_byte_token(const struct ls_bpe *m, int32_t id)
{
    struct ls_view v = ls_vocab_text(&m->vocab, id);
    return v.n == 6 && !memcmp(v.s, "<0x", 3) && v.s[5] == '>';
}

/* Whether words may be cut between characters that no merge brings together. */
static bool may_cut_words(const struct ls_bpe *m)
{
    if (!m->byte_fallback || m->ignore_merges || m->prefix.n || m->suffix.n)
        return false;
    for (int b = 0; b < 256; b++)
        if (m->byte_ids[b] < 0)
            return false;
    for (uint64_t i = 0; i < m->n_slots; i++) {
        uint64_t pair = m->merges[i].pair;
        if (pair != UINT64_MAX && (is_byte_token(m, (int32_t)(pair >> 32)) ||
                                   is_byte_token(m, (int32_t)(uint32_t)pair)))
            return false;
    }
    return true;
}

static void note_pairs(struct ls_bpe *m, struct ls_view text)
{
    const uint8_t *s = (const uint8_t *)text.s;
    size_t at = 0;
    uint32_t left = text.n ? ls_utf8_next(s, &at) : 0;
    while (at < text.n) {
        uint32_t right = ls_utf8_next(s, &at);
        uint32_t bit = ls_bpe_join_bit(left, right);
        m->joins[bit >> 3] |= (uint8_t)(1 << (bit & 7));
        left = right;
    }
}

static ls_status fill_joins(struct ls_bpe *m, struct ls_err *err)
{
    void *p;
    if (!may_cut_words(m))
        return LS_OK;
    ls_status s = ls_alloc(&p, (1u << LS_JOIN_BITS) / 8, "merges", err);
    if (s)
        return s;
    m->joins = p;
    for (uint64_t i = 0; i < m->n_slots; i++)
        if (m->merges[i].pair != UINT64_MAX)
            note_pairs(m, ls_vocab_text(&m->vocab, m->merges[i].id));
    return LS_OK;
}

ls_status ls_bpe_load(struct ls_bpe *out, const json_t *in, struct ls_err *err)
{
    const json_t *vocab;
    if (!json_is_object(in))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: no model");
    ls_status s = load_settings(out, in, err);
    if (!s)
        s = ls_field_object(in, where, "vocab", &vocab, err);
    if (!s && !vocab)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no vocab", where);
    if (!s)
        s = ls_vocab_load(&out->vocab, vocab, err);
    if (!s)
        s = load_merges(out, in, err);
    if (s)
        return s;
    fill_tables(out);
    return fill_joins(out, err);
}

void ls_bpe_finish(struct ls_bpe *m)
{
    ls_vocab_finish(&m->vocab);
    ls_free(m->merges);
    ls_free(m->joins);
    m->merges = NULL;
    m->joins = NULL;
    ls_bytes_finish(&m->prefix);
    ls_bytes_finish(&m->suffix);
    ls_bytes_finish(&m->unk_text);
}
