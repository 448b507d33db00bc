/* The parts of bench that measure whole runs. Layer: app. Local; starts child processes. */
#ifndef LS_APP_BENCH_RUNS_H
#define LS_APP_BENCH_RUNS_H

#include "app/app.h"
#include "bench/results.h"

struct ls_run_bench {
    const struct ls_app *app;
    const char *model; /* folder */
    int vocab;
    int threads; /* of a run; a pipeline's ranks share them */
    int ranks;   /* pipelines of 1, 2, 4 .. ranks */
    int repeats;
    struct ls_results *results;
};

/* A job of 64 requests, 128 tokens in and 64 out, or --input: alone, and on more ranks. */
ls_status ls_bench_job(const struct ls_run_bench *b, struct ls_err *err);
ls_status ls_bench_pipeline(const struct ls_run_bench *b, struct ls_err *err);

#endif
