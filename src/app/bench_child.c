#include "app/bench_child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- the folder ------------------------------------------------------------------------------
 */

static ls_status write_requests(const char *path, int n, int prompt, int n_new, int vocab,
                                struct ls_err *err)
{
    FILE *const f = fopen(path, "we");
    uint32_t x = 1;
    if (!f)
        return ls_fail(err, LS_E_IO, "%s: cannot be written: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        fputs("{\"tokens\":[", f);
        for (int t = 0; t < prompt; t++) {
            x = x * 1664525u + 1013904223u;
            fprintf(f, t ? ",%u" : "%u", (x >> 8) % (uint32_t)vocab);
        }
        fprintf(f, "],\"max_tokens\":%d,\"ignore_eos\":true,\"temperature\":0}\n", n_new);
    }
    return fclose(f) ? ls_fail(err, LS_E_IO, "%s: cannot be written: %s", path, strerror(errno))
                     : LS_OK;
}

ls_status ls_bench_folder_make(struct ls_bench_folder *f, const char *input, int n, int prompt,
                               int n_new, int vocab, struct ls_err *err)
{
    const char *const tmp = getenv("TMPDIR");
    *f = (struct ls_bench_folder){ .path = "" };
    char path[sizeof f->path];
    const int length =
        snprintf(path, sizeof path, "%s/lockstep-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (length >= (int)sizeof path || !mkdtemp(path))
        return ls_fail(err, LS_E_IO, "%s: no folder can be made there: %s", path,
                       strerror(errno));
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->output, sizeof f->output, "%s/out.jsonl", path);
    snprintf(f->input, sizeof f->input, "%s/in.jsonl", path);
    if (!input)
        return write_requests(f->input, n, prompt, n_new, vocab, err);
    if ((size_t)snprintf(f->input, sizeof f->input, "%s", input) >= sizeof f->input)
        return ls_fail(err, LS_E_USAGE, "--input: longer than %zu bytes", sizeof f->input - 1);
    return LS_OK;
}

/* Files of a folder and the folder; folders in it stay, and then it does too. */
static void remove_flat(const char *folder)
{
    DIR *const d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

static void remove_results(const struct ls_bench_folder *f)
{
    char beside[320];
    snprintf(beside, sizeof beside, "%s.lockstep", f->output);
    remove_flat(beside);
    unlink(f->output);
}

void ls_bench_folder_remove(struct ls_bench_folder *f)
{
    if (!f->path[0])
        return;
    remove_results(f);
    remove_flat(f->path);
    f->path[0] = 0;
}

/* --- a child ---------------------------------------------------------------------------------
 */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* More ranks than slots are what bench pipeline and link ask about. */
static void become(const char *const *words)
{
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

static ls_status wait_for(pid_t child, const char *name, struct rusage *used,
                          struct ls_err *err)
{
    int status = 0;
    while (wait4(child, &status, 0, used) < 0)
        if (errno != EINTR)
            return ls_fail(err, LS_E_IO, "%s: %s", name, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return ls_fail(err, LS_E_IO, "%s: cannot be started", name);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return ls_fail(err, LS_E_IO, "%s: the run that was to be measured ended with %d", name,
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return LS_OK;
}

ls_status ls_child_run(const char *const *words, struct rusage *used, struct ls_err *err)
{
    const pid_t child = fork();
    if (child == 0)
        become(words);
    if (child < 0)
        return ls_fail(err, LS_E_IO, "no process can be started: %s", strerror(errno));
    return wait_for(child, words[0], used, err);
}

ls_status ls_child_measure(struct ls_child_run *run, const struct ls_bench_folder *f,
                           const char *const *words, struct ls_err *err)
{
    char manifest[340];
    struct rusage used = { .ru_maxrss = 0 };
    json_error_t why;
    remove_results(f);
    const double begin = now_s();
    const ls_status s = ls_child_run(words, &used, err);
    if (s)
        return s;
    run->wall_s = now_s() - begin;
    run->peak_mb = (double)used.ru_maxrss * 1024 / 1e6;
    snprintf(manifest, sizeof manifest, "%s.lockstep/manifest.json", f->output);
    run->manifest = json_load_file(manifest, 0, &why);
    return run->manifest ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", manifest, why.text);
}
