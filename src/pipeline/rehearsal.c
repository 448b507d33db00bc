#include "pipeline/rehearsal.h"

#include "base/alloc.h"
#include "base/size.h"
#include "pipeline/channel.h"
#include "pipeline/result.h"
#include "pipeline/scheduler.h"
#include "wire/parts.h"

#include <inttypes.h>
#include <string.h>

enum {
    PAGE = 4096,
    HOP_US = 50,             /* a message between ranks, beside its bytes */
    LINK_BYTES_PER_US = 1000 /* sealed, as measured; the sender's own time, too */
};

/* The buffers of a link, which messages take in turn. */
struct ring {
    uint64_t frame; /* bytes of one */
    uint32_t n, at;
    bool within;    /* one rank: not in shared memory */
    uint64_t *most; /* [n] bytes of each that were used at most */
};

struct rehearsed_slot {
    const struct ls_sequence *seq;
    uint32_t made; /* tokens */
};

struct flight {
    struct ls_step step;
    double end_us; /* its results are with rank 0 */
};

/* One replica. */
struct lane {
    struct ls_scheduler *scheduler;
    struct rehearsed_slot *slots; /* [n_slots] */
    struct flight *flights;       /* [window], a ring */
    uint64_t next, oldest;
    double *free_us;   /* [n_stages]: the stage is free from then on */
    struct ring *cuts; /* [n_stages]: in front of each stage; 0: from rank 0, or none */
    struct ring sent, received;
};

struct rehearsal {
    const struct ls_rehearsal_config *cfg;
    struct ls_rehearsal *out;
    struct ls_arena arena;
    struct lane *lanes; /* [n_replicas] */
    uint64_t begun;     /* sequences */
    double now_us;      /* of rank 0's coordinator */
    struct ls_err *err;
};

/* --- memory ------------------------------------------------------------------------------- */

static bool ring_init(struct ring *ring, struct rehearsal *r, int buffers, uint64_t payload,
                      bool within)
{
    const uint64_t frame_bytes = within ? 0 : (uint64_t)r->cfg->plan->frame_bytes;
    ring->within = within;
    ring->frame = ls_channel_frame_bytes(payload, frame_bytes);
    ring->n = (uint32_t)(ls_parts_count(payload, ring->frame) * (uint64_t)buffers);
    ring->most = ls_arena_take(&r->arena, ring->n * sizeof *ring->most);
    return ring->most != NULL;
}

static void ring_put(struct ring *ring, uint64_t payload)
{
    const uint64_t n = ls_parts_count(payload, ring->frame);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t bytes = ls_parts_bytes(payload, ring->frame, i) + LS_PARTS_GAP;
        ring->most[ring->at] = ls_max_u64(ring->most[ring->at], bytes);
        ring->at = (ring->at + 1) % ring->n;
    }
}

static uint64_t ring_bytes(const struct ring *ring)
{
    const uint64_t stride = ls_link_stride(ring->frame), all = ring->n * stride;
    uint64_t bytes = 0, next = 0;
    for (uint32_t i = 0; i < ring->n; i++)
        bytes += ring->within
                     ? ls_alloc_resident(all, i * stride, i * stride + ring->most[i], &next)
                     : ls_round_up(ring->most[i], PAGE);
    return bytes;
}

/* What waits at a rank for the next steps, and what it sends. */
static void count_links(struct rehearsal *r)
{
    const struct ls_plan *p = r->cfg->plan;
    for (int l = 0; l < p->n_replicas; l++) {
        const struct lane *lane = &r->lanes[l];
        uint64_t *const bytes = &r->out->link_bytes[l * p->n_stages];
        for (int s = 0; s < p->n_stages; s++) {
            const uint64_t cut = ring_bytes(&lane->cuts[s]);
            bytes[s] += cut;
            if (s > 0)
                bytes[s - 1] += cut;
            else if (l > 0)
                r->out->link_bytes[0] += cut;
        }
        bytes[p->n_stages - 1] += ring_bytes(&lane->sent);
        r->out->link_bytes[0] += ring_bytes(&lane->received);
        const uint32_t blocks = ls_scheduler_touched_blocks(lane->scheduler);
        r->out->max_blocks = blocks > r->out->max_blocks ? blocks : r->out->max_blocks;
    }
}

