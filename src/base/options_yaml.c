/* The configuration file's half of base/options.h: a flat YAML mapping. */
#include "base/open.h"
#include "base/options.h"
#include "base/yaml_tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The key's option, or -1 with a message. */
static int find_key(const struct ls_options *o, const struct ls_yaml *pair, struct ls_err *err)
{
    const int option = ls_options_find(o->set, pair->key);
    if (option < 0) {
        const int near = ls_options_nearest(o->set, pair->key, -1);
        ls_fail(err, LS_E_USAGE, "%s:%d: unknown key '%s'; the nearest known one is '%s'",
                o->file, pair->line, pair->key, ls_option_at(o->set, near)->name);
        return -1;
    }
    if (ls_option_at(o->set, option)->argv_only) {
        ls_fail(err, LS_E_USAGE, "%s:%d: '%s' can only be given on the command line", o->file,
                pair->line, pair->key);
        return -1;
    }
    return option;
}

static ls_status take_pair(struct ls_options *o, const struct ls_yaml *pair, struct ls_err *err)
{
    char where[LS_ERR_TEXT];
    const int option = find_key(o, pair, err);
    if (option < 0)
        return LS_E_USAGE;
    snprintf(where, sizeof where, "%s:%d: %s", o->file, pair->line, pair->key);
    if (pair->kind != LS_YAML_SCALAR)
        return ls_fail(err, LS_E_USAGE, "%s is not a single value", where);
    if (pair->empty)
        return ls_fail(err, LS_E_USAGE, "%s: no value (leave the line out instead)", where);
    return ls_options_set(o, option, pair->text, where, LS_FROM_FILE, pair->line, err);
}

ls_status ls_options_read_yaml(struct ls_options *o, const char *path, const char *yaml,
                               size_t n, struct ls_err *err)
{
    const struct ls_yaml *root;
    o->file = path;
    ls_status s = ls_yaml_parse(&root, path, yaml, n, &o->arena, err);
    if (!s && root->kind != LS_YAML_MAP)
        s = ls_fail(err, LS_E_USAGE, "%s:%d: expected 'option: value' lines", path, root->line);
    for (const struct ls_yaml *pair = s ? NULL : root->first; pair && !s; pair = pair->next)
        s = take_pair(o, pair, err);
    return s;
}

static ls_status read_all(FILE *f, const char *path, char *buf, size_t *n, struct ls_err *err)
{
    struct stat st;
    if (fstat(fileno(f), &st) || S_ISDIR(st.st_mode))
        return ls_fail(err, LS_E_USAGE, "--config %s: not a file", path);
    *n = fread(buf, 1, LS_MAX_CONFIG_BYTES + 1, f);
    if (ferror(f))
        return ls_fail(err, LS_E_USAGE, "--config %s: %s", path, strerror(errno));
    if (*n > LS_MAX_CONFIG_BYTES)
        return ls_fail(err, LS_E_USAGE, "--config %s: longer than %d bytes", path,
                       LS_MAX_CONFIG_BYTES);
    return LS_OK;
}

ls_status ls_options_read_file(struct ls_options *o, const char *path, struct ls_err *err)
{
    void *buf = NULL;
    size_t n = 0;
    const int fd = ls_open_read(path);
    FILE *const f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f)
        return ls_fail(err, LS_E_USAGE, "--config %s: %s", path, strerror(errno));
    ls_status s = ls_alloc(&buf, LS_MAX_CONFIG_BYTES + 1, "configuration file", err);
    if (!s)
        s = read_all(f, path, buf, &n, err);
    if (!s)
        s = ls_options_read_yaml(o, path, buf, n, err);
    ls_free(buf);
    fclose(f);
    return s;
}
