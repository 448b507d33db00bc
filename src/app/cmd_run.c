/* run: the main job, on all ranks. */
#include "app/app.h"
#include "app/certify.h"
#include "app/chat_process.h"
#include "app/facts.h"
#include "app/launch.h"
#include "app/link_wish.h"
#include "app/manifest.h"
#include "app/model_folder.h"
#include "app/paths.h"
#include "app/stop.h"
#include "app/trace_file.h"
#include "app/wish.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { GO = -1 }; /* no exit code yet */
enum { START_LIMIT_S = 120, END_LIMIT_S = 20 };

/* Rank 0's side of a run. */
struct lead {
    struct ls_app *app;
    struct ls_comm *comm;
    struct ls_chat_process *chat;
    struct ls_run_wish wish;
    struct ls_link_wish link;
    struct ls_given_secret *given;
    struct ls_certify certify;
    char model_name[LS_MAX_PATH];
    char chat_time[LS_CHAT_TIME];
    struct ls_tokenizer *tokenizer; /* NULL: the checkpoint has none */
    struct ls_job *job;
    struct ls_session *session;
    struct ls_job_counts counts;
    char digest[68];
    struct ls_time_limit limit;
    uint64_t start_us, ready_us;
    int code;       /* of prepare_job */
    bool abandoned; /* prepare_job still runs, in a process that is about to end */
    bool ran;       /* the run was begun */
};

static int fail_before_start(const struct lead *r, ls_status s, const struct ls_err *err)
{
    return ls_app_fail(r->app, ls_app_code_before_start(s), err);
}

static ls_status set_chat(const struct lead *r, const char *now, struct ls_err *err)
{
    const char *template = ls_options_text(&r->app->options, LS_OPT_CHAT_TEMPLATE);
    return ls_chat_set(r->chat, r->wish.model, template, now, err);
}

/* Everything that can be found wrong without the other ranks, first what is quick. */
static int prepare(struct lead *r)
{
    struct ls_err err;
    const struct ls_options *const o = &r->app->options;
    bool done;
    ls_status s = ls_app_configure(r->app, &done, &err);
    if (s)
        return ls_app_fail(r->app, LS_EXIT_USAGE, &err);
    if (done)
        return LS_EXIT_GOOD;
    if (o->command == LS_CMD_PLAN) /* the file says dry-run */
        return ls_plan_command(r->app, r->chat);
    s = ls_paths_check(o, &err);
    if (!s)
        s = ls_wish_of(&r->wish, o, &err);
    if (!s && ls_options_flag(o, LS_OPT_JSON))
        s = ls_fail(&err, LS_E_USAGE, "--json needs --dry-run: a run prints no table");
    if (!s && ls_options_flag(o, LS_OPT_FRESH) && ls_options_flag(o, LS_OPT_RESUME))
        s = ls_fail(&err, LS_E_USAGE, "--resume and --fresh, expected one of them");
    if (!s)
        s = ls_trace_check(ls_options_text(o, LS_OPT_TRACE), &err);
    if (!s)
        s = ls_time_limit_of(&r->limit, ls_options_text(o, LS_OPT_TIME_LIMIT), r->start_us,
                             (uint64_t)time(NULL), &err);
    if (!s)
        s = ls_link_wish_of(&r->link, r->given, o, &err);
    if (!s)
        s = ls_certify_of(&r->certify, o, &err);
    return s ? fail_before_start(r, s, &err) : GO;
}

/* The input may come from a slow pipe. */
static int prepare_job(struct lead *r)
{
    struct ls_err err;
    struct ls_job_config config;
    const struct ls_options *const o = &r->app->options;
    ls_model_name(r->model_name, sizeof r->model_name, ls_options_text(o, LS_OPT_MODEL));
    ls_job_config_of(&config, o, r->model_name);
    ls_status s = ls_chat_time_of(r->chat_time, o, &err);
    if (!s)
        s = set_chat(r, r->chat_time, &err);
    if (s)
        return fail_before_start(r, s, &err);
    config.chat = &r->chat->chat;
    config.certificate = r->certify.wanted ? &r->certify.terms : NULL;
    s = ls_job_create(&r->job, &config, &err);
    if (!s)
        s = ls_certify_look(&r->certify, r->wish.model,
                            ls_options_text(o, LS_OPT_CHAT_TEMPLATE), &err);
    if (s)
        return fail_before_start(r, s, &err);
    s = ls_model_tokenizer(&r->tokenizer, r->wish.model, &err);
    return s ? ls_app_fail(r->app, LS_EXIT_REFUSED, &err) : GO;
}

