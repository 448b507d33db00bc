/* A set of logits kept as its differences to a reference set, without losing a bit.
 *
 * Layer: parity. Writing is a stream, a row at a time; reading is a pure function over (bytes,
 * size), which are untrusted. Rows equal to the reference's at the same place take no space;
 * others are kept as the XOR of the bits, packed (wire/pack.h) where that makes them smaller;
 * rows without a partner are kept whole, packed likewise. Little-endian:
 *
 *   "LSDIFF01" | digest of the reference (32) | bytes of its path (4) | path, seen from the
 *   file's folder | records | 'Z' | entries (8) | rows kept (8) | BLAKE2b-256 of all before
 *
 *   'E' | bytes of the name (4) | first position (8) | rows (8) | columns (8) | name
 *   'R' | row (8) | bytes (4) | 1 if packed | bytes of float32 XOR the reference's, or float32
 *
 * R belongs to the E before it, rows ascending; entries are in their dump's order. A row r has
 * a partner when the reference has an entry of that name and columns with more than r rows. */
#ifndef LS_PARITY_STORE_H
#define LS_PARITY_STORE_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_STORE_NAME = 1 << 20, LS_STORE_COLUMNS = 1 << 28 };

/* --- writing ---------------------------------------------------------------------------------
 */
struct ls_store_writer;

/* Writes path.part, which becomes `path` when it is closed. LS_E_IO, LS_E_FULL, LS_E_MEMORY. */
ls_status ls_store_create(struct ls_store_writer **out, const char *path, const char *reference,
                          const unsigned char digest[32], struct ls_err *err);
ls_status ls_store_entry(struct ls_store_writer *w, const char *name, uint64_t first_position,
                         uint64_t rows, uint64_t columns, struct ls_err *err);
/* Row of the last entry; reference: its partner, or NULL. Writes nothing when both are equal.
 */
ls_status ls_store_row(struct ls_store_writer *w, uint64_t row, const float *values,
                       const float *reference, struct ls_err *err);
/* Makes it durable and names it. The writer is gone in every case. */
ls_status ls_store_close(struct ls_store_writer *w, struct ls_err *err);
/* Removes what was written; takes NULL. */
void ls_store_abandon(struct ls_store_writer *w);

/* --- reading ---------------------------------------------------------------------------------
 */
struct ls_store_row_place {
    uint64_t row, off; /* of the bytes in the image */
    uint32_t bytes;
    bool packed;
};

struct ls_store_place {
    const char *name;
    uint64_t first_position, rows, columns;
    size_t first, n; /* of the kept rows */
};

struct ls_store {
    const unsigned char *image;
    const char *reference; /* path, seen from the file's folder */
    unsigned char digest[32];
    struct ls_store_place *entries; /* [n] */
    size_t n;
    struct ls_store_row_place *rows; /* [n_rows] */
    size_t n_rows;
};

bool ls_store_is(const void *image, uint64_t size);
/* Lists are in the arena; the image must outlive them. LS_E_FORMAT, LS_E_MEMORY. */
ls_status ls_store_parse(struct ls_store *out, const void *image, uint64_t size,
                         struct ls_arena *arena, struct ls_err *err);
/* Makes row `place` of an entry: out [columns] holds the partner's values or zeros. scratch:
 * 2 x columns floats. LS_E_FORMAT. */
ls_status ls_store_apply(const struct ls_store *store, const struct ls_store_place *entry,
                         const struct ls_store_row_place *place, float *out, float *scratch,
                         struct ls_err *err);

#endif
