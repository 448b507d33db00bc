#include "pipeline/worker_state.h"

#include <inttypes.h>

/* Before the run, which allocates nothing. Rank 0 has room for everybody's. */
static ls_status take_traces(struct ls_session *s, struct ls_err *err)
{
    void *memory;
    const int n = s->rank == 0 ? s->n_ranks : 1;
    ls_status st = ls_alloc(&memory, (uint64_t)n * sizeof *s->traces, "traces", err);
    if (st)
        return st;
    s->traces = memory;
    for (int i = 0; !st && i < n; i++)
        st = ls_trace_init(&s->traces[i], err);
    return st;
}

ls_status ls_worker_create(struct ls_worker **out, struct ls_session *session,
                           struct ls_exchange *exchange, struct ls_err *err)
{
    void *memory = NULL, *places = NULL, *to_feed = NULL;
    const struct ls_plan *p = &session->plan;
    const struct ls_step_limits *lim = &p->limits;
    ls_status st = ls_alloc(&memory, sizeof(struct ls_worker), "worker", err);
    if (st)
        return st;
    struct ls_worker *w = memory;
    w->s = session;
    w->exchange = exchange;
    if (session->rank > 0)
        st = ls_step_init(&w->step, lim, ls_plan_is_first(p, session->rank), err);
    else
        st = ls_alloc(&to_feed, (uint64_t)p->n_replicas * sizeof *w->to_feed, "feeds", err);
    w->to_feed = to_feed;
    if (!st && ls_worker_is_last(w))
        st = ls_alloc(&places, lim->max_tokens * sizeof *w->places, "logit places", err);
    w->places = places;
    if (!st && session->wish.trace)
        st = take_traces(session, err);
    w->trace = session->traces;
    if (st)
        ls_worker_destroy(w);
    else
        *out = w;
    return st;
}

void ls_worker_destroy(struct ls_worker *w)
{
    if (!w)
        return;
    ls_step_finish(&w->step);
    ls_free(w->places);
    ls_free(w->to_feed);
    ls_free(w);
}

/* STOP and ERROR texts name their rank already; so does what rank 0 says of a link. */
static ls_status pump_failure(const struct ls_worker *w, struct ls_err *err)
{
    ls_fail(err, w->failed, "%s", w->failure.text);
    if (w->s->rank > 0 && !w->stopped && w->s->control->lost < 0 && w->failed != LS_E_DRAINED)
        ls_fail_prefix(err, "rank %d on %s, while running", w->s->rank,
                       ls_comm_host(w->s->comm));
    return w->failed;
}

static ls_status loop(struct ls_worker *w, struct ls_err *err)
{
    unsigned idle = 0;
    w->idle_since_us = ls_now_us();
    for (;;) {
        ls_worker_pump(w);
        if (w->failed)
            return pump_failure(w, err);
        if (w->stopped || (w->exchange && ls_exchange_is_finished(w->exchange)))
            return LS_OK;
        bool found;
        uint64_t now = ls_now_us(), waited = now - w->idle_since_us;
        ls_status st = ls_worker_run_next(w, &found, err);
        if (st)
            return ls_fail_prefix(err, "rank %d on %s, step %" PRIu64, w->s->rank,
                                  ls_comm_host(w->s->comm), w->next_id);
        if (found) {
            w->stats.wait_us += waited;
            w->idle_since_us = ls_now_us();
            idle = 0;
        } else {
            ls_comm_idle(&idle);
        }
    }
}

/* A step that nobody waits for any more is given up between two layers. */
static bool pump_from_stage(void *arg)
{
    return ls_worker_goes_on(arg);
}

ls_status ls_worker_run(struct ls_worker *w, struct ls_err *err)
{
    ls_control_set_doing(w->s->control, LS_DOING_WAIT, 0);
    w->s->progress = pump_from_stage;
    w->s->progress_arg = w;
    w->s->step_in.team = ls_stage_team(w->s->stage);
    w->s->step_out.team = w->s->result_out.team = w->s->step_in.team;
    ls_status st = loop(w, err);
    w->s->progress = NULL;
    return st;
}
