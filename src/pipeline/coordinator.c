#include "pipeline/coordinator.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/result.h"
#include "pipeline/scheduler.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { TICK_US = 100000, WAIT_US = 50000 };

/* A sequence, by the slot in which it runs. */
struct running {
    uint64_t serial; /* of the sequence; 0: none. Slots are reused while steps are in flight */
    struct ls_sequence seq;
    uint32_t n_generated;
    uint64_t n_digested;
    int32_t nan_layer; /* smallest so far */
    int32_t token;     /* to be fed when the step is complete; -1: none */
    bool ended;        /* to be ended when the step is complete */
};

/* A step in flight. */
struct record {
    struct ls_step step;
    uint64_t *serial; /* [max_rows]: whose row it is */
    uint32_t next;    /* logits row at which the next frame's group begins */
};

struct ls_coordinator {
    struct ls_coordinator_config cfg;
    struct ls_scheduler *scheduler;
    struct running *slots;  /* [n_slots] */
    struct record *records; /* [window], by step id */
    uint64_t next_step, oldest_step, next_serial;
    struct ls_logit_place *places; /* [max_tokens], of the oldest step */
    bool places_known;
    int32_t *nan_layers;          /* [logit_rows] of one frame */
    struct ls_result_row *result; /* [max_rows] of a last frame */
    struct ls_frame_link link;    /* receiving end of the last stage's frames */
    struct ls_sequence pending;   /* taken from the client, not admitted yet */
    bool has_pending, is_end, is_later, drain;
    uint64_t next_tick_us;
    struct ls_run_stats stats;
    struct ls_arena arena;
    pthread_t thread;
    ls_status status;
    struct ls_err err;
};

/* --- creation
 * ---------------------------------------------------------------------------------- */

static ls_status take_records(struct ls_coordinator *c, struct ls_err *err)
{
    const struct ls_plan *p = c->cfg.plan;
    for (int i = 0; i < p->window; i++) {
        ls_status s = ls_step_init(&c->records[i].step, &p->limits, 1, err);
        if (s)
            return s;
        c->records[i].serial =
            ls_arena_take(&c->arena, p->limits.max_rows * sizeof *c->records[i].serial);
        if (!c->records[i].serial)
            return ls_fail(err, LS_E_MEMORY, "out of memory: records of %d steps", p->window);
    }
    return LS_OK;
}

static ls_status take_memory(struct ls_coordinator *c, struct ls_err *err)
{
    const struct ls_step_limits *lim = &c->cfg.plan->limits;
    uint32_t logit_rows = c->cfg.plan->logit_rows;
    c->slots = ls_arena_take(&c->arena, lim->n_slots * sizeof *c->slots);
    c->places = ls_arena_take(&c->arena, lim->max_tokens * sizeof *c->places);
    c->nan_layers = ls_arena_take(&c->arena, logit_rows * sizeof *c->nan_layers);
    c->result = ls_arena_take(&c->arena, lim->max_rows * sizeof *c->result);
    c->records = ls_arena_take(&c->arena, (uint64_t)c->cfg.plan->window * sizeof *c->records);
    if (!c->slots || !c->places || !c->nan_layers || !c->result || !c->records)
        return ls_fail(err, LS_E_MEMORY, "out of memory: coordinator of %u slots",
                       lim->n_slots);
    return take_records(c, err);
}

ls_status ls_coordinator_create(struct ls_coordinator **out,
                                const struct ls_coordinator_config *config, struct ls_err *err)
{
    void *memory = NULL;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_coordinator), "coordinator", err);
    if (s)
        return s;
    struct ls_coordinator *c = memory;
    const struct ls_plan *p = config->plan;
    c->cfg = *config;
    ls_arena_init(&c->arena);
    c->link = (struct ls_frame_link){
        .source = (uint32_t)(p->n_stages - 1),
        .max_frame_bytes =
            LS_FRAME_HEADER + ls_plan_result_payload(p, config->arch) + LS_FRAME_TAG,
    };
    memcpy(c->link.run_id, p->run_id, LS_RUN_ID);
    s = take_memory(c, err);
    if (!s)
        s = ls_scheduler_create(&c->scheduler, p, ls_plan_all_window(config->arch),
                                config->placement_seed, err);
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
    for (int i = 0; c->records && i < c->cfg.plan->window; i++)
        ls_step_finish(&c->records[i].step);
    ls_scheduler_destroy(c->scheduler);
    ls_arena_finish(&c->arena);
    ls_free(c);
}

/* --- admission and steps
 * ----------------------------------------------------------------------- */

static uint64_t in_flight(const struct ls_coordinator *c)
{
    return c->next_step - c->oldest_step;
}

static struct record *record_of(struct ls_coordinator *c, uint64_t step)
{
    return &c->records[step % (uint64_t)c->cfg.plan->window];
}

