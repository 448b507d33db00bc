#include "pipeline/session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/coordinator.h"
#include "pipeline/session_state.h"
#include "pipeline/worker.h"

#include <sodium.h>
#include <stdio.h>

void ls_session_cancel(struct ls_comm *comm)
{
    if (ls_comm_rank(comm) == 0)
        ls_keyring_refuse(comm, LS_E_DRAINED, "");
}

static ls_status take_session(struct ls_session **out, struct ls_comm *comm,
                              const struct ls_link_wish *link, struct ls_err *err)
{
    void *memory = NULL, *stats = NULL;
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_INTERNAL, "libsodium cannot be initialised");
    ls_status st = ls_alloc(&memory, sizeof(struct ls_session), "session", err);
    if (st)
        return st;
    struct ls_session *s = memory;
    s->comm = comm;
    s->rank = ls_comm_rank(comm);
    s->n_ranks = ls_comm_size(comm);
    ls_arena_init(&s->arena);
    uint64_t n = s->rank == 0 ? (uint64_t)s->n_ranks : 1;
    st = ls_alloc(&stats, n * sizeof *s->stats, "statistics", err);
    s->stats = stats;
    if (!st)
        st = ls_keyring_create(&s->keyring, comm, link, err);
    if (!st)
        st = ls_control_create(&s->control, s->keyring, err);
    *out = s;
    return st;
}

/* A link that cannot be trusted, or that is silent: its other end may never come to the end. */
static bool is_of_link(ls_status st)
{
    return st >= LS_E_AUTH && st <= LS_E_LINK;
}

ls_status ls_session_open(struct ls_session **out, struct ls_comm *comm,
                          const struct ls_link_wish *link, struct ls_err *err)
{
    struct ls_session *s = NULL;
    ls_status st = take_session(&s, comm, link, err);
    if (!st) {
        *out = s;
        return LS_OK;
    }
    if (is_of_link(st))
        ls_comm_set_failed(comm);
    ls_session_destroy(s);
    return st;
}

ls_status ls_session_meanwhile(struct ls_session *s, ls_apart_fn *work, void *arg,
                               struct ls_err *err)
{
    ls_status st = ls_apart_run(s->control, work, arg, &s->abandoned, err);
    if (s->abandoned || is_of_link(st))
        ls_comm_set_failed(s->comm);
    if (st && !s->begun) { /* nothing else will tell them */
        ls_control_stop_all(s->control, st, err->text);
        s->begun = true;
    }
    return st;
}

ls_status ls_session_start(struct ls_session *s, const struct ls_run_wish *wish,
                           struct ls_err *err)
{
    if (s->rank == 0)
        s->wish = *wish;
    ls_status st = s->rank == 0 ? ls_startup_lead(s, err) : ls_startup_follow(s, err);
    s->started = !st;
    if (is_of_link(st))
        ls_comm_set_failed(s->comm);
    return st;
}

ls_status ls_session_create(struct ls_session **out, struct ls_comm *comm,
                            const struct ls_run_wish *wish, const struct ls_link_wish *link,
                            struct ls_err *err)
{
    struct ls_session *s = NULL;
    ls_status st = ls_session_open(&s, comm, link, err);
    if (!st)
        st = ls_session_start(s, wish, err);
    if (st)
        ls_session_destroy(s);
    else
        *out = s;
    return st;
}

void ls_session_destroy(struct ls_session *s)
{
    if (!s)
        return;
    bool untold = s->begun ? s->started && !s->ran : s->control != NULL;
    if (untold && s->rank == 0)
        ls_control_stop_all(s->control, LS_E_DRAINED, "");
    if (s->abandoned)
        return;
    ls_stage_destroy(s->stage);
    ls_checkpoint_close(s->ckpt);
    ls_control_destroy(s->control);
    ls_channel_close(&s->step_in);
    ls_channel_close(&s->step_out);
    for (int r = 0; s->result_in && r < s->plan.n_replicas; r++) {
        ls_channel_close(&s->result_in[r]);
        ls_channel_close(&s->feeds[r]);
    }
    ls_channel_close(&s->result_out);
    ls_keyring_destroy(s->keyring);
    ls_arena_finish(&s->arena);
    for (int i = 0; s->traces && i < (s->rank == 0 ? s->n_ranks : 1); i++)
        ls_trace_finish(&s->traces[i]);
    ls_free(s->traces);
    ls_free(s->stats);
    ls_free(s);
}

/* --- the run ------------------------------------------------------------------------------ */

static ls_status run_follow(struct ls_session *s, struct ls_err *err)
{
    struct ls_worker *w = NULL;
    ls_status st = ls_worker_create(&w, s, NULL, err);
    if (st) {
        ls_control_send_failure(s->control, 0, LS_KIND_ERROR, st, err->text, NULL);
        return st;
    }
    st = ls_worker_run(w, err);
    ls_worker_end(w, st, st ? err->text : "");
    ls_worker_destroy(w);
    return st;
}

