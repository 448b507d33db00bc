#include "text/added.h"

#include "base/alloc.h"

#include <string.h>

static bool same_text(const struct ls_bytes *a, struct ls_view b)
{
    return a->n == b.n && !memcmp(a->data, b.s, b.n);
}

/* Index of the token with this text, or -1; *slot is where it is or belongs. */
static int32_t find(const struct ls_added *a, const uint8_t *s, size_t n, size_t *slot)
{
    *slot = 0;
    if (!a->n_slots)
        return -1;
    for (uint64_t at = ls_text_hash(s, n);; at++) {
        *slot = at & (a->n_slots - 1);
        int32_t i = a->slots[*slot];
        if (i < 0 || same_text(&a->tokens[i].text, (struct ls_view){ (const char *)s, n }))
            return i;
    }
}

const struct ls_added_token *ls_added_of_text(const struct ls_added *a, struct ls_view text)
{
    size_t slot;
    int32_t i = find(a, (const uint8_t *)text.s, text.n, &slot);
    return i < 0 ? NULL : &a->tokens[i];
}

/* Room in the index for one more. */
static ls_status grow_index(struct ls_added *a, struct ls_err *err)
{
    void *p;
    size_t n_slots = a->n_slots ? 2 * a->n_slots : 64, slot;
    if (a->n_slots >= 2 * (a->n + 1))
        return LS_OK;
    ls_status s = ls_alloc(&p, n_slots * sizeof *a->slots, "added tokens", err);
    if (s)
        return s;
    ls_free(a->slots);
    a->slots = p;
    a->n_slots = n_slots;
    memset(a->slots, 0xff, n_slots * sizeof *a->slots);
    for (size_t i = 0; i < a->n; i++) {
        find(a, a->tokens[i].text.data, a->tokens[i].text.n, &slot);
        a->slots[slot] = (int32_t)i;
    }
    return LS_OK;
}

static ls_status read_flags(const json_t *in, struct ls_added_token *t, struct ls_err *err)
{
    const char *where = "added_tokens";
    ls_status s = ls_field_bool(in, where, "special", &t->special, err);
    t->normalized = !t->special;
    if (!s)
        s = ls_field_bool(in, where, "normalized", &t->normalized, err);
    if (!s)
        s = ls_field_bool(in, where, "single_word", &t->single_word, err);
    if (!s)
        s = ls_field_bool(in, where, "lstrip", &t->lstrip, err);
    return s ? s : ls_field_bool(in, where, "rstrip", &t->rstrip, err);
}

/* A new token's id: the model's, or the next free one behind model and added tokens. */
static int32_t natural_id(const struct ls_added *a, struct ls_view text,
                          const struct ls_bpe *model)
{
    int32_t id = ls_vocab_find(&model->vocab, (const uint8_t *)text.s, text.n);
    if (id >= 0)
        return id;
    int32_t behind = (int32_t)model->vocab.n_tokens;
    return a->next_id > behind ? a->next_id : behind;
}

static ls_status check_id(struct ls_view text, int64_t stated, int32_t natural,
                          struct ls_err *err)
{
    if ((stated < 0 || stated == natural) && natural <= LS_MAX_TOKEN_ID)
        return LS_OK;
    return ls_fail(err, LS_E_FORMAT, "tokenizer: added token %.*s has id %lld, expected %d",
                   (int)(text.n > 200 ? 200 : text.n), text.s, (long long)stated, natural);
}

static ls_status append(struct ls_added *a, struct ls_added_token t, struct ls_view text,
                        struct ls_err *err)
{
    void *data = a->tokens;
    ls_status s = ls_grow(&data, a->n, &a->cap, a->n + 1, sizeof *a->tokens, err);
    a->tokens = data;
    if (s)
        return s;
    t.text = (struct ls_bytes){ 0 };
    s = ls_bytes_append(&t.text, text.s, text.n, err);
    if (!s)
        s = grow_index(a, err);
    if (s) {
        ls_bytes_finish(&t.text);
        return s;
    }
    size_t slot;
    find(a, t.text.data, t.text.n, &slot);
    a->slots[slot] = (int32_t)a->n;
    a->tokens[a->n++] = t;
    if (t.id >= a->next_id)
        a->next_id = t.id + 1;
    return LS_OK;
}

static ls_status add_one(struct ls_added *a, const json_t *in, int64_t stated,
                         const struct ls_bpe *model, bool replace, struct ls_err *err)
{
    struct ls_added_token t = { .id = -1 };
    struct ls_view text = { 0 };
    if (!json_is_object(in))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: added token is not an object");
    ls_status s = ls_field_text(in, "added_tokens", "content", &text, err);
    if (!s)
        s = read_flags(in, &t, err);
    if (s || !text.n)
        return s; /* an empty token can't be found in a text */
    size_t slot;
    int32_t old = find(a, (const uint8_t *)text.s, text.n, &slot);
    if (old >= 0) {
        t.text = a->tokens[old].text;
        t.id = a->tokens[old].id;
        if (replace)
            a->tokens[old] = t;
        return LS_OK;
    }
    t.id = natural_id(a, text, model);
    s = check_id(text, stated, t.id, err);
    return s ? s : append(a, t, text, err);
}

