/* Start-up in two votes: reports, plan, vote; load, vote. Nothing is loaded before every rank
 * has accepted the plan, and nothing runs before every rank has loaded. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "model/weights.h"
#include "pipeline/apart.h"
#include "pipeline/report.h"
#include "pipeline/session_state.h"
#include "stage/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    WISH_S = 24 * 3600,      /* rank 0 may be reading its input from a slow pipe first */
    LOOK_S = 600,            /* to open a checkpoint */
    LOOK_BYTES_S = 6 * 3600, /* and to digest all of its bytes */
    VOTE_S = 120,
    LOAD_S = 600,                /* and, beside that, */
    LOAD_BYTES_PER_S = 20000000, /* a slow shared file system */
};

static uint64_t after(uint64_t seconds)
{
    return ls_now_us() + seconds * 1000000u;
}

static uint64_t look_seconds(const struct ls_session *s)
{
    return s->wish.check_bytes ? LOOK_BYTES_S : LOOK_S;
}

static uint64_t load_seconds(const struct ls_session *s)
{
    uint64_t most = 0;
    for (int i = 0; i < s->plan.n_stages; i++)
        if (s->plan.stages[i].weights_bytes > most)
            most = s->plan.stages[i].weights_bytes;
    return LOAD_S + most / LOAD_BYTES_PER_S;
}

/* --- what every rank does ----------------------------------------------------------------- */

/* Opens and checks everything that can be checked without reading a weight. */
static ls_status look_apart(void *arg, struct ls_err *err)
{
    struct ls_session *s = arg;
    const struct ls_arch_wish wish = { .f32_activations = s->wish.f32_activations,
                                       .context = s->wish.context };
    ls_status st = ls_arch_load(&s->arch, s->wish.model, &wish, &s->arena, err);
    if (!st)
        st = ls_checkpoint_open(&s->ckpt, s->wish.model, err);
    if (!st)
        st = ls_weights_check(&s->arch, s->ckpt, &s->n_unused, &s->first_unused, err);
    if (!st)
        ls_view_look(s->looking, ls_comm_host(s->comm), s->ckpt, s->wish.check_bytes);
    if (!st && LS_FAULT(VOTE, s->rank))
        st = ls_fail(err, LS_E_COMPUTE, "a fault of the test");
    return st;
}

static ls_status look(struct ls_session *s, struct ls_rank_view *view, struct ls_err *err)
{
    s->looking = view;
    ls_control_set_doing(s->control, LS_DOING_VOTE, 0);
    return ls_apart_run(s->control, look_apart, s, &s->abandoned, err);
}

/* The plan against this rank's own view of model and machine. */
static ls_status check_plan(const struct ls_session *s, struct ls_err *err)
{
    ls_status st = ls_plan_check(&s->plan, &s->arch, s->n_ranks, err);
    if (st)
        return st;
    if (memcmp(s->plan.run_id, ls_keyring_terms(s->keyring)->run_id, LS_RUN_ID) != 0)
        return ls_fail(err, LS_E_WRONG_LINK, "plan: of another run than the links' keys");
    const struct ls_stage_plan *mine = &s->plan.stages[s->rank];
    uint64_t bytes = ls_weights_bytes(&s->arch, s->ckpt, mine->first_layer, mine->last_layer);
    if (bytes != mine->weights_bytes)
        return ls_fail(err, LS_E_REFUSED,
                       "plan: layers %d-%d are %" PRIu64 " bytes here, the plan says %" PRIu64,
                       mine->first_layer, mine->last_layer - 1, bytes, mine->weights_bytes);
    return LS_OK;
}

static ls_status open_steps(struct ls_session *s, struct ls_err *err)
{
    const struct ls_plan *p = &s->plan;
    const struct ls_stage_plan *mine = &p->stages[s->rank];
    struct ls_channel_config config = { .tag = LS_TAG_STEP,
                                        .pack = (enum ls_pack)p->pack,
                                        .n_buffers = ls_plan_step_buffers(p) };
    ls_status st = LS_OK;
    if (s->rank > 0) {
        config.peer = s->rank - 1;
        config.direction = LS_RECV;
        config.max_payload = ls_plan_step_payload(p, &s->arch, mine->first_layer);
        st = ls_channel_open(&s->step_in, s->keyring, &config, err);
    }
    if (!st && s->rank < s->n_ranks - 1) {
        config.peer = s->rank + 1;
        config.direction = LS_SEND;
        config.max_payload = ls_plan_step_payload(p, &s->arch, mine->last_layer);
        st = ls_channel_open(&s->step_out, s->keyring, &config, err);
    }
    return st;
}

