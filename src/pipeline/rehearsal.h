/* A run without its arithmetic: the run's own scheduler over the same sequences, each of which
 * takes all the tokens that it may. Says beforehand what a run will touch of the memory that
 * the plan gives it and, when the pace of the ranks is known, how long it will take.
 *
 * Layer: pipeline. Pure: no clock, no communication. Sequences that end early make a run
 * shorter and smaller than its rehearsal. */
#ifndef LS_PIPELINE_REHEARSAL_H
#define LS_PIPELINE_REHEARSAL_H

#include "pipeline/client.h"
#include "pipeline/plan.h"
#include "stage/pace.h"

struct ls_rehearsal_config {
    const struct ls_plan *plan;
    const struct ls_arch *arch;
    const struct ls_sequence *sequences; /* [n]; with their tokens when prefix_reuse */
    uint64_t n;
    bool prefix_reuse;
    const struct ls_pace *pace; /* NULL: no times */
    const double *work;         /* [ranks]: of its layers, in units of the pace's */
    double row_us;              /* of rank 0, for each row that it gets: a token and its text */
    double share; /* of a core that each thread has, at most 1: threads that wait for a core
                     make every step longer */
};

struct ls_rehearsal {
    uint64_t steps, tokens;
    uint32_t max_tokens;     /* of a step */
    uint32_t max_logit_rows; /* computed at once */
    uint32_t max_blocks;     /* of a KV pool that were ever used */
    uint64_t *link_bytes;    /* [ranks] of the buffers of steps and results */
    double *busy_s;          /* [ranks] */
    double seconds;          /* from the first step to the last row; 0: not known */
};

/* LS_E_REQUEST: a sequence cannot run in this plan. Ended by ls_rehearsal_finish. */
ls_status ls_rehearse(struct ls_rehearsal *out, const struct ls_rehearsal_config *config,
                      struct ls_err *err);
void ls_rehearsal_finish(struct ls_rehearsal *r); /* takes a zeroed struct */

#endif
