#include "pipeline/placement.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The ranks of one host together. */
struct host {
    const char *name;
    int n_ranks, n_threads;
    int cores;     /* CPUs in any of the masks, less where a control group allows less */
    int n_cpus;    /* of the host, for this job */
    bool one_each; /* every rank is bound to one CPU */
};

static int count_cpus(const uint64_t mask[LS_CPU_WORDS])
{
    int n = 0;
    for (int i = 0; i < LS_CPU_WORDS; i++)
        n += __builtin_popcountll(mask[i]);
    return n;
}

static struct host host_of(const struct ls_rank_view *views, const struct ls_plan *plan,
                           int n_ranks, int first)
{
    uint64_t all[LS_CPU_WORDS] = { 0 };
    struct host h = { .name = views[first].report.host,
                      .n_cpus = views[first].host_cpus,
                      .one_each = true };
    int quota = views[first].cpu_quota;
    for (int r = first; r < n_ranks; r++) {
        if (strcmp(views[r].report.host, h.name) != 0)
            continue;
        h.n_ranks++;
        h.n_threads += plan->stages[r].threads;
        h.one_each = h.one_each && count_cpus(views[r].cpus) == 1;
        for (int i = 0; i < LS_CPU_WORDS; i++)
            all[i] |= views[r].cpus[i];
    }
    h.cores = count_cpus(all);
    if (quota > 0 && quota < h.cores)
        h.cores = quota;
    return h;
}

static void __attribute__((format(printf, 2, 3)))
warn(struct ls_placement *p, const char *fmt, ...)
{
    va_list ap;
    if (p->n_warnings < LS_PLACEMENT_KEPT) {
        va_start(ap, fmt);
        vsnprintf(p->texts[p->n_warnings], LS_PLACEMENT_TEXT, fmt, ap);
        va_end(ap);
    }
    p->n_warnings++;
}

static void judge_host(struct ls_placement *p, const struct host *h)
{
    if (h->one_each && h->n_cpus >= 2 * h->n_ranks)
        warn(p,
             "%s: %d rank%s bound to %d of %d cores; mpirun --bind-to none, or srun "
             "--cpus-per-task with --cpu-bind=cores, gives them the others",
             h->name, h->n_ranks, h->n_ranks == 1 ? " is" : "s are", h->cores, h->n_cpus);
    if (h->n_ranks > h->cores)
        warn(p,
             "%s: %d ranks share %d core%s; start at most %d there, or give the job more cores "
             "(a rank's --threads use several)",
             h->name, h->n_ranks, h->cores, h->cores == 1 ? "" : "s", h->cores);
    else if (h->n_threads > h->cores)
        warn(p, "%s: %d threads for %d core%s; lower --threads to at most %d", h->name,
             h->n_threads, h->cores, h->cores == 1 ? "" : "s", h->cores / h->n_ranks);
}

void ls_placement_judge(struct ls_placement *placement, const struct ls_rank_view *views,
                        const struct ls_plan *plan, int n_ranks)
{
    *placement = (struct ls_placement){ .n_warnings = 0 };
    for (int r = 0; r < n_ranks; r++) {
        int earlier = 0;
        while (earlier < r && strcmp(views[earlier].report.host, views[r].report.host) != 0)
            earlier++;
        if (earlier < r)
            continue;
        struct host h = host_of(views, plan, n_ranks, r);
        if (h.cores > 0)
            judge_host(placement, &h);
    }
}
