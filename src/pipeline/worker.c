#include "pipeline/worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/result.h"
#include "pipeline/stats.h"
#include "tensor/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOK_US = 1000,      /* control links are looked at this often */
    END_US = 7000000,    /* wait for the other ranks at the end */
    SETTLE_US = 2000000, /* wait for own sends at the end */
};

struct ls_worker {
    struct ls_session *s;
    struct ls_exchange *exchange;  /* rank 0 */
    struct ls_step step;           /* rank > 0: the step being run */
    struct ls_logit_place *places; /* last stage: [max_tokens] */
    uint64_t next_id;              /* of the next step */
    uint64_t next_look_us;
    ls_status failed; /* found while pumping; sticky */
    struct ls_err failure;
    bool stopped; /* STOP has come */
    struct ls_stage_stats stats;
    uint64_t allocs_after_first; /* ls_alloc_count after the first step */
};

static bool is_last(const struct ls_worker *w)
{
    return w->s->rank == w->s->n_ranks - 1;
}

/* --- pumping
 * ----------------------------------------------------------------------------------- */

/* Rank 0: everything another rank may say during a run. */
static ls_status take_word(int peer, const struct ls_message *m, struct ls_err *err)
{
    if (m->kind == LS_KIND_STATS && m->id == LS_STATS_BEAT)
        return LS_OK;
    if (m->kind == LS_KIND_ERROR) {
        ls_status st = ls_control_read_failure(m, err);
        return st ? st
                  : ls_fail(err, LS_E_SHAPE, "rank %d sent an error without a status", peer);
    }
    return ls_fail(err, LS_E_NOT_ALLOWED, "rank %d: %s %" PRIu64 " in the middle of a run",
                   peer, ls_kind_name(m->kind), m->id);
}

/* Others: signs of life, and STOP. */
static ls_status take_order(struct ls_worker *w, const struct ls_message *m, struct ls_err *err)
{
    if (m->kind == LS_KIND_PLAN && m->id == LS_PHASE_BEAT)
        return LS_OK;
    if (m->kind == LS_KIND_STOP) {
        w->stopped = true;
        return ls_control_read_failure(m, err);
    }
    return ls_fail(err, LS_E_NOT_ALLOWED, "rank 0: %s %" PRIu64 " in the middle of a run",
                   ls_kind_name(m->kind), m->id);
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
        st = w->s->rank == 0 ? take_word(peer, &m, err) : take_order(w, &m, err);
        if (!st)
            st = ls_control_done(ctl, peer, err);
        if (st || w->stopped)
            return st;
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
    return st;
}

/* Rank 0: results go on to the coordinator as they come. */
static ls_status hand_results_over(struct ls_worker *w, struct ls_err *err)
{
    struct ls_channel *in = &w->s->result_in;
    while (w->s->rank == 0) {
        const unsigned char *bytes;
        uint64_t n;
        ls_status st = ls_channel_poll(in, &bytes, &n, err);
        if (st || !bytes || !ls_exchange_put(w->exchange, bytes, n))
            return st;
        st = ls_channel_return(in, err);
        if (st)
            return st;
    }
    return LS_OK;
}

/* Called everywhere, by the stage between layers too: what fails is kept for the loop. */
static void pump(struct ls_worker *w)
{
    if (w->failed || w->stopped)
        return;
    ls_status st = ls_comm_progress(w->s->comm, &w->failure);
    if (!st)
        st = hand_results_over(w, &w->failure);
    if (!st)
        st = look_at_control(w, &w->failure);
    w->failed = st;
}

static void pump_from_stage(void *arg)
{
    pump(arg);
}

static bool goes_on(struct ls_worker *w)
{
    pump(w);
    return !w->failed && !w->stopped;
}

/* The next buffer to send from; NULL when the run is over before one is free. */
static unsigned char *wait_payload(struct ls_worker *w, struct ls_channel *ch)
{
    unsigned char *payload = ls_channel_payload(ch);
    if (payload)
        return payload;
    uint64_t begin = ls_now_us();
    unsigned idle = 0;
    while (!payload && goes_on(w)) {
        ls_comm_idle(&idle);
        payload = ls_channel_payload(ch);
    }
    w->stats.send_us += ls_now_us() - begin;
    return payload;
}

/* --- one step
 * ---------------------------------------------------------------------------------- */

