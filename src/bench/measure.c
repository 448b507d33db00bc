#include "bench/measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Two arms of the same work in turns: how far apart they are is noise. */
static double null_arm(const double *values, int n)
{
    double arms[2][LS_BENCH_MAX_REPEATS / 2 + 1];
    int held[2] = { 0, 0 };
    for (int i = 0; i < n; i++)
        arms[i % 2][held[i % 2]++] = values[i];
    if (n < 2)
        return 1;
    const double even = median_of(arms[0], held[0]), odd = median_of(arms[1], held[1]);
    return even > 0 ? odd / even : 1;
}

void ls_rate_of(struct ls_rate *rate, const double *values, int n)
{
    double sorted[LS_BENCH_MAX_REPEATS];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    *rate = (struct ls_rate){ .again = null_arm(values, n), .on_cpu = 1, .n = n };
    rate->median = median_of(sorted, n);
    rate->p10 = sorted[n / 10];
    rate->p90 = sorted[n - 1 - n / 10];
}

void ls_measure(struct ls_rate *rate, const struct ls_work *work)
{
    double rates[LS_BENCH_MAX_REPEATS];
    int n = 0;
    if (work->before)
        work->before(work->arg);
    work->run(work->arg);
    const clockid_t clock = work->by_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start_wall = seconds_of(CLOCK_MONOTONIC);
    const double start_cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double start = seconds_of(clock);
    double now = start;
    while (n < LS_BENCH_MAX_REPEATS &&
           (n < LS_BENCH_MIN_REPEATS || now - start < work->seconds)) {
        if (work->before)
            work->before(work->arg);
        const double begin = work->before ? seconds_of(clock) : now;
        work->run(work->arg);
        now = seconds_of(clock);
        rates[n++] = work->amount / (now - begin);
    }
    const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
    ls_rate_of(rate, rates, n);
    const double wall = seconds_of(CLOCK_MONOTONIC) - start_wall;
    rate->on_cpu = wall > 0 ? cpu / wall : 1;
}

void ls_run_team_work(void *team_work)
{
    const struct ls_team_work *const w = team_work;
    ls_team_run(w->team, w->fn, w->arg);
}
