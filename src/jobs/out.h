/* A growing text and the pieces of JSON that rows, indexes and manifests are made of.
 *
 * Layer: jobs. Local. Compact JSON: no spaces, keys in the order of the calls. Memory
 * exhaustion is remembered in `failed` and makes every later call do nothing, so that a writer
 * checks once, at the end. A zeroed struct is empty; the owner calls ls_out_finish. */
#ifndef LS_JOBS_OUT_H
#define LS_JOBS_OUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_out {
    char *data; /* [n], not zero-terminated; owned */
    size_t n, cap;
    bool failed;
};

void ls_out_finish(struct ls_out *out);
/* Moves the text into a block of exactly its size, which the caller frees with free(). NULL
 * when memory was exhausted. *out is empty afterwards. */
char *ls_out_take(struct ls_out *out, size_t *n);

/* Room for n bytes at data, whatever `n` says; false when memory is exhausted. */
bool ls_out_room(struct ls_out *out, size_t n);

void ls_out_add(struct ls_out *out, const void *data, size_t n);
void ls_out_text(struct ls_out *out, const char *text);
void ls_out_u64(struct ls_out *out, uint64_t v);
void ls_out_i64(struct ls_out *out, int64_t v);
/* Shortest text that reads back equal; -9999.0 for minus infinity (as OpenAI writes a token
 * without probability), 9999.0 for infinity, null for NaN: JSON has none of them. */
void ls_out_f64(struct ls_out *out, double v);
void ls_out_hex(struct ls_out *out, const unsigned char *data, size_t n);
/* A quoted string. Invalid UTF-8 becomes U+FFFD; control characters and the characters at which
 * some readers break lines (U+0085, U+2028, U+2029) are escaped, the rest stays as it is. */
void ls_out_string(struct ls_out *out, const void *text, size_t n);

/* LS_E_MEMORY when `failed`. */
ls_status ls_out_check(const struct ls_out *out, const char *what, struct ls_err *err);

#endif
