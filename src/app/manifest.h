/* manifest.json beside the output: what varies from run to run, and what the run was made of.
 *
 * Layer: app, rank 0. The file is replaced as a whole; "complete" is true only in the last
 * version of a run that ended well. Fields: docs/formats.md. */
#ifndef LS_APP_MANIFEST_H
#define LS_APP_MANIFEST_H

#include "app/app.h"
#include "jobs/job.h"
#include "pipeline/session.h"

struct ls_manifest {
    const struct ls_app *app; /* for who made it */
    const struct ls_run_wish *wish;
    const char *model_name;
    const char *backend; /* "self", "mpi" */
    int n_ranks;
    uint64_t seed;
    const struct ls_session *session;   /* NULL: the run did not start */
    bool ran;                           /* statistics are there */
    const struct ls_job_counts *counts; /* with digest: NULL before the job is finished */
    const char *digest;
    uint64_t start_us, ready_us, end_us; /* ls_now_us at begin, at the run's begin, now */
    int exit_code;
    const char *error; /* NULL: none */
    bool complete;
};

/* Writes folder/manifest.json; the former one stays when it fails. */
ls_status ls_manifest_write(const struct ls_manifest *m, const char *folder,
                            struct ls_err *err);

/* Removes an earlier run's manifest, so that nobody takes it for this run's. */
void ls_manifest_remove(const char *folder);

#endif
