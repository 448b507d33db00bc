/* Where a text that is scored is cut: the harness's rules, on tokens and characters.
 *
 * Layer: jobs. Local, pure. A stream is the tokens of one text with whatever stands in front of
 * the first scored one; a window feeds `n` of them and scores the token behind each of its last
 * `n_scored` ones.
 *
 *   stream   p a b c d e f g      length 3, stride 3 (the harness's rolling windows)
 *   window 0 p a b                scores a b c
 *   window 1       c d e          scores d e f
 *   window 2         d e f        scores g: the last one reaches back, so all are full */
#ifndef LS_JOBS_WINDOWS_H
#define LS_JOBS_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_window {
    size_t first; /* place in the stream of its first token */
    uint32_t n;   /* tokens fed, 1..length */
    uint32_t n_scored;
};

struct ls_windows {
    size_t n_stream; /* tokens, the first one only fed */
    uint32_t length; /* tokens of a window, at most; 1.. */
    uint32_t stride; /* tokens that a window behind the first scores, at most; 1..length */
    size_t n_done;   /* tokens scored by the windows so far */
};

/* How many windows there will be. */
uint64_t ls_windows_count(const struct ls_windows *w);
/* False when all is scored. */
bool ls_windows_next(struct ls_windows *w, struct ls_window *window);

/* The one window of a context and its continuation, n_scored 1..length tokens at the stream's
 * end. *n_dropped: tokens on the left that do not fit. */
struct ls_window ls_window_of(size_t n_stream, uint32_t n_scored, uint32_t length,
                              size_t *n_dropped);

/* Bytes of white space at the end of a text: what Python's rstrip takes away. */
size_t ls_trailing_space(const char *text, size_t n);

#endif
