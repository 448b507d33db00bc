#include "app/sweep_locate.h"

#include "app/child.h"
#include "app/stop.h"
#include "app/sweep_result.h"
#include "app/sweep_words.h"
#include "app/table.h"
#include "base/clock.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ARMS = 8, MOST_WORDS = 40, LOOK_US = 10000 };

struct locating {
    struct ls_sweep_run *run;
    size_t arm;
    char attempt[LS_SWEEP_PATH];
    char input[LS_SWEEP_PATH + 16], probes[LS_SWEEP_PATH + 16]; /* in it */
    char out[LS_SWEEP_PATH + 16], log[LS_SWEEP_PATH + 16];
    const char *words[MOST_WORDS];
    int n;
    const char *why; /* it cannot be located; NULL: it can */
};

/* --- the command -----------------------------------------------------------------------------
 */

static void add(struct locating *l, const char *name, const char *value)
{
    l->words[l->n++] = name;
    if (value)
        l->words[l->n++] = value;
}

/* An option of an arm, given or not. */
static const char *value_of(const struct ls_arm *arm, const char *key)
{
    const char *const given = ls_arm_option(arm, key);
    return given ? given : ls_option_at(&ls_table, ls_options_find(&ls_table, key))->standard;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* The CPU path of an arm; the fastest one has no name of its own. */
static const char *path_of(const struct ls_arm *arm)
{
    enum ls_cpu_path path = LS_CPU_REF;
    const char *const given = ls_arm_option(arm, "cpu");
    if (given)
        return given;
    ls_kernels_at(0, &path);
    return ls_cpu_path_name(path);
}

static const char *program_of(const struct locating *l, size_t arm)
{
    const char *const binary = l->run->sweep->arms[arm].binary;
    return binary ? binary : l->run->program;
}

static void add_reference(struct locating *l, const struct ls_arm *reference)
{
    static const char *const keys[] = { "model", "dtype", "context", "threads" };
    static const char *const names[] = { "--model", "--dtype", "--context", "--threads" };
    add(l, program_of(l, 0), NULL);
    add(l, "parity", NULL);
    add(l, "--locate", NULL);
    add(l, "--json", NULL);
    add(l, "--input", l->input);
    add(l, "--output", l->probes);
    add(l, "--cpu", path_of(reference));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (value_of(reference, keys[i]))
            add(l, names[i], value_of(reference, keys[i]));
}

/* What the arm does otherwise. */
static void add_against(struct locating *l, const struct ls_arm *reference,
                        const struct ls_arm *arm)
{
    const int before = l->n;
    if (!is_same(value_of(reference, "model"), value_of(arm, "model")))
        add(l, "--against-model", value_of(arm, "model"));
    if (!is_same(value_of(reference, "dtype"), value_of(arm, "dtype")))
        add(l, "--against-dtype", value_of(arm, "dtype"));
    if (!is_same(path_of(reference), path_of(arm)))
        add(l, "--against-cpu", path_of(arm));
    if (!is_same(program_of(l, 0), program_of(l, l->arm)))
        add(l, "--against-program", program_of(l, l->arm));
    if (!is_same(value_of(reference, "context"), value_of(arm, "context")))
        l->why = "its context is not the reference's";
    else if (l->n == before)
        l->why = "its model, dtype, cpu and binary are the reference's";
    add(l, NULL, NULL);
}

static void spell(struct locating *l)
{
    const struct ls_sweep *const sweep = l->run->sweep;
    const struct ls_arm *const arm = &sweep->arms[l->arm];
    if (arm->dump || sweep->arms[0].dump) {
        l->why = arm->dump ? "it is a dump" : "the reference is a dump";
        return;
    }
    add_reference(l, &sweep->arms[0]);
    add_against(l, &sweep->arms[0], arm);
}

/* --- the request -----------------------------------------------------------------------------
 */

/* The first row that differs, of the forced run when it has one. */
static const json_t *first_difference(const struct locating *l)
{
    const struct ls_outcome *const o = &l->run->outcomes[l->arm];
    const json_t *const forced =
        json_object_get(o->comparison[LS_PHASE_FORCED], "first_difference");
    return json_is_object(forced)
               ? forced
               : json_object_get(o->comparison[LS_PHASE_FREE], "first_difference");
}

/* One request of the ids up to that row. */
static ls_status write_input(struct locating *l, struct ls_err *err)
{
    const json_t *const first = first_difference(l);
    const char *const name = json_string_value(json_object_get(first, "request"));
    const json_int_t position = json_integer_value(json_object_get(first, "position"));
    const struct ls_passage *const p =
        name ? ls_passages_find(&l->run->truth.forced, name) : NULL;
    if (!p) {
        l->why = "no row of its logits differs";
        return LS_OK;
    }
    json_t *const ids = json_array();
    for (uint32_t i = 0; i < p->n && i <= position; i++)
        json_array_append_new(ids, json_integer(p->ids[i]));
    json_t *const request = json_pack("{s:s, s:o}", "custom_id", name, "tokens", ids);
    char *const text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    const ls_status s = text ? ls_write_whole(l->input, text, strlen(text), err)
                             : ls_fail(err, LS_E_MEMORY, "%s: no memory to write it", l->input);
    free(text);
    json_decref(request);
    return s;
}

/* --- a child ---------------------------------------------------------------------------------
 */

static ls_status wait_for(const struct locating *l, pid_t pid, int *status, bool *late,
                          struct ls_err *err)
{
    const uint64_t begin_us = ls_now_us();
    const uint64_t limit_us = (uint64_t)l->run->sweep->timeout_s * 1000000;
    while (!ls_child_has_ended(pid, status)) {
        *late = ls_now_us() - begin_us > limit_us;
        if (*late || *ls_stop_flag()) {
            ls_child_stop(pid);
            break;
        }
        usleep(LOOK_US);
    }
    return *ls_stop_flag() ? ls_sweep_stopped(err) : LS_OK;
}

/* What it printed; NULL: it failed, and why is in l->why. */
static json_t *read_location(struct locating *l, int status, bool late)
{
    char place[LS_SWEEP_PLACE];
    json_error_t problem;
    snprintf(place, sizeof place, "locate/%03zu", l->arm);
    l->why = late ? "the locator did not end in time"
                  : ls_sweep_reason(l->run, place, l->attempt, status);
    if (l->why)
        return NULL;
    json_t *const json = json_load_file(l->out, 0, &problem);
    if (json_object_get(json, "equal"))
        return json;
    json_decref(json);
    l->why = "the locator's answer is not JSON of ours";
    return NULL;
}

static ls_status ask(struct locating *l, json_t **location, struct ls_err *err)
{
    pid_t pid;
    int status = 0;
    bool late = false;
    struct ls_arena arena;
    ls_arena_init(&arena);
    const char **const env = ls_sweep_env(&l->run->sweep->arms[0], &arena);
    const struct ls_child child = {
        .words = l->words, .env = env, .log = l->log, .out = l->out
    };
    ls_status s = env ? LS_OK : ls_fail(err, LS_E_MEMORY, "no memory for a command");
    if (!s && ls_child_start(&pid, &child, err))
        l->why = ls_arena_text(&l->run->arena, err->text, strlen(err->text));
    else if (!s && !(s = wait_for(l, pid, &status, &late, err)))
        *location = read_location(l, status, late);
    ls_arena_finish(&arena);
    return s;
}

/* --- arms ------------------------------------------------------------------------------------
 */

static ls_status look(struct locating *l, json_t **location, struct ls_err *err)
{
    ls_status s = ls_sweep_attempt(&l->run->folder, l->attempt, err);
    if (s)
        return s;
    snprintf(l->input, sizeof l->input, "%s/input.jsonl", l->attempt);
    snprintf(l->probes, sizeof l->probes, "%s/probes", l->attempt);
    snprintf(l->out, sizeof l->out, "%s/location.json", l->attempt);
    snprintf(l->log, sizeof l->log, "%s/log.txt", l->attempt);
    spell(l);
    if (!l->why)
        s = write_input(l, err);
    if (!s && !l->why)
        s = ask(l, location, err);
    ls_remove_tree(l->attempt);
    return s;
}

static bool is_located(const char *path)
{
    json_t *const there = json_load_file(path, 0, NULL);
    const bool located = json_object_get(there, "equal") != NULL;
    json_decref(there);
    return located;
}

static ls_status locate(struct ls_sweep_run *run, size_t arm, bool too_many, struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    json_t *location = NULL;
    struct locating l = { .run = run, .arm = arm };
    ls_sweep_file(&run->folder, path, "locate/%03zu.json", arm);
    if (is_located(path))
        return LS_OK;
    if (too_many)
        l.why = "only the first 8 differing arms are located";
    ls_status s = too_many ? LS_OK : look(&l, &location, err);
    if (!s && !location)
        location = json_pack("{s:s}", "why", l.why ? l.why : "no memory for the reason");
    if (!s)
        s = ls_write_json(path, location, err);
    json_decref(location);
    return s;
}

ls_status ls_sweep_locate(struct ls_sweep_run *run, struct ls_err *err)
{
    int n = 0;
    ls_status s = LS_OK;
    for (size_t i = 1; run->sweep->locate && !s && i < run->sweep->n; i++)
        if (ls_outcome_status(&run->outcomes[i]) == LS_ARM_DIFFERENT)
            s = locate(run, i, n++ >= MOST_ARMS, err);
    return s;
}