static ls_status open_results(struct ls_session *s, struct ls_err *err)
{
    int last = s->n_ranks - 1;
    struct ls_channel_config config = { .tag = LS_TAG_RESULT,
                                        .pack = (enum ls_pack)s->plan.pack,
                                        .max_payload =
                                            ls_plan_result_payload(&s->plan, &s->arch) };
    ls_status st = LS_OK;
    if (s->rank == last) {
        config.peer = 0;
        config.direction = LS_SEND;
        config.n_buffers = ls_plan_result_sends(&s->plan);
        st = ls_channel_open(&s->result_out, s->keyring, &config, err);
    }
    if (!st && s->rank == 0) {
        config.peer = last;
        config.direction = LS_RECV;
        config.n_buffers = LS_RESULT_RECEIVES;
        st = ls_channel_open(&s->result_in, s->keyring, &config, err);
    }
    return st;
}

/* The last links of the session: what their keys were made from is wiped. */
static ls_status open_links(struct ls_session *s, struct ls_err *err)
{
    ls_status st = open_steps(s, err);
    if (!st)
        st = open_results(s, err);
    ls_keyring_close(s->keyring);
    return st;
}

static bool stage_progress(void *arg)
{
    struct ls_session *s = arg;
    return !s->progress || s->progress(s->progress_arg);
}

static ls_status load_apart(void *arg, struct ls_err *err)
{
    struct ls_session *s = arg;
    const struct ls_stage_plan *mine = &s->plan.stages[s->rank];
    unsigned saved = ls_fp_enter();
    s->kernels = ls_kernels_choose((enum ls_cpu_path)s->wish.cpu_path, &s->kernels_failed);
    ls_fp_leave(saved);
    if (!s->kernels)
        return ls_fail(err, LS_E_COMPUTE,
                       "no kernels: the self-test of every path up to %s fails on this CPU",
                       ls_cpu_path_name((enum ls_cpu_path)s->wish.cpu_path));
    const struct ls_stage_config config = { .arch = &s->arch,
                                            .ckpt = s->ckpt,
                                            .kernels = s->kernels,
                                            .first_layer = mine->first_layer,
                                            .last_layer = mine->last_layer,
                                            .n_threads = mine->threads,
                                            .limits = s->plan.limits,
                                            .max_logit_rows = s->plan.logit_rows,
                                            .progress = stage_progress,
                                            .progress_arg = s };
    if (LS_FAULT(LOAD, s->rank))
        return ls_fail(err, LS_E_COMPUTE, "a fault of the test");
    return ls_stage_create(&s->stage, &config, err);
}

/* Only loading is apart: links are opened by the thread that calls MPI. */
static ls_status load(struct ls_session *s, struct ls_err *err)
{
    ls_control_set_doing(s->control, LS_DOING_LOAD, 0);
    ls_control_set_silence(s->control, s->plan.silence_s);
    ls_status st = ls_apart_run(s->control, load_apart, s, &s->abandoned, err);
    return st ? st : open_links(s, err);
}

/* --- rank 0 ------------------------------------------------------------------------------- */

static ls_status take_vote(struct ls_session *s, int rank, const struct ls_message *m,
                           enum ls_plan_phase phase, struct ls_rank_view *view,
                           struct ls_err *err)
{
    struct ls_rank_view vote;
    char name[LS_RANK_NAME];
    ls_status st = LS_OK;
    if (m->id != (uint64_t)phase)
        st = ls_fail(err, LS_E_SHAPE, "vote %" PRIu64 ", expected %d", m->id, (int)phase);
    if (!st)
        st = ls_view_decode(&vote, m->body, m->n, err);
    if (st)
        ls_channel_refuse(&s->control->in[rank], st, err);
    if (!st && phase == LS_PHASE_WISH)
        *view = vote;
    if (!st && vote.status)
        st = ls_fail(err, vote.status, "%s", vote.text);
    if (st && st != LS_E_DRAINED) /* which names its rank */
        ls_fail_prefix(err, "%s", ls_control_name(s->control, rank, name));
    return st;
}

