/* The job secret: 32 random bytes that all ranks of a run share.
 *
 * Layer: wire. Bytes only: who may read which file is for the caller to check. A key file is
 * text: comment lines that begin with '#', and one line of 64 hexadecimal digits; or it is the
 * 32 bytes themselves. 32 equal bytes are refused: nobody drew those. A secret lies in guarded
 * memory, is wiped by destroy, and is never printed except by ls_secret_print. */
#ifndef LS_WIRE_SECRET_H
#define LS_WIRE_SECRET_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_SECRET_BYTES = 32, LS_SECRET_FILE_MAX = 4096, LS_SECRET_LINE = 2 * LS_SECRET_BYTES };

struct ls_secret;

/* Fresh from the system's random numbers. Heap. */
ls_status ls_secret_create(struct ls_secret **out, struct ls_err *err);
/* From the bytes of a key file (n of them, at most LS_SECRET_FILE_MAX); LS_E_FORMAT otherwise,
 * with a message that quotes nothing of it. The caller wipes its own copy of the text. */
ls_status ls_secret_parse(struct ls_secret **out, const unsigned char *text, size_t n,
                          struct ls_err *err);
/* Takes NULL. */
void ls_secret_destroy(struct ls_secret *secret);

/* The 32 bytes, for deriving keys. Borrowed. */
const unsigned char *ls_secret_bytes(const struct ls_secret *secret);

/* A keyed hash of a label and some parts, in order: out = BLAKE2b-256(key; label, parts).
 * Leaves no trace of the key on the stack. Every derived key of a run is made here. */
struct ls_secret_part {
    const void *bytes;
    size_t n;
};
void ls_secret_derive(unsigned char out[LS_SECRET_BYTES],
                      const unsigned char key[LS_SECRET_BYTES], const char *label,
                      const struct ls_secret_part *parts, int n_parts);

/* The line of a key file, with a terminating zero, without newline. The caller wipes it. */
void ls_secret_print(const struct ls_secret *secret, char line[LS_SECRET_LINE + 1]);

#endif