static void warn_of_placement(const struct lead *r)
{
    const struct ls_placement *const p = ls_session_placement(r->session);
    for (int i = 0; i < p->n_warnings && i < LS_PLACEMENT_KEPT; i++)
        ls_app_warn(r->app, "warning: %s", p->texts[i]);
    if (p->n_warnings > LS_PLACEMENT_KEPT)
        ls_app_warn(r->app, "warning: and %d more of this kind, on other hosts",
                    p->n_warnings - LS_PLACEMENT_KEPT);
}

static void warn_of_unused(const struct lead *r)
{
    const char *first;
    const size_t n = ls_session_unused(r->session, &first);
    ls_app_warn_of_unused(r->app, n, first);
}

static ls_status prepare_apart(void *arg, struct ls_err *err)
{
    struct lead *const r = arg;
    (void)err; /* has been told */
    r->code = prepare_job(r);
    return LS_OK;
}

/* A rank that was lost and a disk that is full are failures of the run, however early. */
static int fail_to_start(const struct lead *r, ls_status s, const struct ls_err *err)
{
    return ls_app_fail(r->app,
                       s == LS_E_USAGE                    ? LS_EXIT_USAGE
                       : s == LS_E_LINK || s == LS_E_FULL ? LS_EXIT_FAILED
                       : s == LS_E_DRAINED                ? LS_EXIT_DRAINED
                                                          : LS_EXIT_REFUSED,
                       err);
}

/* Why the launcher ends us, if it does: a rank that is gone; or this one, which was stopped,
 * was given up by the others, and has nothing to say. */
static ls_status reason_to_end(const struct lead *r, ls_status s, struct ls_err *err)
{
    if (!r->session)
        return s;
    r->app->quiet = ls_session_was_away(r->session) && (s == LS_E_LINK || s == LS_E_DRAINED);
    if (s == LS_E_DRAINED && ls_session_find_gone(r->session, err))
        s = LS_E_LINK; /* the launcher's signal, not the user's */
    r->app->end_now = ls_session_lost_rank(r->session);
    return s;
}

static void say_resumed(const struct lead *r)
{
    struct ls_job_counts c;
    const struct ls_options *const o = &r->app->options;
    ls_job_count(r->job, &c);
    if (c.torn_bytes)
        ls_app_warn(r->app, "warning: the journal of %s ended in a torn record; %llu bytes cut",
                    ls_options_text(o, LS_OPT_OUTPUT), (unsigned long long)c.torn_bytes);
    if (c.resumed_rows && ls_options_number(o, LS_OPT_PROGRESS) != LS_PROGRESS_NONE)
        ls_app_warn(r->app, "going on after %llu finished rows",
                    (unsigned long long)c.resumed_rows);
}

static const char chat_time_fact[] = "chat time";

static void tell_chat_time(const struct lead *r)
{
    if (ls_options_is_set(&r->app->options, LS_OPT_CHAT_TIME))
        ls_job_fact(r->job, chat_time_fact, r->chat_time);
    else
        ls_job_fact_of_clock(r->job, chat_time_fact, r->chat_time);
}

static int start(struct lead *r)
{
    struct ls_err err = { .status = LS_OK };
    ls_status s = ls_session_open(&r->session, r->comm, &r->link, &err);
    if (!s) {
        ls_session_set_hurry(r->session, ls_stop_flag());
        s = ls_session_meanwhile(r->session, prepare_apart, r, &err);
        r->app->abandoned = r->abandoned = s != LS_OK;
    }
    if (!s && r->code != GO)
        return r->code;
    if (!s)
        s = ls_session_start(r->session, &r->wish, &err);
    s = reason_to_end(r, s, &err);
    if (!s) {
        ls_facts_tell(r->job, r->session, &r->wish,
                      ls_options_text(&r->app->options, LS_OPT_CHAT_TEMPLATE));
        tell_chat_time(r);
        s = ls_job_bind(r->job, ls_session_arch(r->session), r->tokenizer, &err);
    }
    if (!s)
        s = set_chat(r, ls_job_fact_value(r->job, chat_time_fact), &err);
    if (s)
        return fail_to_start(r, s, &err);
    ls_manifest_remove(ls_job_folder(r->job));
    say_resumed(r);
    warn_of_unused(r);
    warn_of_placement(r);
    return GO;
}

