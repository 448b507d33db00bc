/* Speed of a model's stage: prompts by length, decoding by batch, scoring; where the time of
 * each goes, beside what the machine's peaks allow for it.
 *
 * Layer: bench. One stage with all layers, driven as the scheduler would, tokens drawn at
 * random; no text, no files, no communication. Local. */
#ifndef LS_BENCH_MODEL_H
#define LS_BENCH_MODEL_H

#include "bench/machine.h"
#include "model/arch.h"
#include "tensor/checkpoint.h"

struct ls_model_bench {
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    const struct ls_kernels *kernels;
    const struct ls_peaks *peaks; /* of as many threads */
    int n_threads;
    double seconds; /* for each number */
    struct ls_results *results;
};

/* Adds to part "model". LS_E_MEMORY, or what the stage refuses. */
ls_status ls_bench_model(const struct ls_model_bench *b, struct ls_err *err);

#endif
