/* plan, and run --dry-run: what every rank would get, from headers alone. */
#include "app/app.h"
#include "app/chat_process.h"
#include "app/nodes.h"
#include "app/plan_view.h"
#include "app/predict.h"
#include "app/provenance.h"
#include "app/wish.h"
#include "base/alloc.h"
#include "model/weights.h"
#include "pipeline/report.h"

#include <stdio.h>
#include <unistd.h>

struct planning {
    struct ls_run_wish wish;
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    size_t n_unused; /* tensors of it */
    const char *first_unused;
    struct ls_plan plan, other; /* other: with more replicas */
    struct ls_rank_report reports[LS_MAX_STAGES];
    struct ls_prediction prediction;
    struct ls_chat_process *chat;
};

static ls_status open_model(struct planning *p, struct ls_err *err)
{
    const struct ls_arch_wish arch_wish = { .f32_activations = p->wish.f32_activations,
                                            .context = p->wish.context };
    ls_status s = ls_arch_load(&p->arch, p->wish.model, &arch_wish, &p->arena, err);
    if (!s)
        s = ls_checkpoint_open(&p->ckpt, p->wish.model, err);
    return s ? s : ls_weights_check(&p->arch, p->ckpt, &p->n_unused, &p->first_unused, err);
}

/* n ranks that all look like this one and share this machine. */
static ls_status report_here(struct planning *p, int n, struct ls_err *err)
{
    void *memory = NULL;
    char host[LS_MAX_HOST] = "this host";
    ls_status s =
        ls_alloc(&memory, (uint64_t)n * sizeof(struct ls_rank_view), "rank views", err);
    if (s)
        return s;
    struct ls_rank_view *const views = memory;
    gethostname(host, sizeof host - 1);
    ls_view_look(&views[0], host, p->ckpt, 0);
    for (int i = 1; i < n; i++)
        views[i] = views[0];
    ls_views_share(views, n, p->reports);
    ls_free(memory);
    return LS_OK;
}

/* The plan for n ranks here; or for those of the nodes' file, n of them unless it is 0. */
static ls_status form(struct planning *p, int n, const char *nodes, struct ls_err *err)
{
    int n_there = n;
    ls_status s =
        nodes ? ls_nodes_read(p->reports, &n_there, nodes, err) : report_here(p, n, err);
    if (!s && nodes && n > n_there)
        s = ls_fail(err, LS_E_USAGE, "%d ranks are wanted, the nodes have %d", n, n_there);
    if (!s && n == 0)
        n = n_there;
    return s ? s : ls_plan_form(&p->plan, &p->arch, p->ckpt, &p->wish, p->reports, n, err);
}

static ls_status print_json(const struct ls_app *app, const struct planning *p,
                            struct ls_err *err)
{
    json_t *const json = ls_plan_to_json(&p->plan, &p->arch);
    if (!json || json_object_set_new(json, "made_by", ls_provenance_json(app)) ||
        json_object_set_new(json, "prediction", ls_prediction_to_json(&p->prediction))) {
        json_decref(json);
        return ls_fail(err, LS_E_MEMORY, "no memory for the plan's JSON");
    }
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
    return LS_OK;
}

/* What the message library takes in a process with others: as measured with Open MPI 4.1. */
enum { LAUNCHED_BYTES = 11400 << 10 };

static ls_status predict(const struct ls_app *app, struct planning *p, struct ls_err *err)
{
    const struct ls_options *const o = &app->options;
    char now[LS_CHAT_TIME];
    ls_status s = ls_chat_time_of(now, o, err);
    if (!s)
        s = ls_chat_set(p->chat, p->wish.model, ls_options_text(o, LS_OPT_CHAT_TEMPLATE), now,
                        err);
    if (s)
        return s;
    const bool launched = app->launched > 0 || ls_plan_n_ranks(&p->plan) > 1;
    const struct ls_predict_terms terms = { .options = o,
                                            .chat = &p->chat->chat,
                                            .wish = &p->wish,
                                            .plan = &p->plan,
                                            .arch = &p->arch,
                                            .ckpt = p->ckpt,
                                            .base_bytes = ls_machine_use().now_bytes +
                                                          (launched ? LAUNCHED_BYTES : 0) };
    return ls_predict(&p->prediction, &terms, err);
}

