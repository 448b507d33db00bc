/* A job's insides. Layer: jobs, private to job*.c. */
#ifndef LS_JOBS_JOB_PARTS_H
#define LS_JOBS_JOB_PARTS_H

#include "jobs/choice.h"
#include "jobs/id_set.h"
#include "jobs/identity.h"
#include "jobs/job.h"
#include "jobs/journal.h"
#include "jobs/leaf_file.h"
#include "jobs/line_index.h"
#include "jobs/lines.h"
#include "jobs/lock.h"
#include "jobs/logits_files.h"
#include "jobs/metrics.h"
#include "jobs/progress.h"
#include "jobs/row.h"
#include "jobs/row_file.h"
#include "jobs/runs.h"

#include <sodium.h>

/* What a request that waits with its logits holds, roughly; and how much all may hold before no
 * new one is begun. The first one not finished is always running, so the wait ends. */
enum { LS_WAITING_BYTES = 64 * 1024, LS_MAX_WAITING_BYTES = 64 * 1024 * 1024 };

/* A request whose sequences run, or whose row waits with its logits. */
struct ls_run {
    struct ls_request req;
    struct ls_row_record record; /* what its row's record will say */
    struct ls_choice *choices;   /* [n_choices]; owned */
    uint32_t n_choices, n_issued, n_done;
    bool in_runs;
    uint32_t place;      /* in the table of runs, when in_runs */
    bool failed;         /* NaN in one of them: no more are issued */
    struct ls_out row;   /* when it waits */
    struct ls_run *next; /* that waits, by line */
};

struct ls_job {
    struct ls_job_config config; /* texts owned */
    char *folder;                /* output.lockstep; owned */
    bool folder_made;
    struct ls_lock lock;
    int input_fd;
    struct ls_lines lines;
    struct ls_identity identity;
    struct ls_journal journal;
    struct ls_line_index index; /* of the journal's rows */
    struct ls_row_file rows;
    struct ls_logits_files logits; /* folder NULL without --logits */
    struct ls_leaf_file leaves;    /* path NULL without a certificate */
    const struct ls_arch *arch;    /* after ls_job_bind */
    bool bound;

    enum ls_input_kind kind;
    bool at_end;
    struct ls_request_rules request_rules;
    struct ls_choice_rules choice_rules;
    struct ls_row_rules row_rules;
    struct ls_sampler_scratch scratch;
    struct ls_id_set ids;

    struct ls_run *current; /* its choices are being issued, or NULL */
    struct ls_runs runs;
    /* With logits files rows are placed in input order; until then they wait, by line. */
    struct ls_run *waiting;
    uint64_t waiting_bytes;

    uint64_t resumed_end;  /* records before this offset are an earlier run's */
    uint64_t resumed_last; /* its highest line; 0: none */
    uint64_t resumed_tokens;
    uint64_t next_row;    /* 1..: the line whose row goes into the output next */
    struct ls_out record; /* a record read back */

    struct ls_client client;
    struct ls_progress_state progress;
    struct ls_metrics metrics;
    uint64_t tokens; /* seen so far, for the display */
    uint64_t committed_us;
    struct ls_job_counts counts;
    crypto_generichash_state digest_state;
    unsigned char digest[32];
};

/* The coordinator's five calls. */
ls_status ls_job_next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err);
ls_status ls_job_logits(void *arg, uint64_t id, const struct ls_logits *logits,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err);
ls_status ls_job_done(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err);
ls_status ls_job_leaves(void *arg, uint64_t id, uint32_t pos, const unsigned char *leaves,
                        struct ls_err *err);
ls_status ls_job_tick(void *arg, uint64_t n_running, bool *drain, struct ls_err *err);

/* Opens the journal of an earlier run and learns what it holds, or begins one. */
ls_status ls_job_open_journal(struct ls_job *job, struct ls_err *err);
/* A line that was read: *done when the journal has its row; LS_E_REFUSED when that row is of
 * another line. */
ls_status ls_job_resume_line(struct ls_job *job, const struct ls_line *line, bool *done,
                             struct ls_err *err);
/* The input has ended: no row of the journal lies behind it. */
ls_status ls_job_check_end(const struct ls_job *job, struct ls_err *err);

/* A finished request with its row; takes over both, and a failed run, too. */
ls_status ls_job_deliver(struct ls_job *job, struct ls_run *run, struct ls_out *row,
                         struct ls_err *err);
/* Writes the rows whose turn has come to the output. */
ls_status ls_job_emit(struct ls_job *job, struct ls_err *err);
/* Makes the journal durable, and first the logits that it speaks of. */
ls_status ls_job_commit(struct ls_job *job, struct ls_err *err);
/* With a certificate: opens the leaves; finds out whether a journalled row has its own; adds
 * those of a finished request, whose row is not journalled yet; writes the file. */
ls_status ls_job_open_leaves(struct ls_job *job, bool resume, struct ls_err *err);
ls_status ls_job_check_leaves(const struct ls_job *job, const struct ls_row_record *row,
                              struct ls_err *err);
ls_status ls_job_add_leaves(struct ls_job *job, const struct ls_run *run,
                            const struct ls_out *row, struct ls_err *err);
ls_status ls_job_certify(struct ls_job *job, struct ls_err *err);
/* Shows how far the job is, where that is wanted. */
void ls_job_show(struct ls_job *job, uint64_t n_running, bool last);
/* True when every line of the input has its row in the output. */
bool ls_job_is_whole(const struct ls_job *job);

/* Takes a run out of the table of those that run. */
void ls_run_leave(struct ls_job *job, struct ls_run *run);
/* Frees a run; takes NULL. */
void ls_run_destroy(struct ls_job *job, struct ls_run *run);

#endif
