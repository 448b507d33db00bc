/* Layers to ranks of different memory and speed. */
#include "base/alloc.h"
#include "base/size.h"
#include "pipeline/plan.h"

#include <math.h>
#include <stdbool.h>

/* best[s][l]: of the splits of layers [0, l) over stages 0..s, the best value; from[s][l]:
 * where its last stage begins. */
struct table {
    const uint64_t *cost, *bytes;
    const struct ls_split_rank *ranks;
    int n_layers, n_stages;
    double *best; /* [n_stages][n_layers + 1]; HUGE_VAL: none fits */
    int *from;    /* the same */
};

static double *best_at(struct table *t, int stage, int layer)
{
    return &t->best[(size_t)stage * (size_t)(t->n_layers + 1) + (size_t)layer];
}

static int *from_at(struct table *t, int stage, int layer)
{
    return &t->from[(size_t)stage * (size_t)(t->n_layers + 1) + (size_t)layer];
}

/* The slowest stage's time, or, with a limit on every stage, the sum of squares: an even load.
 */
static double join(double before, double time, double limit)
{
    if (limit < HUGE_VAL)
        return before + time * time;
    return before > time ? before : time;
}

/* Stage s over [b, l) for every b, going down until it is too large. */
static void fill_cell(struct table *t, int s, int l, double limit)
{
    uint64_t bytes = 0, cost = 0;
    *best_at(t, s, l) = HUGE_VAL;
    for (int b = l - 1; b >= s; b--) {
        cost += t->cost[b];
        double time = (double)cost / t->ranks[s].speed;
        if (!ls_add_u64(bytes, t->bytes[b], &bytes) || bytes > t->ranks[s].room_bytes ||
            time > limit)
            return;
        if (s == 0 && b > 0)
            continue;
        double before = s == 0 ? 0 : *best_at(t, s - 1, b);
        double value = join(before, time, limit);
        if (value < *best_at(t, s, l)) {
            *best_at(t, s, l) = value;
            *from_at(t, s, l) = b;
        }
    }
}

/* The best value of the whole under a limit on every stage's time. */
static double fill(struct table *t, double limit)
{
    for (int s = 0; s < t->n_stages; s++)
        for (int l = 0; l <= t->n_layers; l++)
            fill_cell(t, s, l, limit);
    return *best_at(t, t->n_stages - 1, t->n_layers);
}

ls_status ls_plan_split_over(const uint64_t *cost, const uint64_t *bytes, int n_layers,
                             const struct ls_split_rank *ranks, int n_stages, int32_t *first,
                             struct ls_err *err)
{
    struct table t = {
        .cost = cost, .bytes = bytes, .ranks = ranks, .n_layers = n_layers, .n_stages = n_stages
    };
    struct ls_arena arena;
    uint64_t n = (uint64_t)n_stages * ((uint64_t)n_layers + 1);
    ls_status s = LS_OK;
    if (n_stages < 1 || n_stages > LS_MAX_STAGES || n_stages > n_layers)
        return ls_fail(err, LS_E_REFUSED, "%d stages for %d layers", n_stages, n_layers);
    ls_arena_init(&arena);
    t.best = ls_arena_take(&arena, n * sizeof *t.best);
    t.from = ls_arena_take(&arena, n * sizeof *t.from);
    if (!t.best || !t.from)
        s = ls_fail(err, LS_E_MEMORY, "out of memory: layer split");
    double limit = s ? HUGE_VAL : fill(&t, HUGE_VAL);
    if (!s && limit == HUGE_VAL)
        s = ls_fail(err, LS_E_MEMORY, "no cut into %d stages fits into the ranks' memory",
                    n_stages);
    if (!s) {
        fill(&t, limit);
        first[n_stages] = n_layers;
        for (int i = n_stages - 1; i >= 0; i--)
            first[i] = *from_at(&t, i, first[i + 1]);
    }
    ls_arena_finish(&arena);
    return s;
}
