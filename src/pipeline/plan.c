/* Forms and checks the plan: sizes of a step, of the cache and of the buffers. */
#include "pipeline/plan_parts.h"

#include "base/alloc.h"
#include "base/size.h"
#include "model/weights.h"
#include "pipeline/channel.h"
#include "pipeline/control.h"
#include "pipeline/result.h"
#include "pipeline/scheduler.h"
#include "stage/stage.h"
#include "wire/frame.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_BUDGET = 512,
    /* Of several stages. A stage has nothing to do before the first step has come, nor behind
     * the last one, and messages move between layers; products of so many rows are as fast as
     * those of more. */
    PIPELINE_BUDGET = 128,
    LEAST_CHUNK = 128, /* smaller ones would make attention slower */
    DEFAULT_SEQUENCES = 64,
    MAX_BUDGET = 1 << 20,
    MAX_SEQUENCES = 1 << 16,
    RESULT_BYTES = 8 << 20, /* logits in one RESULT frame, unless one row is larger */
};

enum { ADVICE_TEXT = 128 };

const char *ls_plan_size_text(uint64_t bytes, char text[LS_SIZE_TEXT])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int unit = 0;
    if (bytes == 1)
        return "1 byte";
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, LS_SIZE_TEXT, "%.*f %s", unit ? 2 : 0, value, units[unit]);
    return text;
}

int ls_plan_all_window(const struct ls_arch *arch)
{
    int widest = 0;
    for (int l = 0; l < arch->n_layers; l++) {
        if (arch->layers[l].window <= 0)
            return 0;
        if (arch->layers[l].window > widest)
            widest = arch->layers[l].window;
    }
    return widest;
}

uint64_t ls_plan_step_payload(const struct ls_plan *plan, const struct ls_arch *arch,
                              int first_layer)
{
    uint64_t element = first_layer ? ls_fmt_bytes(arch->dtype) : sizeof(int32_t);
    uint64_t width = first_layer ? (uint64_t)ls_inbound_width(arch, first_layer) : 1;
    return ls_step_max_bytes(&plan->limits) +
           ls_step_leaf_bytes(&plan->limits, plan->limits.max_tokens, first_layer) +
           plan->limits.max_tokens * width * element;
}

uint64_t ls_plan_result_payload(const struct ls_plan *plan, const struct ls_arch *arch)
{
    uint64_t logits = (uint64_t)plan->logit_rows * (uint64_t)arch->vocab * sizeof(float);
    return ls_result_max_table(&plan->limits, plan->logit_rows) + logits +
           ls_step_leaf_bytes(&plan->limits, plan->limits.max_tokens, arch->n_layers + 1);
}

int ls_plan_step_buffers(const struct ls_plan *plan)
{
    return plan->window < 64 ? plan->window : 64;
}

/* A link within one process has no receiving buffers: results wait where they were computed. */
int ls_plan_result_sends(const struct ls_plan *plan, int rank)
{
    return plan->n_stages == 1 && rank == 0 ? LS_RESULT_RECEIVES : LS_RESULT_SENDS;
}

int ls_plan_result_receives(const struct ls_plan *plan)
{
    const int share = LS_RESULT_RECEIVES / plan->n_replicas;
    return share > LS_RESULT_SENDS ? share : LS_RESULT_SENDS;
}

/* Links from other ranks on which rank 0 receives results. */
static uint64_t n_result_links(const struct ls_plan *plan)
{
    return (uint64_t)(plan->n_replicas - (plan->n_stages == 1));
}

/* Scratch memory: a payload for each end that sends to another rank, two for one that receives,
 * but for those that carry tokens only. */
static uint64_t packing_bytes(const struct ls_plan *plan, const struct ls_arch *arch, int rank)
{
    const struct ls_stage_plan *sp = &plan->stages[rank];
    uint64_t n_results = rank == 0 ? 2 * n_result_links(plan) : ls_plan_is_last(plan, rank);
    uint64_t bytes = n_results * ls_plan_result_payload(plan, arch);
    if (!ls_plan_is_first(plan, rank))
        bytes += 2 * ls_plan_step_payload(plan, arch, sp->first_layer);
    if (!ls_plan_is_last(plan, rank))
        bytes += ls_plan_step_payload(plan, arch, sp->last_layer);
    return bytes;
}