static ls_status ask_client(struct ls_coordinator *c)
{
    enum ls_next what = LS_NEXT_END;
    const struct ls_client *client = c->cfg.client;
    ls_status s = client->next(client->arg, &c->pending, &what, &c->err);
    if (s)
        return s;
    c->has_pending = what == LS_NEXT_SEQUENCE;
    c->is_later = what == LS_NEXT_LATER;
    c->is_end = what == LS_NEXT_END;
    return c->has_pending ? ls_scheduler_check(c->scheduler, &c->pending, &c->err) : LS_OK;
}

static void start_pending(struct ls_coordinator *c)
{
    uint32_t slot = ls_scheduler_add(c->scheduler, &c->pending);
    c->slots[slot] = (struct running){
        .serial = ++c->next_serial, .seq = c->pending, .nan_layer = LS_NO_LAYER, .token = -1
    };
    c->has_pending = false;
    c->stats.sequences++;
}

static ls_status admit(struct ls_coordinator *c)
{
    while (!c->drain) {
        if (!c->has_pending && !c->is_end && !c->is_later) {
            ls_status s = ask_client(c);
            if (s)
                return s;
        }
        if (!c->has_pending || !ls_scheduler_has_room(c->scheduler, &c->pending))
            break;
        start_pending(c);
    }
    return LS_OK;
}

static void submit_steps(struct ls_coordinator *c)
{
    while (in_flight(c) < (uint64_t)c->cfg.plan->window) {
        struct record *r = record_of(c, c->next_step);
        if (!ls_scheduler_step(c->scheduler, &r->step))
            return;
        for (uint32_t i = 0; i < r->step.n_rows; i++)
            r->serial[i] = c->slots[r->step.rows[i].slot].serial;
        r->next = 0;
        c->next_step++;
        c->stats.steps++;
        c->stats.tokens += r->step.n_tokens;
        if (in_flight(c) > c->stats.max_in_flight)
            c->stats.max_in_flight = in_flight(c);
        ls_exchange_submit(c->cfg.exchange, &r->step);
    }
}

/* --- results
 * ----------------------------------------------------------------------------------- */

/* The sequence of a step's row, or NULL when it has ended since. */
static struct running *owner(struct ls_coordinator *c, const struct record *r, uint32_t row)
{
    struct running *run = &c->slots[r->step.rows[row].slot];
    return run->serial == r->serial[row] && !run->ended ? run : NULL;
}

static ls_status give_logits(struct ls_coordinator *c, struct running *run, uint32_t pos,
                             const float *row)
{
    const struct ls_client *client = c->cfg.client;
    const struct ls_logits logits = { .pos = pos, .row = row, .nan_layer = run->nan_layer };
    enum ls_verdict verdict = LS_FINISH;
    int32_t token = -1;
    ls_status s = client->logits(client->arg, run->seq.id, &logits, &verdict, &token, &c->err);
    if (s)
        return s;
    bool generates = pos >= run->seq.n_prompt - 1 && run->seq.max_new > 0;
    if (generates)
        run->n_generated++;
    if (verdict == LS_FINISH || (generates && run->n_generated == run->seq.max_new)) {
        run->ended = true;
        return LS_OK;
    }
    if (!generates)
        return LS_OK;
    if (token < 0 || token >= c->cfg.arch->vocab)
        return ls_fail(&c->err, LS_E_INTERNAL,
                       "sequence %" PRIu64 ": token %d of a vocabulary "
                       "of %d",
                       run->seq.id, token, c->cfg.arch->vocab);
    run->token = token;
    return LS_OK;
}

static ls_status give_group(struct ls_coordinator *c, struct record *r,
                            const struct ls_result_group *g, const float *logits)
{
    uint32_t sent = 0;
    for (uint32_t i = g->begin; i < g->end; i++) {
        const struct ls_logit_place *p = &c->places[i];
        struct running *run = owner(c, r, p->row);
        if (run && p->digested)
            run->n_digested++;
        if (!p->sent)
            continue;
        int32_t nan_layer = c->nan_layers[sent];
        const float *row = logits + (uint64_t)sent++ * (uint64_t)c->cfg.arch->vocab;
        if (!run)
            continue;
        if (nan_layer >= 0 && (run->nan_layer < 0 || nan_layer < run->nan_layer))
            run->nan_layer = nan_layer;
        ls_status s = give_logits(c, run, p->pos, row);
        if (s)
            return s;
    }
    return LS_OK;
}

static ls_status end_sequence(struct ls_coordinator *c, uint32_t slot,
                              const unsigned char digest[LS_DIGEST_BYTES])
{
    struct running *run = &c->slots[slot];
    const struct ls_client *client = c->cfg.client;
    ls_scheduler_end(c->scheduler, slot);
    run->serial = 0;
    c->is_later = false;
    return client->done(client->arg, run->seq.id, digest, run->n_digested, &c->err);
}

