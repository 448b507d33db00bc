/* One arm of a sweep file. */
#include "parity/sweep_parts.h"

#include "base/nearest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const own_keys[] = { "name", "binary", "dump", "mapping", "env" };
enum { N_OWN = sizeof own_keys / sizeof own_keys[0] };

/* What a sweep sets itself, or what has no meaning in one. */
static const char *const refused[] = { "input",   "output", "digest",      "logits",
                                       "resume",  "fresh",  "logits-rows", "logits-format",
                                       "metrics", "trace",  "progress",    "time-limit" };

ls_status ls_sweep_fail(const struct ls_sweep_reader *r, int line, struct ls_err *err,
                        const char *fmt, ...)
{
    char text[LS_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ls_fail(err, LS_E_USAGE, "%.300s:%d: %s", r->sweep->path, line, text);
}

ls_status ls_sweep_text(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                        const char **text, struct ls_err *err)
{
    if (node->kind != LS_YAML_SCALAR)
        return ls_sweep_fail(r, node->line, err, "'%.100s' is not a single value",
                             node->key ? node->key : "an entry");
    if (node->empty || !*node->text)
        return ls_sweep_fail(r, node->line, err, "'%.100s' has no value",
                             node->key ? node->key : "an entry");
    *text = node->text;
    return LS_OK;
}

static bool is_refused(const char *key)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!strcmp(key, refused[i]))
            return true;
    return false;
}

/* Index of an option that an arm may have, or -1. */
static int option_of(const struct ls_sweep_reader *r, const char *key)
{
    const struct ls_option_set *const set = r->rules->set;
    const int i = ls_options_find(set, key);
    if (i < 0 || !(ls_option_at(set, i)->commands & 1u << r->rules->command))
        return -1;
    return ls_option_at(set, i)->argv_only || is_refused(key) ? -1 : i;
}

static void take_nearer(const char *key, const char *known, const char **nearest, int *distance)
{
    const int d = ls_edit_distance(key, known);
    if (*nearest && d >= *distance)
        return;
    *nearest = known;
    *distance = d;
}

ls_status ls_sweep_unknown(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                           const char *const *own, size_t n_own, bool options,
                           struct ls_err *err)
{
    const struct ls_option_set *const set = r->rules->set;
    const char *nearest = NULL;
    int distance = 0;
    for (size_t i = 0; i < n_own; i++)
        take_nearer(node->key, own[i], &nearest, &distance);
    for (int i = 0; options && i < set->n_options; i++)
        if (option_of(r, ls_option_at(set, i)->name) >= 0)
            take_nearer(node->key, ls_option_at(set, i)->name, &nearest, &distance);
    return ls_sweep_fail(r, node->line, err,
                         "unknown key '%.100s'; the nearest known one is '%s'", node->key,
                         nearest);
}

/* --- settings --------------------------------------------------------------------------------
 */

static ls_status put(struct ls_sweep_reader *r, struct ls_settings *list,
                     const struct ls_setting *setting, struct ls_err *err)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->list[i].key, setting->key)) {
            list->list[i] = *setting;
            return LS_OK;
        }
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 8;
        struct ls_setting *const more =
            ls_arena_take(&r->sweep->arena, capacity * sizeof *more);
        if (!more)
            return ls_fail(err, LS_E_MEMORY, "%s: no memory for its arms", r->sweep->path);
        if (list->n)
            memcpy(more, list->list, list->n * sizeof *more);
        list->list = more;
        list->capacity = capacity;
    }
    list->list[list->n++] = *setting;
    return LS_OK;
}

static ls_status set_env(struct ls_sweep_reader *r, struct ls_arm *arm,
                         const struct ls_yaml *map, struct ls_err *err)
{
    if (map->kind != LS_YAML_MAP)
        return ls_sweep_fail(r, map->line, err, "'env' is not a mapping of variables");
    for (const struct ls_yaml *v = map->first; v; v = v->next) {
        struct ls_setting setting = { .key = v->key, .line = v->line };
        if (!*v->key || strchr(v->key, '='))
            return ls_sweep_fail(r, v->line, err, "'%.100s' is no name of a variable", v->key);
        if (v->kind != LS_YAML_SCALAR)
            return ls_sweep_fail(r, v->line, err, "'%.100s' is not a single value", v->key);
        setting.value = v->text;
        const ls_status s = put(r, &arm->env, &setting, err);
        if (s)
            return s;
    }
    return LS_OK;
}

static ls_status set_option(struct ls_sweep_reader *r, struct ls_arm *arm, int option,
                            const struct ls_setting *setting, struct ls_err *err)
{
    struct ls_options scratch;
    char where[LS_ERR_TEXT];
    snprintf(where, sizeof where, "%.300s:%d: %s", r->sweep->path, setting->line, setting->key);
    ls_options_init(&scratch, r->rules->set, r->rules->command);
    const ls_status s = ls_options_set(&scratch, option, setting->value, where, LS_FROM_FILE,
                                       setting->line, err);
    ls_options_finish(&scratch);
    return s ? s : put(r, &arm->options, setting, err);
}