static void warn_of_fallbacks(const struct lead *r)
{
    for (int s = 0; s < ls_plan_n_ranks(ls_session_plan(r->session)); s++) {
        const struct ls_stage_stats *const stats = ls_session_stats(r->session, s);
        if (stats->kernels_failed > 0)
            ls_app_warn(r->app,
                        "warning: rank %d on %s: the self-test of %d kernel path%s failed, "
                        "computed with %s",
                        s, stats->host, stats->kernels_failed,
                        stats->kernels_failed == 1 ? "" : "s", stats->kernels);
    }
}

static void warn_of_missing(const struct lead *r, ls_status s)
{
    char text[LS_SESSION_TEXT];
    if (!s && ls_session_missing(r->session, text))
        ls_app_warn(r->app, "warning: %s, did not come to the end; no row is missing", text);
}

/* The last word on the run: the manifest, with exit code and error. */
static int conclude(const struct lead *r, int code, const char *error)
{
    struct ls_err err;
    const struct ls_manifest manifest = {
        .app = r->app,
        .wish = &r->wish,
        .model_name = r->model_name,
        .backend = ls_comm_backend_name(r->comm),
        .n_ranks = ls_comm_size(r->comm),
        .seed = ls_options_number(&r->app->options, LS_OPT_SEED),
        .session = r->session,
        .ran = r->ran,
        .counts = &r->counts,
        .digest = r->digest,
        .start_us = r->start_us,
        .ready_us = r->ready_us,
        .end_us = ls_now_us(),
        .exit_code = code,
        .error = error,
        .complete = code == LS_EXIT_GOOD || code == LS_EXIT_DIFFERENT,
    };
    const ls_status s = ls_manifest_write(&manifest, ls_job_folder(r->job), &err);
    if (s && !error) /* else the first failure was told, and is likely this one's cause */
        ls_app_fail(r->app, LS_EXIT_FAILED, &err);
    return s ? LS_EXIT_FAILED : code;
}

static int end_code(ls_status s, const struct ls_job_counts *counts)
{
    if (s == LS_E_REFUSED) /* a request line is not the one that the journal knows */
        return LS_EXIT_REFUSED;
    if (s)
        return s == LS_E_DRAINED ? LS_EXIT_DRAINED : LS_EXIT_FAILED;
    return counts->error_rows ? LS_EXIT_DIFFERENT : LS_EXIT_GOOD;
}

static int compute(struct lead *r)
{
    struct ls_err err = { .status = LS_OK }, late = { .status = LS_OK };
    struct ls_stop_client client;
    ls_stop_client_init(&client, ls_job_client(r->job), &r->limit);
    r->ran = true;
    r->ready_us = ls_now_us();
    ls_status s = ls_session_run(r->session, &client.client, &err);
    s = reason_to_end(r, s, &err);
    const ls_status finished = ls_job_finish(r->job, &r->counts, &late);
    if (!s && finished) {
        s = finished;
        err = late;
    }
    ls_job_digest(r->job, r->digest);
    warn_of_fallbacks(r);
    warn_of_missing(r, s);
    if (ls_trace_write(r->app, r->session, ls_options_text(&r->app->options, LS_OPT_TRACE),
                       &late))
        ls_app_warn(r->app, "warning: %s", late.text);
    if (s == LS_E_DRAINED)
        ls_app_warn(r->app, "%s; %llu rows are finished, the same command goes on", err.text,
                    (unsigned long long)r->counts.rows);
    else if (s)
        ls_app_warn(r->app, "%s", err.text);
    else if (r->counts.error_rows)
        ls_app_warn(r->app, "%llu of %llu rows are error rows",
                    (unsigned long long)r->counts.error_rows,
                    (unsigned long long)r->counts.rows);
    return conclude(r, end_code(s, &r->counts), s ? err.text : NULL);
}

static int lead(struct ls_app *app, struct ls_comm *comm, struct ls_chat_process *chat,
                struct ls_given_secret *given)
{
    void *memory = NULL;
    struct ls_err err;
    if (ls_alloc(&memory, sizeof(struct lead), "the run", &err)) {
        ls_session_cancel(comm);
        return ls_app_fail(app, LS_EXIT_REFUSED, &err);
    }
    struct lead *const r = memory;
    r->app = app;
    r->comm = comm;
    r->chat = chat;
    r->given = given;
    r->start_us = ls_now_us();
    int code = prepare(r);
    if (code != GO)
        ls_session_cancel(comm);
    else
        code = start(r);
    if (code == GO)
        code = compute(r);
    if (app->end_now || r->abandoned) {
        ls_job_destroy(r->abandoned ? NULL : r->job);
        return code;
    }
    ls_session_destroy(r->session);
    ls_job_destroy(r->job);
    ls_tokenizer_destroy(r->tokenizer);
    ls_certify_finish(&r->certify);
    ls_free(r);
    return code;
}

