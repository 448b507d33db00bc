/* Log-probabilities of tokens, and of the likeliest ones beside them, position by position.
 *
 * Layer: jobs. Local. They come from the raw logits, before penalties, bias and temperature, by
 * the arithmetic contract's one formula (ls_log_prob over sum_exp), so their bits are the same
 * on every kernel path. */
#ifndef LS_JOBS_SCORES_H
#define LS_JOBS_SCORES_H

#include "base/status.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

/* What a row's log-probabilities are made from. */
struct ls_row_sum {
    float max;
    double sum; /* of exp(x - max) */
};

struct ls_top {
    int32_t token;
    double logprob;
};

struct ls_score {
    int32_t token;
    int32_t rank; /* 1: none comes before it (logit descending, id ascending) */
    double logprob;
};

struct ls_scores {
    int32_t n_top;          /* likeliest tokens kept per position; -1: nothing is kept */
    struct ls_score *items; /* [n], one per scored token, in order; owned */
    struct ls_top *tops;    /* [n][n_top], likeliest first; owned */
    size_t n, cap;
};

/* n_top: -1, or 0..64; cut to the vocabulary. */
void ls_scores_init(struct ls_scores *scores, int32_t n_top, int32_t vocab);
void ls_scores_finish(struct ls_scores *scores);

/* row [vocab] without NaN. Enters and leaves the compute code's floating-point state. */
struct ls_row_sum ls_row_sum(const struct ls_kernels *kernels, const float *row, int32_t vocab);

/* Appends the score of `token` under this row. LS_E_MEMORY. */
ls_status ls_scores_add(struct ls_scores *scores, const struct ls_row_sum *sum,
                        const float *row, int32_t vocab, int32_t token, struct ls_err *err);

#endif
