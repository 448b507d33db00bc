/* bench link: what frames between ranks cost, beside MPI's own calls. Layer: app.
 *
 * Between each pair of ranks that pass steps or results to each other, by size and level, with
 * and without packing: the time one way (ping-pong), the rate of a stream, and the shares of
 * cipher and packer in the sender's time. Frames are those of a job: pipeline/channel.h. */
#ifndef LS_APP_BENCH_LINK_H
#define LS_APP_BENCH_LINK_H

#include "app/app.h"
#include "bench/results.h"

struct ls_link_bench {
    struct ls_app *app;
    int ranks;   /* to be started by ls_bench_link_start */
    int threads; /* of each rank; frames of one message are sealed and opened on them */
    int repeats; /* 1..LS_BENCH_MAX_REPEATS, behind one to warm up */
    double seconds;
    struct ls_results *results; /* rank 0's are filled */
};

/* Collective, on every rank that a launcher started: measures between them. *quiet: another
 * rank has the same failure and tells it. */
ls_status ls_bench_link(const struct ls_link_bench *b, bool *quiet, struct ls_err *err);
/* Without a launcher: starts `ranks` ranks of this command on this host, and takes their
 * results. */
ls_status ls_bench_link_start(const struct ls_link_bench *b, struct ls_err *err);

#endif