ls_status ls_sweep_set(struct ls_sweep_reader *r, struct ls_arm *arm, const char *key,
                       const struct ls_yaml *value, struct ls_err *err)
{
    const char **const own[] = { &arm->name, &arm->binary, &arm->dump, &arm->mapping };
    if (!strcmp(key, "env"))
        return set_env(r, arm, value, err);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strcmp(key, own_keys[i]))
            return ls_sweep_text(r, value, own[i], err);
    const int option = option_of(r, key);
    struct ls_setting setting = { .key = key, .line = value->line };
    if (option < 0 && is_refused(key))
        return ls_sweep_fail(r, value->line, err, "'%s' is set by the sweep itself", key);
    if (option < 0)
        return ls_sweep_unknown(r, value, own_keys, N_OWN, true, err);
    const ls_status s = ls_sweep_text(r, value, &setting.value, err);
    return s ? s : set_option(r, arm, option, &setting, err);
}

ls_status ls_sweep_set_all(struct ls_sweep_reader *r, struct ls_arm *arm,
                           const struct ls_yaml *map, struct ls_err *err)
{
    ls_status s = LS_OK;
    if (map->kind != LS_YAML_MAP)
        return ls_sweep_fail(r, map->line, err, "an arm is a mapping of settings");
    arm->line = map->line;
    for (const struct ls_yaml *v = map->first; !s && v; v = v->next)
        s = ls_sweep_set(r, arm, v->key, v, err);
    return s;
}

ls_status ls_sweep_copy(struct ls_sweep_reader *r, struct ls_arm *arm,
                        const struct ls_arm *from, struct ls_err *err)
{
    ls_status s = LS_OK;
    *arm = *from;
    arm->options = arm->env = (struct ls_settings){ 0 };
    for (size_t i = 0; !s && i < from->options.n; i++)
        s = put(r, &arm->options, &from->options.list[i], err);
    for (size_t i = 0; !s && i < from->env.n; i++)
        s = put(r, &arm->env, &from->env.list[i], err);
    return s;
}

const char *ls_arm_option(const struct ls_arm *arm, const char *key)
{
    for (size_t i = 0; i < arm->options.n; i++)
        if (!strcmp(arm->options.list[i].key, key))
            return arm->options.list[i].value;
    return NULL;
}

/* --- an arm as a whole -----------------------------------------------------------------------
 */

/* The ranges of --layers, or 1. */
static int count_ranges(const char *layers)
{
    int n = 1;
    for (const char *c = layers; c && *c; c++)
        n += *c == ',';
    return n;
}

static ls_status find_ranks(const struct ls_sweep_reader *r, struct ls_arm *arm,
                            struct ls_err *err)
{
    const char *const stages = ls_arm_option(arm, "stages");
    const char *const replicas = ls_arm_option(arm, "replicas");
    const long s = stages ? atol(stages) : count_ranges(ls_arm_option(arm, "layers"));
    const long n = replicas ? atol(replicas) : 1;
    if (n < 1)
        return ls_sweep_fail(r, arm->line, err,
                             "replicas is '%.20s'; a sweep starts the ranks itself and needs a "
                             "number",
                             replicas);
    if (s * n > LS_SWEEP_RANKS)
        return ls_sweep_fail(r, arm->line, err, "%ld ranks in one arm, at most %d", s * n,
                             LS_SWEEP_RANKS);
    arm->ranks = arm->dump ? 0 : (int)(s * n);
    return LS_OK;
}

static ls_status check_arm(const struct ls_sweep_reader *r, const struct ls_arm *arm,
                           struct ls_err *err)
{
    const struct ls_sweep *const sweep = r->sweep;
    if (!arm->name)
        return ls_sweep_fail(r, arm->line, err, "an arm without a name");
    if (strlen(arm->name) > LS_SWEEP_NAME)
        return ls_sweep_fail(r, arm->line, err, "the name '%.40s...' is longer than %d bytes",
                             arm->name, LS_SWEEP_NAME);
    for (size_t i = 0; i < sweep->n; i++)
        if (!strcmp(sweep->arms[i].name, arm->name))
            return ls_sweep_fail(r, arm->line, err, "a second arm '%s'", arm->name);
    if (arm->mapping && !arm->dump)
        return ls_sweep_fail(r, arm->line, err, "arm '%s' has a mapping and no dump",
                             arm->name);
    if (arm->dump && (arm->binary || arm->env.n))
        return ls_sweep_fail(r, arm->line, err,
                             "arm '%s' is a dump; nothing is run that has a binary or an "
                             "environment",
                             arm->name);
    if (arm->dump && sweep->mode != LS_SWEEP_FORCED)
        return ls_sweep_fail(r, arm->line, err,
                             "arm '%s' is a dump, which generates nothing: it needs 'mode: "
                             "forced'",
                             arm->name);
    if (!ls_arm_option(arm, "model"))
        return ls_sweep_fail(r, arm->line, err, "arm '%s' has no model", arm->name);
    return LS_OK;
}

ls_status ls_sweep_add(struct ls_sweep_reader *r, struct ls_arm *arm, struct ls_err *err)
{
    struct ls_sweep *const sweep = r->sweep;
    ls_status s = find_ranks(r, arm, err);
    if (!s)
        s = check_arm(r, arm, err);
    if (s)
        return s;
    if (sweep->n == LS_SWEEP_ARMS)
        return ls_sweep_fail(r, arm->line, err, "more than %d arms", LS_SWEEP_ARMS);
    if (sweep->n == sweep->capacity) {
        const size_t capacity = sweep->capacity ? 2 * sweep->capacity : 16;
        void *const more = realloc(sweep->arms, capacity * sizeof *sweep->arms);
        if (!more)
            return ls_fail(err, LS_E_MEMORY, "%s: no memory for its arms", sweep->path);
        sweep->arms = more;
        sweep->capacity = capacity;
    }
    sweep->arms[sweep->n++] = *arm;
    return LS_OK;
}
