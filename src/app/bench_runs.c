#include "app/bench_runs.h"

#include "app/bench_child.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_REQUESTS = 64, PROMPT = 128, NEW = 64, MAX_RANKS = 64 };

/* What is told of a run. */
enum figure {
    START,  /* seconds: processes, checkpoint, load */
    END,    /* seconds: from the last row to the exit */
    TOKENS, /* a second, fed and made, from the first step to the last row */
    MADE,   /* the same, made only */
    WHOLE,  /* made, over the whole process */
    PROMPTS,
    DECODING,    /* shares of the run: steps with prompts, steps without */
    COORDINATOR, /* share: sampling, text, rows */
    MEMORY,      /* MB, of the largest process */
    N_FIGURES
};

static const struct {
    const char *name, *unit;
} figures[N_FIGURES] = {
    [START] = { "start: processes, checkpoint, load", "s" },
    [PROMPTS] = { "steps with prompts in them", "of run" },
    [DECODING] = { "steps of decoding alone", "of run" },
    [COORDINATOR] = { "sampling, text and rows, beside the steps", "of run" },
    [END] = { "end: last row to exit", "s" },
    [TOKENS] = { "tokens fed and made, steps", "tokens/s" },
    [MADE] = { "tokens made, steps", "tokens/s" },
    [WHOLE] = { "tokens made, whole process", "tokens/s" },
    [MEMORY] = { "peak memory", "MB" },
};

/* What the repeats of one run gave. */
struct series {
    double of[N_FIGURES][LS_BENCH_MAX_REPEATS];
    double wait[MAX_RANKS][LS_BENCH_MAX_REPEATS], send[MAX_RANKS][LS_BENCH_MAX_REPEATS];
    double steps; /* of every repeat */
    int n;
};

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void note(struct series *s, const struct ls_bench_outcome *run, int ranks)
{
    const json_t *const m = run->manifest, *const stages = json_object_get(m, "stages");
    const json_t *const times = json_object_get(m, "times");
    const json_t *const first = json_array_get(stages, 0);
    const double start_s = number(times, "start_s"), run_s = number(times, "run_s");
    const double made = number(m, "generated_tokens"), fed = number(m, "prompt_tokens");
    const double prompts_us = number(first, "compute_prompt_us");
    double figure[N_FIGURES] = {
        [START] = start_s,
        [END] = run->wall_s - start_s - run_s,
        [TOKENS] = (fed + made) / run_s,
        [MADE] = made / run_s,
        [WHOLE] = made / run->wall_s,
        [PROMPTS] = 1e-6 * prompts_us / run_s,
        [DECODING] = 1e-6 * (number(first, "compute_us") - prompts_us) / run_s,
        [COORDINATOR] = 1e-6 * number(m, "coordinator_us") / run_s,
        [MEMORY] = run->peak_mb,
    };
    for (int i = 0; i < N_FIGURES; i++)
        s->of[i][s->n] = figure[i];
    for (int r = 0; r < ranks; r++) {
        const json_t *const stage = json_array_get(stages, (size_t)r);
        s->wait[r][s->n] = 1e-6 * number(stage, "wait_us") / run_s;
        s->send[r][s->n] = 1e-6 * number(stage, "send_us") / run_s;
    }
    s->steps = number(m, "steps");
    s->n++;
}

/* --- runs ------------------------------------------------------------------------------------
 */

struct command {
    const char *words[LS_BENCH_WORDS];
    int n;
    char ranks[16], threads[16], self[4096];
};

static void put_words(struct command *c, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c->words[c->n++] = words[i];
    c->words[c->n] = NULL;
}

