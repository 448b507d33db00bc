/* A job's insides. Layer: jobs, private to job*.c. */
#ifndef LS_JOBS_JOB_PARTS_H
#define LS_JOBS_JOB_PARTS_H

#include "jobs/choice.h"
#include "jobs/id_set.h"
#include "jobs/job.h"
#include "jobs/lines.h"
#include "jobs/lock.h"
#include "jobs/logits_files.h"
#include "jobs/progress.h"
#include "jobs/reorder.h"
#include "jobs/row.h"
#include "jobs/row_file.h"

#include <sodium.h>

/* A request whose sequences run, or whose row waits with its logits. */
struct ls_run {
    struct ls_request req;
    uint64_t number;           /* of its row */
    struct ls_choice *choices; /* [n_choices]; owned */
    uint32_t n_choices, n_issued, n_done;
    bool failed; /* NaN in one of them: no more are issued */
};

struct ls_job {
    struct ls_job_config config; /* texts owned */
    char *folder;                /* output.lockstep; owned */
    bool folder_made;
    struct ls_lock lock;
    int input_fd;
    struct ls_lines lines;
    struct ls_row_file rows;
    struct ls_logits_files logits; /* folder NULL without --logits */
    bool bound;

    enum ls_input_kind kind;
    bool kind_known, at_end;
    struct ls_request_rules request_rules;
    struct ls_choice_rules choice_rules;
    struct ls_row_rules row_rules;
    struct ls_sampler_scratch scratch;
    struct ls_id_set ids;

    struct ls_run *current; /* its choices are being issued, or NULL */
    struct ls_reorder reorder;
    struct ls_client client;
    struct ls_progress_state progress;
    uint64_t tokens; /* seen so far, for the display */
    uint64_t flushed_us;
    struct ls_job_counts counts;
    crypto_generichash_state digest_state;
    unsigned char digest[32];
};

/* The coordinator's four calls. */
ls_status ls_job_next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err);
ls_status ls_job_logits(void *arg, uint64_t id, const struct ls_logits *logits,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err);
ls_status ls_job_done(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err);
ls_status ls_job_tick(void *arg, uint64_t n_running, bool *drain, struct ls_err *err);

/* Frees a run; takes NULL. */
void ls_run_destroy(struct ls_job *job, struct ls_run *run);

#endif
