/* parity: one sweep of arms against a reference; its other modes are parity_locate.h's. */
#include "app/app.h"
#include "app/parity_locate.h"
#include "app/stop.h"
#include "app/sweep_locate.h"
#include "app/sweep_page.h"
#include "app/sweep_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the table on standard output ------------------------------------------------------------
 */

static void print_head(const struct ls_sweep *sweep)
{
    printf("%s: %zu arms against '%s'\n", sweep->name, sweep->n - 1, sweep->arms[0].name);
    printf("%-40s %5s %-10s %15s %10s %9s %7s %7s\n", "arm", "ranks", "result", "rows differ",
           "max ulp", "mean KL", "top-1", "seconds");
    fflush(stdout);
}

static void print_comparison(const json_t *c)
{
    char rows[48], ulp[24] = "-", kl[24] = "-", top[24] = "-";
    const json_t *const mean = json_object_get(json_object_get(c, "kl"), "mean");
    const json_t *const max_ulp = json_object_get(c, "max_ulp");
    const json_t *const top1 = json_object_get(c, "top1_agreement");
    snprintf(rows, sizeof rows, "%" PRId64 "/%" PRId64,
             (int64_t)json_integer_value(json_object_get(c, "rows_different")),
             (int64_t)json_integer_value(json_object_get(c, "rows")));
    if (json_is_integer(max_ulp))
        snprintf(ulp, sizeof ulp, "%" PRId64, (int64_t)json_integer_value(max_ulp));
    if (json_is_number(mean))
        snprintf(kl, sizeof kl, "%.2e", json_number_value(mean));
    if (json_is_number(top1))
        snprintf(top, sizeof top, "%.4f", json_number_value(top1));
    printf(" %15s %10s %9s %7s", rows, ulp, kl, top);
}

/* A line for each phase that the arm has, the name on the first one. */
static void print_arm(void *arg, const struct ls_sweep_run *run, size_t arm)
{
    const struct ls_arm *const a = &run->sweep->arms[arm];
    const struct ls_outcome *const o = &run->outcomes[arm];
    bool first = true;
    (void)arg;
    if (o->reason)
        printf("%-40s %5d %-10s %s\n", a->name, a->ranks, "failed", o->reason);
    for (int p = 0; arm && !o->reason && p < LS_N_PHASES; p++) {
        const json_t *const c = o->comparison[p];
        if (!c)
            continue;
        const bool equal = json_is_true(json_object_get(c, "equal"));
        printf("%-40s ", first ? a->name : "");
        printf("%5d %-10s", a->ranks, equal ? "equal" : "DIFFERENT");
        print_comparison(c);
        printf(" %7.2f  %s\n", json_number_value(json_object_get(run->facts[p][arm], "wall_s")),
               ls_phase_name((enum ls_phase)p));
        first = false;
    }
    fflush(stdout);
}

/* --- the files -------------------------------------------------------------------------------
 */

static json_t *timings_of(const struct ls_sweep_run *run)
{
    json_t *const arms = json_array();
    for (size_t i = 0; i < run->sweep->n; i++) {
        json_t *const arm = json_pack("{s:s}", "name", run->sweep->arms[i].name);
        for (int p = 0; p < LS_N_PHASES; p++)
            json_object_set_new(arm, ls_phase_name((enum ls_phase)p),
                                run->facts[p][i] ? json_incref(run->facts[p][i]) : json_null());
        json_array_append_new(arms, arm);
    }
    return json_pack("{s:s, s:s, s:o}", "format", "lockstep-parity-timings-1", "config",
                     run->sweep->path, "arms", arms);
}

static ls_status write_junit(const struct ls_sweep_run *run, const struct ls_report *report,
                             struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    double *const seconds = calloc(run->sweep->n, sizeof *seconds);
    for (size_t i = 0; seconds && i < run->sweep->n; i++)
        seconds[i] = ls_sweep_seconds(run, i);
    char *const text = seconds ? ls_report_junit(report, seconds) : NULL;
    ls_sweep_file(&run->folder, path, "junit.xml");
    const ls_status s = text ? ls_write_whole(path, text, strlen(text), err)
                             : ls_fail(err, LS_E_MEMORY, "%s: no memory to write it", path);
    free(text);
    free(seconds);
    return s;
}

static ls_status write_files(const struct ls_sweep_run *run, const char *digest,
                             struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    const struct ls_report report = { .sweep = run->sweep,
                                      .version = LS_VERSION,
                                      .prompts_digest = digest,
                                      .n_requests = run->truth.n_requests,
                                      .model = run->model,
                                      .outcomes = run->outcomes };
    json_t *const json = ls_report_json(&report), *const timings = timings_of(run);
    ls_status s =
        ls_write_json(ls_sweep_file(&run->folder, path, "timings.json"), timings, err);
    if (!s)
        s = write_junit(run, &report, err);
    if (!s)
        s = ls_write_json(ls_sweep_file(&run->folder, path, "report.json"), json, err);
    json_decref(json);
    json_decref(timings);
    if (!s)
        s = ls_sweep_page(run->folder.path, ls_sweep_file(&run->folder, path, "report.html"),
                          err);
    return s;
}

/* --- the command -----------------------------------------------------------------------------
 */

static int verdict(const struct ls_sweep_run *run)
{
    size_t counts[3] = { 0 };
    for (size_t i = 1; i < run->sweep->n; i++)
        counts[ls_outcome_status(&run->outcomes[i])]++;
    printf("%s: %zu of %zu arms equal, %zu different, %zu failed; %s/report.html\n",
           run->sweep->name, counts[LS_ARM_EQUAL], run->sweep->n - 1, counts[LS_ARM_DIFFERENT],
           counts[LS_ARM_FAILED], run->folder.path);
    if (counts[LS_ARM_FAILED])
        return LS_EXIT_ARMS_FAILED;
    return counts[LS_ARM_DIFFERENT] ? LS_EXIT_DIFFERENT : LS_EXIT_GOOD;
}

