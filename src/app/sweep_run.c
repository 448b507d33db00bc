#include "app/sweep_run.h"

#include "app/child.h"
#include "app/stop.h"
#include "app/sweep_result.h"
#include "app/sweep_words.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_US = 10000 };

struct task { /* an arm that is being run */
    size_t arm;
    enum ls_phase phase;
    pid_t pid; /* 0: nothing runs */
    uint64_t begin_us;
    char attempt[LS_SWEEP_PATH];
};

ls_status ls_sweep_run_init(struct ls_sweep_run *run, const struct ls_sweep *sweep,
                            const char *program, struct ls_err *err)
{
    run->sweep = sweep;
    run->program = program;
    ls_arena_init(&run->arena);
    run->outcomes = calloc(sweep->n, sizeof *run->outcomes);
    bool good = run->outcomes != NULL;
    for (int p = 0; p < LS_N_PHASES; p++) {
        run->facts[p] = calloc(sweep->n, sizeof *run->facts[p]);
        good = good && run->facts[p];
    }
    return good ? LS_OK : ls_fail(err, LS_E_MEMORY, "no memory for %zu arms", sweep->n);
}

void ls_sweep_run_finish(struct ls_sweep_run *run)
{
    for (int p = 0; p < LS_N_PHASES; p++) {
        for (size_t i = 0; run->outcomes && run->facts[p] && i < run->sweep->n; i++) {
            json_decref(run->facts[p][i]);
            json_decref(run->outcomes[i].comparison[p]);
            json_decref(run->outcomes[i].command[p]);
        }
        free(run->facts[p]);
    }
    free(run->outcomes);
    json_decref(run->model);
    ls_arena_finish(&run->arena);
}

ls_status ls_sweep_stopped(struct ls_err *err)
{
    return ls_fail(err, LS_E_DRAINED, "stopped by a signal; the same command goes on");
}

double ls_sweep_seconds(const struct ls_sweep_run *run, size_t arm)
{
    double sum = 0;
    for (int p = 0; p < LS_N_PHASES; p++)
        sum += json_number_value(json_object_get(run->facts[p][arm], "wall_s"));
    return sum;
}

/* --- one run ---------------------------------------------------------------------------------
 */

static const char *input_of(const struct ls_sweep_run *run, enum ls_phase phase,
                            const char *forced)
{
    return phase == LS_PHASE_FREE ? run->sweep->prompts : forced;
}

/* The command by which somebody repeats the run; {output} stands for the sweep's folder. */
static ls_status note_command(struct ls_sweep_run *run, size_t arm, enum ls_phase phase,
                              struct ls_err *err)
{
    struct ls_arena arena;
    const struct ls_sweep_words how = {
        .program = run->program,
        .input = input_of(run, phase, "{output}/forced.jsonl"),
        .rows = "{output}/again/rows.jsonl",
        .logits = ls_sweep_has_logits(run, arm, phase) ? "{output}/again/logits" : NULL,
    };
    ls_arena_init(&arena);
    json_t **const command = &run->outcomes[arm].command[phase];
    *command =
        ls_sweep_words_json(ls_sweep_words(run->sweep, &run->sweep->arms[arm], &how, &arena));
    ls_arena_finish(&arena);
    return *command ? LS_OK : ls_fail(err, LS_E_MEMORY, "no memory for a command");
}

static ls_status start(struct ls_sweep_run *run, struct task *t, struct ls_err *err)
{
    char forced[LS_SWEEP_PATH], rows[LS_SWEEP_PATH + 16], logits[LS_SWEEP_PATH + 16];
    char log[LS_SWEEP_PATH + 16];
    struct ls_arena arena;
    const struct ls_arm *const arm = &run->sweep->arms[t->arm];
    ls_status s = ls_sweep_attempt(&run->folder, t->attempt, err);
    if (s)
        return s;
    snprintf(rows, sizeof rows, "%s/rows.jsonl", t->attempt);
    snprintf(logits, sizeof logits, "%s/logits", t->attempt);
    snprintf(log, sizeof log, "%s/log.txt", t->attempt);
    const struct ls_sweep_words how = {
        .program = run->program,
        .input = input_of(run, t->phase, ls_sweep_file(&run->folder, forced, "forced.jsonl")),
        .rows = rows,
        .logits = ls_sweep_has_logits(run, t->arm, t->phase) ? logits : NULL,
    };
    ls_arena_init(&arena);
    const char **const words = ls_sweep_words(run->sweep, arm, &how, &arena);
    const char **const env = ls_sweep_env(arm, &arena);
    const struct ls_child child = { .words = words, .env = env, .log = log };
    t->begin_us = ls_now_us();
    if (!words || !env)
        s = ls_fail(err, LS_E_MEMORY, "no memory for a command");
    else if (ls_child_start(&t->pid, &child, err)) {
        run->outcomes[t->arm].reason = ls_arena_text(&run->arena, err->text, strlen(err->text));
        t->pid = 0;
        ls_remove_tree(t->attempt);
    }
    ls_arena_finish(&arena);
    return s;
}

/* A run that has ended, or that took too long. */
static ls_status end(struct ls_sweep_run *run, struct task *t, int status, bool late,
                     struct ls_err *err)
{
    char text[80], place[LS_SWEEP_PLACE];
    struct ls_outcome *const o = &run->outcomes[t->arm];
    const double wall_s = (double)(ls_now_us() - t->begin_us) / 1e6;
    ls_status s = LS_OK;
    t->pid = 0;
    const int n = snprintf(text, sizeof text, "did not end within %d s", run->sweep->timeout_s);
    o->reason = late ? ls_arena_text(&run->arena, text, (size_t)n)
                     : ls_sweep_reason(run, ls_sweep_place(place, t->arm, t->phase), t->attempt,
                                       status);
    if (!o->reason)
        s = ls_sweep_take(run, t->arm, t->phase, t->attempt, wall_s, err);
    ls_remove_tree(t->attempt);
    return s;
}

