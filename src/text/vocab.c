#include "text/vocab.h"

#include "base/alloc.h"
#include "base/size.h"

#include <string.h>

static const uint64_t HASH_MASK = 0xffffffff00000000u;

uint64_t ls_text_hash(const uint8_t *s, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, n);
    h = (h ^ w) * 0xc4ceb9fe1a85ec53u;
    h ^= h >> 29;
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* Bytes of all texts and the largest id; every value must be an id in range. */
static ls_status measure(const json_t *in, uint64_t *n_bytes, int64_t *max_id,
                         struct ls_err *err)
{
    const char *key;
    size_t len;
    const json_t *value;
    *n_bytes = 0;
    *max_id = -1;
    /* jansson takes a mutable object here only to hand out an iterator. */
    json_t *object = (json_t *)(uintptr_t)in;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        key = json_object_iter_key(it);
        len = json_object_iter_key_len(it);
        value = json_object_iter_value(it);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > LS_MAX_TOKEN_ID)
            return ls_fail(err, LS_E_FORMAT,
                           "tokenizer: vocabulary entry %.80s: the id is not a whole number "
                           "0..%d",
                           key, LS_MAX_TOKEN_ID);
        if (id > *max_id)
            *max_id = id;
        *n_bytes += len;
    }
    return LS_OK;
}

static ls_status allocate(struct ls_vocab *v, uint64_t n_bytes, uint32_t n_tokens,
                          struct ls_err *err)
{
    void *p;
    ls_status s = ls_alloc(&p, n_bytes, "vocabulary", err);
    if (s)
        return s;
    v->texts = p;
    s = ls_alloc(&p, (uint64_t)v->n_ids * sizeof *v->entries, "vocabulary", err);
    if (s)
        return s;
    v->entries = p;
    v->n_slots = 16;
    while (v->n_slots < 2 * n_tokens)
        v->n_slots *= 2;
    s = ls_alloc(&p, (uint64_t)v->n_slots * sizeof *v->slots, "vocabulary", err);
    if (s)
        return s;
    v->slots = p;
    memset(v->slots, 0xff, v->n_slots * sizeof *v->slots);
    return LS_OK;
}

static ls_status insert(struct ls_vocab *v, int32_t id, const char *key, size_t len,
                        uint64_t off, struct ls_err *err)
{
    struct ls_vocab_entry *e = &v->entries[id];
    if (e->used)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: vocabulary: id %d is both %.*s and %.80s",
                       id, (int)ls_min_u64(e->len, 80), (const char *)v->texts + e->off, key);
    memcpy(v->texts + off, key, len);
    *e = (struct ls_vocab_entry){ off, (uint32_t)len, true };
    uint64_t h = ls_text_hash(v->texts + off, len), at = h;
    while (v->slots[at & (v->n_slots - 1)] != UINT64_MAX)
        at++;
    v->slots[at & (v->n_slots - 1)] = (h & HASH_MASK) | (uint32_t)id;
    return LS_OK;
}

ls_status ls_vocab_load(struct ls_vocab *out, const json_t *in, struct ls_err *err)
{
    uint64_t n_bytes;
    int64_t max_id;
    json_t *object = (json_t *)(uintptr_t)in;
    size_t n_tokens = json_object_size(in);
    ls_status s = measure(in, &n_bytes, &max_id, err);
    if (s)
        return s;
    if (n_tokens > (size_t)max_id + 1)
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: vocabulary: %zu tokens, but ids up to %lld", n_tokens,
                       (long long)max_id);
    out->n_ids = (uint32_t)(max_id + 1);
    out->n_tokens = (uint32_t)n_tokens;
    s = allocate(out, n_bytes, out->n_tokens, err);
    uint64_t off = 0;
    for (void *it = json_object_iter(object); !s && it;
         it = json_object_iter_next(object, it)) {
        size_t len = json_object_iter_key_len(it);
        s = insert(out, (int32_t)json_integer_value(json_object_iter_value(it)),
                   json_object_iter_key(it), len, off, err);
        off += len;
    }
    return s;
}

void ls_vocab_finish(struct ls_vocab *v)
{
    ls_free(v->texts);
    ls_free(v->entries);
    ls_free(v->slots);
    *v = (struct ls_vocab){ 0 };
}

int32_t ls_vocab_find(const struct ls_vocab *v, const uint8_t *s, size_t n)
{
    if (!v->n_slots)
        return -1;
    uint64_t h = ls_text_hash(s, n);
    for (uint64_t at = h;; at++) {
        uint64_t slot = v->slots[at & (v->n_slots - 1)];
        if (slot == UINT64_MAX)
            return -1;
        if ((slot ^ h) & HASH_MASK)
            continue;
        const struct ls_vocab_entry *e = &v->entries[(uint32_t)slot];
        if (e->len == n && !memcmp(v->texts + e->off, s, n))
            return (int32_t)(uint32_t)slot;
    }
}

struct ls_view ls_vocab_text(const struct ls_vocab *v, int32_t id)
{
    if (id < 0 || (uint32_t)id >= v->n_ids || !v->entries[id].used)
        return (struct ls_view){ 0 };
    return (struct ls_view){ (const char *)v->texts + v->entries[id].off, v->entries[id].len };
}
