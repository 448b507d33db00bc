/* Other programs' tensors, by a mapping file that says what lies where.
 *
 * Layer: parity. Local. The file is YAML (or JSON):
 *
 *   logits:
 *     file: logits.safetensors     # in the dump's folder; .npy has no tensor
 *     tensor: "logits.{id}"        # {id}: of the request; {number}: of its line, from 1
 *     first_position: 0            # of row 0: the position whose next token it predicts
 *   hidden:                        # hidden states, for parity --locate; optional
 *     file: hidden.safetensors
 *     tensor: "hidden.{layer}.{id}"  # {layer}: 0 is the embedding, n what layer n - 1 gives
 *   requests:                      # exceptions, by id
 *     warm-up: {file: other.npy, first_position: 3}
 *
 * Logits are [rows, vocab], also with leading axes of 1; F32, F16 or BF16. */
#ifndef LS_PARITY_EXTERNAL_H
#define LS_PARITY_EXTERNAL_H

#include "base/alloc.h"
#include "parity/dump.h"

struct ls_external_place {
    const char *file, *tensor; /* patterns; tensor NULL: an npy file */
    uint64_t first_position;
};

struct ls_external {
    struct ls_arena arena;
    struct ls_external_place logits, hidden; /* file NULL: the mapping has none */
    struct ls_external_exception {
        const char *id;
        struct ls_external_place place;
    } * exceptions; /* [n] */
    size_t n;
};

/* path is for messages. LS_E_USAGE with file and line. On failure *out is finished. */
ls_status ls_external_parse(struct ls_external *out, const char *path, const char *text,
                            size_t n, struct ls_err *err);
ls_status ls_external_read(struct ls_external *out, const char *path, struct ls_err *err);
void ls_external_finish(struct ls_external *external);

/* A pattern with its words replaced; layer < 0: none. False when it does not fit. */
bool ls_external_expand(char *out, size_t size, const char *pattern, const char *id,
                        uint64_t number, int layer);

/* The dump's logits of n requests, in their order: ids and their line numbers. Paths of files
 * that leave the folder are refused. LS_E_USAGE, LS_E_MEMORY. */
ls_status ls_external_open(struct ls_dump **out, const struct ls_external *external,
                           const char *folder, const char *const *ids, const uint64_t *numbers,
                           size_t n, struct ls_err *err);

#endif
