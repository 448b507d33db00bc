/* Which layers on which rank, when ranks are not equal or memory is scarce. */
#include "base/alloc.h"
#include "base/size.h"
#include "model/weights.h"
#include "pipeline/plan_parts.h"
#include "pipeline/scheduler.h"
#include "stage/stage.h"

#include <string.h>

/* Layers that no cut may separate, as one. */
struct units {
    int n;
    int32_t *begin; /* [n]: first layer */
    uint64_t *cost; /* [n]: bytes of weights, which stand for time: decoding reads each once per
                       step, and a prompt's arithmetic is proportional to them. The last layer's
                       hold the head's, as far as rows need it */
    uint64_t *bytes; /* [n]: of weights, and of the least cache with what must be left free */
    struct ls_arena arena;
};

static ls_status too_few_cuts(const struct ls_arch *arch, int n_stages, int n_units,
                              struct ls_err *err)
{
    int reader = 0;
    for (int l = 1; l < arch->n_layers; l++)
        if (!ls_cut_allowed(arch, l, &reader))
            break;
    return ls_fail(err, LS_E_REFUSED,
                   "%d ranks but the model can be cut into %d stages only: layer %d reads the "
                   "keys and values of layer %d; start at most %d",
                   n_stages, n_units, reader, arch->layers[reader].kv_source, n_units);
}

/* Bytes that a layer takes for the cache of so many sequences, and the share beside it. */
static uint64_t cache_bytes(const struct ls_plan *plan, const struct ls_arch *arch, int layer,
                            uint64_t sequences)
{
    uint64_t worst =
        ls_scheduler_worst_blocks(plan, ls_plan_all_window(arch), plan->limits.context);
    uint64_t bytes = worst * sequences * ls_kv_block_bytes(arch, layer);
    return bytes / LS_KV_SHARE_PERCENT * 100 + 100;
}

/* Ranks that use one copy of weights, at least. */
static uint64_t fewest_sharing(const struct ls_plan *plan)
{
    uint64_t fewest = UINT64_MAX;
    for (int r = 0; r < ls_plan_n_ranks(plan); r++)
        fewest = ls_min_u64(fewest, (uint64_t)plan->stages[r].n_sharing);
    return fewest;
}

static ls_status find_units(struct units *u, const struct ls_plan *plan,
                            const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                            uint64_t sequences, struct ls_err *err)
{
    uint64_t n = (uint64_t)arch->n_layers, n_sharing = fewest_sharing(plan);
    *u = (struct units){ .n = 0 };
    ls_arena_init(&u->arena);
    u->begin = ls_arena_take(&u->arena, n * sizeof *u->begin);
    u->cost = ls_arena_take(&u->arena, n * sizeof *u->cost);
    u->bytes = ls_arena_take(&u->arena, n * sizeof *u->bytes);
    if (!u->begin || !u->cost || !u->bytes)
        return ls_fail(err, LS_E_MEMORY, "out of memory: layer costs");
    for (int l = 0; l < arch->n_layers; l++) {
        if (ls_cut_allowed(arch, l, NULL))
            u->begin[u->n++] = l;
        uint64_t weights = ls_weights_bytes(arch, ckpt, l, l + 1);
        u->cost[u->n - 1] += weights;
        u->bytes[u->n - 1] += weights / n_sharing + cache_bytes(plan, arch, l, sequences);
    }
    return LS_OK;
}

/* Of a job whose prompts need logits of their last position only, this much of the head's time
 * is counted: prompts are commonly two or three times what is generated, and digest and sending
 * cost about half of the head again. */
enum { FEW_LOGITS_PERCENT = 50 };

static void count_head(struct units *u, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish)
{
    if (wish->few_logits)
        u->cost[u->n - 1] -=
            ls_weights_head_bytes(arch, ckpt) / 100 * (100 - FEW_LOGITS_PERCENT);
}