/* What the links of one rank hold. */
static uint64_t link_bytes(const struct ls_plan *plan, const struct ls_arch *arch, int rank)
{
    const struct ls_stage_plan *sp = &plan->stages[rank];
    uint64_t bytes = ls_control_bytes(rank == 0 ? ls_plan_n_ranks(plan) - 1 : 1);
    uint64_t n = (uint64_t)ls_plan_step_buffers(plan);
    const uint64_t frame = (uint64_t)plan->frame_bytes;
    const bool within = rank == 0 && plan->n_stages == 1;
    uint64_t result = ls_channel_bytes(ls_plan_result_payload(plan, arch), frame);
    uint64_t sent = ls_channel_bytes(ls_plan_result_payload(plan, arch), within ? 0 : frame);
    if (rank > 0)
        bytes += n * ls_channel_bytes(ls_plan_step_payload(plan, arch, sp->first_layer), frame);
    if (!ls_plan_is_last(plan, rank))
        bytes += n * ls_channel_bytes(ls_plan_step_payload(plan, arch, sp->last_layer), frame);
    if (plan->pack)
        bytes += packing_bytes(plan, arch, rank);
    if (ls_plan_is_last(plan, rank))
        bytes += (uint64_t)ls_plan_result_sends(plan, rank) * sent;
    if (rank > 0)
        return bytes;
    bytes += n_result_links(plan) * (uint64_t)ls_plan_result_receives(plan) * result;
    return bytes + (uint64_t)(plan->n_replicas - 1) * n *
                       ls_channel_bytes(ls_plan_step_payload(plan, arch, 0), frame);
}

/* --- the size of a step ------------------------------------------------------------------- */

static ls_status choose(const char *name, int32_t wish, int32_t automatic, int32_t high,
                        int32_t *out, struct ls_err *err)
{
    if (wish < 0 || wish > high)
        return ls_fail(err, LS_E_USAGE, "%s: %d, expected 1 to %d", name, wish, high);
    *out = wish ? wish : automatic;
    return LS_OK;
}

static ls_status choose_step_size(struct ls_plan *plan, const struct ls_arch *arch,
                                  const struct ls_run_wish *wish, struct ls_err *err)
{
    const int32_t budget = plan->n_stages > 1 ? PIPELINE_BUDGET : DEFAULT_BUDGET;
    int32_t automatic = 2 * plan->n_stages;
    if (automatic > LS_MAX_WINDOW)
        automatic = LS_MAX_WINDOW;
    int32_t n_slots = 0;
    ls_status s = choose("window", wish->window, automatic, LS_MAX_WINDOW, &plan->window, err);
    if (!s)
        s = choose("budget", wish->budget, budget, MAX_BUDGET, &plan->budget, err);
    const int32_t half = (plan->budget + 1) / 2;
    if (!s)
        s = choose("chunk", wish->chunk, half > LEAST_CHUNK ? half : LEAST_CHUNK, MAX_BUDGET,
                   &plan->chunk, err);
    if (!s)
        s = choose("max-sequences", wish->max_sequences, DEFAULT_SEQUENCES, MAX_SEQUENCES,
                   &n_slots, err);
    if (s)
        return s;
    if (plan->chunk > plan->budget)
        plan->chunk = plan->budget;
    uint64_t fit = RESULT_BYTES / ((uint64_t)arch->vocab * sizeof(float));
    plan->logit_rows = (uint32_t)ls_min_u64(ls_max_u64(fit, 1), (uint64_t)plan->budget);
    plan->limits.n_slots = (uint32_t)n_slots;
    plan->pack = wish->pack;
    plan->limits.leaves = wish->leaves;
    plan->frame_bytes = wish->frame_bytes ? wish->frame_bytes : LS_FRAME_BYTES;
    plan->limits.context = (uint32_t)arch->context;
    plan->limits.max_tokens = (uint32_t)plan->budget;
    return LS_OK;
}

