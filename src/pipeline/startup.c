/* Start-up in two votes: reports, plan, vote; load, vote. Nothing is loaded before every rank
 * has accepted the plan, and nothing runs before every rank has loaded. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "model/weights.h"
#include "pipeline/apart.h"
#include "pipeline/bytes.h"
#include "pipeline/report.h"
#include "pipeline/session_state.h"
#include "stage/stage.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    WISH_S = 24 * 3600,      /* rank 0 may be reading its input from a slow pipe first */
    LOOK_S = 600,            /* to open a checkpoint */
    LOOK_BYTES_S = 6 * 3600, /* and to digest all of its bytes */
    VOTE_S = 120,
    LOAD_S = 600,                /* and, beside that, */
    LOAD_BYTES = 8,              /* of an order to load: whose weights to use */
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
    for (int i = 0; i < ls_plan_n_ranks(&s->plan); i++)
        if (s->plan.stages[i].weights_bytes > most)
            most = s->plan.stages[i].weights_bytes;
    return LOAD_S + most / LOAD_BYTES_PER_S;
}

/* Whether the rank loads weights from the checkpoint, or uses another's. */
static bool reads_weights(const struct ls_session *s, int rank)
{
    return s->plan.stages[rank].weights_rank == rank;
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

static bool stage_progress(void *arg)
{
    struct ls_session *s = arg;
    return !s->progress || s->progress(s->progress_arg);
}

/* Whose copy of the weights this rank uses: known to be that of this run and these layers. */
static void tag_weights(struct ls_session *s, const struct ls_stage_plan *mine)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof s->weights.tag);
    crypto_generichash_update(&state, s->plan.run_id, sizeof s->plan.run_id);
    crypto_generichash_update(&state, (const unsigned char *)&mine->first_layer,
                              sizeof mine->first_layer);
    crypto_generichash_update(&state, (const unsigned char *)&mine->last_layer,
                              sizeof mine->last_layer);
    crypto_generichash_final(&state, s->weights.tag, sizeof s->weights.tag);
}

static ls_status make_stage(struct ls_session *s, const struct ls_stage_config *config,
                            struct ls_err *err)
{
    const ls_status st = ls_stage_create(&s->stage, config, err);
    if (st == LS_E_REFUSED && config->weights.kind == LS_WEIGHTS_ADOPTED)
        ls_fail_prefix(err,
                       "the weights of rank %d cannot be shared (--share-weights off gives "
                       "every rank its own)",
                       s->plan.stages[s->rank].weights_rank);
    return st;
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
                                            .weights = s->weights,
                                            .n_threads = mine->threads,
                                            .limits = s->plan.limits,
                                            .max_logit_rows = s->plan.logit_rows,
                                            .progress = stage_progress,
                                            .progress_arg = s };
    if (LS_FAULT(LOAD, s->rank))
        return ls_fail(err, LS_E_COMPUTE, "a fault of the test");
    return make_stage(s, &config, err);
}

/* Only loading is apart: links are opened by the thread that calls MPI. */
static ls_status load(struct ls_session *s, struct ls_err *err)
{
    const struct ls_stage_plan *mine = &s->plan.stages[s->rank];
    ls_control_set_doing(s->control, LS_DOING_LOAD, 0);
    s->weights.kind = mine->weights_rank != s->rank ? LS_WEIGHTS_ADOPTED
                      : mine->n_sharing > 1         ? LS_WEIGHTS_OFFERED
                                                    : LS_WEIGHTS_OWN;
    tag_weights(s, mine);
    ls_control_set_silence(s->control, s->plan.silence_s);
    ls_status st = ls_apart_run(s->control, load_apart, s, &s->abandoned, err);
    return st ? st : ls_links_open(s, err);
}

/* --- rank 0 ------------------------------------------------------------------------------- */

