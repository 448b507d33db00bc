/* The pre-tokeniser of a tokenizer.json: cuts normalised text into words.
 *
 * Layer: text, private to it. Local. Immutable after loading. Knows Sequence, ByteLevel, Split,
 * Digits, Metaspace, Whitespace, WhitespaceSplit and Punctuation; any other kind is refused by
 * name. Offsets are not kept (trim_offsets is read and has no effect on ids). */
#ifndef LS_TEXT_PRETOKENIZER_H
#define LS_TEXT_PRETOKENIZER_H

#include "text/byte_letters.h"
#include "text/pieces.h"

enum ls_pre_kind {
    LS_PRE_BYTE_LEVEL,
    LS_PRE_SPLIT,
    LS_PRE_DIGITS,
    LS_PRE_METASPACE,
    LS_PRE_WHITESPACE,
    LS_PRE_WHITESPACE_SPLIT,
    LS_PRE_PUNCTUATION
};

enum ls_prepend { LS_PREPEND_ALWAYS, LS_PREPEND_FIRST, LS_PREPEND_NEVER };

struct ls_pre_step {
    enum ls_pre_kind kind;
    struct ls_regex *re;     /* SPLIT; BYTE_LEVEL that splits, else NULL; owned */
    enum ls_split how;       /* SPLIT, DIGITS, PUNCTUATION */
    bool invert;             /* SPLIT */
    bool prefix_space;       /* BYTE_LEVEL */
    bool split;              /* METASPACE */
    enum ls_prepend prepend; /* METASPACE */
    uint32_t mark;           /* METASPACE: the character that stands for a space */
};

struct ls_pretokenizer {
    struct ls_pre_step *steps; /* owned, in order */
    size_t n;
    size_t cap;
    struct ls_byte_letters letters;
};

/* in: the "pre_tokenizer" value or NULL. *out must be zeroed; finish it also after a failure.
 */
ls_status ls_pretokenizer_load(struct ls_pretokenizer *out, const json_t *in,
                               struct ls_err *err);
void ls_pretokenizer_finish(struct ls_pretokenizer *pt);

/* "prepend_scheme" with the older "add_prefix_space", for the decoder as well. */
ls_status ls_metaspace_load(const json_t *in, const char *where, uint32_t *mark,
                            enum ls_prepend *prepend, struct ls_err *err);

/* Storage of one run, kept by the caller from call to call. */
struct ls_pre_work {
    struct ls_spans spans;
    struct ls_bytes scratch;
    struct ls_bytes text[2];    /* steps that change the text write here in turn */
    struct ls_pieces pieces[2]; /* every step writes here in turn */
};

/* Runs all steps. text and pieces come in as the caller's and go out as the last step's, which
 * live in work until the next call. */
ls_status ls_pretokenizer_apply(const struct ls_pretokenizer *pt, struct ls_pre_work *work,
                                struct ls_matcher *m, const uint8_t **text,
                                const struct ls_pieces **pieces, struct ls_err *err);
void ls_pre_work_finish(struct ls_pre_work *work);

#endif
