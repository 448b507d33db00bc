/* Search patterns of a tokenizer: Oniguruma-style regular expressions (by PCRE2 with its JIT)
 * and plain texts.
 *
 * Layer: text. Local. A pattern is immutable after creation and may be shared by threads; a
 * matcher belongs to one thread at a time. Matches follow Oniguruma's iteration: leftmost, not
 * overlapping, and an empty match directly behind the previous match is skipped. */
#ifndef LS_TEXT_REGEX_H
#define LS_TEXT_REGEX_H

#include "text/buffer.h"
#include "text/fields.h"

struct ls_regex;

/* What one thread needs to search; zeroed is valid and costs nothing until a regular expression
 * is searched for. */
struct ls_matcher {
    void *match_data; /* owned, pcre2_match_data */
    void *context;    /* owned, pcre2_match_context */
    void *stack;      /* owned, pcre2_jit_stack */
};

void ls_matcher_finish(struct ls_matcher *m);

/* literal: the pattern is a plain text. Heap; LS_E_FORMAT names a pattern that is not
 * understood. Destroy takes NULL. */
ls_status ls_regex_create(struct ls_regex **out, struct ls_view pattern, bool literal,
                          struct ls_err *err);
void ls_regex_destroy(struct ls_regex *re);

/* The same from a field {"String": ...} or {"Regex": ...} of a component. */
ls_status ls_regex_load(struct ls_regex **out, const json_t *in, const char *where,
                        struct ls_err *err);

/* Whether the pattern is one literal character, which no border between chunks can cut. */
bool ls_regex_is_one_char(const struct ls_regex *re);

struct ls_search {
    const struct ls_regex *re;
    struct ls_matcher *m;
    const uint8_t *s; /* valid UTF-8 */
    size_t n;         /* bytes */
    size_t from;      /* where the next search begins */
    size_t last_end;  /* end of the last match, or SIZE_MAX */
    size_t begin;     /* the match: [begin, end) */
    size_t end;
};

static inline struct ls_search ls_search_start(const struct ls_regex *re, struct ls_matcher *m,
                                               const uint8_t *s, size_t n)
{
    return (struct ls_search){ .re = re, .m = m, .s = s, .n = n, .last_end = SIZE_MAX };
}

/* *found tells whether begin and end hold another match. LS_E_REQUEST when the pattern gives
 * up on this text (its backtracking limit). */
ls_status ls_search_next(struct ls_search *it, bool *found, struct ls_err *err);

/* Appends s with every match replaced by content. */
ls_status ls_regex_replace(const struct ls_regex *re, struct ls_matcher *m, const uint8_t *s,
                           size_t n, struct ls_view content, struct ls_bytes *out,
                           struct ls_err *err);

#endif
