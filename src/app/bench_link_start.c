/* bench link without a launcher: starts its ranks and takes what they found. */
#include "app/bench_child.h"
#include "app/bench_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the ranks must know of this command's options. */
static const enum ls_opt passed_on[] = { LS_OPT_MATCH,       LS_OPT_SECONDS, LS_OPT_REPEATS,
                                         LS_OPT_SECRET_FILE, LS_OPT_FRAME,   LS_OPT_THREADS };

struct words {
    const char *of[LS_BENCH_WORDS];
    char options[sizeof passed_on / sizeof passed_on[0]][64];
    int n;
};

static void put(struct words *w, const char *word)
{
    w->of[w->n++] = word;
    w->of[w->n] = NULL;
}

static void put_options(struct words *w, const struct ls_options *o)
{
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        if (!ls_options_is_set(o, passed_on[i]))
            continue;
        snprintf(w->options[i], sizeof w->options[i], "--%s",
                 ls_option_at(&ls_table, passed_on[i])->name);
        put(w, w->options[i]);
        put(w, ls_options_text(o, passed_on[i]));
    }
    if (ls_options_flag(o, LS_OPT_CPU_TIME))
        put(w, "--cpu-time");
    if (ls_options_flag(o, LS_OPT_ALLOW_PLAIN_ACROSS_HOSTS))
        put(w, "--allow-plain-across-hosts");
}

ls_status ls_bench_link_start(const struct ls_link_bench *b, struct ls_err *err)
{
    char self[4096], ranks[16];
    struct rusage used;
    struct ls_bench_folder f;
    struct words w = { .n = 0 };
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return ls_fail(err, LS_E_IO, "/proc/self/exe cannot be read");
    self[n] = 0;
    snprintf(ranks, sizeof ranks, "%d", b->ranks);
    ls_status s = ls_bench_folder_make(&f, "", 0, 0, 0, 0, err);
    const char *const launch[] = { "mpirun", "--bind-to", "none", "-n",     ranks,
                                   self,     "bench",     "link", "--save", f.output };
    for (size_t i = 0; i < sizeof launch / sizeof launch[0]; i++)
        put(&w, launch[i]);
    put_options(&w, &b->app->options);
    if (!s)
        s = ls_bench_run(w.of, &used, err);
    if (!s)
        s = ls_results_take(b->results, f.output, err);
    ls_bench_folder_remove(&f);
    return s;
}
