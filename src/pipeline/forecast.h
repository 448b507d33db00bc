/* What each rank of a plan will have in memory at most, while it loads and while it runs.
 *
 * Layer: pipeline. Local. */
#ifndef LS_PIPELINE_FORECAST_H
#define LS_PIPELINE_FORECAST_H

#include "pipeline/rehearsal.h"

struct ls_forecast {
    uint64_t base_bytes;    /* the process before anything is loaded; rank 0's tokenizer */
    uint64_t weights_bytes; /* its own copy; 0 when it uses another rank's */
    uint64_t load_bytes;    /* while they are loaded: they, and what they are repacked from */
    uint64_t table_bytes;   /* of the file, rows of the embedding */
    uint64_t kv_bytes, scratch_bytes, link_bytes;
    uint64_t peak_bytes;
};

/* Bytes of the file that rows of the embedding bring into memory: of the tokens of n sequences,
 * found by reading them; n 0: of all. What is generated is taken to be among these. */
ls_status ls_forecast_table(uint64_t *bytes, const struct ls_arch *arch,
                            const struct ls_checkpoint *ckpt,
                            const struct ls_sequence *sequences, uint64_t n,
                            struct ls_err *err);

struct ls_forecast_terms {
    const struct ls_plan *plan;
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    const struct ls_rehearsal *run; /* NULL: all that the plan gives is used */
    uint64_t base_bytes;            /* of every process */
    uint64_t tokenizer_bytes;       /* of rank 0 */
    uint64_t table_bytes;           /* as ls_forecast_table says */
};

void ls_forecast_of(struct ls_forecast *out, const struct ls_forecast_terms *terms, int rank);

#endif
