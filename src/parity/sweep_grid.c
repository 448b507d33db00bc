/* Grids of a sweep file: every combination of the values of its axes. */
#include "parity/sweep_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_AXES = 16 };

struct axis {
    const struct ls_yaml *node; /* a list */
    const struct ls_yaml *at;   /* the value of this combination */
};

struct grid {
    struct ls_arm fixed; /* defaults and single values */
    struct axis axes[MAX_AXES];
    size_t n;
    const struct ls_yaml *exclude, *include; /* lists, or NULL */
};

static ls_status take_list(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                           const struct ls_yaml **list, struct ls_err *err)
{
    if (node->kind != LS_YAML_LIST)
        return ls_sweep_fail(r, node->line, err, "'%s' is not a list", node->key);
    for (const struct ls_yaml *e = node->first; e; e = e->next)
        if (e->kind != LS_YAML_MAP)
            return ls_sweep_fail(r, e->line, err, "an entry of '%s' is not a mapping",
                                 node->key);
    *list = node;
    return LS_OK;
}

static ls_status take_axis(const struct ls_sweep_reader *r, struct grid *g,
                           const struct ls_yaml *node, struct ls_err *err)
{
    if (!node->n)
        return ls_sweep_fail(r, node->line, err, "the axis '%s' has no values", node->key);
    if (!strcmp(node->key, "name"))
        return ls_sweep_fail(r, node->line, err, "a grid's arms are named by their axes");
    if (g->n == MAX_AXES)
        return ls_sweep_fail(r, node->line, err, "more than %d axes", MAX_AXES);
    g->axes[g->n++] = (struct axis){ .node = node, .at = node->first };
    return LS_OK;
}

static ls_status read_keys(struct ls_sweep_reader *r, struct grid *g, const struct ls_yaml *map,
                           struct ls_err *err)
{
    ls_status s = ls_sweep_copy(r, &g->fixed, &r->defaults, err);
    for (const struct ls_yaml *v = map->first; !s && v; v = v->next)
        if (!strcmp(v->key, "exclude"))
            s = take_list(r, v, &g->exclude, err);
        else if (!strcmp(v->key, "include"))
            s = take_list(r, v, &g->include, err);
        else if (v->kind == LS_YAML_LIST)
            s = take_axis(r, g, v, err);
        else
            s = ls_sweep_set(r, &g->fixed, v->key, v, err);
    return s;
}

static ls_status check_size(const struct ls_sweep_reader *r, const struct grid *g, int line,
                            struct ls_err *err)
{
    size_t n = 1;
    for (size_t i = 0; i < g->n; i++) {
        n *= g->axes[i].node->n;
        if (n > LS_SWEEP_ARMS)
            return ls_sweep_fail(r, line, err, "the grid has more than %d combinations",
                                 LS_SWEEP_ARMS);
    }
    return LS_OK;
}

static const char *value_of(const struct grid *g, const char *key)
{
    for (size_t i = 0; i < g->n; i++)
        if (!strcmp(g->axes[i].node->key, key))
            return g->axes[i].at->text;
    return NULL;
}

/* An entry of `exclude` must speak of axes, or it would exclude nothing for ever. */
static ls_status check_excludes(const struct ls_sweep_reader *r, const struct grid *g,
                                struct ls_err *err)
{
    const char *names[MAX_AXES];
    for (size_t i = 0; i < g->n; i++)
        names[i] = g->axes[i].node->key;
    for (const struct ls_yaml *e = g->exclude ? g->exclude->first : NULL; e; e = e->next)
        for (const struct ls_yaml *v = e->first; v; v = v->next) {
            if (v->kind != LS_YAML_SCALAR)
                return ls_sweep_fail(r, v->line, err, "'%s' is not a single value", v->key);
            if (g->n && !value_of(g, v->key))
                return ls_sweep_unknown(r, v, names, g->n, false, err);
        }
    return LS_OK;
}