/* A dry run under a launcher is about the ranks that were started. */
static int n_ranks(const struct ls_app *app, const struct planning *p)
{
    const bool started = app->launched > 0 && ls_options_flag(&app->options, LS_OPT_DRY_RUN);
    int n_ranges = p->wish.layers[0] != 0;
    const int replicas = p->wish.replicas > 0 ? p->wish.replicas : 1;
    if (p->wish.stages)
        return p->wish.stages * replicas;
    for (const char *c = p->wish.layers; *c; c++)
        n_ranges += *c == ',';
    if (n_ranges && !started)
        return n_ranges * replicas;
    return app->launched > 0 ? app->launched : replicas;
}

/* Of the nodes' ranks; 0: all. */
static int n_wanted(const struct ls_run_wish *wish)
{
    return wish->replicas > 0 ? wish->stages * wish->replicas : 0;
}

/* Pipelines that need no cut, or fewer, make more of the same ranks. */
static void advise_replicas(struct planning *p, FILE *out)
{
    struct ls_run_wish wish = p->wish;
    struct ls_err err;
    const int n_stages = p->plan.n_stages, n = ls_plan_n_ranks(&p->plan);
    wish.replicas = LS_REPLICAS_AUTO;
    wish.stages = 0;
    wish.layers[0] = '\0';
    if (p->wish.replicas == LS_REPLICAS_AUTO || n_stages == 1 ||
        ls_plan_form(&p->other, &p->arch, p->ckpt, &wish, p->reports, n, &err) ||
        p->other.n_stages >= n_stages)
        return;
    fprintf(out,
            "\n--replicas %d would be faster: memory holds %d pipelines of %d stage%s, which "
            "wait for each other less\n",
            p->other.n_replicas, p->other.n_replicas, p->other.n_stages,
            p->other.n_stages == 1 ? "" : "s");
}

static int plan(struct ls_app *app, struct planning *p)
{
    struct ls_err err;
    const char *const nodes = ls_options_text(&app->options, LS_OPT_NODES);
    ls_status s = ls_wish_of(&p->wish, &app->options, &err);
    if (s)
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    s = open_model(p, &err);
    if (!s)
        s = form(p, nodes ? n_wanted(&p->wish) : n_ranks(app, p), nodes, &err);
    if (!s)
        s = predict(app, p, &err);
    if (!s)
        ls_app_warn_of_unused(app, p->n_unused, p->first_unused);
    if (!s && ls_options_flag(&app->options, LS_OPT_JSON))
        s = print_json(app, p, &err);
    else if (!s) {
        ls_plan_print(&p->plan, &p->arch, stdout);
        ls_prediction_print(&p->prediction, stdout);
        advise_replicas(p, stdout);
    }
    return s ? ls_app_fail(app, s == LS_E_USAGE ? LS_EXIT_USAGE : LS_EXIT_REFUSED, &err)
             : LS_EXIT_GOOD;
}

int ls_plan_command(struct ls_app *app, struct ls_chat_process *chat)
{
    void *memory = NULL;
    struct ls_err err;
    if (ls_alloc(&memory, sizeof(struct planning), "a plan", &err))
        return ls_app_fail(app, LS_EXIT_REFUSED, &err);
    struct planning *const p = memory;
    ls_arena_init(&p->arena);
    p->chat = chat;
    const int code = plan(app, p);
    ls_prediction_finish(&p->prediction);
    ls_checkpoint_close(p->ckpt);
    ls_arena_finish(&p->arena);
    ls_free(p);
    return code;
}

int ls_cmd_plan(struct ls_app *app)
{
    struct ls_err err;
    bool done;
    if (ls_app_configure(app, &done, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    if (done)
        return LS_EXIT_GOOD;
    struct ls_chat_process chat;
    ls_chat_fork(&chat);
    const int code = ls_plan_command(app, &chat);
    ls_chat_end(&chat);
    return code;
}
