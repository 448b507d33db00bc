/* Speed of the kernels alone: matrix products and attention by shape, format and path, beside
 * what the machine's peaks allow.
 *
 * Layer: bench. Members of a team split the outputs of a product as the forward does, and take
 * heads of their own in attention. Where few rows are the point, weights and caches come from
 * memory: copies of them are visited in turn. Local. */
#ifndef LS_BENCH_KERNELS_H
#define LS_BENCH_KERNELS_H

#include "bench/machine.h"

struct ls_kernel_bench {
    const struct ls_kernels *kernels;
    const struct ls_peaks *peaks; /* of the same team */
    struct ls_team *team;
    double seconds; /* for each number */
    struct ls_results *results;
};

/* Adds to part "kernels". LS_E_MEMORY. */
ls_status ls_bench_products(const struct ls_kernel_bench *b, struct ls_err *err);
ls_status ls_bench_attention(const struct ls_kernel_bench *b, struct ls_err *err);
ls_status ls_bench_rows(const struct ls_kernel_bench *b, struct ls_err *err);

#endif