/* The vote of one rank, if it has come; *n_missing counts down. */
static ls_status poll_vote(struct ls_session *s, int rank, enum ls_plan_phase phase,
                           struct ls_rank_view *view, int *n_missing, struct ls_err *err)
{
    struct ls_message m;
    ls_status st =
        ls_control_poll(s->control, rank, 1u << LS_KIND_VOTE | 1u << LS_KIND_ERROR, &m, err);
    if (st || !m.kind)
        return st;
    if (m.kind == LS_KIND_ERROR) {
        st = ls_control_read_failure(&m, err);
        return st ? st : ls_fail(err, LS_E_SHAPE, "rank %d: an error without a status", rank);
    }
    st = take_vote(s, rank, &m, phase, view, err);
    if (!st)
        st = ls_control_done(s->control, rank, err);
    view->voted = phase + 1;
    --*n_missing;
    return st;
}

static ls_status too_late(const struct ls_session *s, enum ls_plan_phase phase,
                          const struct ls_rank_view *views, struct ls_err *err)
{
    static const char *const whats[] = { "report", "vote on the plan",
                                         "word that it has loaded" };
    char name[LS_RANK_NAME];
    int rank = 1;
    while (rank < s->n_ranks - 1 && views[rank].voted == (int)phase + 1)
        rank++;
    return ls_fail(err, LS_E_LINK, "%s: no %s within the deadline",
                   ls_control_name(s->control, rank, name), whats[phase]);
}

/* Waits for the votes of all other ranks; the first refusal ends the wait. */
static ls_status gather(struct ls_session *s, enum ls_plan_phase phase, uint64_t seconds,
                        struct ls_rank_view *views, struct ls_err *err)
{
    uint64_t deadline = after(seconds);
    unsigned idle = 0;
    int n_missing = s->n_ranks - 1;
    while (n_missing > 0) {
        ls_status st = ls_control_tend(s->control, err);
        for (int r = 1; !st && r < s->n_ranks; r++)
            if (views[r].voted != (int)phase + 1)
                st = poll_vote(s, r, phase, &views[r], &n_missing, err);
        if (!st && n_missing > 0 && ls_now_us() > deadline)
            st = too_late(s, phase, views, err);
        if (st)
            return st;
        ls_comm_idle(&idle);
    }
    return LS_OK;
}

static ls_status judge_placement(struct ls_session *s, const struct ls_rank_view *views,
                                 struct ls_err *err)
{
    ls_placement_judge(&s->placement, views, &s->plan, s->n_ranks);
    if (!s->wish.strict_placement || s->placement.n_warnings == 0)
        return LS_OK;
    int more = s->placement.n_warnings - 1;
    char others[32] = "";
    if (more > 0)
        snprintf(others, sizeof others, " (and %d more)", more);
    return ls_fail(err, LS_E_REFUSED, "strict-placement: %s%s", s->placement.texts[0], others);
}

static ls_status form_plan(struct ls_session *s, struct ls_rank_view *views, struct ls_err *err)
{
    void *memory = NULL;
    ls_status st = ls_views_agree(views, s->n_ranks, err);
    if (!st)
        st = ls_alloc(&memory, (uint64_t)s->n_ranks * sizeof(struct ls_rank_report),
                      "rank reports", err);
    if (st)
        return st;
    struct ls_rank_report *reports = memory;
    ls_views_share(views, s->n_ranks, reports);
    st = ls_plan_form(&s->plan, &s->arch, s->ckpt, &s->wish, reports, s->n_ranks, err);
    ls_free(memory);
    if (!st)
        st = judge_placement(s, views, err);
    if (!st)
        memcpy(s->plan.run_id, ls_keyring_terms(s->keyring)->run_id, LS_RUN_ID);
    return st;
}

