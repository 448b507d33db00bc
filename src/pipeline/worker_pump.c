/* What a rank does between layers and while it waits. */
#include "base/fault.h"
#include "pipeline/worker_state.h"

#include <inttypes.h>

enum { LOOK_US = 1000 /* control links are looked at this often */ };

static ls_status out_of_place(struct ls_channel *in, const struct ls_message *m,
                              struct ls_err *err)
{
    ls_fail(err, LS_E_NOT_ALLOWED, "%s %" PRIu64 " in the middle of a run",
            ls_kind_name(m->kind), m->id);
    return ls_channel_refuse(in, LS_E_NOT_ALLOWED, err);
}

/* Rank 0: everything another rank may say during a run. */
static ls_status take_word(struct ls_channel *in, int peer, const struct ls_message *m,
                           struct ls_err *err)
{
    if (m->kind == LS_KIND_ERROR) {
        ls_status st = ls_control_read_failure(m, err);
        return st ? st
                  : ls_fail(err, LS_E_SHAPE, "rank %d sent an error without a status", peer);
    }
    return out_of_place(in, m, err);
}

/* Others: STOP. */
static ls_status take_order(struct ls_worker *w, const struct ls_message *m, struct ls_err *err)
{
    if (m->kind == LS_KIND_STOP) {
        w->stopped = true;
        return ls_control_read_failure(m, err);
    }
    return out_of_place(&w->s->control->in[0], m, err);
}

static ls_status look_at_peer(struct ls_worker *w, int peer, struct ls_err *err)
{
    struct ls_control *ctl = w->s->control;
    uint32_t kinds = w->s->rank == 0 ? 1u << LS_KIND_STATS | 1u << LS_KIND_ERROR
                                     : 1u << LS_KIND_PLAN | 1u << LS_KIND_STOP;
    for (;;) {
        struct ls_message m;
        ls_status st = ls_control_poll(ctl, peer, kinds, &m, err);
        if (st || !m.kind)
            return st;
        st =
            w->s->rank == 0 ? take_word(&ctl->in[peer], peer, &m, err) : take_order(w, &m, err);
        ls_status returned = ls_control_done(ctl, peer, st ? NULL : err);
        if (st || returned || w->stopped)
            return st ? st : returned;
    }
}

static ls_status look_at_control(struct ls_worker *w, struct ls_err *err)
{
    struct ls_control *ctl = w->s->control;
    uint64_t now = ls_now_us();
    if (now < w->next_look_us)
        return LS_OK;
    w->next_look_us = now + LOOK_US;
    ls_status st = LS_OK;
    for (int r = 0; !st && !w->stopped && r < w->s->n_ranks; r++)
        if (ctl->in[r].link)
            st = look_at_peer(w, r, err);
    if (!st && !w->stopped)
        st = ls_control_beat(ctl, now, err);
    if (!st && !w->stopped)
        st = ls_control_check_alive(ctl, now, err);
    if (!st && !w->stopped && w->s->rank > 0) /* rank 0's client heeds them itself */
        st = ls_control_heed(ctl, err);
    return st;
}

/* Rank 0: results go on to the coordinator as they come. */
static ls_status hand_results_over(struct ls_worker *w, int replica, struct ls_err *err)
{
    struct ls_channel *in = &w->s->result_in[replica];
    ls_status st = LS_OK;
    for (int n = ls_exchange_take_back(w->exchange, replica); !st && n > 0; n--)
        st = ls_link_return(in->link, err);
    while (!st) {
        unsigned char *bytes;
        uint64_t n;
        st = ls_channel_poll(in, &bytes, &n, err);
        if (st || !bytes)
            return st;
        if (LS_FAULT(GATHER, 0))
            return ls_fail(err, LS_E_COMPUTE, "a fault of the test");
        if (!ls_exchange_lend(w->exchange, replica, bytes, n))
            return LS_OK;
        st = ls_link_hold(in->link, err);
    }
    return st;
}

void ls_worker_pump(struct ls_worker *w)
{
    if (w->failed || w->stopped)
        return;
    ls_status st = ls_comm_progress(w->s->comm, &w->failure);
    for (int r = 0; !st && w->s->rank == 0 && r < w->s->plan.n_replicas; r++)
        st = hand_results_over(w, r, &w->failure);
    if (!st && w->s->rank == 0)
        st = ls_worker_feed(w, &w->failure);
    if (!st)
        st = look_at_control(w, &w->failure);
    w->failed = st;
}

bool ls_worker_goes_on(struct ls_worker *w)
{
    ls_worker_pump(w);
    return !w->failed && !w->stopped;
}

unsigned char *ls_worker_wait_payload(struct ls_worker *w, struct ls_channel *ch, uint64_t n)
{
    unsigned char *payload = ls_channel_payload(ch, n);
    if (payload)
        return payload;
    uint64_t begin = ls_now_us();
    unsigned idle = 0;
    while (!payload && ls_worker_goes_on(w)) {
        ls_comm_idle(&idle);
        payload = ls_channel_payload(ch, n);
    }
    const uint64_t now = ls_now_us();
    w->stats.send_us += now - begin;
    ls_trace_add(w->trace, LS_TRACE_SEND, w->next_id, begin, now);
    return payload;
}
