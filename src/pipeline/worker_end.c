/* The end of a run on one rank. */
#include "base/fault.h"
#include "pipeline/machine.h"
#include "pipeline/stats.h"
#include "pipeline/worker_state.h"

#include <stdio.h>

enum {
    CLEAN_END_US = 8000000, /* wait for the other ranks, which are idle */
    END_US = 2000000,       /* the same after a failure: they may be gone */
    STOP_US = 8000000,      /* for STOP, which rank 0 sends between two layers */
    SETTLE_US = 1000000,    /* wait for own sends */
};

static void add_sending(struct ls_link_counts *sum, const struct ls_channel *ch)
{
    sum->buffer_bytes += ch->link ? ls_link_bytes(ch->link) : 0;
    sum->buffer_bytes += ls_packer_bytes(&ch->packer);
    sum->sealed += ch->counts.sealed;
    sum->sealed_bytes += ch->seal ? ch->counts.bytes : 0;
    sum->rekeys += ch->frame.epoch;
    sum->crypto_us += ch->counts.crypto_us;
    sum->split += ch->counts.split;
    sum->packed += ch->packer.frames;
    sum->raw_bytes += ch->packer.raw_bytes;
    sum->packed_bytes += ch->packer.packed_bytes;
    sum->pack_us += ch->packer.us;
}

static void add_receiving(struct ls_link_counts *sum, const struct ls_channel *ch)
{
    sum->buffer_bytes += ch->link ? ls_link_bytes(ch->link) : 0;
    sum->buffer_bytes += ls_packer_bytes(&ch->packer);
    sum->opened += ch->counts.sealed;
    sum->opened_bytes += ch->seal ? ch->counts.bytes : 0;
    sum->crypto_us += ch->counts.crypto_us;
    sum->split += ch->counts.split;
    sum->unpacked += ch->packer.frames;
    sum->pack_us += ch->packer.us;
    for (int i = 0; i < LS_N_REFUSALS; i++)
        sum->refused[i] += ch->counts.refused[LS_E_AUTH + i];
}

static void fill_link_counts(struct ls_worker *w)
{
    struct ls_session *s = w->s;
    struct ls_link_counts *sum = &w->stats.links;
    for (int r = 0; r < s->n_ranks; r++) {
        add_sending(sum, &s->control->out[r]);
        add_receiving(sum, &s->control->in[r]);
    }
    add_sending(sum, &s->step_out);
    add_sending(sum, &s->result_out);
    add_receiving(sum, &s->step_in);
    sum->copies = s->step_out.counts.copies + s->result_out.counts.copies;
    for (int r = 0; s->rank == 0 && r < s->plan.n_replicas; r++) {
        add_sending(sum, &s->feeds[r]);
        add_receiving(sum, &s->result_in[r]);
        sum->copies += s->feeds[r].counts.copies;
    }
}

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
    out->peak_bytes = ls_machine_use().peak_bytes;
    out->frames_sent = moved.sent_messages;
    out->frames_received = moved.received_messages;
    out->bytes_sent = moved.sent_bytes;
    out->bytes_received = moved.received_bytes;
    if (w->next_id > 0)
        out->step_allocs = ls_alloc_count() - w->allocs_after_first;
    out->least_us = (uint64_t)s->control->least_us[0];
}

/* Steps and results that nobody wants any more still have to arrive, or their senders would
 * wait for ever. */
static void let_through(struct ls_worker *w)
{
    ls_comm_progress(w->s->comm, NULL);
    ls_channel_discard(&w->s->step_in, NULL);
    for (int r = 0; w->s->rank == 0 && r < w->s->plan.n_replicas; r++)
        ls_channel_discard(&w->s->result_in[r], NULL);
}

static bool sends_are_idle(struct ls_worker *w)
{
    struct ls_session *s = w->s;
    return (!s->step_out.link || ls_link_idle(s->step_out.link)) &&
           (!s->result_out.link || ls_link_idle(s->result_out.link));
}

