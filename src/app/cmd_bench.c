/* bench: how fast this machine, the kernels, a model, a job, a pipeline and its links are. */
#include "app/app.h"
#include "app/bench_link.h"
#include "app/bench_runs.h"
#include "app/model_folder.h"
#include "bench/kernels.h"
#include "bench/model.h"
#include "bench/text.h"
#include "model/weights.h"
#include "pipeline/machine.h"
#include "pipeline/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum part {
    PART_MACHINE,
    PART_KERNELS,
    PART_MODEL,
    PART_JOB,
    PART_PIPELINE,
    PART_LINK,
    N_PARTS
};

static const char *const part_names[N_PARTS] = { "machine", "kernels",  "model",
                                                 "job",     "pipeline", "link" };

struct benching {
    struct ls_app *app;
    bool wanted[N_PARTS];
    bool only_link;
    int threads;
    enum ls_cpu_path highest; /* kernel path */
    double seconds;
    struct ls_results results;
    struct ls_team *teams[2]; /* one thread, and all */
    struct ls_peaks peaks[2];
    char folder[4096]; /* of the model; empty: none */
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
};

static ls_status check_link(const struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    const uint64_t frame = ls_options_number(o, LS_OPT_FRAME);
    if (frame % LS_FRAME_UNIT)
        return ls_fail(err, LS_E_USAGE, "--frame %" PRIu64 ": expected a multiple of %d", frame,
                       LS_FRAME_UNIT);
    if (x->app->mpi && !x->only_link)
        return ls_fail(
            err, LS_E_USAGE,
            "bench link: between ranks that a launcher started it is measured alone");
    if (!x->app->mpi && ls_options_number(o, LS_OPT_RANKS) < 2)
        return ls_fail(err, LS_E_USAGE, "bench link: --ranks 1: one rank has no link");
    if (!x->app->mpi && ls_options_is_set(o, LS_OPT_SECRET_FD))
        return ls_fail(err, LS_E_USAGE,
                       "bench link: --secret-fd is for ranks that a launcher started; use "
                       "--secret-file");
    return LS_OK;
}

static ls_status read_parts(struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    for (int i = 0; i < o->n_operands; i++) {
        int p = 0;
        while (p < N_PARTS && strcmp(part_names[p], o->operands[i]) != 0)
            p++;
        if (p == N_PARTS)
            return ls_fail(err, LS_E_USAGE,
                           "bench %s: no such part; there are machine, kernels, model, job, "
                           "pipeline and link",
                           o->operands[i]);
        x->wanted[p] = true;
    }
    if (o->n_operands == 0)
        x->wanted[PART_MACHINE] = x->wanted[PART_KERNELS] = true;
    x->only_link = x->wanted[PART_LINK] && o->n_operands == 1;
    if (x->wanted[PART_LINK] && !x->only_link && x->app->mpi)
        return ls_fail(
            err, LS_E_USAGE,
            "bench link: between ranks that a launcher started it is measured alone");
    const ls_status s = x->wanted[PART_LINK] ? check_link(x, err) : LS_OK;
    if (s)
        return s;
    const bool needs_model =
        x->wanted[PART_MODEL] || x->wanted[PART_JOB] || x->wanted[PART_PIPELINE];
    if (needs_model && !ls_options_is_set(o, LS_OPT_MODEL))
        return ls_fail(err, LS_E_USAGE, "bench model, job and pipeline need --model");
    return LS_OK;
}

static ls_status read_settings(struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    uint64_t cpus[LS_CPU_WORDS];
    x->threads = ls_options_is_set(o, LS_OPT_THREADS)
                     ? (int)ls_options_number(o, LS_OPT_THREADS)
                     : ls_machine_cpus(cpus);
    x->highest = LS_N_CPU_PATHS - 1;
    x->seconds = ls_options_real(o, LS_OPT_SECONDS);
    if (!ls_options_is_set(o, LS_OPT_CPU))
        return LS_OK;
    x->highest = (enum ls_cpu_path)ls_options_number(o, LS_OPT_CPU);
    return ls_kernels_of(x->highest) ? LS_OK
                                     : ls_fail(err, LS_E_REFUSED, "--cpu %s: this CPU lacks it",
                                               ls_options_text(o, LS_OPT_CPU));
}

