/* selftest and version: what this program and this CPU are. */
#include "app/app.h"
#include "kernels/kernels.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <mpi.h>
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

int ls_cmd_selftest(struct ls_app *app)
{
    const struct ls_options *const o = &app->options;
    const int last = ls_options_is_set(o, LS_OPT_CPU) ? (int)ls_options_number(o, LS_OPT_CPU)
                                                      : LS_N_CPU_PATHS - 1;
    bool wrong = false;
    if (ls_options_is_set(o, LS_OPT_CPU) && !ls_kernels_of((enum ls_cpu_path)last)) {
        ls_app_warn(app, "--cpu %s: this CPU lacks it", ls_options_text(o, LS_OPT_CPU));
        return LS_EXIT_REFUSED;
    }
    for (int path = 0; path <= last; path++)
        wrong = test_path((enum ls_cpu_path)path) || wrong;
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