/* All frames of the oldest step have come: sequences go on or end. */
static ls_status complete_step(struct ls_coordinator *c, struct record *r)
{
    ls_status s = LS_OK;
    for (uint32_t i = 0; !s && i < r->step.n_rows; i++) {
        const struct ls_step_row *row = &r->step.rows[i];
        struct running *run = &c->slots[row->slot];
        if (run->serial != r->serial[i])
            continue;
        int32_t nan_layer = c->result[i].nan_layer;
        if (nan_layer >= 0 && (run->nan_layer < 0 || nan_layer < run->nan_layer))
            run->nan_layer = nan_layer;
        if (run->seq.max_new == 0 && row->first_pos + row->count == run->seq.n_prompt)
            run->ended = true;
        if (run->ended)
            s = end_sequence(c, row->slot, c->result[i].digest);
        else if (run->token >= 0)
            ls_scheduler_token(c->scheduler, row->slot, run->token);
        run->token = -1;
    }
    c->oldest_step++;
    c->places_known = false;
    return s;
}

/* Next group of the step that makes a frame; digests of the groups passed over are counted. */
static struct ls_result_group next_group(struct ls_coordinator *c, struct record *r)
{
    for (;;) {
        struct ls_result_group g = ls_result_group(&r->step, c->cfg.plan->logit_rows, r->next);
        if (ls_result_has_frame(&g))
            return g;
        give_group(c, r, &g, NULL);
        r->next = g.end;
    }
}

static ls_status take_frame(struct ls_coordinator *c, const unsigned char *bytes, uint64_t n)
{
    if (in_flight(c) == 0)
        return ls_fail(&c->err, LS_E_NOT_ALLOWED, "a result from rank %u while no step runs",
                       c->link.source);
    struct record *r = record_of(c, c->oldest_step);
    if (!c->places_known)
        ls_step_logit_places(&r->step, c->places);
    c->places_known = true;
    struct ls_result_group g = next_group(c, r);
    struct ls_frame_expect expect;
    struct ls_frame frame;
    ls_result_expect(&expect, &r->step, &g, (uint32_t)c->cfg.arch->vocab);
    ls_status s = ls_frame_open(&frame, bytes, n, &c->link, &expect, &c->err);
    const unsigned char *payload = bytes + LS_FRAME_HEADER;
    if (!s)
        s = ls_result_decode(payload, &r->step, c->places, &g, c->cfg.arch->n_layers,
                             c->nan_layers, c->result, &c->err);
    if (!s)
        s = give_group(c, r, &g, (const float *)(const void *)(payload + g.table_bytes));
    r->next = g.end;
    return !s && g.last ? complete_step(c, r) : s;
}

/* --- the thread
 * -------------------------------------------------------------------------------- */

static ls_status tick(struct ls_coordinator *c)
{
    const struct ls_client *client = c->cfg.client;
    uint64_t now = ls_now_us();
    if (!client->tick || now < c->next_tick_us)
        return LS_OK;
    c->next_tick_us = now + TICK_US;
    return client->tick(client->arg, ls_scheduler_n_running(c->scheduler), &c->drain, &c->err);
}

/* Waits for results, and takes all that are there. Scheduling waits until a step is complete:
 * otherwise the first rows of a large step would go off in a small one. */
static ls_status take_results(struct ls_coordinator *c)
{
    uint64_t n, oldest = c->oldest_step;
    const unsigned char *bytes = ls_exchange_frame(c->cfg.exchange, WAIT_US, &n);
    while (bytes) {
        ls_status s = take_frame(c, bytes, n);
        ls_exchange_frame_done(c->cfg.exchange);
        if (s)
            return s;
        bool complete = c->oldest_step != oldest;
        bytes = ls_exchange_frame(c->cfg.exchange, complete ? 0 : WAIT_US, &n);
    }
    return LS_OK;
}

static ls_status check_progress(struct ls_coordinator *c)
{
    if (in_flight(c) > 0)
        return LS_OK;
    if (ls_scheduler_n_running(c->scheduler) > 0)
        return ls_fail(&c->err, LS_E_INTERNAL, "%u sequences run but no step can be made",
                       ls_scheduler_n_running(c->scheduler));
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
        bool idle = in_flight(c) == 0 && ls_scheduler_n_running(c->scheduler) == 0;
        if (idle && c->drain)
            return ls_fail(&c->err, LS_E_DRAINED, "stopped on request");
        if (idle && c->is_end && !c->has_pending)
            return LS_OK;
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
    c->status = coordinate(c);
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
    uint32_t in_use, peak;
    pthread_join(c->thread, NULL);
    ls_scheduler_blocks(c->scheduler, &in_use, &peak);
    c->stats.peak_blocks = peak;
    return c->status ? ls_fail(err, c->status, "%s", c->err.text) : LS_OK;
}

void ls_coordinator_stats(const struct ls_coordinator *c, struct ls_run_stats *stats)
{
    *stats = c->stats;
}
