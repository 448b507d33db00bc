/* The requests that are running, by a small number each. Layer: jobs. Local.
 *
 * As many as there are sequences in the pipeline, and one whose sequences are being issued. */
#ifndef LS_JOBS_RUNS_H
#define LS_JOBS_RUNS_H

#include "base/status.h"

#include <stdint.h>

struct ls_run;

struct ls_runs {
    struct ls_run **at; /* [cap]; NULL: free; owned, the runs are the caller's */
    uint32_t *free;     /* [n_free] stack of free places; owned */
    uint32_t cap, n_free;
};

void ls_runs_finish(struct ls_runs *runs);
/* LS_E_MEMORY. */
ls_status ls_runs_add(struct ls_runs *runs, struct ls_run *run, uint32_t *place,
                      struct ls_err *err);
/* NULL: there is none at this place. */
struct ls_run *ls_runs_at(const struct ls_runs *runs, uint64_t place);
void ls_runs_drop(struct ls_runs *runs, uint32_t place);

#endif
