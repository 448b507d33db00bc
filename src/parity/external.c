#include "parity/external.h"

#include "base/nearest.h"
#include "base/options.h"
#include "base/yaml_tree.h"
#include "parity/dump_parts.h"
#include "tensor/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct ls_external *out;
    const char *path;
};

static ls_status unknown(const struct reader *r, const struct ls_yaml *node,
                         const char *const *known, int n, struct ls_err *err)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (ls_edit_distance(node->key, known[i]) < ls_edit_distance(node->key, known[best]))
            best = i;
    return ls_fail(err, LS_E_USAGE,
                   "%.300s:%d: unknown key '%.100s'; the nearest known one is '%s'", r->path,
                   node->line, node->key, known[best]);
}

static ls_status read_position(const struct reader *r, const struct ls_yaml *v, uint64_t *out,
                               struct ls_err *err)
{
    char *end;
    const unsigned long long n = strtoull(v->text, &end, 10);
    if (*end || v->text[0] < '0' || v->text[0] > '9' || n > INT32_MAX)
        return ls_fail(err, LS_E_USAGE,
                       "%.300s:%d: first_position is '%.40s', expected a number", r->path,
                       v->line, v->text);
    *out = n;
    return LS_OK;
}

static ls_status read_place(const struct reader *r, const struct ls_yaml *map,
                            struct ls_external_place *place, struct ls_err *err)
{
    static const char *const known[] = { "file", "tensor", "first_position" };
    ls_status s = LS_OK;
    if (map->kind != LS_YAML_MAP)
        return ls_fail(err, LS_E_USAGE, "%.300s:%d: '%.100s' is not a mapping", r->path,
                       map->line, map->key);
    for (const struct ls_yaml *v = map->first; !s && v; v = v->next) {
        if (v->kind != LS_YAML_SCALAR || !*v->text)
            return ls_fail(err, LS_E_USAGE, "%.300s:%d: '%.100s' is not a single value",
                           r->path, v->line, v->key);
        if (!strcmp(v->key, known[0]))
            place->file = v->text;
        else if (!strcmp(v->key, known[1]))
            place->tensor = v->empty ? NULL : v->text;
        else if (!strcmp(v->key, known[2]))
            s = read_position(r, v, &place->first_position, err);
        else
            s = unknown(r, v, known, 3, err);
    }
    if (!s && !place->file)
        s = ls_fail(err, LS_E_USAGE, "%.300s:%d: '%.100s' has no file", r->path, map->line,
                    map->key);
    return s;
}

static ls_status read_exceptions(const struct reader *r, const struct ls_yaml *map,
                                 struct ls_err *err)
{
    struct ls_external *const out = r->out;
    ls_status s = LS_OK;
    if (map->kind != LS_YAML_MAP)
        return ls_fail(err, LS_E_USAGE, "%.300s:%d: 'requests' is not a mapping", r->path,
                       map->line);
    out->exceptions = ls_arena_take(&out->arena, map->n * sizeof *out->exceptions);
    if (!out->exceptions)
        return ls_fail(err, LS_E_MEMORY, "%.300s: no memory for its contents", r->path);
    for (const struct ls_yaml *v = map->first; !s && v; v = v->next) {
        struct ls_external_exception *const e = &out->exceptions[out->n++];
        e->id = v->key;
        e->place.first_position = out->logits.first_position;
        s = read_place(r, v, &e->place, err);
    }
    return s;
}

static ls_status read_root(const struct reader *r, const struct ls_yaml *root,
                           struct ls_err *err)
{
    static const char *const known[] = { "logits", "hidden", "requests" };
    const struct ls_yaml *requests = NULL;
    ls_status s = LS_OK;
    if (root->kind != LS_YAML_MAP)
        return ls_fail(err, LS_E_USAGE, "%.300s:%d: expected 'key: value' lines", r->path,
                       root->line);
    for (const struct ls_yaml *v = root->first; !s && v; v = v->next) {
        if (!strcmp(v->key, known[0]))
            s = read_place(r, v, &r->out->logits, err);
        else if (!strcmp(v->key, known[1]))
            s = read_place(r, v, &r->out->hidden, err);
        else if (!strcmp(v->key, known[2]))
            requests = v;
        else
            s = unknown(r, v, known, 3, err);
    }
    if (!s && requests)
        s = read_exceptions(r, requests, err);
    if (!s && !r->out->logits.file)
        s = ls_fail(err, LS_E_USAGE, "%.300s:%d: no 'logits'", r->path, root->line);
    return s;
}