/* What rank 0 runs with: its own loop, the coordinator, and what they exchange. */
struct lead {
    struct ls_exchange *exchange;
    struct ls_coordinator *coordinator;
    struct ls_worker *worker;
};

static ls_status make_lead(struct lead *l, struct ls_session *s, const struct ls_client *client,
                           struct ls_err *err)
{
    int n_frames = 0;
    for (int r = 0; r < s->plan.n_replicas; r++)
        if (ls_link_n_buffers(s->result_in[r].link) > n_frames)
            n_frames = ls_link_n_buffers(s->result_in[r].link);
    ls_status st =
        ls_exchange_create(&l->exchange, s->plan.n_replicas, s->plan.window, n_frames, err);
    if (st)
        return st;
    const struct ls_coordinator_config config = { .plan = &s->plan,
                                                  .arch = &s->arch,
                                                  .client = client,
                                                  .exchange = l->exchange,
                                                  .results = s->result_in,
                                                  .placement_seed = s->wish.placement_seed,
                                                  .prefix_reuse = s->wish.prefix_reuse };
    st = ls_coordinator_create(&l->coordinator, &config, err);
    return st ? st : ls_worker_create(&l->worker, s, l->exchange, err);
}

/* The first failure is the one that is told: the coordinator's own when it ended by itself,
 * else the loop's. */
static ls_status run_both(struct lead *l, struct ls_session *s, struct ls_err *err)
{
    struct ls_err other = { .status = LS_OK };
    ls_status st = ls_coordinator_start(l->coordinator, err);
    if (st)
        return st;
    st = ls_worker_run(l->worker, err);
    ls_exchange_close(l->exchange);
    ls_status ended = ls_coordinator_join(l->coordinator, &other);
    ls_coordinator_stats(l->coordinator, &s->run_stats);
    if (!st && ended)
        st = ls_fail(err, ended, "%s", other.text);
    return st;
}

static ls_status run_lead(struct ls_session *s, const struct ls_client *client,
                          struct ls_err *err)
{
    struct lead l = { .exchange = NULL };
    ls_status st = make_lead(&l, s, client, err);
    if (st)
        ls_control_stop_all(s->control, st, err->text);
    else
        st = run_both(&l, s, err);
    if (l.worker)
        ls_worker_end(l.worker, st, st ? err->text : "");
    ls_worker_destroy(l.worker);
    ls_coordinator_destroy(l.coordinator);
    ls_exchange_destroy(l.exchange);
    return st;
}

ls_status ls_session_run(struct ls_session *s, const struct ls_client *client,
                         struct ls_err *err)
{
    struct ls_err own = { .status = LS_OK };
    if (!err)
        err = &own;
    if (s->ran)
        return ls_fail(err, LS_E_INTERNAL, "a session runs once");
    s->ran = true;
    return s->rank == 0 ? run_lead(s, client, err) : run_follow(s, err);
}

/* --- looking ------------------------------------------------------------------------------ */

const struct ls_plan *ls_session_plan(const struct ls_session *s)
{
    return &s->plan;
}

void ls_session_set_hurry(struct ls_session *s, const volatile sig_atomic_t *hurry)
{
    s->control->hurry = hurry;
}

ls_status ls_session_find_gone(const struct ls_session *s, struct ls_err *err)
{
    return ls_control_find_gone(s->control, err);
}

bool ls_session_lost_rank(const struct ls_session *s)
{
    return s->control->lost >= 0;
}

bool ls_session_was_away(const struct ls_session *s)
{
    enum { JUST_US = 4000000 };
    uint64_t back_us = s->control->away_us;
    return back_us && ls_now_us() - back_us < JUST_US;
}

const char *ls_session_missing(const struct ls_session *s, char text[LS_SESSION_TEXT])
{
    char name[LS_RANK_NAME], doing[LS_RANK_NAME];
    if (!s->missing)
        return NULL;
    snprintf(text, LS_SESSION_TEXT, "%s, last heard in %s",
             ls_control_name(s->control, s->missing, name),
             ls_control_doing(s->control, s->missing, doing));
    return text;
}

const struct ls_placement *ls_session_placement(const struct ls_session *s)
{
    return &s->placement;
}

const struct ls_arch *ls_session_arch(const struct ls_session *s)
{
    return &s->arch;
}

const struct ls_link_terms *ls_session_terms(const struct ls_session *s)
{
    return ls_keyring_terms(s->keyring);
}

const struct ls_checkpoint *ls_session_checkpoint(const struct ls_session *s)
{
    return s->ckpt;
}

size_t ls_session_unused(const struct ls_session *s, const char **first)
{
    *first = s->first_unused;
    return s->n_unused;
}

const struct ls_stage_stats *ls_session_stats(const struct ls_session *s, int stage)
{
    return &s->stats[s->rank == 0 ? stage : 0];
}

const struct ls_trace *ls_session_trace(const struct ls_session *s, int stage)
{
    return s->traces ? &s->traces[s->rank == 0 ? stage : 0] : NULL;
}

void ls_session_run_stats(const struct ls_session *s, struct ls_run_stats *stats)
{
    *stats = s->run_stats;
}