/* Everything that follows from the number of slots. */
uint32_t ls_plan_step_events(const struct ls_step_limits *lim)
{
    return 2 * lim->n_slots + 2 * lim->max_rows + lim->max_tokens / LS_KV_BLOCK + 1;
}

static void fill_limits(struct ls_plan *plan)
{
    struct ls_step_limits *lim = &plan->limits;
    lim->max_rows = (uint32_t)ls_min_u64(lim->n_slots, lim->max_tokens);
    lim->max_blocks_per_slot = (uint32_t)ls_ceil_div(lim->context, LS_KV_BLOCK);
    /* at least one slot can adopt all of its blocks, and drop each of them again */
    lim->max_events = ls_plan_step_events(lim) + 2 * lim->max_blocks_per_slot;
}

/* --- memory ------------------------------------------------------------------------------- */

uint64_t ls_plan_block_bytes(const struct ls_arch *arch, const struct ls_stage_plan *sp)
{
    uint64_t bytes = 0;
    for (int l = sp->first_layer; l < sp->last_layer; l++)
        bytes += ls_kv_block_bytes(arch, l);
    return bytes;
}

static ls_status too_little(const struct ls_rank_report *report, int rank,
                            const struct ls_stage_plan *sp, struct ls_err *err)
{
    char weights[LS_SIZE_TEXT], scratch[LS_SIZE_TEXT], room[LS_SIZE_TEXT];
    return ls_fail(err, LS_E_MEMORY,
                   "rank %d on %s: layers %d-%d need %s of weights and %s of scratch and link "
                   "buffers, %s are "
                   "available; use more ranks on more hosts, or a smaller budget",
                   rank, report->host, sp->first_layer, sp->last_layer - 1,
                   ls_plan_size_text(ls_stage_weights_share(sp), weights),
                   ls_plan_size_text(ls_stage_work_bytes(sp), scratch),
                   ls_plan_size_text(report->memory_bytes, room));
}

/* Blocks of this stage's layers that its memory, or the user, allows. */
static ls_status blocks_allowed(const struct ls_plan *plan, const struct ls_arch *arch,
                                const struct ls_run_wish *wish,
                                const struct ls_rank_report *report, int rank, uint64_t *blocks,
                                struct ls_err *err)
{
    const struct ls_stage_plan *sp = &plan->stages[rank];
    uint64_t fixed = ls_stage_weights_share(sp) + ls_stage_work_bytes(sp);
    if (report->memory_bytes && fixed >= report->memory_bytes)
        return too_little(report, rank, sp, err);
    uint64_t room = wish->kv_bytes ? wish->kv_bytes : UINT64_MAX;
    if (!wish->kv_bytes && report->memory_bytes)
        room = (report->memory_bytes - fixed) / 100 * LS_KV_SHARE_PERCENT;
    *blocks = room / ls_plan_block_bytes(arch, sp);
    return LS_OK;
}

/* What the cache of one sequence of the full context takes on the stage where it takes most. */
static uint64_t largest_need(const struct ls_plan *plan, const struct ls_arch *arch,
                             uint32_t worst)
{
    uint64_t most = 0;
    for (int i = 0; i < plan->n_stages; i++)
        most = ls_max_u64(most, worst * ls_plan_block_bytes(arch, &plan->stages[i]));
    return most;
}

/* The longest context, in whole blocks, of which one sequence fits everywhere; 0: none. */
static uint32_t longest_context(const struct ls_plan *plan, const struct ls_arch *arch,
                                uint64_t room_of_one, uint64_t blocks)
{
    for (int i = 0; i < plan->n_stages && room_of_one; i++)
        blocks = ls_min_u64(blocks, room_of_one / ls_plan_block_bytes(arch, &plan->stages[i]));
    uint32_t n = plan->limits.context / LS_KV_BLOCK;
    while (n > 0 &&
           ls_scheduler_worst_blocks(plan, ls_plan_all_window(arch), n * LS_KV_BLOCK) > blocks)
        n--;
    return n * LS_KV_BLOCK;
}