static uint8_t wire_dtype(enum ls_fmt fmt)
{
    static const uint8_t dtypes[LS_N_FMT] = {
        [LS_FMT_F32] = LS_DTYPE_F32, [LS_FMT_F16] = LS_DTYPE_F16, [LS_FMT_BF16] = LS_DTYPE_BF16
    };
    return dtypes[fmt];
}

static ls_status send_result(struct ls_worker *w, struct ls_step *step,
                             const struct ls_result_group *g, unsigned char *payload,
                             struct ls_err *err)
{
    const struct ls_session *s = w->s;
    uint32_t vocab = (uint32_t)s->arch.vocab;
    struct ls_frame frame = { .kind = LS_KIND_RESULT,
                              .id = step->id,
                              .step = (uint32_t)step->id,
                              .rows = g->n_sent,
                              .table_bytes = g->table_bytes };
    if (g->n_sent > 0) {
        frame.dtype = LS_DTYPE_F32;
        frame.ndim = 2;
        frame.dims[0] = g->n_sent;
        frame.dims[1] = vocab;
        frame.tensor_bytes = (uint64_t)g->n_sent * vocab * sizeof(float);
    }
    ls_result_encode(payload, step, w->places, g, s->wish.digests ? s->stage : NULL);
    return ls_channel_send(&w->s->result_out, &frame, err);
}

/* The last stage: logits, a group at a time, computed where they are sent from. */
static ls_status send_logits(struct ls_worker *w, struct ls_step *step, struct ls_err *err)
{
    struct ls_session *s = w->s;
    struct ls_result_group g = { .last = false };
    ls_step_logit_places(step, w->places);
    while (!g.last) {
        g = ls_result_group(step, s->plan.logit_rows, g.end);
        unsigned char *payload = wait_payload(w, &s->result_out);
        if (!payload)
            return LS_OK;
        uint64_t begin = ls_now_us();
        if (g.end > g.begin)
            ls_stage_logits(s->stage, step, g.begin, g.end,
                            (float *)(void *)(payload + g.table_bytes));
        w->stats.compute_us += ls_now_us() - begin;
        ls_status st = ls_result_has_frame(&g) ? send_result(w, step, &g, payload, err) : LS_OK;
        if (st)
            return st;
        pump(w);
    }
    return LS_OK;
}

static ls_status run_stage(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                           void *hidden_out, struct ls_err *err)
{
    uint64_t begin = ls_now_us();
    ls_status st = ls_stage_run(w->s->stage, step, hidden_in, hidden_out, err);
    w->stats.compute_us += ls_now_us() - begin;
    return st;
}

/* A stage before the last: the hidden state is computed where it is sent from. */
static ls_status run_and_send(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                              struct ls_err *err)
{
    struct ls_session *s = w->s;
    int end = s->plan.stages[s->rank].last_layer;
    uint32_t width = (uint32_t)ls_inbound_width(&s->arch, end);
    size_t table = ls_step_bytes(step);
    unsigned char *payload = wait_payload(w, &s->step_out);
    if (!payload)
        return LS_OK;
    ls_status st = run_stage(w, step, hidden_in, payload + table, err);
    if (st)
        return st;
    ls_step_encode(step, payload);
    struct ls_frame frame = {
        .kind = LS_KIND_STEP,
        .id = step->id,
        .step = (uint32_t)step->id,
        .rows = step->n_rows,
        .dtype = wire_dtype(s->arch.dtype),
        .ndim = 2,
        .dims = { step->n_tokens, width },
        .table_bytes = (uint32_t)table,
        .tensor_bytes = (uint64_t)step->n_tokens * width * ls_fmt_bytes(s->arch.dtype),
    };
    return ls_channel_send(&s->step_out, &frame, err);
}

static ls_status run_step(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                          struct ls_err *err)
{
    ls_status st = is_last(w) ? run_stage(w, step, hidden_in, NULL, err)
                              : run_and_send(w, step, hidden_in, err);
    if (!st && is_last(w))
        st = send_logits(w, step, err);
    if (w->next_id == 0)
        w->allocs_after_first = ls_alloc_count();
    w->next_id++;
    return st;
}

