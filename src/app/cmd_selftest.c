/* selftest and version: what this program and this CPU are, and whether they compute what they
 * must. */
#include "app/app.h"
#include "app/model_folder.h"
#include "kernels/kernels.h"
#include "parity/selftest.h"
#include "pipeline/plan.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <mpi.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* One path; true when it gives wrong bits. */
static bool test_path(enum ls_cpu_path path)
{
    const struct ls_kernels *const k = ls_kernels_of(path);
    if (!k) {
        printf("%-8s not on this CPU\n", ls_cpu_path_name(path));
        return false;
    }
    const unsigned saved = ls_fp_enter();
    const bool flushing = ls_fp_is_flushing();
    const char *const wrong = ls_kernels_selftest(k);
    ls_fp_leave(saved);
    if (!flushing)
        printf("%-8s FAILED: denormals are not flushed (%s)\n", ls_cpu_path_name(path),
               k->name);
    else if (wrong)
        printf("%-8s FAILED: %s gives other bits (%s)\n", ls_cpu_path_name(path), wrong,
               k->name);
    else
        printf("%-8s good (%s)\n", ls_cpu_path_name(path), k->name);
    return !flushing || wrong;
}

/* --- a model ---------------------------------------------------------------------------------
 */

static int threads_of(const struct ls_options *o)
{
    cpu_set_t cores;
    if (ls_options_is_set(o, LS_OPT_THREADS))
        return (int)ls_options_number(o, LS_OPT_THREADS);
    return sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
}

/* Prints a verdict for each part; *wrong when one is bad. */
static ls_status try_model(const struct ls_replay_model *model, const struct ls_options *o,
                           const struct ls_kernels *kernels, bool *wrong, struct ls_err *err)
{
    struct ls_selftest_verdict verdicts[LS_N_SELFTEST_PARTS];
    const ls_status s = ls_selftest_model(model, kernels, threads_of(o), verdicts, err);
    for (int i = 0; !s && i < LS_N_SELFTEST_PARTS; i++) {
        printf("%-10s %s (%s)\n", ls_selftest_name((enum ls_selftest_part)i),
               verdicts[i].good ? "good" : "FAILED", verdicts[i].text);
        *wrong = *wrong || !verdicts[i].good;
    }
    return s;
}

static ls_status test_model(const struct ls_options *o, enum ls_cpu_path path, bool *wrong,
                            struct ls_err *err)
{
    char folder[LS_MAX_PATH];
    int n_failed;
    struct ls_replay_model model;
    const struct ls_arch_wish wish = { .f32_activations =
                                           ls_options_number(o, LS_OPT_DTYPE) == 1 };
    const unsigned saved = ls_fp_enter();
    const struct ls_kernels *const kernels = ls_kernels_choose(path, &n_failed);
    ls_fp_leave(saved);
    ls_status s = ls_model_folder(folder, sizeof folder, ls_options_text(o, LS_OPT_MODEL), err);
    if (s)
        return s;
    s = ls_replay_model_open(&model, folder, &wish, err);
    if (!s)
        s = try_model(&model, o, kernels, wrong, err);
    ls_replay_model_finish(&model);
    return s;
}

int ls_cmd_selftest(struct ls_app *app)
{
    struct ls_err err;
    const struct ls_options *const o = &app->options;
    const int last = ls_options_is_set(o, LS_OPT_CPU) ? (int)ls_options_number(o, LS_OPT_CPU)
                                                      : LS_N_CPU_PATHS - 1;
    bool wrong = false;
    if (ls_options_check(o, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    if (ls_options_is_set(o, LS_OPT_CPU) && !ls_kernels_of((enum ls_cpu_path)last)) {
        ls_app_warn(app, "--cpu %s: this CPU lacks it", ls_options_text(o, LS_OPT_CPU));
        return LS_EXIT_REFUSED;
    }
    for (int path = 0; path <= last; path++)
        wrong = test_path((enum ls_cpu_path)path) || wrong;
    /* with wrong kernels there is nothing to learn from a model */
    if (!wrong && ls_options_is_set(o, LS_OPT_MODEL)) {
        const ls_status s = test_model(o, (enum ls_cpu_path)last, &wrong, &err);
        if (s)
            return ls_app_fail(app, ls_app_code_before_start(s), &err);
    }
    printf("%s\n", wrong ? "FAILED: this machine does not compute what it must" : "all good");
    return wrong ? LS_EXIT_FAILED : LS_EXIT_GOOD;
}

int ls_cmd_version(struct ls_app *app)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    if (app->rank != 0)
        return LS_EXIT_GOOD;
    MPI_Get_library_version(mpi, &n);
    mpi[sizeof mpi - 1] = 0;
    for (char *p = mpi; *p; p++)
        if (*p == ',' || *p == '\n') {
            *p = 0;
            break;
        }
    printf("lockstep %s\nprofile exact-1, compiled by %s\n%s; glibc %s; libsodium %s; jansson "
           "%s\n",
           LS_VERSION, COMPILER, mpi, gnu_get_libc_version(), sodium_version_string(),
           jansson_version_str());
    return LS_EXIT_GOOD;
}
