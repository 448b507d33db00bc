#include "app/bench_child.h"

#include "app/child.h"

#include <dirent.h>
#include <errno.h>
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

/* --- a run ---------------------------------------------------------------------------------
 */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ls_status ls_bench_run(const char *const *words, struct rusage *used, struct ls_err *err)
{
    pid_t pid;
    int status;
    const struct ls_child child = { .words = words, .out = "/dev/null" };
    /* More ranks than slots are what bench pipeline and link ask about. */
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
    ls_status s = ls_child_start(&pid, &child, err);
    if (!s)
        s = ls_child_wait(pid, &status, used, err);
    if (!s && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        s = ls_fail(err, LS_E_IO, "%s: the run that was to be measured ended with %d", words[0],
                    WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return s;
}

ls_status ls_bench_measure(struct ls_bench_outcome *run, const struct ls_bench_folder *f,
                           const char *const *words, struct ls_err *err)
{
    char manifest[340];
    struct rusage used = { .ru_maxrss = 0 };
    json_error_t why;
    remove_results(f);
    const double begin = now_s();
    const ls_status s = ls_bench_run(words, &used, err);
    if (s)
        return s;
    run->wall_s = now_s() - begin;
    run->peak_mb = (double)used.ru_maxrss * 1024 / 1e6;
    snprintf(manifest, sizeof manifest, "%s.lockstep/manifest.json", f->output);
    run->manifest = json_load_file(manifest, 0, &why);
    return run->manifest ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", manifest, why.text);
}
