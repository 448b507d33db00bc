/* Several pipelines: how many, of how many stages, and which ranks share their weights. */
#include "pipeline/plan_parts.h"

#include <inttypes.h>
#include <string.h>

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static ls_status too_many_stages(int n_stages, int n_layers, struct ls_err *err)
{
    return ls_fail(err, LS_E_REFUSED,
                   "%d ranks but the model has only %d layers, and every rank needs at least "
                   "one; start at most %d, or --replicas",
                   n_stages, n_layers, n_layers);
}

static ls_status wrong_count(const struct ls_run_wish *wish, int n_ranks, struct ls_err *err)
{
    if (wish->replicas <= 1)
        return ls_fail(err, LS_E_REFUSED,
                       "stages: %d wanted, but %d rank%s started; every rank is one stage of "
                       "one of --replicas",
                       wish->stages, n_ranks, n_ranks == 1 ? " was" : "s were");
    if (!wish->stages)
        return ls_fail(
            err, LS_E_REFUSED,
            "replicas: %d rank%s cannot be divided into %d pipelines of equal length", n_ranks,
            plural(n_ranks), wish->replicas);
    return ls_fail(err, LS_E_REFUSED,
                   "replicas: %d of %d stage%s are %d ranks, but %d rank%s started",
                   wish->replicas, wish->stages, plural(wish->stages),
                   wish->replicas * wish->stages, n_ranks, n_ranks == 1 ? " was" : "s were");
}

/* Ranges in "0-3,4-7"; 0 for "". */
static int count_ranges(const char *layers)
{
    int n = layers[0] != 0;
    for (; *layers; layers++)
        n += *layers == ',';
    return n;
}

ls_status ls_plan_count_stages(const struct ls_arch *arch, const struct ls_run_wish *wish,
                               int n_ranks, int *fewest, int *most, struct ls_err *err)
{
    const bool automatic = wish->replicas == LS_REPLICAS_AUTO;
    const int replicas = wish->replicas > 0 ? wish->replicas : 1;
    if (n_ranks > LS_MAX_STAGES)
        return ls_fail(err, LS_E_REFUSED, "%d ranks, at most %d are supported", n_ranks,
                       LS_MAX_STAGES);
    if (wish->replicas < LS_REPLICAS_AUTO || wish->replicas > LS_MAX_STAGES)
        return ls_fail(err, LS_E_USAGE, "replicas: %d, expected 1 to %d", wish->replicas,
                       LS_MAX_STAGES);
    int n = wish->stages;
    if (automatic && !n)
        n = count_ranges(wish->layers);
    if (automatic && !n) {
        *fewest = 1;
        *most = n_ranks < arch->n_layers ? n_ranks : arch->n_layers;
        return LS_OK;
    }
    if (!automatic && !n)
        n = n_ranks / replicas;
    if (n < 1 || n_ranks % n || (!automatic && n * replicas != n_ranks))
        return wrong_count(wish, n_ranks, err);
    if (n > arch->n_layers)
        return too_many_stages(n, arch->n_layers, err);
    *fewest = *most = n;
    return LS_OK;
}

void ls_plan_share_weights(struct ls_plan *plan, const struct ls_run_wish *wish,
                           const struct ls_rank_report *reports)
{
    const int n = ls_plan_n_ranks(plan);
    for (int r = 0; r < n; r++) {
        int first = wish->own_weights ? r : ls_plan_stage_of(plan, r);
        while (strcmp(reports[first].host, reports[r].host) != 0)
            first += plan->n_stages;
        plan->stages[r].weights_rank = first;
        plan->stages[first].n_sharing++;
    }
    for (int r = 0; r < n; r++)
        plan->stages[r].n_sharing = plan->stages[plan->stages[r].weights_rank].n_sharing;
}

static bool same_layers(const struct ls_stage_plan *a, const struct ls_stage_plan *b)
{
    return a->first_layer == b->first_layer && a->last_layer == b->last_layer;
}

ls_status ls_plan_check_replicas(const struct ls_plan *plan, struct ls_err *err)
{
    const int n = ls_plan_n_ranks(plan);
    for (int r = 0; r < n; r++) {
        const struct ls_stage_plan *sp = &plan->stages[r];
        const int owner = sp->weights_rank;
        int n_sharing = 0;
        if (!same_layers(sp, &plan->stages[ls_plan_stage_of(plan, r)]))
            return ls_fail(err, LS_E_REFUSED,
                           "plan: rank %d has other layers than rank %d, which is the same "
                           "stage of another replica",
                           r, ls_plan_stage_of(plan, r));
        for (int q = 0; q < n; q++)
            n_sharing += plan->stages[q].weights_rank == owner;
        if (owner < 0 || owner > r || plan->stages[owner].weights_rank != owner ||
            !same_layers(sp, &plan->stages[owner]) || sp->n_sharing != n_sharing)
            return ls_fail(err, LS_E_REFUSED,
                           "plan: rank %d uses the weights of rank %d, with %d rank%s", r,
                           owner, sp->n_sharing, plural(sp->n_sharing));
    }
    return LS_OK;
}