static bool is_excluded(const struct grid *g)
{
    for (const struct ls_yaml *e = g->exclude ? g->exclude->first : NULL; e; e = e->next) {
        bool all = e->n > 0;
        for (const struct ls_yaml *v = e->first; all && v; v = v->next)
            all = !strcmp(v->text, value_of(g, v->key));
        if (all)
            return true;
    }
    return false;
}

static ls_status add_combination(struct ls_sweep_reader *r, const struct grid *g, int line,
                                 struct ls_err *err)
{
    struct ls_arm arm;
    char name[LS_SWEEP_NAME + 2] = "";
    size_t n = 0;
    ls_status s = ls_sweep_copy(r, &arm, &g->fixed, err);
    arm.line = line;
    for (size_t i = 0; !s && i < g->n; i++) {
        const char *const key = g->axes[i].node->key;
        struct ls_yaml value = *g->axes[i].at;
        value.key = key;
        s = ls_sweep_set(r, &arm, key, &value, err);
        if (!s && n < sizeof name)
            n += (size_t)snprintf(name + n, sizeof name - n, "%s%s=%s", i ? " " : "", key,
                                  value.text);
    }
    if (s)
        return s;
    arm.name = ls_arena_text(&r->sweep->arena, name, strlen(name));
    return arm.name ? ls_sweep_add(r, &arm, err)
                    : ls_fail(err, LS_E_MEMORY, "%s: no memory for its arms", r->sweep->path);
}

/* To the next combination, the last axis fastest; false after the last one. */
static bool step(struct grid *g)
{
    for (size_t i = g->n; i-- > 0;) {
        g->axes[i].at = g->axes[i].at->next;
        if (g->axes[i].at)
            return true;
        g->axes[i].at = g->axes[i].node->first;
    }
    return false;
}

static ls_status add_included(struct ls_sweep_reader *r, const struct grid *g,
                              struct ls_err *err)
{
    ls_status s = LS_OK;
    for (const struct ls_yaml *e = g->include ? g->include->first : NULL; !s && e;
         e = e->next) {
        struct ls_arm arm;
        char name[LS_SWEEP_NAME + 2] = "";
        size_t n = 0;
        s = ls_sweep_copy(r, &arm, &g->fixed, err);
        if (!s)
            s = ls_sweep_set_all(r, &arm, e, err);
        for (const struct ls_yaml *v = e->first; !s && v && n < sizeof name; v = v->next)
            if (v->text)
                n += (size_t)snprintf(name + n, sizeof name - n, "%s%s=%s", n ? " " : "",
                                      v->key, v->text);
        if (!s && !arm.name)
            arm.name = ls_arena_text(&r->sweep->arena, name, strlen(name));
        if (!s)
            s = ls_sweep_add(r, &arm, err);
    }
    return s;
}

static ls_status read_grid(struct ls_sweep_reader *r, const struct ls_yaml *map,
                           struct ls_err *err)
{
    struct grid g = { .n = 0 };
    if (map->kind != LS_YAML_MAP)
        return ls_sweep_fail(r, map->line, err, "a grid is a mapping of axes");
    ls_status s = read_keys(r, &g, map, err);
    if (!s)
        s = check_size(r, &g, map->line, err);
    if (!s)
        s = check_excludes(r, &g, err);
    bool more = g.n > 0;
    while (!s && more) {
        if (!is_excluded(&g))
            s = add_combination(r, &g, map->line, err);
        more = step(&g);
    }
    return s ? s : add_included(r, &g, err);
}

ls_status ls_sweep_read_grids(struct ls_sweep_reader *r, const struct ls_yaml *node,
                              struct ls_err *err)
{
    ls_status s = LS_OK;
    if (node->kind != LS_YAML_LIST)
        return read_grid(r, node, err);
    for (const struct ls_yaml *g = node->first; !s && g; g = g->next)
        s = read_grid(r, g, err);
    return s;
}