/* --- time --------------------------------------------------------------------------------- */

static double link_us(uint64_t bytes)
{
    return (double)bytes / LINK_BYTES_PER_US;
}

/* What the layers of a rank take for this step, and the last stage's logits. */
static double compute_us(const struct rehearsal *r, int rank, const struct ls_step *step)
{
    const struct ls_pace *pace = r->cfg->pace;
    const struct ls_stage_plan *sp = &r->cfg->plan->stages[rank];
    const struct ls_arch *arch = r->cfg->arch;
    double us = ls_pace_run(pace, step->n_tokens) * r->cfg->work[rank], keys = 0;
    const double scale = (double)pace->n_threads / sp->threads;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct ls_step_row *row = &step->rows[i];
        int window = -1;
        double one = 0;
        for (int l = sp->first_layer; l < sp->last_layer; l++) {
            if (arch->layers[l].window != window)
                one = ls_pace_attention(pace, row->first_pos, row->count,
                                        window = arch->layers[l].window);
            keys += one;
        }
    }
    if (ls_plan_is_last(r->cfg->plan, rank))
        us += ls_pace_head(pace, ls_step_n_logits(step)) * scale;
    return (us + keys * scale) / r->cfg->share;
}

/* --- a step ------------------------------------------------------------------------------- */

static uint64_t step_payload(const struct rehearsal *r, const struct ls_step *step, int layer)
{
    const struct ls_arch *arch = r->cfg->arch;
    const uint64_t width = layer ? (uint64_t)ls_inbound_width(arch, layer) : 1;
    return ls_step_bytes(step) +
           ls_step_leaf_bytes(&r->cfg->plan->limits, step->n_tokens, layer) +
           step->n_tokens * width * (layer ? ls_fmt_bytes(arch->dtype) : sizeof(int32_t));
}

/* The results of a step, frame by frame; returns their bytes. */
static uint64_t put_results(struct rehearsal *r, struct lane *lane, const struct ls_step *step)
{
    const struct ls_plan *p = r->cfg->plan;
    struct ls_result_group g = { .last = false };
    uint64_t sum = 0;
    while (!g.last) {
        g = ls_result_group(step, p->logit_rows, g.end);
        const uint64_t bytes =
            g.table_bytes + ls_result_leaf_bytes(&g, step, &p->limits, r->cfg->arch->n_layers) +
            (uint64_t)g.n_sent * (uint64_t)r->cfg->arch->vocab * sizeof(float);
        if (g.end - g.begin > r->out->max_logit_rows)
            r->out->max_logit_rows = g.end - g.begin;
        if (!ls_result_has_frame(&g))
            continue;
        ring_put(&lane->sent, bytes);
        if (lane->received.n)
            ring_put(&lane->received, bytes);
        sum += bytes;
    }
    return sum;
}

/* Sends a step through the stages: each begins when it is free and the step has come. */
static void fly(struct rehearsal *r, int l, struct flight *f)
{
    const struct ls_plan *p = r->cfg->plan;
    struct lane *lane = &r->lanes[l];
    double at = r->now_us;
    for (int s = 0; s < p->n_stages; s++) {
        const int rank = l * p->n_stages + s;
        if (lane->cuts[s].n) {
            const uint64_t bytes = step_payload(r, &f->step, p->stages[rank].first_layer);
            ring_put(&lane->cuts[s], bytes);
            at += HOP_US + link_us(bytes);
        }
        if (!r->cfg->pace)
            continue;
        double begin = at > lane->free_us[s] ? at : lane->free_us[s];
        double us = compute_us(r, rank, &f->step);
        if (s + 1 < p->n_stages)
            us += link_us(step_payload(r, &f->step, p->stages[rank].last_layer));
        at = begin + us;
        lane->free_us[s] = at;
        r->out->busy_s[rank] += us * 1e-6;
    }
    const uint64_t results = put_results(r, lane, &f->step);
    if (lane->received.n)
        at += HOP_US + 2 * link_us(results);
    f->end_us = at;
    r->out->steps++;
    r->out->tokens += f->step.n_tokens;
    if (f->step.n_tokens > r->out->max_tokens)
        r->out->max_tokens = f->step.n_tokens;
}