/* The smallest changes that help; kv-memory is one size for all ranks. */
static void advise(const struct ls_plan *plan, const struct ls_arch *arch,
                   const struct ls_run_wish *wish, uint32_t worst, uint64_t blocks,
                   char text[ADVICE_TEXT])
{
    const uint32_t fits = longest_context(plan, arch, wish->kv_bytes, blocks);
    const uint64_t kib = (largest_need(plan, arch, worst) + 1023) / 1024;
    int n = wish->kv_bytes
                ? snprintf(text, ADVICE_TEXT, "raise kv-memory to at least %" PRIu64 "K", kib)
                : snprintf(text, ADVICE_TEXT, "use more ranks on more hosts");
    if (fits)
        snprintf(text + n, ADVICE_TEXT - (size_t)n, ", or lower context to %" PRIu32, fits);
}

/* The smallest cache that holds one sequence of the full context. */
static ls_status check_one_context(const struct ls_plan *plan, const struct ls_arch *arch,
                                   const struct ls_run_wish *wish,
                                   const struct ls_rank_report *report, int rank,
                                   uint64_t blocks, struct ls_err *err)
{
    uint32_t worst =
        ls_scheduler_worst_blocks(plan, ls_plan_all_window(arch), plan->limits.context);
    if (blocks >= worst)
        return LS_OK;
    uint64_t per_block = ls_plan_block_bytes(arch, &plan->stages[rank]);
    char need[LS_SIZE_TEXT], room[LS_SIZE_TEXT], advice[ADVICE_TEXT];
    advise(plan, arch, wish, worst, blocks, advice);
    return ls_fail(err, LS_E_MEMORY,
                   "rank %d on %s: the cache of one sequence of %u tokens needs %s, %s %s; %s",
                   rank, report->host, plan->limits.context,
                   ls_plan_size_text(worst * per_block, need),
                   wish->kv_bytes ? "kv-memory allows" : "memory leaves",
                   ls_plan_size_text(
                       blocks || !wish->kv_bytes ? blocks * per_block : wish->kv_bytes, room),
                   advice);
}

/* Scratch depends on the number of slots, which the cache may still lower: an upper bound. */
void ls_plan_fill_scratch(struct ls_plan *plan, const struct ls_arch *arch)
{
    for (int i = 0; i < ls_plan_n_ranks(plan); i++) {
        struct ls_stage_plan *sp = &plan->stages[i];
        sp->scratch_bytes =
            ls_stage_scratch_bytes(arch, sp->first_layer, sp->last_layer, sp->threads,
                                   &plan->limits, plan->logit_rows);
        sp->link_bytes = link_bytes(plan, arch, i);
    }
}

static ls_status check_explicit_kv(const struct ls_plan *plan,
                                   const struct ls_rank_report *report, int rank,
                                   struct ls_err *err)
{
    const struct ls_stage_plan *sp = &plan->stages[rank];
    uint64_t need = ls_stage_weights_share(sp) + ls_stage_work_bytes(sp) + sp->kv_bytes;
    if (!report->memory_bytes || need <= report->memory_bytes)
        return LS_OK;
    char text[4][LS_SIZE_TEXT];
    return ls_fail(err, LS_E_MEMORY,
                   "rank %d on %s: %s of weights, %s of scratch and link buffers and %s of "
                   "cache do not fit into the "
                   "%s available; lower kv-memory",
                   rank, report->host, ls_plan_size_text(ls_stage_weights_share(sp), text[0]),
                   ls_plan_size_text(ls_stage_work_bytes(sp), text[1]),
                   ls_plan_size_text(sp->kv_bytes, text[2]),
                   ls_plan_size_text(report->memory_bytes, text[3]));
}

