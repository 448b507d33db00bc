#include "base/yaml_tree.h"

#include <string.h>
#include <yaml.h>

static const char tagged[] = "has a tag or an anchor, which are not read";

struct reader {
    const char *path;
    struct ls_arena *arena;
    yaml_parser_t parser;
};

static int line_of(const yaml_event_t *event)
{
    return (int)(event->start_mark.line < 1000000000u ? event->start_mark.line + 1 : 0);
}

static ls_status fail_at(const struct reader *r, int line, const char *what, struct ls_err *err)
{
    return ls_fail(err, LS_E_USAGE, "%s:%d: %s", r->path, line, what);
}

static ls_status next_event(struct reader *r, yaml_event_t *event, struct ls_err *err)
{
    if (yaml_parser_parse(&r->parser, event))
        return LS_OK;
    const size_t line = r->parser.problem_mark.line;
    return fail_at(r, (int)(line < 1000000000u ? line + 1 : 0),
                   r->parser.problem ? r->parser.problem : "not YAML", err);
}

/* what: behind the name of what is wrong there. */
static ls_status fail_node(const struct reader *r, const struct ls_yaml *node, const char *what,
                           struct ls_err *err)
{
    return ls_fail(err, LS_E_USAGE, "%s:%d: %.200s %s", r->path, node->line,
                   node->key ? node->key : "a value", what);
}

static ls_status no_memory(const struct reader *r, struct ls_err *err)
{
    return ls_fail(err, LS_E_MEMORY, "%s: no memory for its contents", r->path);
}

static ls_status read_scalar(struct reader *r, const yaml_event_t *event, struct ls_yaml *node,
                             struct ls_err *err)
{
    const char *const value = (const char *)event->data.scalar.value;
    const size_t n = event->data.scalar.length;
    if (event->data.scalar.tag || event->data.scalar.anchor)
        return fail_node(r, node, tagged, err);
    if (memchr(value, 0, n))
        return fail_node(r, node, "holds a zero byte", err);
    node->text = ls_arena_text(r->arena, value, n);
    if (!node->text)
        return no_memory(r, err);
    node->empty = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                  (!n || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
    return LS_OK;
}

static ls_status read_node(struct reader *r, const yaml_event_t *event, struct ls_yaml *node,
                           int depth, struct ls_err *err);

/* Takes the next event for a key; *more is false at the end of the mapping. */
static ls_status read_key(struct reader *r, const struct ls_yaml *map, struct ls_yaml *key,
                          bool *more, struct ls_err *err)
{
    yaml_event_t event;
    struct ls_yaml node = { .kind = LS_YAML_SCALAR, .key = "a key" };
    ls_status s = next_event(r, &event, err);
    if (s)
        return s;
    node.line = line_of(&event);
    *more = event.type != YAML_MAPPING_END_EVENT;
    if (*more)
        s = event.type == YAML_SCALAR_EVENT ? read_scalar(r, &event, &node, err)
                                            : fail_node(r, &node, "is not a single value", err);
    yaml_event_delete(&event);
    if (s || !*more)
        return s;
    *key = node;
    if (map->n >= LS_YAML_KEYS)
        return fail_at(r, node.line, "more keys than a mapping may have", err);
    if (ls_yaml_find(map, key->text))
        return ls_fail(err, LS_E_USAGE, "%s:%d: '%s' is given a second time", r->path,
                       key->line, key->text);
    return LS_OK;
}

/* One child of a list or mapping; *more is false at its end. */
static ls_status read_child(struct reader *r, struct ls_yaml *parent, struct ls_yaml ***tail,
                            int depth, bool *more, struct ls_err *err)
{
    yaml_event_t event;
    struct ls_yaml key = { .text = NULL };
    ls_status s = LS_OK;
    *more = true;
    if (parent->kind == LS_YAML_MAP)
        s = read_key(r, parent, &key, more, err);
    if (s || !*more)
        return s;
    s = next_event(r, &event, err);
    if (s)
        return s;
    *more = event.type != YAML_SEQUENCE_END_EVENT;
    struct ls_yaml *const node = *more ? ls_arena_take(r->arena, sizeof *node) : NULL;
    if (node) {
        node->key = key.text;
        s = read_node(r, &event, node, depth + 1, err);
        if (key.text)
            node->line = key.line;
        **tail = node;
        *tail = (struct ls_yaml **)(uintptr_t)&node->next;
        parent->n++;
    } else if (*more) {
        s = no_memory(r, err);
    }
    yaml_event_delete(&event);
    return s;
}

static ls_status read_node(struct reader *r, const yaml_event_t *event, struct ls_yaml *node,
                           int depth, struct ls_err *err)
{
    node->line = line_of(event);
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(r, event, node, err);
    if (event->type != YAML_MAPPING_START_EVENT && event->type != YAML_SEQUENCE_START_EVENT)
        return fail_node(r, node, "is an alias, which is not read", err);
    const bool map = event->type == YAML_MAPPING_START_EVENT;
    node->kind = map ? LS_YAML_MAP : LS_YAML_LIST;
    if (map ? event->data.mapping_start.anchor || event->data.mapping_start.tag
            : event->data.sequence_start.anchor || event->data.sequence_start.tag)
        return fail_node(r, node, tagged, err);
    if (depth >= LS_YAML_DEPTH)
        return fail_node(r, node, "is nested too deep", err);
    struct ls_yaml **tail = (struct ls_yaml **)(uintptr_t)&node->first;
    bool more = true;
    ls_status s = LS_OK;
    while (!s && more)
        s = read_child(r, node, &tail, depth, &more, err);
    return s;
}

static ls_status read_stream(struct reader *r, struct ls_yaml *root, struct ls_err *err)
{
    int documents = 0;
    for (;;) {
        yaml_event_t event;
        ls_status s = next_event(r, &event, err);
        if (s)
            return s;
        const yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && documents++)
            s = fail_at(r, line_of(&event), "a second document", err);
        else if (type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT &&
                 type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT)
            s = read_node(r, &event, root, 0, err);
        yaml_event_delete(&event);
        if (s || type == YAML_STREAM_END_EVENT)
            return s;
    }
}

ls_status ls_yaml_parse(const struct ls_yaml **root, const char *path, const char *yaml,
                        size_t n, struct ls_arena *arena, struct ls_err *err)
{
    struct reader r = { .path = path, .arena = arena };
    struct ls_yaml *const node = ls_arena_take(arena, sizeof *node);
    if (!node)
        return no_memory(&r, err);
    node->empty = true;
    if (!yaml_parser_initialize(&r.parser))
        return no_memory(&r, err);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, n);
    const ls_status s = read_stream(&r, node, err);
    yaml_parser_delete(&r.parser);
    if (s)
        return s;
    if (node->kind == LS_YAML_SCALAR && node->empty)
        node->kind = LS_YAML_MAP;
    *root = node;
    return LS_OK;
}

const struct ls_yaml *ls_yaml_find(const struct ls_yaml *map, const char *key)
{
    for (const struct ls_yaml *n = map->first; n; n = n->next)
        if (n->key && !strcmp(n->key, key))
            return n;
    return NULL;
}
