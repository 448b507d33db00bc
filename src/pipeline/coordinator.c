#include "pipeline/coordinator_state.h"

#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>

enum { TICK_US = 100000, WAIT_US = 50000 };

/* --- creation ----------------------------------------------------------------------------- */

static ls_status take_records(struct ls_coordinator *c, struct lane *l, struct ls_err *err)
{
    const struct ls_plan *p = c->cfg.plan;
    for (int i = 0; i < p->window; i++) {
        ls_status s = ls_step_init(&l->records[i].step, &p->limits, 1, err);
        if (s)
            return s;
        l->records[i].serial =
            ls_arena_take(&c->arena, p->limits.max_rows * sizeof *l->records[i].serial);
        if (!l->records[i].serial)
            return ls_fail(err, LS_E_MEMORY, "out of memory: records of %d steps", p->window);
    }
    return LS_OK;
}

static ls_status take_lane(struct ls_coordinator *c, int replica, struct ls_err *err)
{
    const struct ls_plan *p = c->cfg.plan;
    const struct ls_step_limits *lim = &p->limits;
    struct lane *l = &c->lanes[replica];
    l->replica = replica;
    l->results = &c->cfg.results[replica];
    l->slots = ls_arena_take(&c->arena, lim->n_slots * sizeof *l->slots);
    l->places = ls_arena_take(&c->arena, lim->max_tokens * sizeof *l->places);
    l->records = ls_arena_take(&c->arena, (uint64_t)p->window * sizeof *l->records);
    if (!l->slots || !l->places || !l->records)
        return ls_fail(err, LS_E_MEMORY, "out of memory: coordinator of %u slots",
                       lim->n_slots);
    ls_status s = take_records(c, l, err);
    return s ? s
             : ls_scheduler_create(&l->scheduler, p, ls_plan_all_window(c->cfg.arch),
                                   c->cfg.placement_seed, c->cfg.prefix_reuse, err);
}

static ls_status take_memory(struct ls_coordinator *c, struct ls_err *err)
{
    const struct ls_plan *p = c->cfg.plan;
    ls_status s = LS_OK;
    c->nan_layers = ls_arena_take(&c->arena, p->logit_rows * sizeof *c->nan_layers);
    c->result = ls_arena_take(&c->arena, p->limits.max_rows * sizeof *c->result);
    c->leaves = ls_arena_take(&c->arena, ((uint64_t)c->cfg.arch->n_layers + 1) * LS_LEAF);
    c->lanes = ls_arena_take(&c->arena, (uint64_t)p->n_replicas * sizeof *c->lanes);
    if (!c->nan_layers || !c->result || !c->leaves || !c->lanes)
        return ls_fail(err, LS_E_MEMORY, "out of memory: coordinator of %d replicas",
                       p->n_replicas);
    for (int i = 0; !s && i < p->n_replicas; i++)
        s = take_lane(c, i, err);
    return s;
}

ls_status ls_coordinator_create(struct ls_coordinator **out,
                                const struct ls_coordinator_config *config, struct ls_err *err)
{
    void *memory = NULL;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_coordinator), "coordinator", err);
    if (s)
        return s;
    struct ls_coordinator *c = memory;
    c->cfg = *config;
    ls_arena_init(&c->arena);
    s = take_memory(c, err);
    if (s)
        ls_coordinator_destroy(c);
    else
        *out = c;
    return s;
}

void ls_coordinator_destroy(struct ls_coordinator *c)
{
    if (!c)
        return;
    for (int r = 0; c->lanes && r < c->cfg.plan->n_replicas; r++) {
        struct lane *l = &c->lanes[r];
        for (int i = 0; l->records && i < c->cfg.plan->window; i++)
            ls_step_finish(&l->records[i].step);
        ls_scheduler_destroy(l->scheduler);
    }
    ls_arena_finish(&c->arena);
    ls_free(c);
}

/* --- what all replicas do together -------------------------------------------------------- */

