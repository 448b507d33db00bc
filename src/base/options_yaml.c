/* The configuration file's half of base/options.h: a flat YAML mapping, read event by event, so
 * that neither depth nor aliases can cost memory. */
#include "base/options.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

struct reader {
    struct ls_options *o;
    const char *path;
    yaml_parser_t parser;
    bool seen[LS_MAX_OPTIONS];
};

static int line_of(yaml_mark_t mark)
{
    return (int)(mark.line < 1000000000u ? mark.line + 1 : 0);
}

static ls_status fail_at(const struct reader *r, yaml_mark_t mark, const char *what,
                         struct ls_err *err)
{
    return ls_fail(err, LS_E_USAGE, "%s:%d: %s", r->path, line_of(mark), what);
}

static ls_status next_event(struct reader *r, yaml_event_t *event, struct ls_err *err)
{
    if (yaml_parser_parse(&r->parser, event))
        return LS_OK;
    const yaml_mark_t mark = r->parser.problem_mark;
    return fail_at(r, mark, r->parser.problem ? r->parser.problem : "not YAML", err);
}

/* A copy of a scalar in the arena, or NULL with a message. */
static const char *take_scalar(struct reader *r, const yaml_event_t *event, const char *what,
                               struct ls_err *err)
{
    const char *wrong = NULL;
    const char *const value = (const char *)event->data.scalar.value;
    const size_t n = event->data.scalar.length;
    if (event->type != YAML_SCALAR_EVENT)
        wrong = "is not a single value";
    else if (event->data.scalar.tag || event->data.scalar.anchor)
        wrong = "has a tag or an anchor, which are not read";
    else if (memchr(value, 0, n))
        wrong = "holds a zero byte";
    if (wrong) {
        ls_fail(err, LS_E_USAGE, "%s:%d: %s %s", r->path, line_of(event->start_mark), what,
                wrong);
        return NULL;
    }
    const char *const copy = ls_arena_text(&r->o->arena, value, n);
    if (!copy)
        ls_fail(err, LS_E_MEMORY, "%s: no memory for %zu bytes", r->path, n);
    return copy;
}

/* The key's option, or -1 with a message. */
static int find_key(struct reader *r, const char *key, yaml_mark_t mark, struct ls_err *err)
{
    const struct ls_option_set *const set = r->o->set;
    const int option = ls_options_find(set, key);
    if (option < 0) {
        const int near = ls_options_nearest(set, key, -1);
        ls_fail(err, LS_E_USAGE, "%s:%d: unknown key '%s'; the nearest known one is '%s'",
                r->path, line_of(mark), key, ls_option_at(set, near)->name);
        return -1;
    }
    if (ls_option_at(set, option)->argv_only) {
        ls_fail(err, LS_E_USAGE, "%s:%d: '%s' can only be given on the command line", r->path,
                line_of(mark), key);
        return -1;
    }
    if (r->seen[option]) {
        ls_fail(err, LS_E_USAGE, "%s:%d: '%s' is given a second time", r->path, line_of(mark),
                key);
        return -1;
    }
    r->seen[option] = true;
    return option;
}

static bool is_null(const yaml_event_t *event, const char *value)
{
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return !*value || !strcmp(value, "~") || !strcmp(value, "null");
}

static ls_status read_value(struct reader *r, int option, struct ls_err *err)
{
    yaml_event_t event;
    ls_status s = next_event(r, &event, err);
    if (s)
        return s;
    const char *const key = ls_option_at(r->o->set, option)->name;
    const int line = line_of(event.start_mark);
    const char *const value = take_scalar(r, &event, key, err);
    char where[LS_ERR_TEXT];
    snprintf(where, sizeof where, "%s:%d: %s", r->path, line, key);
    if (!value)
        s = LS_E_USAGE;
    else if (is_null(&event, value))
        s = ls_fail(err, LS_E_USAGE, "%s: no value (leave the line out instead)", where);
    else
        s = ls_options_set(r->o, option, value, where, LS_FROM_FILE, line, err);
    yaml_event_delete(&event);
    return s;
}

/* One key and its value; *more is false at the end of the mapping. */
static ls_status read_pair(struct reader *r, bool *more, struct ls_err *err)
{
    yaml_event_t event;
    ls_status s = next_event(r, &event, err);
    if (s)
        return s;
    *more = event.type != YAML_MAPPING_END_EVENT;
    int option = -1;
    if (*more) {
        const char *const key = take_scalar(r, &event, "a key", err);
        option = key ? find_key(r, key, event.start_mark, err) : -1;
        s = option < 0 ? LS_E_USAGE : LS_OK;
    }
    yaml_event_delete(&event);
    return *more && !s ? read_value(r, option, err) : s;
}

static ls_status read_mapping(struct reader *r, struct ls_err *err)
{
    bool more = true;
    while (more) {
        const ls_status s = read_pair(r, &more, err);
        if (s)
            return s;
    }
    return LS_OK;
}

/* Document contents: one mapping, or nothing at all. */
static ls_status read_root(struct reader *r, const yaml_event_t *event, struct ls_err *err)
{
    if (event->type == YAML_MAPPING_START_EVENT)
        return read_mapping(r, err);
    if (event->type == YAML_SCALAR_EVENT && !event->data.scalar.length)
        return LS_OK;
    return fail_at(r, event->start_mark, "expected 'option: value' lines", err);
}

static ls_status read_stream(struct reader *r, struct ls_err *err)
{
    int documents = 0;
    for (;;) {
        yaml_event_t event;
        ls_status s = next_event(r, &event, err);
        if (s)
            return s;
        const yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && documents++)
            s = fail_at(r, event.start_mark, "a second document", err);
        else if (type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT &&
                 type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT)
            s = read_root(r, &event, err);
        yaml_event_delete(&event);
        if (s || type == YAML_STREAM_END_EVENT)
            return s;
    }
}

ls_status ls_options_read_yaml(struct ls_options *o, const char *path, const char *yaml,
                               size_t n, struct ls_err *err)
{
    struct reader r = { .o = o, .path = path };
    if (!yaml_parser_initialize(&r.parser))
        return ls_fail(err, LS_E_MEMORY, "%s: no memory for a YAML parser", path);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, n);
    o->file = path;
    const ls_status s = read_stream(&r, err);
    yaml_parser_delete(&r.parser);
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
    FILE *const f = fopen(path, "re");
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
