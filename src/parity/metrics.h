/* How far one arm's logits are from the reference's, gathered row by row.
 *
 * Layer: parity. Local; holds figures of rows, never rows. Logits are float32 and are taken as
 * double; sums are compensated (Neumaier), so that they equal any careful sum to 1e-14. With
 * x the reference's row, y the arm's, both of n logits, and for a row z
 *
 *   lse(z) = max(z) + log(sum_i exp(z_i - max(z)))     log p_z(i) = z_i - lse(z)
 *
 * the figures are
 *   max_abs, rms   of y_i - x_i over all elements that are finite in both, also of equal rows:
 *                  max |y_i - x_i|, sqrt(sum (y_i - x_i)^2 / number)
 *   ulps           steps of float32 between x_i and y_i (+0 and -0 are one value), of the same
 *                  elements; bin 0 of the histogram counts 0, bin k > 0 counts (2^(k-2),
 * 2^(k-1)] KL             of a row: sum_i p_x(i) (log p_x(i) - log p_y(i)), elements with
 * p_x(i) = 0 (x_i = -inf) left out; infinite when y_i = -inf alone. A row of equal bits has 0.
 * mean and max are over the rows with a finite one; p99 too, linear between neighbours: of k
 * sorted values v, with h = 0.99 (k - 1), v[floor h] + (h - floor h) (v[floor h + 1] - v[floor
 * h]) top-1, top-5   the largest logit, of equal ones that of the lower id; the share of rows
 * with the same top-1; the mean share of x's five that are among y's five flip           a row
 * with another top-1: a in the reference, b in the arm; its margins are x_a - x_b and y_b - y_a
 *   nll            of a row with a target t: -log p(t); perplexity = exp(mean nll)
 *   delta          of the mean nll, arm minus reference, and of the perplexities. Standard
 *                  errors are paired: se = sqrt(sum (d_r - mean d)^2 / (m - 1) / m) over the m
 *                  rows, with d = nll_y - nll_x, and for the perplexities (first order)
 *                  d = ppl_y nll_y - ppl_x nll_x, computed as ppl_x (nll_y - nll_x) +
 *                  (ppl_y - ppl_x) nll_y, which two nearly equal arms do not cancel
 * Rows with a NaN or +inf on either side have none of KL, top, flip, nll: `n_undefined`. */
#ifndef LS_PARITY_METRICS_H
#define LS_PARITY_METRICS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_ULP_BINS = 34,   /* 0, 1, 2, 3-4, 5-8, ... */
    LS_FLIPS_KEPT = 64, /* those with the largest margins in the reference */
    LS_KL_BINS = 128,   /* of positions, at most */
    LS_TOP = 5
};

struct ls_sum { /* compensated */
    double sum, lost;
};

struct ls_flip {
    uint64_t entry, position;
    int32_t reference, arm; /* token ids */
    double reference_margin, arm_margin;
};

struct ls_kl_row {
    uint64_t entry, position;
    double kl;
};

/* Welford's means and co-moments of (x, y) pairs, with d = y - x, which may be far smaller. */
struct ls_pairs {
    uint64_t n;
    double mean_x, mean_y, mean_d;
    double yy, dd, dy;
};

/* A zeroed struct is empty; ls_metrics_finish frees what it gathered. */
struct ls_metrics {
    uint64_t n_rows, n_rows_different, n_elements, n_different;
    uint64_t n_measured;  /* elements finite in both */
    uint64_t n_undefined; /* rows */
    uint64_t n_infinite;  /* rows of infinite KL */
    double max_abs;
    struct ls_sum squares;
    uint64_t max_ulp;
    uint64_t ulps[LS_ULP_BINS];
    uint64_t n_ranked, n_top1; /* rows with a top-1; with the same */
    uint64_t n_top5;           /* common ids, of LS_TOP (or n) in each ranked row */
    uint64_t n_top5_of;
    uint64_t n_flips;
    struct ls_flip flips[LS_FLIPS_KEPT]; /* [min(n_flips, LS_FLIPS_KEPT)], largest first */
    struct ls_kl_row *kl;                /* [n_kl] finite ones, in the order of rows */
    size_t n_kl, kl_capacity;
    struct ls_pairs nll;

    bool has_first; /* difference of bits */
    uint64_t first_entry, first_position, first_element;
    float first_reference, first_arm;
};

struct ls_row_pair {
    uint64_t entry, position;
    const float *reference, *arm; /* [n] */
    size_t n;                     /* 1.. */
    int32_t target;               /* the token that follows, 0..n-1; -1: none is known */
};

/* LS_E_MEMORY. */
ls_status ls_metrics_row(struct ls_metrics *m, const struct ls_row_pair *row,
                         struct ls_err *err);
void ls_metrics_finish(struct ls_metrics *m);

double ls_sum_value(const struct ls_sum *s);

struct ls_kl_figures {
    double mean, p99, max;
    uint64_t max_entry, max_position;
};
/* False without a finite row. LS_E_MEMORY leaves it as it was. */
ls_status ls_metrics_kl(const struct ls_metrics *m, struct ls_kl_figures *out,
                        struct ls_err *err);

/* Positions [k * width, (k + 1) * width): rows, mean and largest KL. */
struct ls_kl_bins {
    uint64_t width;
    size_t n;
    struct ls_kl_bin {
        uint64_t rows;
        double mean, max;
    } bins[LS_KL_BINS];
};
void ls_metrics_kl_bins(const struct ls_metrics *m, struct ls_kl_bins *out);

/* Figures over the rows with a target; those that need two rows are NaN with fewer. */
struct ls_perplexity {
    uint64_t n;
    double nll_reference, nll_arm, nll_delta, nll_delta_se;
    double reference, arm, delta, delta_se;
};
void ls_metrics_perplexity(const struct ls_metrics *m, struct ls_perplexity *out);

#endif
