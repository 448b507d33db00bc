/* A running or stopped job as others see it, from the folder beside its output.
 *
 * Layer: jobs. Local. Only reads: the journal of a running job grows meanwhile, and a record
 * that is being written is taken for not there. */
#ifndef LS_JOBS_LOOK_H
#define LS_JOBS_LOOK_H

#include "jobs/job.h"
#include "jobs/lock.h"

struct ls_job_look {
    char *folder;              /* owned */
    bool held;                 /* a job runs */
    char owner[LS_OWNER_TEXT]; /* of the lock, as the lock says it; "" when it is not held */
    bool has_journal;
    struct ls_job_counts counts;
    uint64_t journal_bytes; /* of whole records */
    uint64_t last_line;     /* the highest line that has a row; 0: none */
    double idle_s;          /* since the journal last grew; 0 without one */
    json_t *identity;       /* or NULL; owned */
};

/* output: the job's output file. LS_E_USAGE when there is no such folder. */
ls_status ls_job_look(struct ls_job_look *look, const char *output, struct ls_err *err);
void ls_job_look_finish(struct ls_job_look *look);

#endif
