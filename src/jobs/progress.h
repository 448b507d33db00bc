/* How far a job is, on stderr: a bar on a terminal, now and then a plain line elsewhere.
 *
 * Layer: jobs. Local. Never fails: nobody's results depend on it. */
#ifndef LS_JOBS_PROGRESS_H
#define LS_JOBS_PROGRESS_H

#include "jobs/job.h"

struct ls_progress_state {
    enum ls_progress mode; /* BAR, PLAIN or NONE */
    int fd;                /* where it is shown */
    uint64_t total;        /* rows to be done; 0: not known */
    uint64_t begin_us, shown_us;
};

struct ls_progress_counts {
    uint64_t rows, error_rows, running; /* sequences running */
    uint64_t resumed_rows;              /* of rows, an earlier run's: they took no time */
    uint64_t tokens;                    /* of prompts and continuations, in this run */
    uint64_t done_tokens;               /* of these, of finished rows */
};

/* AUTO becomes BAR when fd is a terminal, else PLAIN. */
void ls_progress_init(struct ls_progress_state *p, enum ls_progress mode, int fd,
                      uint64_t total, uint64_t now_us);
/* Shows the counts when it is time to; `last`: now, and ends the line. */
void ls_progress_show(struct ls_progress_state *p, const struct ls_progress_counts *counts,
                      uint64_t now_us, bool last);
/* The text that is shown, without line end; for the tests. Returns its length. */
enum { LS_PROGRESS_TEXT = 256 };
int ls_progress_text(char out[LS_PROGRESS_TEXT], const struct ls_progress_state *p,
                     const struct ls_progress_counts *counts, uint64_t now_us);

#endif
