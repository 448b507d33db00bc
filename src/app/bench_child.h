/* Whole runs of this program, for measuring: a child process, its time, its memory, and what
 * its manifest says. Layer: app. Local. */
#ifndef LS_APP_BENCH_CHILD_H
#define LS_APP_BENCH_CHILD_H

#include "base/status.h"

#include <jansson.h>
#include <sys/resource.h>

enum { LS_BENCH_WORDS = 40 };

/* A folder of our own under TMPDIR, with the requests and the results of one run at a time. */
struct ls_bench_folder {
    char path[256];  /* empty: none */
    char input[300]; /* requests made here, or the user's */
    char output[300];
};

/* input NULL: n requests of `prompt` tokens below vocab and `n_new` generated ones are written,
 * the same each time. LS_E_IO. */
ls_status ls_bench_folder_make(struct ls_bench_folder *f, const char *input, int n, int prompt,
                               int n_new, int vocab, struct ls_err *err);
/* Removes it and what is in it; takes a zeroed struct. */
void ls_bench_folder_remove(struct ls_bench_folder *f);

struct ls_bench_outcome {
    double wall_s;    /* of the whole process, from its start to its end */
    double peak_mb;   /* resident, of the largest process */
    json_t *manifest; /* owned by the caller */
};

/* Runs words (the first is looked for in PATH; ended by NULL) with its output dropped. used:
 * what it took. LS_E_IO when it cannot be started or does not end well. */
ls_status ls_bench_run(const char *const *words, struct rusage *used, struct ls_err *err);
/* The same for a run of a job, after removing the former results. */
ls_status ls_bench_measure(struct ls_bench_outcome *run, const struct ls_bench_folder *f,
                           const char *const *words, struct ls_err *err);

#endif