static ls_status take_vote(struct ls_session *s, int rank, const struct ls_message *m,
                           enum ls_plan_phase phase, struct ls_rank_view *view,
                           struct ls_err *err)
{
    struct ls_rank_view vote;
    char name[LS_RANK_NAME];
    ls_status st = LS_OK;
    vote.pid = 0;
    vote.weights_fd = -1;
    if (m->id != (uint64_t)phase)
        st = ls_fail(err, LS_E_SHAPE, "vote %" PRIu64 ", expected %d", m->id, (int)phase);
    if (!st)
        st = ls_view_decode(&vote, m->body, m->n, err);
    if (st)
        ls_channel_refuse(&s->control->in[rank], st, err);
    if (!st && phase == LS_PHASE_WISH)
        *view = vote;
    view->pid = vote.pid;
    view->weights_fd = vote.weights_fd;
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

/* Whether this rank is to vote now and has not. Without `all` only those are asked who load
 * weights from the checkpoint. */
static bool is_missing(const struct ls_session *s, const struct ls_rank_view *views, int rank,
                       enum ls_plan_phase phase, bool all)
{
    const bool asked = all || phase != LS_PHASE_LOAD || reads_weights(s, rank);
    return asked && views[rank].voted != (int)phase + 1;
}

static ls_status too_late(const struct ls_session *s, enum ls_plan_phase phase, bool all,
                          const struct ls_rank_view *views, struct ls_err *err)
{
    static const char *const whats[] = { "report", "vote on the plan",
                                         "word that it has loaded" };
    char name[LS_RANK_NAME];
    int rank = 1;
    while (rank < s->n_ranks - 1 && !is_missing(s, views, rank, phase, all))
        rank++;
    return ls_fail(err, LS_E_LINK, "%s: no %s within the deadline",
                   ls_control_name(s->control, rank, name), whats[phase]);
}

/* Waits for the votes of all other ranks, or of those who load weights; the first refusal ends
 * the wait. */
static ls_status gather_some(struct ls_session *s, enum ls_plan_phase phase, bool all,
                             uint64_t seconds, struct ls_rank_view *views, struct ls_err *err)
{
    uint64_t deadline = after(seconds);
    unsigned idle = 0;
    int n_missing = 0;
    for (int r = 1; r < s->n_ranks; r++)
        n_missing += is_missing(s, views, r, phase, all);
    while (n_missing > 0) {
        ls_status st = ls_control_tend(s->control, err);
        for (int r = 1; !st && r < s->n_ranks; r++)
            if (is_missing(s, views, r, phase, all))
                st = poll_vote(s, r, phase, &views[r], &n_missing, err);
        if (!st && n_missing > 0 && ls_now_us() > deadline)
            st = too_late(s, phase, all, views, err);
        if (st)
            return st;
        ls_comm_idle(&idle);
    }
    return LS_OK;
}

static ls_status gather(struct ls_session *s, enum ls_plan_phase phase, uint64_t seconds,
                        struct ls_rank_view *views, struct ls_err *err)
{
    return gather_some(s, phase, true, seconds, views, err);
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

/* Orders the ranks to load that read weights, or those that use what others have read. */
static ls_status order_load(struct ls_session *s, bool readers,
                            const struct ls_rank_view *views, struct ls_err *err)
{
    ls_status st = LS_OK;
    for (int r = 1; !st && r < s->n_ranks; r++) {
        const struct ls_rank_view *owner = &views[s->plan.stages[r].weights_rank];
        unsigned char body[LOAD_BYTES];
        struct ls_writer w = { .at = body, .left = sizeof body };
        if (reads_weights(s, r) != readers)
            continue;
        ls_put_u32(&w, owner->pid);
        ls_put_i32(&w, owner->weights_fd);
        st =
            ls_control_send(s->control, r, LS_KIND_PLAN, LS_PHASE_LOAD, body, sizeof body, err);
    }
    return st;
}

/* Who shares another rank's weights is asked when they are there. */
static ls_status lead_load(struct ls_session *s, struct ls_rank_view *views, struct ls_err *err)
{
    ls_status st = order_load(s, true, views, err);
    if (!st)
        st = load(s, err);
    if (st)
        return st;
    views[0].pid = (uint32_t)getpid();
    views[0].weights_fd = ls_stage_weights_fd(s->stage);
    st = gather_some(s, LS_PHASE_LOAD, false, load_seconds(s), views, err);
    if (!st)
        st = order_load(s, false, views, err);
    return st ? st : gather(s, LS_PHASE_LOAD, load_seconds(s), views, err);
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
        st = lead_load(s, views, err);
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
    view->pid = (uint32_t)getpid();
    view->weights_fd = s->stage ? ls_stage_weights_fd(s->stage) : -1;
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

static ls_status follow_load(struct ls_session *s, struct ls_rank_view *view,
                             struct ls_err *err)
{
    struct ls_message m;
    const uint64_t wait_s = VOTE_S + (reads_weights(s, s->rank) ? 0 : 2 * load_seconds(s));
    ls_status st = await(s, LS_PHASE_LOAD, wait_s, &m, err);
    if (st)
        return st;
    struct ls_reader r = { .at = m.body, .left = m.n };
    s->weights.pid = ls_get_u32(&r);
    s->weights.fd = ls_get_i32(&r);
    ls_status verdict = LS_OK;
    if (!ls_reader_done(&r)) {
        verdict =
            ls_fail(err, LS_E_SHAPE, "an order to load that cannot be read (%zu bytes)", m.n);
        ls_channel_refuse(&s->control->in[0], verdict, err);
    }
    st = ls_control_done(s->control, 0, verdict ? NULL : err);
    if (!st && !verdict)
        verdict = load(s, err);
    return st ? st : vote(s, LS_PHASE_LOAD, view, verdict, err);
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
        st = follow_load(s, view, err);
    if (!st)
        st = follow_order(s, LS_PHASE_GO, 2 * load_seconds(s), err);
    if (st == LS_E_DRAINED && s->control->heeded)
        report_stopped(s, err);
    return st;
}
