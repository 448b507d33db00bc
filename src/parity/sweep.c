/* The keys of a sweep file that are not an arm's. */
#include "parity/sweep.h"

#include "parity/sweep_parts.h"
#include "tensor/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 1 << 16, MAX_TIMEOUT_S = 30 * 86400, TIMEOUT_S = 3600 };

enum key {
    KEY_NAME,
    KEY_PROMPTS,
    KEY_OUTPUT,
    KEY_MODE,
    KEY_LAUNCHER,
    KEY_SLOTS,
    KEY_TIMEOUT,
    KEY_LOCATE,
    KEY_DEFAULTS,
    KEY_REFERENCE,
    KEY_ARMS,
    KEY_GRID,
    N_KEYS
};

static const char *const keys[N_KEYS] = {
    "name",    "prompts", "output",   "mode",      "launcher", "slots",
    "timeout", "locate",  "defaults", "reference", "arms",     "grid",
};

static ls_status no_memory(const struct ls_sweep_reader *r, struct ls_err *err)
{
    return ls_fail(err, LS_E_MEMORY, "%s: no memory for its contents", r->sweep->path);
}

static ls_status read_number(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                             int max, int *out, struct ls_err *err)
{
    const char *text;
    const ls_status s = ls_sweep_text(r, node, &text, err);
    if (s)
        return s;
    char *end;
    const long v = strtol(text, &end, 10);
    if (*end || v < 1 || v > max)
        return ls_sweep_fail(r, node->line, err,
                             "%s is '%.40s', expected a number from 1 to %d", node->key, text,
                             max);
    *out = (int)v;
    return LS_OK;
}

static ls_status read_mode(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                           struct ls_err *err)
{
    static const char *const names[] = { "both", "forced", "free" };
    const char *text;
    const ls_status s = ls_sweep_text(r, node, &text, err);
    for (int i = 0; !s && i < 3; i++)
        if (!strcmp(text, names[i])) {
            r->sweep->mode = (enum ls_sweep_mode)i;
            return LS_OK;
        }
    return s ? s
             : ls_sweep_fail(r, node->line, err,
                             "mode is '%.40s', expected both, forced or free", text);
}

static ls_status read_flag(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                           bool *out, struct ls_err *err)
{
    const char *text;
    const ls_status s = ls_sweep_text(r, node, &text, err);
    if (s)
        return s;
    *out = !strcmp(text, "true");
    if (*out || !strcmp(text, "false"))
        return LS_OK;
    return ls_sweep_fail(r, node->line, err, "%s is '%.40s', expected true or false", node->key,
                         text);
}

/* Words: a list of them, or a text of words between spaces. */
static ls_status read_launcher(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                               struct ls_err *err)
{
    struct ls_sweep *const sweep = r->sweep;
    const size_t most = node->kind == LS_YAML_SCALAR ? strlen(node->text) / 2 + 1 : node->n;
    const char **const words = ls_arena_take(&sweep->arena, (most + 1) * sizeof *words);
    if (!words)
        return no_memory(r, err);
    sweep->launcher = words;
    sweep->n_launcher = 0;
    if (node->kind == LS_YAML_MAP)
        return ls_sweep_fail(r, node->line, err,
                             "'launcher' is neither words nor a list of them");
    for (const struct ls_yaml *w = node->first; w; w = w->next) {
        const ls_status s = ls_sweep_text(r, w, &words[sweep->n_launcher], err);
        if (s)
            return s;
        sweep->n_launcher++;
    }
    for (const char *at = node->text; at && *at;) {
        const size_t gap = strspn(at, " \t"), n = strcspn(at + gap, " \t");
        if (n) {
            words[sweep->n_launcher] = ls_arena_text(&sweep->arena, at + gap, n);
            if (!words[sweep->n_launcher++])
                return no_memory(r, err);
        }
        at += gap + n;
    }
    return sweep->n_launcher ? LS_OK
                             : ls_sweep_fail(r, node->line, err, "'launcher' has no words");
}

static ls_status read_key(struct ls_sweep_reader *r, const struct ls_yaml *node,
                          struct ls_err *err)
{
    struct ls_sweep *const sweep = r->sweep;
    int key = 0;
    while (key < N_KEYS && strcmp(keys[key], node->key) != 0)
        key++;
    switch (key) {
    case KEY_NAME:
        return ls_sweep_text(r, node, &sweep->name, err);
    case KEY_PROMPTS:
        return ls_sweep_text(r, node, &sweep->prompts, err);
    case KEY_OUTPUT:
        return ls_sweep_text(r, node, &sweep->output, err);
    case KEY_MODE:
        return read_mode(r, node, err);
    case KEY_LAUNCHER:
        return read_launcher(r, node, err);
    case KEY_SLOTS:
        return read_number(r, node, MAX_SLOTS, &sweep->slots, err);
    case KEY_TIMEOUT:
        return read_number(r, node, MAX_TIMEOUT_S, &sweep->timeout_s, err);
    case KEY_LOCATE:
        return read_flag(r, node, &sweep->locate, err);
    case KEY_DEFAULTS:
        return ls_sweep_set_all(r, &r->defaults, node, err);
    case N_KEYS:
        return ls_sweep_unknown(r, node, keys, N_KEYS, false, err);
    default: /* arms, in their order */
        return LS_OK;
    }
}