ls_status ls_external_parse(struct ls_external *out, const char *path, const char *text,
                            size_t n, struct ls_err *err)
{
    const struct ls_yaml *root;
    const struct reader r = { .out = out, .path = path };
    *out = (struct ls_external){ .n = 0 };
    ls_arena_init(&out->arena);
    ls_status s = ls_yaml_parse(&root, path, text, n, &out->arena, err);
    if (!s)
        s = read_root(&r, root, err);
    if (s)
        ls_external_finish(out);
    return s;
}

ls_status ls_external_read(struct ls_external *out, const char *path, struct ls_err *err)
{
    char *text;
    size_t n;
    if (ls_file_read(path, LS_MAX_CONFIG_BYTES, &text, &n, err)) {
        ls_fail_prefix(err, "mapping %s", path);
        return err->status = LS_E_USAGE;
    }
    const ls_status s = ls_external_parse(out, path, text, n, err);
    ls_free(text);
    return s;
}

void ls_external_finish(struct ls_external *external)
{
    ls_arena_finish(&external->arena);
    external->exceptions = NULL;
    external->n = 0;
}

/* --- patterns --------------------------------------------------------------------------------
 */

bool ls_external_expand(char *out, size_t size, const char *pattern, const char *id,
                        uint64_t number, int layer)
{
    char digits[24], layer_digits[16];
    size_t n = 0;
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    snprintf(layer_digits, sizeof layer_digits, "%d", layer);
    for (const char *at = pattern; *at;) {
        const char *put = at;
        size_t length = 1, skip = 1;
        if (!strncmp(at, "{id}", 4)) {
            put = id;
            skip = 4;
        } else if (!strncmp(at, "{number}", 8)) {
            put = digits;
            skip = 8;
        } else if (layer >= 0 && !strncmp(at, "{layer}", 7)) {
            put = layer_digits;
            skip = 7;
        }
        if (skip > 1)
            length = strlen(put);
        if (length >= size - n)
            return false;
        memcpy(out + n, put, length);
        n += length;
        at += skip;
    }
    out[n] = 0;
    return true;
}

static bool leaves_folder(const char *file)
{
    if (*file == '/')
        return true;
    for (const char *at = file; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2]))
            return true;
    }
    return false;
}

static ls_status add_request(struct ls_dump *d, const struct ls_external_place *place,
                             const char *folder, const char *id, uint64_t number,
                             struct ls_err *err)
{
    char file[1024], path[4096 + 1024], tensor[4096];
    if (!ls_external_expand(file, sizeof file, place->file, id, number, -1) ||
        (place->tensor &&
         !ls_external_expand(tensor, sizeof tensor, place->tensor, id, number, -1)))
        return ls_fail(err, LS_E_USAGE, "the mapping of '%.200s' makes a name that is too long",
                       id);
    if (leaves_folder(file))
        return ls_fail(err, LS_E_USAGE,
                       "the mapping of '%.200s' names the file '%.200s', which "
                       "is not in the dump's folder",
                       id, file);
    snprintf(path, sizeof path, "%.4000s/%s", folder, file);
    const struct ls_dump_entry e = {
        .name = ls_arena_text(&d->arena, id, strlen(id)),
        .file = ls_arena_text(&d->arena, path, strlen(path)),
        .tensor = place->tensor ? ls_arena_text(&d->arena, tensor, strlen(tensor)) : NULL,
        .first_position = place->first_position,
        .rows = UINT64_MAX,
    };
    if (!e.name || !e.file || (place->tensor && !e.tensor))
        return ls_fail(err, LS_E_MEMORY, "no memory for the entries of %s", folder);
    return ls_dump_add(d, &e, err);
}

ls_status ls_external_open(struct ls_dump **out, const struct ls_external *external,
                           const char *folder, const char *const *ids, const uint64_t *numbers,
                           size_t n, struct ls_err *err)
{
    struct ls_dump *d;
    ls_status s = ls_dump_new(&d, err);
    if (s)
        return s;
    for (size_t i = 0; !s && i < n; i++) {
        const struct ls_external_place *place = &external->logits;
        for (size_t k = 0; k < external->n; k++)
            if (!strcmp(external->exceptions[k].id, ids[i]))
                place = &external->exceptions[k].place;
        s = add_request(d, place, folder, ids[i], numbers[i], err);
    }
    if (!s)
        s = ls_dump_sort(d, err);
    if (s)
        ls_dump_close(d);
    else
        *out = d;
    return s;
}