/* The ranks share the threads; one rank needs no launcher. */
static ls_status make_command(struct command *c, const struct ls_run_bench *b,
                              const struct ls_bench_folder *f, int ranks, struct ls_err *err)
{
    const char *const cpu = ls_options_text(&b->app->options, LS_OPT_CPU);
    const ssize_t n = readlink("/proc/self/exe", c->self, sizeof c->self - 1);
    if (n < 0)
        return ls_fail(err, LS_E_IO, "/proc/self/exe cannot be read");
    c->self[n] = 0;
    c->n = 0;
    snprintf(c->ranks, sizeof c->ranks, "%d", ranks);
    snprintf(c->threads, sizeof c->threads, "%d", b->threads > ranks ? b->threads / ranks : 1);
    const char *const launch[] = { "mpirun", "--bind-to", "none", "-n", c->ranks };
    const char *const run[] = { c->self,      "run",    "--model",   b->model,
                                "--input",    f->input, "--output",  f->output,
                                "--progress", "none",   "--threads", c->threads };
    const char *const path[] = { "--cpu", cpu };
    if (ranks > 1)
        put_words(c, launch, sizeof launch / sizeof launch[0]);
    put_words(c, run, sizeof run / sizeof run[0]);
    if (cpu)
        put_words(c, path, 2);
    return LS_OK;
}

/* One warm-up, which also fills the page cache, then the repeats. */
static ls_status repeat(struct series *s, const struct ls_run_bench *b,
                        const struct ls_bench_folder *f, int ranks, struct ls_err *err)
{
    struct command c;
    ls_status st = make_command(&c, b, f, ranks, err);
    for (int i = 0; !st && i <= b->repeats; i++) {
        struct ls_bench_outcome run = { .manifest = NULL };
        st = ls_bench_measure(&run, f, c.words, err);
        if (!st && i > 0)
            note(s, &run, ranks);
        json_decref(run.manifest);
    }
    return st;
}

static ls_status measure(struct series **out, const struct ls_run_bench *b, int ranks,
                         struct ls_err *err)
{
    struct ls_bench_folder f;
    const char *const input = ls_options_text(&b->app->options, LS_OPT_INPUT);
    struct series *const s = *out = calloc(1, sizeof *s);
    if (!s)
        return ls_fail(err, LS_E_MEMORY, "out of memory: measurements");
    ls_status st = ls_bench_folder_make(&f, input, N_REQUESTS, PROMPT, NEW, b->vocab, err);
    if (!st)
        st = repeat(s, b, &f, ranks, err);
    ls_bench_folder_remove(&f);
    return st;
}

/* --- results ---------------------------------------------------------------------------------
 */

static double add(const struct ls_run_bench *b, const char *part, const char *name,
                  const char *unit, const double *values, int n, double bound)
{
    struct ls_rate rate;
    ls_rate_of(&rate, values, n);
    ls_results_add(b->results,
                   &(struct ls_result){
                       .part = part, .name = name, .unit = unit, .scale = 1, .bound = bound },
                   &rate);
    return rate.median;
}

ls_status ls_bench_job(const struct ls_run_bench *b, struct ls_err *err)
{
    struct series *s;
    const ls_status st = measure(&s, b, 1, err);
    for (int i = 0; !st && i < N_FIGURES; i++)
        add(b, "job", figures[i].name, figures[i].unit, s->of[i], s->n, 0);
    free(s);
    return st;
}

static void add_stages(const struct ls_run_bench *b, const struct series *s, int ranks)
{
    char name[64];
    for (int r = 0; r < ranks; r++) {
        snprintf(name, sizeof name, "  stage %d of %d: waits for work", r, ranks);
        add(b, "pipeline", name, "of run", s->wait[r], s->n, 0);
        snprintf(name, sizeof name, "  stage %d of %d: waits to send", r, ranks);
        add(b, "pipeline", name, "of run", s->send[r], s->n, 0);
    }
}

/* Against one rank with all threads: M steps through S stages fill M of M + S - 1 places. */
ls_status ls_bench_pipeline(const struct ls_run_bench *b, struct ls_err *err)
{
    double alone = 0;
    ls_status st = LS_OK;
    for (int ranks = 1; !st && ranks <= b->ranks; ranks *= 2) {
        char name[64];
        struct series *s;
        st = measure(&s, b, ranks, err);
        if (!st) {
            const double bound = alone * s->steps / (s->steps + ranks - 1);
            snprintf(name, sizeof name, "%d rank%s: tokens fed and made", ranks,
                     ranks > 1 ? "s" : "");
            const double median =
                add(b, "pipeline", name, "tokens/s", s->of[TOKENS], s->n, bound);
            alone = ranks == 1 ? median : alone;
            add_stages(b, s, ranks);
        }
        free(s);
    }
    return st;
}
