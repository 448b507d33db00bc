/* How fast this machine computes a model's steps: measured on its last layers, from which the
 * time of any step of any stage follows.
 *
 * Layer: stage. Local. Reads and repacks the weights of the layers that it measures. */
#ifndef LS_STAGE_PACE_H
#define LS_STAGE_PACE_H

#include "model/arch.h"
#include "stage/step.h"
#include "tensor/checkpoint.h"

#include <stdbool.h>

enum { LS_PACE_POINTS = 5 };
extern const uint32_t ls_pace_rows[LS_PACE_POINTS]; /* ascending */

struct ls_pace {
    int n_threads;
    int first_layer;                /* the measured ones: from here to the last */
    uint64_t unit_bytes;            /* their weights, without the head */
    double run_us[LS_PACE_POINTS];  /* those layers, steps of ls_pace_rows; no attention */
    double head_us[LS_PACE_POINTS]; /* logits of so many rows, digested when that is wanted */
    double prompt_key_us, decode_key_us; /* one token's look at one key in one layer: as one of
                                            a prompt's, and alone */
    double load_bytes_per_us;
};

/* Takes a second or a few. The layers from the last place where the model can be cut are
 * loaded, with the head; digests: rows of logits enter digests. */
ls_status ls_pace_measure(struct ls_pace *pace, const struct ls_arch *arch,
                          const struct ls_checkpoint *ckpt, int cpu_path, int n_threads,
                          bool digests, struct ls_err *err);

/* Microseconds: the measured layers over n tokens, without attention; the head over n rows. */
double ls_pace_run(const struct ls_pace *pace, uint32_t n_tokens);
double ls_pace_head(const struct ls_pace *pace, uint32_t n_rows);
/* Of one layer's attention, for count tokens of one sequence from first_pos on; window: of the
 * layer, 0 for none. */
double ls_pace_attention(const struct ls_pace *pace, uint32_t first_pos, uint32_t count,
                         int window);

#endif
