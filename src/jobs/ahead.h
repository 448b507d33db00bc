/* The sequences of a whole input, known before a run: for a plan's predictions.
 *
 * Layer: jobs. Local. Reads what a run would read, and writes nothing. */
#ifndef LS_JOBS_AHEAD_H
#define LS_JOBS_AHEAD_H

#include "base/alloc.h"
#include "jobs/job.h"

struct ls_ahead {
    struct ls_arena arena;         /* owns the tokens, and */
    float *row;                    /* [vocab] for measuring */
    struct ls_sequence *sequences; /* [n], in the order in which a run begins them; owned */
    uint64_t n, capacity;
    uint64_t prompt_tokens, new_tokens; /* the latter at most */
    uint64_t refused;                   /* lines that become error rows */
    double pick_us; /* to choose a token as the first sequences want it, measured here */
};

/* input: a file. A line that a run would refuse is counted and left out. config: as the run's;
 * of it only what decides sequences is looked at. Ended by ls_ahead_finish in every case. */
ls_status ls_ahead_read(struct ls_ahead *ahead, const struct ls_job_config *config,
                        const struct ls_arch *arch, const struct ls_tokenizer *tokenizer,
                        struct ls_err *err);
void ls_ahead_finish(struct ls_ahead *ahead); /* takes a zeroed struct */

#endif