static ls_status open_model(struct benching *x, struct ls_err *err)
{
    const struct ls_arch_wish wish = { .context = 0 };
    const char *const name = ls_options_text(&x->app->options, LS_OPT_MODEL);
    if (!name)
        return LS_OK;
    ls_status s = ls_model_folder(x->folder, sizeof x->folder, name, err);
    if (!s)
        s = ls_arch_load(&x->arch, x->folder, &wish, &x->arena, err);
    if (!s)
        s = ls_checkpoint_open(&x->ckpt, x->folder, err);
    return s ? s : ls_weights_check(&x->arch, x->ckpt, &(size_t){ 0 }, NULL, err);
}

static ls_status open_results(struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    const char *const former = ls_options_text(o, LS_OPT_COMPARE);
    const bool json = ls_options_flag(o, LS_OPT_JSON);
    const bool silent = json || x->app->rank != 0;
    ls_status s = ls_results_init(&x->results, silent ? NULL : stdout, err);
    if (!s && former)
        s = ls_results_compare(&x->results, former, err);
    if (s)
        return s;
    x->results.match = ls_options_text(o, LS_OPT_MATCH);
    x->results.by_cpu_time = ls_options_flag(o, LS_OPT_CPU_TIME);
    ls_results_machine(&x->results, ls_machine_json());
    if (!silent)
        ls_machine_print(stdout);
    return LS_OK;
}

/* --- the parts -------------------------------------------------------------------------------
 */

/* Everything else is set beside these peaks, so they are always measured. */
static ls_status measure_machine(struct benching *x, struct ls_err *err)
{
    for (int i = 0; i < 2; i++) {
        ls_status s = ls_team_create(&x->teams[i], i ? x->threads : 1, err);
        if (!s)
            s = ls_peaks_measure(&x->peaks[i], x->teams[i], x->seconds, &x->results, err);
        if (s || x->threads == 1)
            return s;
    }
    return LS_OK;
}

static ls_status measure_table(struct benching *x, const struct ls_kernels *table,
                               struct ls_err *err)
{
    ls_status s = LS_OK;
    for (int i = 0; !s && i < 2 && x->teams[i]; i++) {
        const struct ls_kernel_bench b = { table, &x->peaks[i], x->teams[i], x->seconds,
                                           &x->results };
        s = ls_bench_products(&b, err);
        if (!s)
            s = ls_bench_attention(&b, err);
        if (!s)
            s = ls_bench_rows(&b, err);
    }
    return s;
}

/* Every table but the reference, or those of --cpu. */
static ls_status measure_kernels(struct benching *x, struct ls_err *err)
{
    const bool one = ls_options_is_set(&x->app->options, LS_OPT_CPU);
    const struct ls_kernels *table;
    enum ls_cpu_path path;
    ls_status s = LS_OK;
    for (int i = 0; !s && (table = ls_kernels_at(i, &path)); i++)
        if (one ? path == x->highest : path != LS_CPU_REF)
            s = measure_table(x, table, err);
    return s;
}

static ls_status measure_model(struct benching *x, struct ls_err *err)
{
    ls_status s = LS_OK;
    int n_failed = 0;
    for (int i = 0; !s && i < 2 && x->teams[i]; i++) {
        const struct ls_model_bench b = { .arch = &x->arch,
                                          .ckpt = x->ckpt,
                                          .kernels = ls_kernels_choose(x->highest, &n_failed),
                                          .peaks = &x->peaks[i],
                                          .n_threads = ls_team_size(x->teams[i]),
                                          .seconds = x->seconds,
                                          .results = &x->results };
        s = ls_bench_model(&b, err);
    }
    return s;
}