/* Opens an arrived STEP frame into w->step; *hidden points into it. */
static ls_status read_step(struct ls_worker *w, const unsigned char *bytes, uint64_t n,
                           const unsigned char **hidden, struct ls_err *err)
{
    struct ls_session *s = w->s;
    const struct ls_step_limits *lim = &s->plan.limits;
    int first = s->plan.stages[s->rank].first_layer;
    const struct ls_frame_expect expect = {
        .kinds = 1u << LS_KIND_STEP,
        .check_id = true,
        .id = w->next_id,
        .dtype = wire_dtype(s->arch.dtype),
        .ndim = 2,
        .dims = { 0, (uint32_t)ls_inbound_width(&s->arch, first) },
        .min_dim0 = 1,
        .max_dim0 = lim->max_tokens,
        .min_table = 1,
        .max_table = (uint32_t)ls_step_max_bytes(lim),
    };
    struct ls_frame frame;
    const unsigned char *payload;
    ls_status st = ls_channel_open_frame(&s->step_in, bytes, n, &expect, &frame, &payload, err);
    if (!st)
        st = ls_step_decode(&w->step, payload, frame.table_bytes, lim, err);
    if (!st && w->step.n_tokens != frame.dims[0])
        st = ls_fail(err, LS_E_SHAPE,
                     "step %" PRIu64 ": %u tokens in the table, %u rows of "
                     "hidden state",
                     frame.id, w->step.n_tokens, frame.dims[0]);
    if (st)
        return st;
    w->step.id = frame.id;
    *hidden = payload + frame.table_bytes;
    return LS_OK;
}

/* Runs the next step if one is here. */
static ls_status run_next(struct ls_worker *w, bool *found, struct ls_err *err)
{
    *found = false;
    if (w->s->rank == 0) {
        struct ls_step *step = ls_exchange_take(w->exchange);
        *found = step != NULL;
        return step ? run_step(w, step, NULL, err) : LS_OK;
    }
    const unsigned char *bytes, *hidden;
    uint64_t n;
    ls_status st = ls_channel_poll(&w->s->step_in, &bytes, &n, err);
    if (st || !bytes)
        return st;
    *found = true;
    st = read_step(w, bytes, n, &hidden, err);
    if (!st)
        st = run_step(w, &w->step, hidden, err);
    return st ? st : ls_channel_return(&w->s->step_in, err);
}

/* --- the loop
 * ---------------------------------------------------------------------------------- */

ls_status ls_worker_create(struct ls_worker **out, struct ls_session *session,
                           struct ls_exchange *exchange, struct ls_err *err)
{
    void *memory = NULL, *places = NULL;
    const struct ls_step_limits *lim = &session->plan.limits;
    ls_status st = ls_alloc(&memory, sizeof(struct ls_worker), "worker", err);
    if (st)
        return st;
    struct ls_worker *w = memory;
    w->s = session;
    w->exchange = exchange;
    if (session->rank > 0)
        st = ls_step_init(&w->step, lim, 0, err);
    if (!st && is_last(w))
        st = ls_alloc(&places, lim->max_tokens * sizeof *w->places, "logit places", err);
    w->places = places;
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
    ls_free(w);
}

/* STOP and ERROR texts name their rank already; so does what rank 0 says of a link. */
static ls_status pump_failure(const struct ls_worker *w, struct ls_err *err)
{
    ls_fail(err, w->failed, "%s", w->failure.text);
    if (w->s->rank > 0 && !w->stopped)
        ls_fail_prefix(err, "rank %d on %s, while running", w->s->rank,
                       ls_comm_host(w->s->comm));
    return w->failed;
}

static ls_status loop(struct ls_worker *w, struct ls_err *err)
{
    uint64_t idle_since = ls_now_us();
    unsigned idle = 0;
    for (;;) {
        pump(w);
        if (w->failed)
            return pump_failure(w, err);
        if (w->stopped || (w->exchange && ls_exchange_is_finished(w->exchange)))
            return LS_OK;
        bool found;
        uint64_t now = ls_now_us(), waited = now - idle_since;
        ls_status st = run_next(w, &found, err);
        if (st)
            return ls_fail_prefix(err, "rank %d on %s, step %" PRIu64, w->s->rank,
                                  ls_comm_host(w->s->comm), w->next_id);
        if (found) {
            w->stats.wait_us += waited;
            idle_since = ls_now_us();
            idle = 0;
        } else {
            ls_comm_idle(&idle);
        }
    }
}

ls_status ls_worker_run(struct ls_worker *w, struct ls_err *err)
{
    ls_control_start_beats(w->s->control, ls_now_us());
    w->s->progress = pump_from_stage;
    w->s->progress_arg = w;
    ls_status st = loop(w, err);
    w->s->progress = NULL;
    return st;
}

