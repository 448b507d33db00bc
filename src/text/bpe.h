/* Byte-pair encoding of one word, as the tokenizer.json model type BPE defines it.
 *
 * Layer: text, private to it. Local. The model is immutable after loading and shared; the work
 * storage belongs to one thread at a time. A word of n characters costs n log n. */
#ifndef LS_TEXT_BPE_H
#define LS_TEXT_BPE_H

#include "text/buffer.h"
#include "text/vocab.h"

struct ls_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX marks a free slot */
    uint32_t rank; /* place in the list of merges; lower goes first */
    int32_t id;    /* what the two become */
};

enum { LS_BPE_DIRECT = 0x400 }; /* characters below are looked up in a table */

struct ls_bpe {
    struct ls_vocab vocab;
    struct ls_merge *merges;  /* owned; [n_slots], open addressing */
    uint64_t n_slots;         /* a power of two */
    struct ls_bytes prefix;   /* continuing_subword_prefix, empty for none */
    struct ls_bytes suffix;   /* end_of_word_suffix, empty for none */
    struct ls_bytes unk_text; /* unk_token, empty for none */
    int32_t unk;              /* its id, or -1 */
    bool fuse_unk;            /* neighbouring unknown characters become one token */
    bool byte_fallback;       /* unknown characters become <0xHH> tokens */
    bool ignore_merges;       /* a word that is a token is not taken apart */
    uint8_t *joins;           /* owned; bitmap of character pairs, NULL: words stay whole */
    int32_t byte_ids[256];    /* id of <0xHH>, or -1 */
    int32_t direct[LS_BPE_DIRECT]; /* id of the character alone, or -1 */
};

/* in: the "model" value. Refuses other types, dropout, and merges of or into unknown tokens.
 * *out must be zeroed; finish it also after a failure. */
ls_status ls_bpe_load(struct ls_bpe *out, const json_t *in, struct ls_err *err);
void ls_bpe_finish(struct ls_bpe *m);

struct ls_symbol {
    int32_t id;   /* -1: merged into its left neighbour */
    int32_t prev; /* index of the left neighbour, -1 at the start */
    int32_t next; /* index of the right neighbour, -1 at the end */
};

struct ls_candidate {
    uint32_t rank;
    int32_t at; /* index of the left symbol */
    int32_t id; /* what the pair would become */
};

enum {
    LS_CACHE_SLOTS = 1 << 14, /* one word each, overwritten on collision */
    LS_CACHE_KEY = 36,        /* bytes of the longest word kept */
    LS_CACHE_IDS = 8          /* most tokens kept */
};

struct ls_cached_word {
    uint8_t len; /* bytes; 0 for an empty slot */
    uint8_t n_ids;
    uint8_t key[LS_CACHE_KEY];
    int32_t ids[LS_CACHE_IDS];
};

struct ls_bpe_work {
    struct ls_symbol *symbols; /* owned */
    size_t n;
    size_t cap;
    struct ls_candidate *heap; /* owned; least (rank, at) first */
    size_t n_heap;
    size_t cap_heap;
    struct ls_cached_word *cache; /* owned; [LS_CACHE_SLOTS], NULL until first used */
    struct ls_bytes text;         /* a character with its prefix or suffix */
};

void ls_bpe_work_finish(struct ls_bpe_work *w);

/* Appends the ids of one word: n > 0 bytes of valid text. LS_E_REQUEST where a character has no
 * token and the unk_token that should stand for it is not in the vocabulary. */
ls_status ls_bpe_encode(const struct ls_bpe *m, struct ls_bpe_work *w, const uint8_t *s,
                        size_t n, struct ls_ids *out, struct ls_err *err);

enum { LS_JOIN_BITS = 22 }; /* size of the bitmap joins, as a power of two */

/* The bit of a pair of neighbouring characters. It is set for every pair that stands inside of
 * a merge's result, so a word may be cut where it is clear: no merge reaches over the cut. That
 * keeps words short where nothing else cuts the text (SentencePiece style), with the same ids.
 * Only kept where every character has tokens of its own, and merges concern characters only. */
static inline uint32_t ls_bpe_join_bit(uint32_t left, uint32_t right)
{
    return (left * 0x9e3779b1u ^ right * 0x85ebca77u) * 0xc2b2ae3du >> (32 - LS_JOIN_BITS);
}

static inline bool ls_bpe_joins(const struct ls_bpe *m, uint32_t left, uint32_t right)
{
    uint32_t bit = ls_bpe_join_bit(left, right);
    return m->joins[bit >> 3] >> (bit & 7) & 1;
}

/* NULL when the two do not merge. */
static inline const struct ls_merge *ls_bpe_merge(const struct ls_bpe *m, int32_t left,
                                                  int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t at = pair * 0x9e3779b97f4a7c15u;
    at ^= at >> 32;
    for (;; at++) {
        const struct ls_merge *e = &m->merges[at & (m->n_slots - 1)];
        if (e->pair == pair)
            return e;
        if (e->pair == UINT64_MAX)
            return NULL;
    }
}

#endif