ls_status ls_added_load(struct ls_added *out, const json_t *in, const struct ls_bpe *model,
                        struct ls_err *err)
{
    const json_t *one;
    size_t i;
    if (in && !json_is_null(in) && !json_is_array(in))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: added_tokens is not an array");
    json_array_foreach(in, i, one)
    {
        int64_t stated = -1;
        ls_status s = ls_field_count(one, "added_tokens", "id", LS_MAX_TOKEN_ID, &stated, err);
        if (!s)
            s = add_one(out, one, stated, model, true, err);
        if (s)
            return s;
    }
    return LS_OK;
}

ls_status ls_added_extend(struct ls_added *a, const json_t *in, int32_t id,
                          const struct ls_bpe *model, struct ls_err *err)
{
    return add_one(a, in, id, model, false, err);
}

ls_status ls_added_special(struct ls_added *a, struct ls_view text, const struct ls_bpe *model,
                           struct ls_err *err)
{
    int32_t id = ls_vocab_find(&model->vocab, (const uint8_t *)text.s, text.n);
    if (id < 0 || !text.n || ls_added_of_text(a, text))
        return LS_OK;
    return append(a, (struct ls_added_token){ .id = id, .special = true }, text, err);
}

static int32_t new_node(struct ls_trie *t, uint8_t byte, int32_t sibling, struct ls_err *err)
{
    void *data = t->nodes;
    ls_status s = ls_grow(&data, t->n, &t->cap, t->n + 1, sizeof *t->nodes, err);
    t->nodes = data;
    if (s)
        return -1;
    t->nodes[t->n] = (struct ls_trie_node){ -1, sibling, -1, byte };
    return (int32_t)t->n++;
}

/* The child of `node` for a byte, made if it is missing; -1 when memory is exhausted. */
static int32_t grow_child(struct ls_trie *t, int32_t node, uint8_t byte, struct ls_err *err)
{
    int32_t k = t->nodes[node].child;
    while (k >= 0 && t->nodes[k].byte != byte)
        k = t->nodes[k].sibling;
    if (k < 0 && (k = new_node(t, byte, t->nodes[node].child, err)) >= 0)
        t->nodes[node].child = k;
    return k;
}

/* Of two tokens with one normalised spelling the later is found. */
static ls_status trie_add(struct ls_trie *t, const uint8_t *s, size_t n, int32_t token,
                          struct ls_err *err)
{
    int32_t at = t->roots[s[0]];
    if (at < 0)
        at = t->roots[s[0]] = new_node(t, s[0], -1, err);
    for (size_t i = 1; at >= 0 && i < n; i++)
        at = grow_child(t, at, s[i], err);
    if (at < 0)
        return err ? err->status : LS_E_MEMORY;
    t->nodes[at].token = token;
    return LS_OK;
}

/* A token that is normalised to nothing is never found. */
static ls_status add_normalized(struct ls_added *a, int32_t i, const struct ls_normalizer *nz,
                                struct ls_matcher *m, struct ls_norm_work *work,
                                struct ls_err *err)
{
    struct ls_added_token *t = &a->tokens[i];
    bool lost;
    ls_status s =
        ls_normalizer_apply(nz, work, m, t->text.data, t->text.n, &t->shown, &lost, err);
    if (s || !t->shown.n)
        return s;
    return trie_add(&a->normalized, t->shown.data, t->shown.n, i, err);
}

static ls_status fill_tries(struct ls_added *a, const struct ls_normalizer *nz,
                            struct ls_err *err)
{
    struct ls_matcher m = { 0 };
    struct ls_norm_work work = { 0 };
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < a->n; i++) {
        const struct ls_added_token *t = &a->tokens[i];
        s = t->normalized ? add_normalized(a, (int32_t)i, nz, &m, &work, err)
                          : trie_add(&a->raw, t->text.data, t->text.n, (int32_t)i, err);
    }
    ls_matcher_finish(&m);
    ls_bytes_finish(&work.a);
    ls_bytes_finish(&work.b);
    return s;
}

ls_status ls_added_seal(struct ls_added *a, const struct ls_bpe *model,
                        const struct ls_normalizer *nz, struct ls_err *err)
{
    void *p;
    a->n_ids = model->vocab.n_ids;
    for (size_t i = 0; i < a->n; i++)
        if ((uint32_t)a->tokens[i].id >= a->n_ids)
            a->n_ids = (uint32_t)a->tokens[i].id + 1;
    ls_status s = ls_alloc(&p, (uint64_t)a->n_ids * sizeof *a->of_id, "added tokens", err);
    if (s)
        return s;
    a->of_id = p;
    memset(a->of_id, 0xff, a->n_ids * sizeof *a->of_id);
    for (size_t i = 0; i < a->n; i++)
        a->of_id[a->tokens[i].id] = (int32_t)i;
    memset(a->raw.roots, 0xff, sizeof a->raw.roots);
    memset(a->normalized.roots, 0xff, sizeof a->normalized.roots);
    return a->n ? fill_tries(a, nz, err) : LS_OK;
}

void ls_added_finish(struct ls_added *a)
{
    for (size_t i = 0; i < a->n; i++) {
        ls_bytes_finish(&a->tokens[i].text);
        ls_bytes_finish(&a->tokens[i].shown);
    }
    ls_free(a->slots);
    ls_free(a->tokens);
    ls_free(a->of_id);
    ls_free(a->raw.nodes);
    ls_free(a->normalized.nodes);
    *a = (struct ls_added){ 0 };
}
