/* Added tokens: texts that become one id wherever they stand, before words are cut.
 *
 * Layer: text, private to it. Local. Immutable after loading. Two passes, as in the reference:
 * tokens that are not "normalized" are found in the raw text, the others in the normalised
 * text by their own normalised spelling. The leftmost match wins, then the longest. */
#ifndef LS_TEXT_ADDED_H
#define LS_TEXT_ADDED_H

#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pieces.h"

struct ls_added_token {
    struct ls_bytes text;  /* as written in the file */
    struct ls_bytes shown; /* as decoded: the normalised spelling of a normalized token */
    int32_t id;
    bool special;     /* may be left out by decoding */
    bool normalized;  /* found in the second pass */
    bool single_word; /* only where no word character stands beside it */
    bool lstrip;      /* takes the spaces on its left */
    bool rstrip;      /* takes the spaces on its right */
};

/* A node of a byte trie; children are a linked list. */
struct ls_trie_node {
    int32_t child;   /* first child, or -1 */
    int32_t sibling; /* next child of the same parent, or -1 */
    int32_t token;   /* index of the added token that ends here, or -1 */
    uint8_t byte;
};

struct ls_trie {
    struct ls_trie_node *nodes; /* owned; all but the first bytes */
    size_t n;
    size_t cap;
    int32_t roots[256]; /* node of each first byte, or -1 */
};

struct ls_added {
    struct ls_added_token *tokens; /* owned, in file order */
    size_t n;
    size_t cap;
    int32_t next_id; /* id of the next token that the model does not have */
    int32_t *slots;  /* owned; hash index of the texts, -1 for free; linear probing */
    size_t n_slots;  /* 0, or a power of two >= 2 * n */
    int32_t *of_id;  /* owned; [n_ids] index into tokens, or -1 */
    uint32_t n_ids;  /* largest id of model or added tokens + 1 */
    struct ls_trie raw;
    struct ls_trie normalized;
};

/* in: the "added_tokens" value or NULL. Ids are those of the model's vocabulary or follow it,
 * as in the reference; a stated id that differs is refused, since the reference would silently
 * use another one. A text that comes twice keeps its id and takes the later flags.
 * *out must be zeroed; finish it also after a failure. */
ls_status ls_added_load(struct ls_added *out, const json_t *in, const struct ls_bpe *model,
                        struct ls_err *err);
/* Adds one token from a configuration unless its text is there already. id: as stated, or -1.
 */
ls_status ls_added_extend(struct ls_added *a, const json_t *in, int32_t id,
                          const struct ls_bpe *model, struct ls_err *err);
/* Adds a text of the model's vocabulary as a special token unless it is there already. */
ls_status ls_added_special(struct ls_added *a, struct ls_view text, const struct ls_bpe *model,
                           struct ls_err *err);
/* Builds the tables; nothing may be added after it. */
ls_status ls_added_seal(struct ls_added *a, const struct ls_bpe *model,
                        const struct ls_normalizer *nz, struct ls_err *err);
void ls_added_finish(struct ls_added *a);

/* The added token of an id or of a text, or NULL. */
const struct ls_added_token *ls_added_of_id(const struct ls_added *a, int32_t id);
const struct ls_added_token *ls_added_of_text(const struct ls_added *a, struct ls_view text);

/* Cuts `from`, a text piece of `text`, at the tokens of a trie; appends to *out. */
ls_status ls_added_split(const struct ls_added *a, const struct ls_trie *trie,
                         const uint8_t *text, struct ls_piece from, struct ls_pieces *out,
                         struct ls_err *err);

#endif