/* What ended the run is rank 0's to say, unless rank 0 itself is what is lost: then the lowest
 * of the others says it, and ends them before they speak. */
static int speak_for_rank_0(struct ls_app *app, const struct ls_comm *comm,
                            const struct ls_session *session, const struct ls_err *err)
{
    enum { TURN_US = 1300000 }; /* mpirun sends SIGTERM a second after a rank has died */
    char host[64] = "unknown";
    const bool lost = session ? ls_session_lost_rank(session) : ls_comm_lost(comm) == 0;
    if (!lost)
        return LS_EXIT_FAILED;
    if (!session) /* rank 0 may be saying it just now */
        sleep(1);
    usleep((useconds_t)(app->rank < 20 ? app->rank - 1 : 20) * TURN_US);
    app->end_now = true;
    const bool away = session && ls_session_was_away(session);
    if (away || (app->rank > 1 && *ls_stop_flag())) /* the launcher ends the job already */
        return LS_EXIT_FAILED;
    gethostname(host, sizeof host - 1);
    fprintf(stderr, "lockstep: rank %d on %s: %s\n", app->rank, host, err->text);
    return LS_EXIT_FAILED;
}

static int follow(struct ls_app *app, struct ls_comm *comm, struct ls_given_secret *given)
{
    struct ls_session *session = NULL;
    struct ls_link_wish link;
    struct ls_err err;
    ls_status s = ls_app_read_config(app, &err);
    if (!s) {
        ls_link_wish_of(&link, given, &app->options, &err);
    } else {
        link = (struct ls_link_wish){ .level = LS_LEVEL_SEALED, .status = s };
        snprintf(link.text, sizeof link.text, "%s", err.text);
    }
    s = ls_session_open(&session, comm, &link, &err);
    if (!s) {
        ls_session_set_hurry(session, ls_stop_flag());
        s = ls_session_start(session, NULL, &err);
    }
    if (!s)
        s = ls_session_run(session, NULL, &err);
    const int code =
        s && s != LS_E_DRAINED ? speak_for_rank_0(app, comm, session, &err) : LS_EXIT_GOOD;
    if (!app->end_now)
        ls_session_destroy(session);
    return code;
}

/* Only rank 0 has anything to do when the command line itself asks for no run. */
static bool asks_for_a_look(const struct ls_options *o)
{
    return ls_options_flag(o, LS_OPT_PRINT_CONFIG) || ls_options_flag(o, LS_OPT_DRY_RUN);
}

/* Between MPI's start and its end, both under a limit. */
static int run(struct ls_app *app, struct ls_chat_process *chat, struct ls_given_secret *given)
{
    struct ls_err err;
    struct ls_comm *comm = NULL;
    const uint64_t silence_s = ls_options_number(&app->options, LS_OPT_SILENCE);
    if (LS_FAULT(START, app->rank))
        return LS_EXIT_FAILED;
    ls_launch_limit("MPI has not started", silence_s ? (int)silence_s : START_LIMIT_S,
                    LS_EXIT_FAILED);
    const ls_status s = ls_comm_create(&comm, app->mpi ? LS_COMM_MPI : LS_COMM_SELF, &err);
    ls_launch_limit("", 0, 0);
    if (s)
        return ls_app_fail(app, LS_EXIT_REFUSED, &err);
    app->rank = ls_comm_rank(comm);
    const int code = app->rank == 0 ? lead(app, comm, chat, given) : follow(app, comm, given);
    if (app->end_now)
        return code;
    ls_launch_limit("MPI has not ended", END_LIMIT_S, app->rank == 0 ? code : LS_EXIT_FAILED);
    ls_comm_destroy(comm);
    ls_launch_limit("", 0, 0);
    return code;
}

int ls_cmd_run(struct ls_app *app)
{
    struct ls_chat_process chat = { 0 };
    struct ls_given_secret given;
    if (asks_for_a_look(&app->options))
        return app->rank == 0 ? ls_cmd_plan(app) : LS_EXIT_GOOD;
    if (app->rank == 0)
        ls_chat_fork(&chat);
    ls_secret_take_fd(&given, &app->options);
    ls_stop_catch();
    const int code = run(app, &chat, &given);
    ls_secret_destroy(given.secret);
    ls_chat_end(&chat);
    return code;
}