static enum ls_exit code_while_running(ls_status s)
{
    if (s == LS_E_DRAINED)
        return LS_EXIT_DRAINED;
    return s == LS_E_USAGE ? LS_EXIT_USAGE : LS_EXIT_FAILED;
}

static int sweep_all(const struct ls_app *app, struct ls_sweep_run *run, const char *digest)
{
    struct ls_err err;
    print_head(run->sweep);
    ls_status s = ls_sweep_run_all(run, &err);
    if (!s)
        s = ls_sweep_locate(run, &err);
    if (!s)
        s = write_files(run, digest, &err);
    return s ? ls_app_fail(app, code_while_running(s), &err) : verdict(run);
}

static int open_and_sweep(const struct ls_app *app, const struct ls_sweep *sweep,
                          const json_t *identity, const char *program)
{
    struct ls_err err;
    struct ls_sweep_run run = { .tell = print_arm };
    const struct ls_options *const o = &app->options;
    const char *const given = ls_options_text(o, LS_OPT_OUTPUT);
    const char *const output = given ? given : sweep->output;
    if (!output) {
        ls_fail(&err, LS_E_USAGE, "no output: neither --output nor a line in %s", sweep->path);
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    }
    ls_status s = ls_sweep_truth_open(&run.truth, &sweep->arms[0], &err);
    if (s)
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    s = ls_sweep_folder_open(&run.folder, output, identity, ls_options_flag(o, LS_OPT_FRESH),
                             &err);
    if (s) {
        ls_sweep_truth_finish(&run.truth);
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    }
    s = ls_sweep_run_init(&run, sweep, program, &err);
    const int code =
        s ? ls_app_fail(app, LS_EXIT_FAILED, &err)
          : sweep_all(app, &run, json_string_value(json_object_get(identity, "prompts")));
    ls_sweep_run_finish(&run);
    ls_sweep_folder_close(&run.folder);
    ls_sweep_truth_finish(&run.truth);
    return code;
}

/* The path of this program, for its own children. */
static ls_status own_path(char *out, size_t size, struct ls_err *err)
{
    const ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0)
        return ls_fail(err, LS_E_IO, "the path of this program is not known");
    out[n] = 0;
    return LS_OK;
}

static int run_sweep(struct ls_app *app)
{
    struct ls_err err;
    struct ls_sweep sweep;
    char program[4096];
    json_t *identity = NULL;
    const struct ls_options *const o = &app->options;
    const struct ls_sweep_rules rules = { .set = &ls_table, .command = LS_CMD_RUN };
    ls_status s = LS_OK;
    if (app->mpi)
        s = ls_fail(&err, LS_E_USAGE,
                    "parity starts its arms itself and is no rank of a job: start it without "
                    "mpirun or srun");
    if (!s)
        s = ls_sweep_read(&sweep, ls_options_text(o, LS_OPT_CONFIG), &rules, &err);
    if (s)
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    s = own_path(program, sizeof program, &err);
    if (!s)
        s = ls_sweep_identity(&identity, &sweep, program, &err);
    ls_stop_catch();
    const int code = s ? ls_app_fail(app, LS_EXIT_USAGE, &err)
                       : open_and_sweep(app, &sweep, identity, program);
    json_decref(identity);
    ls_sweep_finish(&sweep);
    return code;
}

/* Options of the other modes would be left out by a sweep, and those of a sweep by them. */
static ls_status check_mode(const struct ls_options *o, struct ls_err *err)
{
    static const int modes[] = { LS_OPT_CONFIG, LS_OPT_LOCATE, LS_OPT_TAP };
    static const int of_arms[] = { LS_OPT_MODEL,   LS_OPT_INPUT,   LS_OPT_DTYPE, LS_OPT_CPU,
                                   LS_OPT_THREADS, LS_OPT_CONTEXT, LS_OPT_JSON };
    const bool sweeps = ls_options_is_set(o, LS_OPT_CONFIG);
    int n = 0, other = -1;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        n += o->values[modes[i]].source > LS_FROM_DEFAULT;
    if (n != 1)
        return ls_fail(err, LS_E_USAGE, "parity: give one of --config, --locate and --tap");
    for (size_t i = 0; sweeps && i < sizeof of_arms / sizeof *of_arms; i++)
        if (o->values[of_arms[i]].source > LS_FROM_DEFAULT)
            other = of_arms[i];
    for (int i = LS_OPT_AGAINST_MODEL; sweeps && i < LS_N_OPTS; i++)
        if (o->values[i].source > LS_FROM_DEFAULT)
            other = i;
    if (!sweeps && ls_options_flag(o, LS_OPT_FRESH))
        other = LS_OPT_FRESH;
    if (other < 0)
        return LS_OK;
    return ls_fail(err, LS_E_USAGE, "parity: --%s does not go with --%s",
                   ls_option_at(o->set, other)->name,
                   sweeps                              ? "config"
                   : ls_options_flag(o, LS_OPT_LOCATE) ? "locate"
                                                       : "tap");
}

int ls_cmd_parity(struct ls_app *app)
{
    struct ls_err err;
    const struct ls_options *const o = &app->options;
    ls_status s = ls_options_check(o, &err);
    if (!s)
        s = check_mode(o, &err);
    if (s)
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    if (ls_options_is_set(o, LS_OPT_CONFIG))
        return run_sweep(app);
    return ls_options_flag(o, LS_OPT_LOCATE) ? ls_parity_locate(app) : ls_parity_tap(app);
}