/* Rank 0: the last word of every other rank. A rank that says nothing keeps empty statistics,
 * and the first such rank is remembered. */
static void collect_stats(struct ls_worker *w, bool clean)
{
    struct ls_session *s = w->s;
    uint64_t deadline = ls_now_us() + (clean ? CLEAN_END_US : END_US);
    unsigned idle = 0;
    for (int r = 1; r < s->n_ranks;) {
        struct ls_message m;
        if (r == s->control->lost) {
            r++;
            continue;
        }
        let_through(w);
        ls_status st = ls_control_poll(s->control, r, UINT32_MAX, &m, NULL);
        bool final = m.kind == LS_KIND_STATS && m.id == LS_STATS_FINAL;
        if (!st && final)
            ls_stats_decode(&s->stats[r], m.body, m.n, NULL);
        if (!st && m.kind == LS_KIND_STATS && m.id == LS_STATS_TRACE && s->traces)
            ls_trace_append(&s->traces[r], m.body, m.n, NULL);
        if (!st && m.kind)
            ls_control_done(s->control, r, NULL);
        if (st || final)
            r++;
        else if (ls_now_us() > deadline || (s->control->hurry && *s->control->hurry)) {
            s->missing = r;
            ls_comm_set_failed(s->comm);
            return;
        } else if (!m.kind)
            ls_comm_idle(&idle);
    }
}

static void bring_clocks_together(struct ls_session *s)
{
    for (int r = 1; s->traces && r < s->n_ranks; r++) {
        uint64_t error_us = 0;
        const int64_t by_us =
            ls_control_clock(s->control, r, (int64_t)s->stats[r].least_us, &error_us);
        ls_trace_shift(&s->traces[r], by_us, error_us);
    }
}

static void end_lead(struct ls_worker *w, ls_status status, const char *text)
{
    ls_control_stop_all(w->s->control, status, text);
    collect_stats(w, !status || status == LS_E_DRAINED);
    bring_clocks_together(w->s);
    fill_link_counts(w);
    w->s->stats[0] = w->stats;
}

/* A trace that does not arrive is a shorter trace. */
static void send_trace(struct ls_worker *w)
{
    unsigned char bytes[LS_TRACE_BYTES];
    ls_status st = LS_OK;
    for (uint32_t at = 0, n; !st && w->trace && at < w->trace->n; at += n) {
        const size_t size = ls_trace_encode(w->trace, at, &n, bytes);
        st =
            ls_control_send(w->s->control, 0, LS_KIND_STATS, LS_STATS_TRACE, bytes, size, NULL);
    }
}

/* A rank that failed itself reports first, then waits for STOP like the others. */
static void end_follow(struct ls_worker *w, ls_status status, const char *text)
{
    struct ls_control *ctl = w->s->control;
    uint64_t begin = ls_now_us(), stopped_us = begin;
    unsigned idle = 0;
    if (!w->stopped)
        ls_control_send_failure(ctl, 0, LS_KIND_ERROR, status, text, NULL);
    for (uint64_t now = begin; now < begin + STOP_US; now = ls_now_us()) {
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
    send_trace(w);
    unsigned char bytes[LS_STATS_BYTES];
    fill_link_counts(w);
    size_t n = ls_stats_encode(&w->stats, bytes);
    ls_control_send(ctl, 0, LS_KIND_STATS, LS_STATS_FINAL, bytes, n, NULL);
    w->s->stats[0] = w->stats;
}

void ls_worker_end(struct ls_worker *w, ls_status status, const char *text)
{
    if (status && status != LS_E_DRAINED)
        ls_comm_set_failed(w->s->comm);
    ls_control_set_doing(w->s->control, LS_DOING_SHUTDOWN, w->next_id);
    if (LS_FAULT(SHUTDOWN, w->s->rank))
        ls_comm_set_failed(w->s->comm);
    fill_stats(w);
    if (w->s->rank == 0)
        end_lead(w, status, text);
    else if (w->s->control->lost < 0) /* there is nobody to report to */
        end_follow(w, status, text);
}
