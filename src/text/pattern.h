/* Rewrites a regular expression of a tokenizer.json, written for Oniguruma's Ruby-like syntax,
 * as one with the same meaning for PCRE2 (UTF, UCP, multi-line, newline LF).
 *
 * Layer: text. Local. What differs and is rewritten: \s \w \d \h and \b by their Unicode
 * definitions there; \p{Script}; {n,m}+ repeats instead of being possessive; {,m}; the m flag
 * means "dot matches newline"; a flag set inside a group reaches over the alternatives behind
 * it; nested classes and && in classes. Known limit: case folding that changes the number of
 * characters (ss for sharp s) does not match. Callouts, subexpression calls and anything else
 * that has no equal here are refused with LS_E_FORMAT. */
#ifndef LS_TEXT_PATTERN_H
#define LS_TEXT_PATTERN_H

#include "text/buffer.h"
#include "text/fields.h"

/* Appends the rewritten pattern to *out (undefined contents after a failure). */
ls_status ls_pattern_rewrite(struct ls_view pattern, struct ls_bytes *out, struct ls_err *err);

/* A character class whose '[' has been read; rx->at moves behind its ']'. Appends an
 * expression that matches exactly one character. For pattern.c; defined in pattern_class.c. */
struct ls_rewrite {
    const uint8_t *p;     /* the pattern, valid UTF-8 */
    size_t n;             /* its bytes */
    size_t at;            /* the next byte to read */
    struct ls_view whole; /* for messages */
    struct ls_err *err;
};
ls_status ls_pattern_class(struct ls_rewrite *rx, struct ls_bytes *out, int depth);

/* The inside of a class that means the same as \s \S \d \D \w \h, or NULL. */
const char *ls_pattern_set(uint8_t letter);

/* Reads "{Name}" behind \p or \P and appends the property (an item that may stand in a class
 * or alone) to *out. */
ls_status ls_pattern_property(struct ls_rewrite *rx, bool negated, struct ls_bytes *out);

/* n bytes of a property's name in lower case and without fillers; false when it is too long
 * or odd. The inside of a class for a plain name that is no category or script, or NULL. */
bool ls_pattern_plain_name(const uint8_t *from, size_t n, char out[40]);
const char *ls_pattern_named_set(const char *name);

/* Appends the literal character at rx->at, escaped where PCRE2 would take it for syntax. */
ls_status ls_pattern_literal(struct ls_rewrite *rx, struct ls_bytes *out);

/* Escapes that mean one fixed character: \n \t \xHH \x{H} \uHHHH and the like, the letter at
 * rx->at. *done tells whether it was one. */
ls_status ls_pattern_char_escape(struct ls_rewrite *rx, struct ls_bytes *out, bool *done);

ls_status ls_pattern_refuse(struct ls_rewrite *rx, const char *why);

#endif