/* Units to layers, and layers into the plan. */
static void take_split(struct ls_plan *plan, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct units *u,
                       const int32_t *first)
{
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        struct ls_stage_plan *sp = &plan->stages[r];
        const int i = ls_plan_stage_of(plan, r);
        sp->first_layer = u ? u->begin[first[i]] : first[i];
        sp->last_layer = !u                    ? first[i + 1]
                         : first[i + 1] < u->n ? u->begin[first[i + 1]]
                                               : arch->n_layers;
        sp->weights_bytes = ls_weights_bytes(arch, ckpt, sp->first_layer, sp->last_layer);
    }
}

/* What is left of a rank's memory for weights and cache. */
static uint64_t room_of(const struct ls_plan *plan, const struct ls_rank_report *reports,
                        int rank, uint64_t cache)
{
    uint64_t memory = reports[rank].memory_bytes, used = 0;
    if (!memory)
        return UINT64_MAX;
    bool known = ls_add_u64(ls_stage_work_bytes(&plan->stages[rank]), cache, &used);
    return known && memory > used ? memory - used : 0;
}

/* What is there for a stage in every replica. */
static struct ls_split_rank weakest(const struct ls_plan *plan,
                                    const struct ls_rank_report *reports, int stage,
                                    uint64_t cache)
{
    struct ls_split_rank least = { .room_bytes = UINT64_MAX, .speed = UINT32_MAX };
    for (int r = stage; r < ls_plan_n_ranks(plan); r += plan->n_stages) {
        const uint32_t speed = (uint32_t)plan->stages[r].threads;
        least.room_bytes = ls_min_u64(least.room_bytes, room_of(plan, reports, r, cache));
        least.speed = speed < least.speed ? speed : least.speed;
    }
    return least;
}

/* Whether the split of equal ranks is what is wanted: equal speed, and every share fits. */
static bool is_good(const struct ls_plan *plan, const struct units *u, const int32_t *first,
                    const struct ls_split_rank *ranks)
{
    for (int i = 0; i < plan->n_stages; i++) {
        uint64_t need = 0;
        for (int k = first[i]; k < first[i + 1]; k++)
            need += u->bytes[k];
        if (need > ranks[i].room_bytes || ranks[i].speed != ranks[0].speed)
            return false;
    }
    return true;
}

/* With cache for so many sequences; LS_E_MEMORY when no cut fits, and then the plan has the
 * layers of equal ranks. */
static ls_status place(struct ls_plan *plan, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                       const struct ls_rank_report *reports, uint64_t sequences,
                       struct ls_err *err)
{
    int32_t first[LS_MAX_STAGES + 1];
    struct ls_split_rank ranks[LS_MAX_STAGES];
    struct units u;
    ls_status s = find_units(&u, plan, arch, ckpt, sequences, err);
    if (!s && u.n < plan->n_stages)
        s = too_few_cuts(arch, plan->n_stages, u.n, err);
    if (!s) {
        count_head(&u, arch, ckpt, wish);
        s = ls_plan_split(u.cost, u.n, 0, 0, plan->n_stages, first, err);
    }
    if (!s) {
        take_split(plan, arch, ckpt, &u, first);
        ls_plan_fill_scratch(plan, arch);
        for (int i = 0; i < plan->n_stages; i++)
            ranks[i] = weakest(plan, reports, i, wish->kv_bytes);
        if (!is_good(plan, &u, first, ranks))
            s = ls_plan_split_over(u.cost, u.bytes, u.n, ranks, plan->n_stages, first, err);
        if (!s)
            take_split(plan, arch, ckpt, &u, first);
    }
    ls_arena_finish(&u.arena);
    return s;
}

ls_status ls_plan_check_cut(int stage, int first_layer, const struct ls_arch *arch,
                            struct ls_err *err)
{
    int reader = 0;
    if (ls_cut_allowed(arch, first_layer, &reader))
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "stage %d cannot begin at layer %d: layer %d reads the keys and values of "
                   "layer %d",
                   stage, first_layer, reader, arch->layers[reader].kv_source);
}

static ls_status place_by_hand(struct ls_plan *plan, const struct ls_arch *arch,
                               const struct ls_checkpoint *ckpt, const char *layers,
                               struct ls_err *err)
{
    int32_t first[LS_MAX_STAGES + 1];
    ls_status s = ls_plan_parse_layers(layers, arch->n_layers, plan->n_stages, first, err);
    for (int i = 0; !s && i < plan->n_stages; i++)
        s = ls_plan_check_cut(i, first[i], arch, err);
    if (!s)
        take_split(plan, arch, ckpt, NULL, first);
    return s;
}