static ls_status add_arm(struct ls_sweep_reader *r, const struct ls_yaml *map,
                         struct ls_err *err)
{
    struct ls_arm arm;
    ls_status s = ls_sweep_copy(r, &arm, &r->defaults, err);
    if (!s)
        s = ls_sweep_set_all(r, &arm, map, err);
    if (!s && !arm.name && !r->sweep->n)
        arm.name = "reference";
    return s ? s : ls_sweep_add(r, &arm, err);
}

static ls_status add_arms(struct ls_sweep_reader *r, const struct ls_yaml *root,
                          struct ls_err *err)
{
    const struct ls_yaml *const reference = ls_yaml_find(root, keys[KEY_REFERENCE]);
    const struct ls_yaml *const arms = ls_yaml_find(root, keys[KEY_ARMS]);
    const struct ls_yaml *const grid = ls_yaml_find(root, keys[KEY_GRID]);
    if (r->defaults.name)
        return ls_sweep_fail(r, r->defaults.line, err,
                             "'defaults' holds a name, which is an arm's");
    if (!reference)
        return ls_sweep_fail(r, root->line, err, "no 'reference'");
    ls_status s = add_arm(r, reference, err);
    if (!s && arms && arms->kind != LS_YAML_LIST)
        s = ls_sweep_fail(r, arms->line, err, "'arms' is not a list");
    for (const struct ls_yaml *a = arms ? arms->first : NULL; !s && a; a = a->next)
        s = add_arm(r, a, err);
    if (!s && grid)
        s = ls_sweep_read_grids(r, grid, err);
    if (!s && r->sweep->n < 2)
        s = ls_sweep_fail(r, root->line, err, "no arm beside the reference");
    return s;
}

static ls_status read_root(struct ls_sweep_reader *r, const struct ls_yaml *root,
                           struct ls_err *err)
{
    ls_status s = LS_OK;
    if (root->kind != LS_YAML_MAP)
        return ls_sweep_fail(r, root->line, err, "expected 'key: value' lines");
    for (const struct ls_yaml *v = root->first; !s && v; v = v->next)
        s = read_key(r, v, err);
    if (!s && !r->sweep->prompts)
        s = ls_sweep_fail(r, root->line, err, "no 'prompts'");
    return s ? s : add_arms(r, root, err);
}

/* The file's name without folders and ending. */
static const char *name_of(struct ls_sweep *sweep)
{
    const char *const slash = strrchr(sweep->path, '/');
    const char *const base = slash ? slash + 1 : sweep->path;
    const char *const dot = strrchr(base, '.');
    return ls_arena_text(&sweep->arena, base,
                         dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

ls_status ls_sweep_parse(struct ls_sweep *out, const char *path, const char *text, size_t n,
                         const struct ls_sweep_rules *rules, struct ls_err *err)
{
    static const char *launcher[] = { "mpirun", "-n", "{ranks}" };
    const struct ls_yaml *root;
    *out = (struct ls_sweep){ .path = path,
                              .timeout_s = TIMEOUT_S,
                              .locate = true,
                              .launcher = launcher,
                              .n_launcher = 3 };
    struct ls_sweep_reader r = { .sweep = out, .rules = rules };
    ls_arena_init(&out->arena);
    ls_status s = ls_yaml_parse(&root, path, text, n, &out->arena, err);
    if (!s)
        s = read_root(&r, root, err);
    if (!s && !out->name && !(out->name = name_of(out)))
        s = no_memory(&r, err);
    if (s)
        ls_sweep_finish(out);
    return s;
}

ls_status ls_sweep_read(struct ls_sweep *out, const char *path,
                        const struct ls_sweep_rules *rules, struct ls_err *err)
{
    char *text;
    size_t n;
    if (ls_file_read(path, LS_MAX_CONFIG_BYTES, &text, &n, err)) {
        ls_fail_prefix(err, "--config %s", path);
        return err->status = LS_E_USAGE;
    }
    const ls_status s = ls_sweep_parse(out, path, text, n, rules, err);
    ls_free(text);
    return s;
}

void ls_sweep_finish(struct ls_sweep *sweep)
{
    free(sweep->arms);
    sweep->arms = NULL;
    sweep->n = sweep->capacity = 0;
    ls_arena_finish(&sweep->arena);
}