static ls_status size_cache(struct ls_plan *plan, const struct ls_arch *arch,
                            const struct ls_run_wish *wish,
                            const struct ls_rank_report *reports, struct ls_err *err)
{
    struct ls_step_limits *lim = &plan->limits;
    uint32_t worst = ls_scheduler_worst_blocks(plan, ls_plan_all_window(arch), lim->context);
    uint64_t blocks = ls_min_u64((uint64_t)worst * lim->n_slots, LS_PLAN_MAX_BLOCKS);
    lim->n_blocks = (uint32_t)blocks;
    ls_plan_fill_scratch(plan, arch);
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        uint64_t allowed = 0;
        ls_status s = blocks_allowed(plan, arch, wish, &reports[r], r, &allowed, err);
        if (!s)
            s = check_one_context(plan, arch, wish, &reports[r], r, allowed, err);
        if (s)
            return s;
        blocks = ls_min_u64(blocks, allowed);
    }
    lim->n_blocks = (uint32_t)blocks;
    lim->n_slots = (uint32_t)ls_min_u64(lim->n_slots, blocks);
    fill_limits(plan);
    ls_plan_fill_scratch(plan, arch);
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        plan->stages[r].kv_bytes = blocks * ls_plan_block_bytes(arch, &plan->stages[r]);
        ls_status s = check_explicit_kv(plan, &reports[r], r, err);
        if (s)
            return s;
    }
    return LS_OK;
}

/* --- the whole ----------------------------------------------------------------- */

/* Signs of life come between layers, so nobody may be given up while a layer of the largest
 * step could still be computed, on a slow core and three times over. */
static int32_t choose_silence(const struct ls_plan *plan, const struct ls_arch *arch,
                              const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish)
{
    const double rate = wish->cpu_path == LS_CPU_REF ? 5e8 : 2e9; /* additions, each core */
    double longest_s = 0;
    if (wish->silence_s > 0)
        return wish->silence_s;
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        const struct ls_stage_plan *sp = &plan->stages[r];
        for (int l = sp->first_layer; l < sp->last_layer; l++) {
            /* two bytes a weight; of experts only the chosen ones are computed */
            double weights = (double)ls_weights_bytes(arch, ckpt, l, l + 1) / 2;
            if (arch->experts.n > 0 && arch->layers[l].ffn == LS_FFN_EXPERTS)
                weights *= (double)arch->experts.n_chosen / arch->experts.n;
            double t = weights * plan->budget / (rate * sp->threads);
            longest_s = t > longest_s ? t : longest_s;
        }
    }
    return longest_s * 3 > LS_MAX_SILENCE_S ? LS_MAX_SILENCE_S
           : longest_s * 3 < LS_SILENCE_S   ? LS_SILENCE_S
                                            : (int32_t)(longest_s * 3);
}

/* The plan of ranks that are cut into so many stages. */
static ls_status form(struct ls_plan *plan, const struct ls_arch *arch,
                      const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                      const struct ls_rank_report *reports, int n_ranks, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (int r = 0; !s && r < n_ranks; r++)
        s = choose("threads", wish->threads, reports[r].cores, LS_MAX_THREADS,
                   &plan->stages[r].threads, err);
    if (!s)
        s = choose_step_size(plan, arch, wish, err);
    if (s)
        return s;
    fill_limits(plan);
    ls_plan_share_weights(plan, wish, reports);
    s = ls_plan_place_layers(plan, arch, ckpt, wish, reports, err);
    if (s)
        return s;
    plan->silence_s = choose_silence(plan, arch, ckpt, wish);
    s = size_cache(plan, arch, wish, reports, err);
    if (s == LS_E_MEMORY && !wish->kv_bytes)
        return ls_plan_advise(plan, arch, ckpt, reports, err);
    return s ? s : ls_plan_check(plan, arch, n_ranks, err);
}

ls_status ls_plan_form(struct ls_plan *plan, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                       const struct ls_rank_report *reports, int n_ranks, struct ls_err *err)
{
    int fewest, most;
    ls_status s = ls_plan_count_stages(arch, wish, n_ranks, &fewest, &most, err);
    for (int n = fewest; !s && n <= most; n++) {
        if (n_ranks % n)
            continue;
        memset(plan, 0, sizeof *plan);
        plan->n_stages = n;
        plan->n_replicas = n_ranks / n;
        s = form(plan, arch, ckpt, wish, reports, n_ranks, err);
        if (!s)
            return LS_OK;
        if (s == LS_E_MEMORY && n < most)
            s = LS_OK;
    }
    return s ? s : err->status;
}