/* Of text first: a folder without a tokenizer has none to measure. */
static ls_status measure_job(struct benching *x, const struct ls_run_bench *runs,
                             struct ls_err *err)
{
    struct ls_tokenizer *tok = NULL;
    ls_status s = ls_model_tokenizer(&tok, x->folder, err);
    if (!s && tok)
        s = ls_bench_text(&x->results, tok, x->seconds, err);
    else if (!s)
        ls_app_warn(x->app, "%s: no tokenizer.json, so no text is measured", x->folder);
    ls_tokenizer_destroy(tok);
    return s ? s : ls_bench_job(runs, err);
}

/* Ranks above 0 come here for nothing else. */
static ls_status measure_link(struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    const struct ls_link_bench b = { .app = x->app,
                                     .ranks = (int)ls_options_number(o, LS_OPT_RANKS),
                                     .threads =
                                         ls_options_is_set(o, LS_OPT_THREADS) ? x->threads : 1,
                                     .repeats = (int)ls_options_number(o, LS_OPT_REPEATS),
                                     .seconds = x->seconds,
                                     .results = &x->results };
    bool quiet = false;
    if (!x->app->mpi)
        return ls_bench_link_start(&b, err);
    const ls_status s = ls_bench_link(&b, &quiet, err);
    if (s && !quiet)
        x->app->rank = 0; /* nobody else knows of it */
    return s;
}

static ls_status measure(struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    const struct ls_run_bench runs = { .app = x->app,
                                       .model = x->folder,
                                       .vocab = x->arch.vocab,
                                       .threads = x->threads,
                                       .ranks = (int)ls_options_number(o, LS_OPT_RANKS),
                                       .repeats = (int)ls_options_number(o, LS_OPT_REPEATS),
                                       .results = &x->results };
    ls_status s = x->only_link ? LS_OK : measure_machine(x, err);
    if (!s && x->wanted[PART_KERNELS])
        s = measure_kernels(x, err);
    if (!s && x->wanted[PART_MODEL])
        s = measure_model(x, err);
    if (!s && x->wanted[PART_JOB])
        s = measure_job(x, &runs, err);
    if (!s && x->wanted[PART_PIPELINE])
        s = ls_bench_pipeline(&runs, err);
    if (!s && x->wanted[PART_LINK])
        s = measure_link(x, err);
    return s;
}

static ls_status write_results(const struct benching *x, struct ls_err *err)
{
    const struct ls_options *const o = &x->app->options;
    const char *const save = ls_options_text(o, LS_OPT_SAVE);
    ls_status s = save ? ls_results_write(&x->results, save, err) : LS_OK;
    if (!s && ls_options_flag(o, LS_OPT_JSON))
        s = ls_results_write(&x->results, NULL, err);
    return s;
}

int ls_cmd_bench(struct ls_app *app)
{
    struct ls_err err;
    struct benching x = { .app = app };
    ls_arena_init(&x.arena);
    ls_status s = read_parts(&x, &err);
    if (app->rank != 0 && !x.only_link) /* all else is one process's */
        return LS_EXIT_GOOD;
    if (!s)
        s = read_settings(&x, &err);
    if (!s)
        s = open_model(&x, &err);
    if (!s)
        s = open_results(&x, &err);
    int code = s ? ls_app_fail(app, ls_app_code_before_start(s), &err) : LS_EXIT_GOOD;
    if (!s)
        s = measure(&x, &err);
    if (!s && app->rank == 0)
        s = write_results(&x, &err);
    if (s && code == LS_EXIT_GOOD)
        code = ls_app_fail(app, LS_EXIT_FAILED, &err);
    for (int i = 0; i < 2; i++)
        ls_team_destroy(x.teams[i]);
    ls_results_finish(&x.results);
    ls_checkpoint_close(x.ckpt);
    ls_arena_finish(&x.arena);
    return code;
}