static ls_status tell_wish(struct ls_session *s, struct ls_err *err)
{
    unsigned char bytes[LS_WISH_BYTES];
    size_t n = ls_wish_encode(&s->wish, bytes);
    return ls_control_tell_all(s->control, LS_KIND_PLAN, LS_PHASE_WISH, bytes, n, err);
}

static ls_status tell_plan(struct ls_session *s, struct ls_err *err)
{
    unsigned char bytes[LS_PLAN_BYTES];
    size_t n = ls_plan_encode(&s->plan, bytes);
    return ls_control_tell_all(s->control, LS_KIND_PLAN, LS_PHASE_PLAN, bytes, n, err);
}

static ls_status lead(struct ls_session *s, struct ls_rank_view *views, struct ls_err *err)
{
    if (s->wish.silence_s > 0)
        ls_control_set_silence(s->control, s->wish.silence_s);
    ls_status st = tell_wish(s, err);
    if (!st)
        st = look(s, &views[0], err);
    if (!st)
        st = gather(s, LS_PHASE_WISH, look_seconds(s), views, err);
    if (!st)
        st = form_plan(s, views, err);
    if (!st)
        st = tell_plan(s, err);
    if (!st)
        st = check_plan(s, err);
    if (!st)
        st = gather(s, LS_PHASE_PLAN, VOTE_S, views, err);
    if (!st)
        st = ls_control_tell_all(s->control, LS_KIND_PLAN, LS_PHASE_LOAD, NULL, 0, err);
    if (!st)
        st = load(s, err);
    if (!st)
        st = gather(s, LS_PHASE_LOAD, load_seconds(s), views, err);
    if (!st)
        st = ls_control_tell_all(s->control, LS_KIND_PLAN, LS_PHASE_GO, NULL, 0, err);
    return st;
}

ls_status ls_startup_lead(struct ls_session *s, struct ls_err *err)
{
    void *views = NULL;
    s->begun = true;
    ls_status st = ls_alloc(&views, (uint64_t)s->n_ranks * sizeof(struct ls_rank_view),
                            "rank reports", err);
    if (!st)
        st = lead(s, views, err);
    if (!s->abandoned)
        ls_free(views);
    if (st)
        ls_control_stop_all(s->control, st, err ? err->text : "");
    return st;
}

/* --- the others --------------------------------------------------------------------------- */

/* The next order of rank 0; its STOP becomes this rank's failure. */
static ls_status await_order(struct ls_session *s, enum ls_plan_phase phase, uint64_t seconds,
                             struct ls_message *m, struct ls_err *err)
{
    static const char *const whats[] = { "configuration", "plan", "order to load",
                                         "order to begin" };
    ls_status st = ls_control_wait(s->control, 0, 1u << LS_KIND_PLAN | 1u << LS_KIND_STOP,
                                   after(seconds), whats[phase], m, err);
    if (!st && m->kind == LS_KIND_STOP) {
        st = ls_control_read_failure(m, err);
        return st ? st : ls_fail(err, LS_E_INTERNAL, "rank 0 stopped during start-up");
    }
    if (!st && m->id != (uint64_t)phase) {
        st = ls_fail(err, LS_E_SHAPE, "order %" PRIu64 " of rank 0, expected %d", m->id,
                     (int)phase);
        ls_channel_refuse(&s->control->in[0], st, err);
    }
    return st;
}

/* Sends this rank's verdict. A refusal is returned, after rank 0 has ended the job. */
static ls_status vote(struct ls_session *s, enum ls_plan_phase phase, struct ls_rank_view *view,
                      ls_status verdict, struct ls_err *err)
{
    unsigned char bytes[LS_VIEW_BYTES];
    struct ls_message m;
    view->status = verdict;
    snprintf(view->text, sizeof view->text, "%s", verdict ? err->text : "");
    snprintf(view->report.host, sizeof view->report.host, "%.*s", LS_MAX_HOST - 1,
             ls_comm_host(s->comm));
    size_t n = ls_view_encode(view, bytes);
    struct ls_err later = { .status = LS_OK };
    ls_status st = ls_control_send(s->control, 0, LS_KIND_VOTE, phase, bytes, n, &later);
    if (verdict) {
        ls_control_wait(s->control, 0, 1u << LS_KIND_STOP, after(VOTE_S), "end", &m, &later);
        return verdict;
    }
    return st ? ls_fail(err, st, "%s", later.text) : LS_OK;
}