/* --- the end
 * ----------------------------------------------------------------------------------- */

static void fill_stats(struct ls_worker *w)
{
    struct ls_session *s = w->s;
    struct ls_comm_counts moved;
    struct ls_stage_stats *out = &w->stats;
    ls_comm_get_counts(s->comm, &moved);
    snprintf(out->host, sizeof out->host, "%.*s", LS_MAX_HOST - 1, ls_comm_host(s->comm));
    snprintf(out->kernels, sizeof out->kernels, "%.15s", s->kernels->name);
    out->kernels_failed = s->kernels_failed;
    out->threads = s->plan.stages[s->rank].threads;
    ls_stage_get_counts(s->stage, &out->counts);
    out->frames_sent = moved.sent_messages;
    out->frames_received = moved.received_messages;
    out->bytes_sent = moved.sent_bytes;
    out->bytes_received = moved.received_bytes;
    if (w->next_id > 0)
        out->step_allocs = ls_alloc_count() - w->allocs_after_first;
}

/* Steps and results that nobody wants any more still have to arrive, or their senders would
 * wait for ever. */
static void let_through(struct ls_worker *w)
{
    ls_comm_progress(w->s->comm, NULL);
    ls_channel_discard(&w->s->step_in, NULL);
    ls_channel_discard(&w->s->result_in, NULL);
}

static bool sends_are_idle(struct ls_worker *w)
{
    struct ls_session *s = w->s;
    return (!s->step_out.link || ls_link_idle(s->step_out.link)) &&
           (!s->result_out.link || ls_link_idle(s->result_out.link));
}

/* Rank 0: the last word of every other rank. A rank that says nothing keeps empty statistics.
 */
static void collect_stats(struct ls_worker *w)
{
    struct ls_session *s = w->s;
    uint64_t deadline = ls_now_us() + END_US;
    unsigned idle = 0;
    for (int r = 1; r < s->n_ranks;) {
        struct ls_message m;
        let_through(w);
        ls_status st = ls_control_poll(s->control, r, UINT32_MAX, &m, NULL);
        bool final = m.kind == LS_KIND_STATS && m.id == LS_STATS_FINAL;
        if (!st && final)
            ls_stats_decode(&s->stats[r], m.body, m.n, NULL);
        if (!st && m.kind)
            ls_control_done(s->control, r, NULL);
        if (st || final)
            r++;
        else if (ls_now_us() > deadline)
            return;
        else if (!m.kind)
            ls_comm_idle(&idle);
    }
}

static void end_lead(struct ls_worker *w, ls_status status, const char *text)
{
    ls_control_stop_all(w->s->control, status, text);
    collect_stats(w);
    w->s->stats[0] = w->stats;
}

/* A rank that failed itself reports first, then waits for STOP like the others. */
static void end_follow(struct ls_worker *w, ls_status status, const char *text)
{
    struct ls_control *ctl = w->s->control;
    uint64_t begin = ls_now_us(), stopped_us = begin;
    unsigned idle = 0;
    if (!w->stopped)
        ls_control_send_failure(ctl, 0, LS_KIND_ERROR, status, text, NULL);
    for (uint64_t now = begin; now < begin + END_US; now = ls_now_us()) {
        struct ls_message m;
        let_through(w);
        if (!w->stopped) {
            stopped_us = now;
            if (ls_control_poll(ctl, 0, UINT32_MAX, &m, NULL))
                break;
            w->stopped = m.kind == LS_KIND_STOP;
            if (m.kind)
                ls_control_done(ctl, 0, NULL);
        } else if (sends_are_idle(w) || now > stopped_us + SETTLE_US) {
            break;
        }
        ls_comm_idle(&idle);
    }
    unsigned char bytes[LS_STATS_BYTES];
    size_t n = ls_stats_encode(&w->stats, bytes);
    ls_control_send(ctl, 0, LS_KIND_STATS, LS_STATS_FINAL, bytes, n, NULL);
    w->s->stats[0] = w->stats;
}

void ls_worker_end(struct ls_worker *w, ls_status status, const char *text)
{
    if (status && status != LS_E_DRAINED)
        ls_comm_set_failed(w->s->comm);
    fill_stats(w);
    if (w->s->rank == 0)
        end_lead(w, status, text);
    else
        end_follow(w, status, text);
}