/* --- arms ------------------------------------------------------------------------------------
 */

/* Goes on with an arm until a child of it runs or it is done; *done says which. */
static ls_status advance(struct ls_sweep_run *run, struct task *t, bool *done,
                         struct ls_err *err)
{
    const struct ls_outcome *const o = &run->outcomes[t->arm];
    ls_status s = LS_OK;
    *done = false;
    while (!s && !t->pid && t->phase < LS_N_PHASES && !o->reason) {
        const enum ls_phase phase = t->phase;
        if (!ls_sweep_has_phase(run, t->arm, phase)) {
            t->phase++;
            continue;
        }
        if (!run->sweep->arms[t->arm].dump && !o->command[phase])
            s = note_command(run, t->arm, phase, err);
        if (s)
            break;
        if (ls_sweep_take_recorded(run, t->arm, phase))
            t->phase++;
        else if (run->sweep->arms[t->arm].dump) {
            s = ls_sweep_take(run, t->arm, phase, NULL, 0, err);
            t->phase++;
        } else {
            s = start(run, t, err);
        }
    }
    *done = !s && !t->pid;
    if (*done && run->tell)
        run->tell(run->arg, run, t->arm);
    return s;
}

/* Looks after an arm's child. */
static ls_status look(struct ls_sweep_run *run, struct task *t, bool *done, struct ls_err *err)
{
    int status = 0;
    *done = false;
    const bool ended = ls_child_has_ended(t->pid, &status);
    const bool late =
        !ended && ls_now_us() - t->begin_us > (uint64_t)run->sweep->timeout_s * 1000000;
    if (late)
        ls_child_stop(t->pid);
    if (!ended && !late)
        return LS_OK;
    const ls_status s = end(run, t, status, late, err);
    t->phase++;
    return s ? s : advance(run, t, done, err);
}

struct queue {
    struct task *tasks;   /* [n] */
    size_t n, next, last; /* arms [next, last) wait */
    int ranks;            /* that run */
};

static int ranks_of(const struct ls_sweep_run *run, size_t arm)
{
    const int n = run->sweep->arms[arm].ranks;
    return n > 0 ? n : 1;
}

static bool may_start(const struct ls_sweep_run *run, const struct queue *q)
{
    if (q->next == q->last || *ls_stop_flag())
        return false;
    return !q->n || q->ranks + ranks_of(run, q->next) <= run->sweep->slots;
}

static ls_status begin_arm(struct ls_sweep_run *run, struct queue *q, struct ls_err *err)
{
    struct task *const t = &q->tasks[q->n];
    bool done;
    *t = (struct task){ .arm = q->next++ };
    const ls_status s = advance(run, t, &done, err);
    if (!s && !done) {
        q->n++;
        q->ranks += ranks_of(run, t->arm);
    }
    return s;
}

static ls_status look_at_all(struct ls_sweep_run *run, struct queue *q, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < q->n;) {
        bool done;
        s = look(run, &q->tasks[i], &done, err);
        if (s || !done) {
            i++;
            continue;
        }
        q->ranks -= ranks_of(run, q->tasks[i].arm);
        q->tasks[i] = q->tasks[--q->n];
    }
    return s;
}

static void stop_all(const struct queue *q)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->tasks[i].pid) {
            ls_child_stop(q->tasks[i].pid);
            ls_remove_tree(q->tasks[i].attempt);
        }
}

/* Arms [first, last). */
static ls_status run_arms(struct ls_sweep_run *run, size_t first, size_t last,
                          struct ls_err *err)
{
    struct queue q = { .next = first, .last = last };
    ls_status s = LS_OK;
    q.tasks = calloc(last - first + 1, sizeof *q.tasks);
    if (!q.tasks)
        return ls_fail(err, LS_E_MEMORY, "no memory for %zu arms", last - first);
    while (!s && (q.n || q.next < q.last)) {
        while (!s && may_start(run, &q))
            s = begin_arm(run, &q, err);
        if (!s && *ls_stop_flag())
            s = ls_sweep_stopped(err);
        if (!s && q.n) {
            usleep(LOOK_US);
            s = look_at_all(run, &q, err);
        }
    }
    stop_all(&q);
    free(q.tasks);
    return s;
}

/* The model as the reference's manifest describes it, without what varies. */
static void read_model(struct ls_sweep_run *run)
{
    static const char *const keys[] = { "name", "family", "activations", "context", "digest" };
    char path[LS_SWEEP_PATH];
    const char *const phase = ls_phase_name(LS_PHASE_FREE);
    json_t *const manifest = json_load_file(
        ls_sweep_file(&run->folder, path, "arms/000/%s/manifest.json", phase), 0, NULL);
    const json_t *const model = json_object_get(manifest, "model");
    if (model && (run->model = json_object())) {
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            json_object_set(run->model, keys[i], json_object_get(model, keys[i]));
        json_object_set(run->model, "profile", json_object_get(manifest, "profile"));
    }
    json_decref(manifest);
}

ls_status ls_sweep_run_all(struct ls_sweep_run *run, struct ls_err *err)
{
    const struct ls_outcome *const reference = &run->outcomes[0];
    ls_status s = run_arms(run, 0, 1, err);
    if (!s && reference->reason)
        s = ls_fail(err, LS_E_COMPUTE, "the reference '%s' failed: %s",
                    run->sweep->arms[0].name, reference->reason);
    if (s)
        return s;
    read_model(run);
    return run_arms(run, 1, run->sweep->n, err);
}