/* --- the coordinator's part --------------------------------------------------------------- */

/* Of the replicas that have room, the one that runs fewest sequences. */
static struct lane *choose_lane(struct rehearsal *r, const struct ls_sequence *seq)
{
    struct lane *best = NULL;
    for (int l = 0; l < r->cfg->plan->n_replicas; l++) {
        struct lane *lane = &r->lanes[l];
        if (ls_scheduler_has_room(lane->scheduler, seq) &&
            (!best ||
             ls_scheduler_n_running(lane->scheduler) < ls_scheduler_n_running(best->scheduler)))
            best = lane;
    }
    return best;
}

static ls_status admit(struct rehearsal *r)
{
    while (r->begun < r->cfg->n) {
        const struct ls_sequence *seq = &r->cfg->sequences[r->begun];
        ls_status s = ls_scheduler_check(r->lanes[0].scheduler, seq, r->err);
        if (s)
            return s;
        struct lane *lane = choose_lane(r, seq);
        if (!lane)
            return LS_OK;
        const uint32_t slot = ls_scheduler_add(lane->scheduler, seq);
        lane->slots[slot] = (struct rehearsed_slot){ .seq = seq };
        r->begun++;
    }
    return LS_OK;
}

static void submit(struct rehearsal *r)
{
    const uint64_t window = (uint64_t)r->cfg->plan->window;
    for (int l = 0; l < r->cfg->plan->n_replicas; l++) {
        struct lane *lane = &r->lanes[l];
        while (lane->next - lane->oldest < window) {
            struct flight *f = &lane->flights[lane->next % window];
            if (!ls_scheduler_step(lane->scheduler, &f->step))
                break;
            fly(r, l, f);
            lane->next++;
        }
    }
}

/* What comes back for one row: nothing yet, a token, or the end. */
static void take_row(struct lane *lane, const struct ls_step_row *row)
{
    struct rehearsed_slot *slot = &lane->slots[row->slot];
    const struct ls_sequence *seq = slot->seq;
    const uint32_t end = row->first_pos + row->count;
    ls_scheduler_computed(lane->scheduler, row->slot, end, true);
    if (end < seq->n_prompt)
        return;
    if (seq->max_new == 0 || ++slot->made == seq->max_new)
        ls_scheduler_end(lane->scheduler, row->slot);
    else
        ls_scheduler_token(lane->scheduler, row->slot, 0);
}

/* The lane whose oldest step's results come first; NULL: none is on its way. */
static struct lane *next_lane(const struct rehearsal *r, double *end_us)
{
    const uint64_t window = (uint64_t)r->cfg->plan->window;
    struct lane *first = NULL;
    for (int l = 0; l < r->cfg->plan->n_replicas; l++) {
        struct lane *lane = &r->lanes[l];
        const double t = lane->flights[lane->oldest % window].end_us;
        if (lane->oldest == lane->next || (first && t >= *end_us))
            continue;
        first = lane;
        *end_us = t;
    }
    return first;
}

/* Waits for the next step's results and takes them, and those that come meanwhile; false: no
 * step is on its way. */
static bool take_steps(struct rehearsal *r)
{
    const uint64_t window = (uint64_t)r->cfg->plan->window;
    double end_us = 0;
    struct lane *lane = next_lane(r, &end_us);
    if (!lane)
        return false;
    r->now_us = end_us > r->now_us ? end_us : r->now_us;
    for (; lane && end_us <= r->now_us; lane = next_lane(r, &end_us)) {
        const struct ls_step *step = &lane->flights[lane->oldest++ % window].step;
        r->now_us += r->cfg->row_us * ls_step_n_sent(step, 0, ls_step_n_logits(step));
        for (uint32_t i = 0; i < step->n_rows; i++)
            take_row(lane, &step->rows[i]);
    }
    return true;
}

/* --- the whole ---------------------------------------------------------------------------- */

