/* Timing of repeated work: a warm-up, at least ten repeats, median and spread.
 *
 * Layer: bench. Wall time by the monotonic clock, unless said. The thread's own processor time
 * says how much of it the machine gave: below 100 % others were running. Local. */
#ifndef LS_BENCH_MEASURE_H
#define LS_BENCH_MEASURE_H

#include "base/status.h"
#include "base/team.h"

#include <stdbool.h>

enum { LS_BENCH_MIN_REPEATS = 10, LS_BENCH_MAX_REPEATS = 1000 };

struct ls_work {
    void (*before)(void *arg); /* each run, not timed; or NULL */
    void (*run)(void *arg);    /* once; called on the caller's thread */
    void *arg;
    double amount;    /* what one run does, in the unit of the rate: FLOP, bytes, tokens */
    double seconds;   /* to spend, at least; ten repeats in any case */
    bool by_cpu_time; /* time is that of the calling thread's processor: for one thread on a
                         machine that others use too */
};

/* Of the repeats' values: of rates, amounts per second, p10 is the slow end. */
struct ls_rate {
    double median, p10, p90;
    double again;  /* median of the odd repeats over that of the even ones: the null arm */
    double on_cpu; /* share of the wall time that the calling thread ran */
    int n;
};

void ls_measure(struct ls_rate *rate, const struct ls_work *work);

/* From what was measured elsewhere, in the order of the repeats; 1 <= n <=
 * LS_BENCH_MAX_REPEATS. */
void ls_rate_of(struct ls_rate *rate, const double *values, int n);

/* The same as ls_measure for a job of the team; runs it with ls_team_run. */
struct ls_team_work {
    struct ls_team *team;
    ls_team_fn *fn;
    void *arg;
};
void ls_run_team_work(void *team_work);

#endif
