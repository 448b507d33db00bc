/* RESULT frames: how a step's logits are cut into frames, and the table in front of them.
 *
 * Layer: pipeline. Pure functions over a step and bytes. The last stage and the coordinator
 * compute the same groups from the same step, so rank 0 knows exactly what must come. A step's
 * logits rows are taken logit_rows at a time; a group with nothing to send makes no frame
 * unless it is the last one, so every step is answered by at least one frame.
 *
 *   table: u32 n_sent | u32 n_rows (the step's rows in the last group, else 0)
 *          n_sent x { u32 slot, u32 position, i32 nan_layer }
 *          n_rows x { u32 slot, i32 nan_layer, 32 bytes digest }
 *   leaves: in the last group, when they are wanted, [n_layers + 1][step's tokens][LS_LEAF]
 *   tensor: binary32 [n_sent][vocab]; none when n_sent is 0 */
#ifndef LS_PIPELINE_RESULT_H
#define LS_PIPELINE_RESULT_H

#include "stage/stage.h"
#include "wire/frame.h"

#include <stdbool.h>

enum { LS_DIGEST_BYTES = 32 };

struct ls_result_group {
    uint32_t begin, end; /* logits rows of the step, half-open */
    uint32_t n_sent;     /* of these */
    bool last;
    uint32_t table_bytes;
};

/* What the table of a frame says, after it was checked. */
struct ls_result_row {
    int32_t nan_layer;
    unsigned char digest[LS_DIGEST_BYTES]; /* zero when no digest is wanted */
};

/* Largest table when frames hold up to logit_rows rows. */
uint64_t ls_result_max_table(const struct ls_step_limits *lim, uint32_t logit_rows);

/* The group that begins at logits row `begin`. */
struct ls_result_group ls_result_group(const struct ls_step *step, uint32_t logit_rows,
                                       uint32_t begin);
static inline bool ls_result_has_frame(const struct ls_result_group *g)
{
    return g->n_sent > 0 || g->last;
}

/* Bytes of the step's leaves behind the table of its last frame: of all layers and of the
 * logits; 0 in the other frames and when none are wanted. */
uint64_t ls_result_leaf_bytes(const struct ls_result_group *g, const struct ls_step *step,
                              const struct ls_step_limits *lim, int n_layers);

/* Writes g->table_bytes. places: of the step. stage gives the digests; NULL: none are wanted.
 */
void ls_result_encode(unsigned char *out, const struct ls_step *step,
                      const struct ls_logit_place *places, const struct ls_result_group *g,
                      const struct ls_stage *stage);

/* What the frame of this group must look like. */
void ls_result_expect(struct ls_frame_expect *expect, const struct ls_step *step,
                      const struct ls_result_group *g, uint32_t vocab);

/* Checks g->table_bytes of table against the step (LS_E_SHAPE). Fills nan_layer[g->n_sent] and,
 * for the last group, rows[step->n_rows]. */
ls_status ls_result_decode(const unsigned char *table, const struct ls_step *step,
                           const struct ls_logit_place *places, const struct ls_result_group *g,
                           int n_layers, int32_t *nan_layer, struct ls_result_row *rows,
                           struct ls_err *err);

#endif