static ls_status take_lane(struct rehearsal *r, int l)
{
    const struct ls_plan *p = r->cfg->plan;
    const uint64_t n = (uint64_t)p->n_stages, window = (uint64_t)p->window;
    const uint64_t result = ls_plan_result_payload(p, r->cfg->arch);
    struct lane *lane = &r->lanes[l];
    const bool within = p->n_stages == 1 && l == 0;
    lane->slots = ls_arena_take(&r->arena, p->limits.n_slots * sizeof *lane->slots);
    lane->flights = ls_arena_take(&r->arena, window * sizeof *lane->flights);
    lane->free_us = ls_arena_take(&r->arena, n * sizeof *lane->free_us);
    lane->cuts = ls_arena_take(&r->arena, n * sizeof *lane->cuts);
    bool good = lane->slots && lane->flights && lane->free_us && lane->cuts;
    for (int s = l == 0; good && s < p->n_stages; s++)
        good =
            ring_init(&lane->cuts[s], r, ls_plan_step_buffers(p),
                      ls_plan_step_payload(p, r->cfg->arch, p->stages[s].first_layer), false);
    if (good)
        good = ring_init(&lane->sent, r,
                         ls_plan_result_sends(p, l * p->n_stages + p->n_stages - 1), result,
                         within);
    if (good && !within)
        good = ring_init(&lane->received, r, ls_plan_result_receives(p), result, false);
    if (!good)
        return ls_fail(r->err, LS_E_MEMORY, "out of memory: rehearsal of the run");
    for (uint64_t i = 0; i < window; i++) {
        ls_status s = ls_step_init(&lane->flights[i].step, &p->limits, 1, r->err);
        if (s)
            return s;
    }
    return ls_scheduler_create(&lane->scheduler, p, ls_plan_all_window(r->cfg->arch), 0,
                               r->cfg->prefix_reuse, r->err);
}

static ls_status take_all(struct rehearsal *r)
{
    const struct ls_plan *p = r->cfg->plan;
    const uint64_t n = (uint64_t)ls_plan_n_ranks(p);
    void *memory = NULL;
    ls_status s =
        ls_alloc(&memory, n * (sizeof(double) + sizeof(uint64_t)), "rehearsal", r->err);
    if (s)
        return s;
    r->out->busy_s = memory;
    r->out->link_bytes = (uint64_t *)(void *)(r->out->busy_s + n);
    r->lanes = ls_arena_take(&r->arena, (uint64_t)p->n_replicas * sizeof *r->lanes);
    if (!r->lanes)
        return ls_fail(r->err, LS_E_MEMORY, "out of memory: rehearsal of the run");
    for (int l = 0; !s && l < p->n_replicas; l++)
        s = take_lane(r, l);
    return s;
}

static void finish(struct rehearsal *r)
{
    for (int l = 0; r->lanes && l < r->cfg->plan->n_replicas; l++) {
        struct lane *lane = &r->lanes[l];
        for (int i = 0; lane->flights && i < r->cfg->plan->window; i++)
            ls_step_finish(&lane->flights[i].step);
        ls_scheduler_destroy(lane->scheduler);
    }
    ls_arena_finish(&r->arena);
}

ls_status ls_rehearse(struct ls_rehearsal *out, const struct ls_rehearsal_config *config,
                      struct ls_err *err)
{
    struct rehearsal r = { .cfg = config, .out = out, .err = err };
    *out = (struct ls_rehearsal){ .steps = 0 };
    ls_arena_init(&r.arena);
    ls_status s = take_all(&r);
    bool more = true;
    while (!s && more) {
        s = admit(&r);
        if (s)
            break;
        submit(&r);
        more = take_steps(&r);
    }
    if (!s && r.begun < config->n)
        s = ls_fail(err, LS_E_INTERNAL, "rehearsal: %" PRIu64 " of %" PRIu64 " sequences begun",
                    r.begun, config->n);
    if (!s) {
        count_links(&r);
        out->seconds = config->pace ? r.now_us * 1e-6 : 0;
    }
    finish(&r);
    return s;
}

void ls_rehearsal_finish(struct ls_rehearsal *r)
{
    ls_free(r->busy_s);
    *r = (struct ls_rehearsal){ .steps = 0 };
}
