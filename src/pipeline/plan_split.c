/* Which layers on which stage: by cost, or as the user wrote it. */
#include "base/alloc.h"
#include "base/size.h"
#include "pipeline/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Costs as prefix sums, and what a limit on the largest stage implies. */
struct split {
    int n_layers, n_stages;
    uint64_t *sum; /* [n_layers + 1], ends included */
    int *next;     /* [n_layers]: the furthest end of a stage that begins here */
    int *needed;   /* [n_layers + 1]: stages that the layers from here on need at least */
};

/* Fills next and needed; true when the layers fit into n_stages with no stage above `limit`. */
static bool fits(struct split *sp, uint64_t limit)
{
    int end = sp->n_layers;
    sp->needed[sp->n_layers] = 0;
    for (int l = sp->n_layers - 1; l >= 0; l--) {
        while (end > l && sp->sum[end] - sp->sum[l] > limit)
            end--;
        if (end == l)
            return false;
        sp->next[l] = end;
        sp->needed[l] = sp->needed[end] + 1;
    }
    return sp->needed[0] <= sp->n_stages;
}

static uint64_t smallest_limit(struct split *sp)
{
    uint64_t low = 0, high = sp->sum[sp->n_layers];
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (fits(sp, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Among the cuts that keep the limit, the one nearest to an even share: a greedy fill would
 * leave the last stage nearly idle. */
static int choose_cut(const struct split *sp, int begin, int stages_left)
{
    uint64_t before = sp->sum[begin], rest = sp->sum[sp->n_layers] - before;
    uint64_t target = before + rest / (uint64_t)stages_left;
    int best = -1;
    for (int end = begin + 1; end <= sp->next[begin]; end++) {
        if (sp->needed[end] > stages_left - 1 || sp->n_layers - end < stages_left - 1)
            continue;
        if (best < 0 || distance(sp->sum[end], target) < distance(sp->sum[best], target))
            best = end;
    }
    return best;
}

static ls_status sum_costs(struct split *sp, const uint64_t *cost, uint64_t embed_cost,
                           uint64_t head_cost, struct ls_err *err)
{
    bool ok = true;
    for (int l = 0; l < sp->n_layers && ok; l++) {
        ok = ls_add_u64(sp->sum[l], cost[l], &sp->sum[l + 1]);
        if (ok && l == 0)
            ok = ls_add_u64(sp->sum[1], embed_cost, &sp->sum[1]);
        if (ok && l == sp->n_layers - 1)
            ok = ls_add_u64(sp->sum[l + 1], head_cost, &sp->sum[l + 1]);
    }
    return ok ? LS_OK : ls_fail(err, LS_E_REFUSED, "the layers' costs overflow 64 bits");
}

static ls_status check_counts(int n_layers, int n_stages, struct ls_err *err)
{
    if (n_stages < 1 || n_stages > LS_MAX_STAGES)
        return ls_fail(err, LS_E_REFUSED, "%d stages, expected 1 to %d", n_stages,
                       LS_MAX_STAGES);
    if (n_stages > n_layers)
        return ls_fail(err, LS_E_REFUSED,
                       "%d ranks but the model has only %d layers, and every rank needs at "
                       "least one; start at most %d ranks",
                       n_stages, n_layers, n_layers);
    return LS_OK;
}

ls_status ls_plan_split(const uint64_t *cost, int n_layers, uint64_t embed_cost,
                        uint64_t head_cost, int n_stages, int32_t *first, struct ls_err *err)
{
    ls_status s = check_counts(n_layers, n_stages, err);
    if (s)
        return s;
    struct split sp = { .n_layers = n_layers, .n_stages = n_stages };
    void *memory = NULL;
    uint64_t n = (uint64_t)n_layers + 1;
    s = ls_alloc(&memory, n * (sizeof *sp.sum + sizeof *sp.next + sizeof *sp.needed),
                 "layer split", err);
    if (s)
        return s;
    sp.sum = memory;
    sp.next = (int *)(sp.sum + n);
    sp.needed = sp.next + n;
    s = sum_costs(&sp, cost, embed_cost, head_cost, err);
    if (!s) {
        fits(&sp, smallest_limit(&sp));
        first[0] = 0;
        for (int i = 0; i < n_stages; i++)
            first[i + 1] = choose_cut(&sp, first[i], n_stages - i);
    }
    ls_free(memory);
    return s;
}

/* --- the user's own ranges ---------------------------------------------------------------- */

/* A decimal number without sign or space; -1 when there is none or it is too large. */
static int read_number(const char **text)
{
    const char *p = *text;
    int value = 0;
    if (*p < '0' || *p > '9')
        return -1;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > LS_MAX_LAYERS)
            return -1;
    }
    *text = p;
    return value;
}

/* "4-7" or "4": one inclusive range. */
static ls_status read_range(const char *whole, const char **at, int *low, int *high,
                            struct ls_err *err)
{
    *low = *high = read_number(at);
    if (*low >= 0 && **at == '-') {
        ++*at;
        *high = read_number(at);
    }
    if (*low < 0 || *high < *low || (**at && **at != ','))
        return ls_fail(err, LS_E_USAGE,
                       "layers \"%s\": cannot read a range at character %d; expected one range "
                       "per stage, as in 0-3,4-7",
                       whole, (int)(*at - whole) + 1);
    return LS_OK;
}

ls_status ls_plan_parse_layers(const char *text, int n_layers, int n_stages, int32_t *first,
                               struct ls_err *err)
{
    ls_status s = check_counts(n_layers, n_stages, err);
    const char *at = text;
    int stage = 0, expected = 0;
    for (bool more = true; more && !s; stage++) {
        int low, high;
        s = read_range(text, &at, &low, &high, err);
        if (s)
            break;
        if (low != expected)
            return ls_fail(err, LS_E_USAGE,
                           "layers \"%s\": range %d begins at layer %d, expected %d (every "
                           "layer once, ascending)",
                           text, stage + 1, low, expected);
        if (high >= n_layers)
            return ls_fail(err, LS_E_USAGE,
                           "layers \"%s\": layer %d, but the model's last layer is %d", text,
                           high, n_layers - 1);
        if (stage < n_stages)
            first[stage] = low;
        expected = high + 1;
        more = *at == ',';
        at += more;
    }
    if (s)
        return s;
    if (stage != n_stages)
        return ls_fail(err, LS_E_REFUSED,
                       "layers \"%s\": %d range%s for %d stage%s; every rank is one stage",
                       text, stage, stage == 1 ? "" : "s", n_stages, n_stages == 1 ? "" : "s");
    if (expected != n_layers)
        return ls_fail(err, LS_E_USAGE,
                       "layers \"%s\": layers %d to %d are on no stage (the model has %d)",
                       text, expected, n_layers - 1, n_layers);
    first[n_stages] = n_layers;
    return LS_OK;
}