/* The same. An order that cannot be taken for one of rank 0's is told to rank 0: the other
 * direction of the link may still be good. */
static ls_status await(struct ls_session *s, enum ls_plan_phase phase, uint64_t seconds,
                       struct ls_message *m, struct ls_err *err)
{
    ls_status st = await_order(s, phase, seconds, m, err);
    bool refused = st >= LS_E_AUTH && st <= LS_E_SHAPE && m->kind != LS_KIND_STOP;
    if (refused && phase == LS_PHASE_GO)
        ls_control_send_failure(s->control, 0, LS_KIND_ERROR, st, err->text, NULL);
    else if (refused)
        vote(s, phase, &s->view, st, err);
    return st;
}

static ls_status follow_wish(struct ls_session *s, struct ls_rank_view *view,
                             struct ls_err *err)
{
    struct ls_message m;
    ls_status st = await(s, LS_PHASE_WISH, WISH_S, &m, err);
    if (st)
        return st;
    ls_status verdict = ls_wish_decode(&s->wish, m.body, m.n, err);
    if (verdict)
        ls_channel_refuse(&s->control->in[0], verdict, err);
    if (!verdict && s->wish.silence_s > 0)
        ls_control_set_silence(s->control, s->wish.silence_s);
    st = ls_control_done(s->control, 0, verdict ? NULL : err);
    if (!st && !verdict)
        verdict = look(s, view, err);
    return st ? st : vote(s, LS_PHASE_WISH, view, verdict, err);
}

static ls_status follow_plan(struct ls_session *s, struct ls_rank_view *view,
                             struct ls_err *err)
{
    struct ls_message m;
    ls_status st = await(s, LS_PHASE_PLAN, 2 * look_seconds(s), &m, err);
    if (st)
        return st;
    ls_status verdict = ls_plan_decode(&s->plan, m.body, m.n, err);
    if (verdict)
        ls_channel_refuse(&s->control->in[0], verdict, err);
    st = ls_control_done(s->control, 0, verdict ? NULL : err);
    if (!st && !verdict)
        verdict = check_plan(s, err);
    return st ? st : vote(s, LS_PHASE_PLAN, view, verdict, err);
}

static ls_status follow_order(struct ls_session *s, enum ls_plan_phase phase, uint64_t seconds,
                              struct ls_err *err)
{
    struct ls_message m;
    ls_status st = await(s, phase, seconds, &m, err);
    return st ? st : ls_control_done(s->control, 0, err);
}

/* A rank that somebody stops while it waits: rank 0 hears of it, and ends the job. */
static void report_stopped(struct ls_session *s, const struct ls_err *err)
{
    enum { END_S = 10 };
    struct ls_message m;
    struct ls_err later = { .status = LS_OK };
    ls_control_send_failure(s->control, 0, LS_KIND_ERROR, LS_E_DRAINED, err->text, &later);
    ls_control_wait(s->control, 0, 1u << LS_KIND_PLAN | 1u << LS_KIND_STOP, after(END_S), "end",
                    &m, &later);
}

ls_status ls_startup_follow(struct ls_session *s, struct ls_err *err)
{
    struct ls_rank_view *view = &s->view;
    ls_status st = follow_wish(s, view, err);
    if (!st)
        st = follow_plan(s, view, err);
    if (!st)
        st = follow_order(s, LS_PHASE_LOAD, VOTE_S, err);
    if (!st)
        st = vote(s, LS_PHASE_LOAD, view, load(s, err), err);
    if (!st)
        st = follow_order(s, LS_PHASE_GO, 2 * load_seconds(s), err);
    if (st == LS_E_DRAINED && s->control->heeded)
        report_stopped(s, err);
    return st;
}
