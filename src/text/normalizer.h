/* The normaliser of a tokenizer.json: rewrites text before it is split.
 *
 * Layer: text, private to it. Local. Immutable after loading. Knows Sequence, NFC, NFD, NFKC,
 * NFKD, Lowercase, Strip, StripAccents, Prepend and Replace; any other kind is refused by name.
 * Accents and cases follow the Unicode version of utf8proc. */
#ifndef LS_TEXT_NORMALIZER_H
#define LS_TEXT_NORMALIZER_H

#include "text/regex.h"

enum ls_norm_kind {
    LS_NORM_NFC,
    LS_NORM_NFD,
    LS_NORM_NFKC,
    LS_NORM_NFKD,
    LS_NORM_LOWERCASE,
    LS_NORM_STRIP,
    LS_NORM_STRIP_ACCENTS,
    LS_NORM_PREPEND,
    LS_NORM_REPLACE
};

struct ls_norm_step {
    enum ls_norm_kind kind;
    bool left;               /* STRIP */
    bool right;              /* STRIP */
    struct ls_regex *re;     /* REPLACE, owned */
    struct ls_bytes content; /* PREPEND, REPLACE */
};

struct ls_normalizer {
    struct ls_norm_step *steps; /* owned, in order */
    size_t n;                   /* 0: text passes unchanged */
    size_t cap;
};

/* in: the "normalizer" value or NULL. *out must be zeroed; finish it also after a failure. */
ls_status ls_normalizer_load(struct ls_normalizer *out, const json_t *in, struct ls_err *err);
void ls_normalizer_finish(struct ls_normalizer *nz);

/* Two buffers to work in, kept by the caller from call to call. */
struct ls_norm_work {
    struct ls_bytes a, b;
};

/* Appends the normalised form of n bytes of valid text. *lost_head tells whether the first
 * character was dropped with nothing put in its place. */
ls_status ls_normalizer_apply(const struct ls_normalizer *nz, struct ls_norm_work *work,
                              struct ls_matcher *m, const uint8_t *s, size_t n,
                              struct ls_bytes *out, bool *lost_head, struct ls_err *err);

#endif