ls_status ls_plan_place_layers(struct ls_plan *plan, const struct ls_arch *arch,
                               const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                               const struct ls_rank_report *reports, struct ls_err *err)
{
    if (wish->layers[0])
        return place_by_hand(plan, arch, ckpt, wish->layers, err);
    /* room for the concurrency that was asked for, else for one sequence, else none fits */
    uint64_t worst =
        ls_scheduler_worst_blocks(plan, ls_plan_all_window(arch), plan->limits.context);
    plan->limits.n_blocks =
        (uint32_t)ls_min_u64(worst * plan->limits.n_slots, LS_PLAN_MAX_BLOCKS);
    ls_status s = LS_E_MEMORY;
    if (wish->kv_bytes)
        s = place(plan, arch, ckpt, wish, reports, 0, err);
    else if (wish->max_sequences > 1)
        s = place(plan, arch, ckpt, wish, reports, plan->limits.n_slots, err);
    if (s == LS_E_MEMORY && !wish->kv_bytes)
        s = place(plan, arch, ckpt, wish, reports, 1, err);
    return s == LS_E_MEMORY ? LS_OK : s;
}

/* --- what would fit ----------------------------------------------------------------------- */

/* Ranks of the host that has most, and what each of them would have alone. */
static uint64_t largest_host(const struct ls_plan *plan, const struct ls_rank_report *reports,
                             int *rank)
{
    uint64_t most = 0;
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        uint64_t memory = 0;
        for (int q = 0; q < ls_plan_n_ranks(plan); q++)
            if (!strcmp(reports[q].host, reports[r].host))
                memory += reports[q].memory_bytes;
        if (memory > most)
            *rank = r;
        most = ls_max_u64(most, memory);
    }
    return most;
}

/* What the steps and links of a rank take: of rank 0, which has a link to every other, and of
 * the others at most. */
static uint64_t work_of(const struct ls_plan *plan, bool is_first)
{
    uint64_t most = ls_stage_work_bytes(&plan->stages[0]);
    if (is_first || plan->n_stages == 1)
        return most;
    most = 0;
    for (int i = 1; i < plan->n_stages; i++)
        most = ls_max_u64(most, ls_stage_work_bytes(&plan->stages[i]));
    return most;
}

/* Hosts of so much memory that the units fill one after the other; 0: a unit alone is too
 * large. */
static int hosts_needed(const struct ls_plan *plan, const struct units *u, uint64_t memory)
{
    int n = 1;
    uint64_t used = work_of(plan, true);
    for (int k = 0; k < u->n; k++) {
        if (used + u->bytes[k] > memory && k > 0) {
            n++;
            used = work_of(plan, false);
        }
        used += u->bytes[k];
        if (used > memory) /* of a unit alone */
            return 0;
    }
    return n;
}

ls_status ls_plan_advise(const struct ls_plan *plan, const struct ls_arch *arch,
                         const struct ls_checkpoint *ckpt, const struct ls_rank_report *reports,
                         struct ls_err *err)
{
    struct units u;
    char size[LS_SIZE_TEXT];
    int rank = 0;
    uint64_t memory = largest_host(plan, reports, &rank);
    struct ls_err first = err ? *err : (struct ls_err){ .status = LS_E_MEMORY };
    ls_status s = find_units(&u, plan, arch, ckpt, 1, err);
    int n = s ? 0 : hosts_needed(plan, &u, memory);
    ls_arena_finish(&u.arena);
    ls_plan_size_text(memory, size);
    if (n > 0)
        return ls_fail(err, LS_E_MEMORY,
                       "%.700s; %d host%s with %s, as %s has, and one rank each "
                       "would do",
                       first.text, n, n == 1 ? "" : "s", size, reports[rank].host);
    return ls_fail(err, LS_E_MEMORY, "%.700s; no number of hosts with %s would do", first.text,
                   size);
}