static uint64_t in_flight(const struct ls_coordinator *c)
{
    uint64_t n = 0;
    for (int r = 0; r < c->cfg.plan->n_replicas; r++)
        n += ls_lane_in_flight(&c->lanes[r]);
    return n;
}

static uint32_t n_running(const struct ls_coordinator *c)
{
    uint32_t n = 0;
    for (int r = 0; r < c->cfg.plan->n_replicas; r++)
        n += ls_scheduler_n_running(c->lanes[r].scheduler);
    return n;
}

/* --- admission and steps ------------------------------------------------------------------ */

static ls_status ask_client(struct ls_coordinator *c)
{
    enum ls_next what = LS_NEXT_END;
    const struct ls_client *client = c->cfg.client;
    ls_status s = client->next(client->arg, &c->pending, &what, &c->err);
    if (s)
        return s;
    c->has_pending = what == LS_NEXT_SEQUENCE;
    c->is_later = what == LS_NEXT_LATER;
    c->is_again = what == LS_NEXT_AGAIN;
    c->is_end = what == LS_NEXT_END;
    return c->has_pending ? ls_scheduler_check(c->lanes[0].scheduler, &c->pending, &c->err)
                          : LS_OK;
}

/* Of the replicas that have room, the one that runs fewest sequences; NULL: none has room. */
static struct lane *choose_lane(struct ls_coordinator *c)
{
    struct lane *best = NULL;
    for (int r = 0; r < c->cfg.plan->n_replicas; r++) {
        struct lane *l = &c->lanes[r];
        if (ls_scheduler_has_room(l->scheduler, &c->pending) &&
            (!best ||
             ls_scheduler_n_running(l->scheduler) < ls_scheduler_n_running(best->scheduler)))
            best = l;
    }
    return best;
}

static void start_pending(struct ls_coordinator *c, struct lane *l)
{
    uint32_t slot = ls_scheduler_add(l->scheduler, &c->pending);
    l->slots[slot] = (struct running){
        .serial = ++c->next_serial, .seq = c->pending, .nan_layer = LS_NO_LAYER, .token = -1
    };
    c->has_pending = false;
    c->stats.sequences++;
}

static ls_status admit(struct ls_coordinator *c)
{
    c->is_again = false;
    while (!c->drain && !c->is_again) {
        if (!c->has_pending && !c->is_end && !c->is_later) {
            ls_status s = ask_client(c);
            if (s)
                return s;
        }
        struct lane *l = c->has_pending ? choose_lane(c) : NULL;
        if (!l)
            break;
        start_pending(c, l);
    }
    return LS_OK;
}

static void submit_steps_of(struct ls_coordinator *c, struct lane *l)
{
    while (ls_lane_in_flight(l) < (uint64_t)c->cfg.plan->window) {
        struct record *r = ls_lane_record(c, l, l->next_step);
        if (!ls_scheduler_step(l->scheduler, &r->step))
            return;
        for (uint32_t i = 0; i < r->step.n_rows; i++)
            r->serial[i] = l->slots[r->step.rows[i].slot].serial;
        r->next = 0;
        randombytes_buf(&r->step.nonce, sizeof r->step.nonce);
        l->next_step++;
        c->stats.steps++;
        c->stats.tokens += r->step.n_tokens;
        if (ls_lane_in_flight(l) > c->stats.max_in_flight)
            c->stats.max_in_flight = ls_lane_in_flight(l);
        ls_exchange_submit(c->cfg.exchange, l->replica, &r->step);
    }
}

static void submit_steps(struct ls_coordinator *c)
{
    for (int r = 0; r < c->cfg.plan->n_replicas; r++)
        submit_steps_of(c, &c->lanes[r]);
}

/* --- the thread --------------------------------------------------------------------------- */

