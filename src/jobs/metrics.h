/* --metrics FILE: the job's numbers as a Prometheus textfile, replaced as a whole now and then.
 *
 * Layer: jobs. Local. Written after a job has begun it never fails the job: a file that cannot
 * be written is left as it was. */
#ifndef LS_JOBS_METRICS_H
#define LS_JOBS_METRICS_H

#include "jobs/job.h"

enum { LS_METRICS_EVERY_US = 2000000 };

enum ls_job_state { LS_JOB_RUNNING, LS_JOB_STOPPED, LS_JOB_COMPLETE };

struct ls_metrics {
    const char *path;   /* the caller's; NULL: no file is wanted */
    const char *output; /* of the job, the label of every number */
    uint64_t begin_us, written_us;
};

struct ls_metrics_values {
    struct ls_job_counts counts;
    uint64_t lines_read, running, tokens; /* tokens: of this run, prompts and continuations */
    uint64_t journal_bytes;
    enum ls_job_state state;
};

/* Writes the file once, so that a path that cannot be written is found before start: LS_E_IO.
 */
ls_status ls_metrics_start(struct ls_metrics *m, const char *path, const char *output,
                           uint64_t now_us, struct ls_err *err);
/* Writes it when it is time to, or at once with `last`. */
void ls_metrics_show(struct ls_metrics *m, const struct ls_metrics_values *values,
                     uint64_t now_us, bool last);

#endif
