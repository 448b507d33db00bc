/* A team of threads that runs one function at a time, all members together.
 *
 * Layer: base. The caller is member 0 and works too; members 1.. wait between jobs by spinning
 * briefly, then yielding, then sleeping. Inside a job ls_team_barrier separates phases. With
 * one member nothing is created and a barrier costs nothing. Results must never depend on the
 * number of members: jobs split outputs, never sums. */
#ifndef LS_BASE_TEAM_H
#define LS_BASE_TEAM_H

#include "base/status.h"

#include <stdint.h>

struct ls_team;

/* A job: called once per member, member in 0..n-1. */
typedef void ls_team_fn(void *arg, int member, int n_members);

/* n_members 1..1024. Heap; destroy with ls_team_destroy (takes NULL). Local. */
ls_status ls_team_create(struct ls_team **out, int n_members, struct ls_err *err);
void ls_team_destroy(struct ls_team *team);

int ls_team_size(const struct ls_team *team);

/* Runs fn on all members and returns when all have returned. Only the creating thread may call
 * it, and not from inside a job. */
void ls_team_run(struct ls_team *team, ls_team_fn *fn, void *arg);

/* Waits until every member of the running job has come here. Only inside a job, by all. */
void ls_team_barrier(struct ls_team *team);

/* [*begin, *end): member's even, contiguous share of n items. */
static inline void ls_team_share(uint64_t n, int member, int n_members, uint64_t *begin,
                                 uint64_t *end)
{
    *begin = n * (uint64_t)member / (uint64_t)n_members;
    *end = n * ((uint64_t)member + 1) / (uint64_t)n_members;
}

#endif