static ls_status tick(struct ls_coordinator *c)
{
    const struct ls_client *client = c->cfg.client;
    uint64_t now = ls_now_us();
    if (!client->tick || now < c->next_tick_us)
        return LS_OK;
    c->next_tick_us = now + TICK_US;
    return client->tick(client->arg, n_running(c), &c->drain, &c->err);
}

static unsigned char *next_frame(struct ls_coordinator *c, uint64_t wait_us, int *replica,
                                 uint64_t *n)
{
    const uint64_t begin = ls_now_us();
    c->stats.coordinator_us += begin - c->busy_since_us;
    unsigned char *const bytes = ls_exchange_frame(c->cfg.exchange, wait_us, replica, n);
    c->busy_since_us = ls_now_us();
    return bytes;
}

/* Waits for results, and takes all that are there. Scheduling waits until a step is complete:
 * otherwise the first rows of a large step would go off in a small one. */
static ls_status take_results(struct ls_coordinator *c)
{
    uint64_t n;
    int replica;
    bool complete = false;
    unsigned char *bytes = next_frame(c, c->is_again ? 0 : WAIT_US, &replica, &n);
    while (bytes) {
        struct lane *l = &c->lanes[replica];
        const uint64_t oldest = l->oldest_step;
        ls_status s = ls_coordinator_take_frame(c, l, bytes, n);
        if (s)
            return s;
        complete = complete || l->oldest_step != oldest;
        bytes = next_frame(c, complete ? 0 : WAIT_US, &replica, &n);
    }
    return LS_OK;
}

static ls_status check_progress(struct ls_coordinator *c)
{
    if (in_flight(c) > 0 || c->is_again)
        return LS_OK;
    if (n_running(c) > 0)
        return ls_fail(&c->err, LS_E_INTERNAL, "%u sequences run but no step can be made",
                       n_running(c));
    return ls_fail(&c->err, LS_E_INTERNAL,
                   "the client has no sequence now although none is running");
}

static ls_status coordinate(struct ls_coordinator *c)
{
    for (;;) {
        ls_status s = tick(c);
        if (!s)
            s = admit(c);
        if (s)
            return s;
        submit_steps(c);
        bool idle = in_flight(c) == 0 && n_running(c) == 0;
        if (idle && c->is_end && !c->has_pending)
            return LS_OK;
        if (idle && c->drain)
            return ls_fail(&c->err, LS_E_DRAINED, "stopped on request");
        s = check_progress(c);
        if (!s)
            s = take_results(c);
        if (s)
            return s;
        if (ls_exchange_is_closed(c->cfg.exchange))
            return ls_fail(&c->err, LS_E_LINK, "the run has ended");
    }
}

static void *thread_main(void *arg)
{
    struct ls_coordinator *c = arg;
    c->busy_since_us = ls_now_us();
    c->status = coordinate(c);
    c->stats.coordinator_us += ls_now_us() - c->busy_since_us;
    ls_exchange_finish(c->cfg.exchange);
    return NULL;
}

ls_status ls_coordinator_start(struct ls_coordinator *c, struct ls_err *err)
{
    if (pthread_create(&c->thread, NULL, thread_main, c))
        return ls_fail(err, LS_E_MEMORY, "cannot start the coordinator's thread");
    return LS_OK;
}

ls_status ls_coordinator_join(struct ls_coordinator *c, struct ls_err *err)
{
    pthread_join(c->thread, NULL);
    for (int r = 0; r < c->cfg.plan->n_replicas; r++) {
        uint32_t in_use, peak;
        ls_scheduler_blocks(c->lanes[r].scheduler, &in_use, &peak);
        if (peak > c->stats.peak_blocks)
            c->stats.peak_blocks = peak;
        c->stats.reused_blocks += ls_scheduler_reused_blocks(c->lanes[r].scheduler);
    }
    return c->status ? ls_fail(err, c->status, "%s", c->err.text) : LS_OK;
}

void ls_coordinator_stats(const struct ls_coordinator *c, struct ls_run_stats *stats)
{
    *stats = c->stats;
}
