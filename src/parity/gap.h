/* How two tensors differ, row by row: where first, and by how much.
 *
 * Layer: parity. Local, cannot fail. Values are compared as numbers (types may differ; +0 and
 * -0 are equal numbers but different bits, and count as different where both are F32). */
#ifndef LS_PARITY_GAP_H
#define LS_PARITY_GAP_H

#include "kernels/kernels.h"
#include "tensor/safetensors.h"

#include <stdbool.h>

struct ls_gap {
    uint64_t n, n_different; /* elements */
    uint64_t n_unmeasured;   /* of the different ones: NaN or infinity on a side */
    uint64_t row, column;    /* of the first different one */
    double a, b;             /* its values */
    bool has_ulps;           /* finite on both sides */
    uint64_t ulps;           /* between them */
    enum ls_fmt ulp_of;      /* whose units in the last place */
    double max_abs, rms;     /* of the measured differences, over all n */
    double relative;         /* rms over the rms of a's values; 0 when these are all 0 */
};

/* Rows [0, rows) of two tensors [..][columns]; a shorter or narrower one is compared as far as
 * it goes (ls_gap_same_shape says so). d: the activations' dtype of both, whose units the ulps
 * are when it holds both values; LS_FMT_F32 when the arms' dtypes differ. */
void ls_gap_measure(struct ls_gap *gap, const struct ls_tensor *a, const struct ls_tensor *b,
                    uint64_t rows, enum ls_fmt d);

/* Elements behind the first dimension. */
uint64_t ls_gap_columns(const struct ls_tensor *t);
bool ls_gap_same_shape(const struct ls_tensor *a, const struct ls_tensor *b);

/* Steps between neighbours of `d` from x to y; false when d does not hold both. Finite. */
bool ls_gap_ulps(float x, float y, enum ls_fmt d, uint64_t *ulps);

#endif