/* --- check -------------------------------------------------------------------------------- */

static ls_status check_ranges(const struct ls_plan *plan, const struct ls_arch *arch,
                              struct ls_err *err)
{
    int expected = 0;
    for (int i = 0; i < plan->n_stages; i++) {
        const struct ls_stage_plan *sp = &plan->stages[i];
        if (sp->first_layer != expected || sp->last_layer <= sp->first_layer)
            return ls_fail(err, LS_E_REFUSED,
                           "plan: stage %d has layers [%d, %d), expected to begin at %d", i,
                           sp->first_layer, sp->last_layer, expected);
        ls_status s = ls_plan_check_cut(i, sp->first_layer, arch, err);
        if (s)
            return s;
        expected = sp->last_layer;
    }
    for (int r = 0; r < ls_plan_n_ranks(plan); r++)
        if (plan->stages[r].threads < 1 || plan->stages[r].threads > LS_MAX_THREADS)
            return ls_fail(err, LS_E_REFUSED, "plan: rank %d has %d threads", r,
                           plan->stages[r].threads);
    if (expected != arch->n_layers)
        return ls_fail(err, LS_E_REFUSED, "plan: covers %d layers, the model has %d", expected,
                       arch->n_layers);
    return LS_OK;
}

static ls_status check_frames(const struct ls_plan *plan, const struct ls_arch *arch,
                              struct ls_err *err)
{
    uint64_t around = LS_FRAME_HEADER + LS_FRAME_TAG;
    uint64_t largest = ls_plan_result_payload(plan, arch) + around;
    for (int i = 1; i < plan->n_stages; i++)
        largest = ls_max_u64(
            largest, ls_plan_step_payload(plan, arch, plan->stages[i].first_layer) + around);
    char size[LS_SIZE_TEXT];
    if (largest <= INT_MAX)
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "a step of %d tokens makes messages of %s, one may hold 2 GiB; lower budget",
                   plan->budget, ls_plan_size_text(largest, size));
}

ls_status ls_plan_check(const struct ls_plan *plan, const struct ls_arch *arch, int n_ranks,
                        struct ls_err *err)
{
    const struct ls_step_limits *lim = &plan->limits;
    if (ls_plan_n_ranks(plan) != n_ranks)
        return ls_fail(err, LS_E_REFUSED, "plan: %d replicas of %d stages for %d ranks",
                       plan->n_replicas, plan->n_stages, n_ranks);
    ls_status s = check_ranges(plan, arch, err);
    if (!s)
        s = ls_plan_check_replicas(plan, err);
    if (!s)
        s = ls_step_limits_check(lim, err);
    if (s)
        return s;
    bool sizes = plan->budget >= 1 && lim->max_tokens == (uint32_t)plan->budget &&
                 plan->chunk >= 1 && plan->chunk <= plan->budget && plan->window >= 1 &&
                 plan->window <= LS_MAX_WINDOW && plan->logit_rows >= 1 &&
                 plan->logit_rows <= lim->max_tokens && lim->context == (uint32_t)arch->context;
    if (!sizes)
        return ls_fail(err, LS_E_REFUSED,
                       "plan: budget %d, chunk %d, window %d, %u logits rows a frame, context "
                       "%u contradict each other or the model's context of %d",
                       plan->budget, plan->chunk, plan->window, plan->logit_rows, lim->context,
                       arch->context);
    if (plan->frame_bytes < LS_FRAME_UNIT || plan->frame_bytes > LS_MAX_FRAME_BYTES ||
        plan->frame_bytes % LS_FRAME_UNIT)
        return ls_fail(err, LS_E_REFUSED,
                       "plan: frames of %d bytes, expected a multiple of %d up to %d",
                       plan->frame_bytes, LS_FRAME_UNIT, LS_MAX_FRAME_BYTES);
    if (plan->pack != LS_PACK_NONE && !ls_pack_is_built())
        return ls_fail(err, LS_E_REFUSED, "--pack %s: this program was built without liblz4",
                       ls_pack_name((enum ls_pack)plan->pack));
    return check_frames(plan, arch, err);
}
