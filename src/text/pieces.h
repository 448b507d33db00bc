/* A text on its way to ids: a list of pieces over one run of bytes.
 *
 * Layer: text, private to it. Local. Each step reads one list and writes the next; a piece is
 * either text still to be tokenised or an added token, whose id is already known. */
#ifndef LS_TEXT_PIECES_H
#define LS_TEXT_PIECES_H

#include "text/buffer.h"
#include "text/regex.h"

struct ls_piece {
    uint32_t off; /* bytes, into the text that the list belongs to */
    uint32_t len; /* bytes, > 0 for text */
    int32_t id;   /* added token, or -1 for text */
    bool first;   /* begins at byte 0 of what the caller passed in */
};

struct ls_pieces {
    struct ls_piece *data; /* owned */
    size_t n;
    size_t cap;
};

/* One stretch of a piece: a match of the pattern that splits it, or what lies between. */
struct ls_span {
    uint32_t begin; /* bytes, into the piece */
    uint32_t end;
    bool match;
};

struct ls_spans {
    struct ls_span *data; /* owned */
    size_t n;
    size_t cap;
};

/* What becomes of the matches when a piece is split. */
enum ls_split {
    LS_SPLIT_ISOLATED,
    LS_SPLIT_REMOVED,
    LS_SPLIT_MERGED_PREVIOUS,
    LS_SPLIT_MERGED_NEXT,
    LS_SPLIT_CONTIGUOUS
};

ls_status ls_pieces_push(struct ls_pieces *p, struct ls_piece piece, struct ls_err *err);
void ls_pieces_finish(struct ls_pieces *p);
void ls_spans_finish(struct ls_spans *p);

/* Spans of n > 0 bytes of valid text: matches of re, or single characters for which is() holds.
 * Together they cover the text; the list is emptied first. */
ls_status ls_spans_of_regex(struct ls_spans *out, const struct ls_regex *re,
                            struct ls_matcher *m, const uint8_t *s, size_t n,
                            struct ls_err *err);
ls_status ls_spans_of_chars(struct ls_spans *out, bool (*is)(uint32_t c), const uint8_t *s,
                            size_t n, struct ls_err *err);
ls_status ls_spans_of_char(struct ls_spans *out, uint32_t c, const uint8_t *s, size_t n,
                           struct ls_err *err);

/* Turns the spans into text pieces at `from` (the piece that was split; its off is added).
 * Empty ones vanish. invert: what did not match counts as the match. */
ls_status ls_spans_emit(const struct ls_spans *spans, enum ls_split how, bool invert,
                        struct ls_piece from, struct ls_pieces *out, struct ls_err *err);

#endif
