#include "jobs/runs.h"

#include <stdlib.h>
#include <string.h>

void ls_runs_finish(struct ls_runs *runs)
{
    free(runs->at);
    free(runs->free);
    *runs = (struct ls_runs){ 0 };
}

static ls_status grow(struct ls_runs *runs, struct ls_err *err)
{
    const uint32_t cap = runs->cap ? 2 * runs->cap : 64;
    struct ls_run **at = realloc(runs->at, cap * sizeof *at);
    if (at)
        runs->at = at;
    uint32_t *places = at ? realloc(runs->free, cap * sizeof *places) : NULL;
    if (!places)
        return ls_fail(err, LS_E_MEMORY, "out of memory for %u running requests", cap);
    runs->free = places;
    memset(at + runs->cap, 0, (cap - runs->cap) * sizeof *at);
    for (uint32_t i = cap; i > runs->cap; i--)
        runs->free[runs->n_free++] = i - 1;
    runs->cap = cap;
    return LS_OK;
}

ls_status ls_runs_add(struct ls_runs *runs, struct ls_run *run, uint32_t *place,
                      struct ls_err *err)
{
    ls_status status = runs->n_free ? LS_OK : grow(runs, err);
    if (status)
        return status;
    *place = runs->free[--runs->n_free];
    runs->at[*place] = run;
    return LS_OK;
}

struct ls_run *ls_runs_at(const struct ls_runs *runs, uint64_t place)
{
    return place < runs->cap ? runs->at[place] : NULL;
}

void ls_runs_drop(struct ls_runs *runs, uint32_t place)
{
    runs->at[place] = NULL;
    runs->free[runs->n_free++] = place;
}
