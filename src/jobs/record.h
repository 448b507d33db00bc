/* One record of a journal, as bytes. Layer: jobs. Pure functions; bytes from a file are
 * untrusted.
 *
 *   frame    u32 magic, u32 kind, u32 payload bytes, u32 0, 16 bytes digest     little-endian
 *   payload  identity: JSON text
 *            row:      the fixed part below, the row's text, places, custom_id
 *
 * The digest is BLAKE2b over kind, length and payload: a record is whole or it is none. */
#ifndef LS_JOBS_RECORD_H
#define LS_JOBS_RECORD_H

#include "base/status.h"
#include "jobs/id_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ls_record_kind { LS_RECORD_IDENTITY = 1, LS_RECORD_ROW = 2 };

enum {
    LS_FRAME_BYTES = 32,
    LS_ROW_FIXED_BYTES = 128,
    LS_PLACE_BYTES = 8,
    LS_RECORD_DIGEST = 16,
};

struct ls_record_frame {
    uint32_t kind, n_payload; /* bytes behind the frame */
    unsigned char digest[LS_RECORD_DIGEST];
};

/* A finished request, good or bad. */
struct ls_row_record {
    uint64_t line; /* 1.. */
    uint64_t prompt_tokens, generated_tokens;
    bool is_error, has_id;
    unsigned char line_digest[32];        /* BLAKE2b-256 of the request line */
    unsigned char id_digest[LS_ID_BYTES]; /* of custom_id, when has_id */
    unsigned char logits_digest[32];      /* of the row; zeros when it has none */
    uint32_t n_row, n_places, n_id;       /* bytes, entries, bytes */
};

/* Where one choice's logits lie: their number and the position of the first. */
struct ls_place {
    uint32_t rows, first_row;
};

void ls_frame_put(unsigned char out[LS_FRAME_BYTES], const struct ls_record_frame *frame);
/* False: not the beginning of a record. */
bool ls_frame_get(struct ls_record_frame *frame, const unsigned char bytes[LS_FRAME_BYTES]);

void ls_row_record_put(unsigned char out[LS_ROW_FIXED_BYTES], const struct ls_row_record *rec);
/* n: bytes of the whole payload. False: the parts do not make up n bytes, or a field is out of
 * range. */
bool ls_row_record_get(struct ls_row_record *rec, const unsigned char *bytes, uint64_t n);

void ls_place_put(unsigned char out[LS_PLACE_BYTES], const struct ls_place *place);
void ls_place_get(struct ls_place *place, const unsigned char bytes[LS_PLACE_BYTES]);

#endif
