#include "parity/dump.h"

#include "parity/dump_parts.h"
#include "parity/npy.h"
#include "tensor/checkpoint.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INDEX_BYTES = 1 << 30 };

/* --- files -----------------------------------------------------------------------------------
 */

static void close_file(struct ls_dump *d)
{
    if (!d->path)
        return;
    ls_mapping_close(&d->mapping);
    ls_arena_finish(&d->file_arena);
    free(d->path);
    d->path = NULL;
    d->tensors = NULL;
    d->n_tensors = 0;
}

/* A checkpoint's files are named by their last part; here there are two folders. */
static ls_status name_whole(const char *path, struct ls_err *err)
{
    const char *const slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    char text[LS_ERR_TEXT];
    snprintf(text, sizeof text, "%s", err->text);
    return ls_fail(err, err->status, "%.*s%s", (int)n, path, text);
}

static ls_status open_file(struct ls_dump *d, const char *path, struct ls_err *err)
{
    if (d->path && !strcmp(d->path, path))
        return LS_OK;
    close_file(d);
    char *const copy = strdup(path);
    if (!copy)
        return ls_fail(err, LS_E_MEMORY, "no memory for a path");
    ls_status s = ls_mapping_open(&d->mapping, path, err);
    if (s) {
        free(copy);
        return name_whole(path, err);
    }
    d->path = copy;
    ls_arena_init(&d->file_arena);
    if (!ls_npy_is(d->mapping.base, d->mapping.size) &&
        !ls_store_is(d->mapping.base, d->mapping.size))
        s = ls_safetensors_parse(d->mapping.base, d->mapping.size, &d->file_arena, &d->tensors,
                                 &d->n_tensors, err);
    if (s) {
        ls_fail_prefix(err, "%s", path);
        close_file(d);
    }
    return s;
}

static int compare_name(const void *key, const void *tensor)
{
    return strcmp(key, ((const struct ls_tensor *)tensor)->name);
}

ls_status ls_dump_view(struct ls_dump *d, size_t i, struct ls_tensor *tensor,
                       struct ls_err *err)
{
    const struct ls_dump_entry *const e = &d->entries[i];
    if (d->base)
        return ls_dump_view_kept(d, i, tensor, err);
    ls_status s = open_file(d, e->file, err);
    if (s)
        return s;
    if (!e->tensor) {
        *tensor = (struct ls_tensor){ .name = e->name };
        s = ls_npy_parse(tensor, d->mapping.base, d->mapping.size, err);
        return s ? ls_fail_prefix(err, "%s", e->file) : LS_OK;
    }
    const struct ls_tensor *const found =
        d->n_tensors
            ? bsearch(e->tensor, d->tensors, d->n_tensors, sizeof *d->tensors, compare_name)
            : NULL;
    if (!found)
        return ls_fail(err, LS_E_FORMAT, "%s: no tensor '%s', which index.json puts there",
                       e->file, e->tensor);
    *tensor = *found;
    return LS_OK;
}

void ls_dump_release(const struct ls_dump *d, const void *data, uint64_t bytes)
{
    const struct ls_mapping *const m = d->base ? &d->base->mapping : &d->mapping;
    const unsigned char *const at = data, *const base = m->base;
    if (base && at >= base && at < base + m->size) /* and not a row made anew */
        ls_mapping_release(m, data, bytes);
}

/* --- entries ---------------------------------------------------------------------------------
 */

ls_status ls_dump_add(struct ls_dump *d, const struct ls_dump_entry *e, struct ls_err *err)
{
    if (d->n == d->capacity) {
        const size_t capacity = d->capacity ? 2 * d->capacity : 64;
        void *const more = realloc(d->entries, capacity * sizeof *d->entries);
        if (!more)
            return ls_fail(err, LS_E_MEMORY, "no memory for %zu entries", capacity);
        d->entries = more;
        d->capacity = capacity;
    }
    d->entries[d->n++] = *e;
    return LS_OK;
}

static const char *keep(struct ls_dump *d, const char *text)
{
    return ls_arena_text(&d->arena, text, strlen(text));
}

/* Adds "name" of index.json, whose place is {"file", "tensor", "first_position", "rows"}. */
static ls_status add_place(struct ls_dump *d, const char *folder, const char *name,
                           json_t *place, struct ls_err *err)
{
    const char *file = NULL;
    json_t *inside = NULL; /* null for npy */
    json_int_t first = 0, rows = 0;
    char path[4096 + 256];
    if (json_unpack(place, "{s:s, s:o, s:I, s:I}", "file", &file, "tensor", &inside,
                    "first_position", &first, "rows", &rows) ||
        first < 0 || rows < 0 || !(json_is_null(inside) || json_is_string(inside)))
        return ls_fail(err, LS_E_FORMAT,
                       "%s/index.json: '%s' is not {file, tensor, first_position, rows}",
                       folder, name);
    const char *const tensor = json_string_value(inside);
    if (!*file || *file == '.' || strchr(file, '/') || strlen(file) > 255)
        return ls_fail(err, LS_E_FORMAT, "%s/index.json: '%s' names the file '%.64s'", folder,
                       name, file);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const struct ls_dump_entry e = { .name = keep(d, name),
                                     .file = keep(d, path),
                                     .tensor = tensor ? keep(d, tensor) : NULL,
                                     .first_position = (uint64_t)first,
                                     .rows = (uint64_t)rows };
    if (!e.name || !e.file || (tensor && !e.tensor))
        return ls_fail(err, LS_E_MEMORY, "no memory for the entries of %s", folder);
    return ls_dump_add(d, &e, err);
}

static ls_status add_request(struct ls_dump *d, const char *folder, const char *id,
                             json_t *value, struct ls_err *err)
{
    json_t *const choices = json_object_get(value, "choices");
    const size_t n = json_array_size(choices);
    ls_status s = n ? LS_OK : add_place(d, folder, id, value, err);
    for (size_t k = 0; !s && k < n; k++) {
        char *name = NULL;
        if (k && asprintf(&name, "%s [choice %zu]", id, k) < 0)
            return ls_fail(err, LS_E_MEMORY, "no memory for a name");
        s = add_place(d, folder, k ? name : id, json_array_get(choices, k), err);
        free(name);
    }
    return s;
}

static ls_status read_index(struct ls_dump *d, const char *folder, struct ls_err *err)
{
    char path[4096 + 16], *text;
    size_t n;
    json_error_t problem;
    snprintf(path, sizeof path, "%s/index.json", folder);
    if (access(path, F_OK))
        return ls_fail(err, LS_E_IO,
                       "%s is a folder without index.json; expected a folder of --logits, or a "
                       "safetensors or npy file",
                       folder);
    ls_status s = ls_file_read(path, MAX_INDEX_BYTES, &text, &n, err);
    if (s)
        return name_whole(path, err);
    json_t *const root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
    ls_free(text);
    if (!json_is_object(root)) {
        json_decref(root);
        return ls_fail(err, LS_E_FORMAT, "%s: %s", path, root ? "not an object" : problem.text);
    }
    const char *id;
    json_t *value;
    json_object_foreach(root, id, value)
    {
        s = add_request(d, folder, id, value, err);
        if (s)
            break;
    }
    json_decref(root);
    return s;
}

/* Every tensor of a single file. */
static ls_status read_file(struct ls_dump *d, const char *path, struct ls_err *err)
{
    ls_status s = open_file(d, path, err);
    if (s)
        return s;
    struct ls_dump_entry e = { .name = "", .file = keep(d, path), .rows = UINT64_MAX };
    if (!e.file)
        return ls_fail(err, LS_E_MEMORY, "no memory for a path");
    if (ls_npy_is(d->mapping.base, d->mapping.size))
        return ls_dump_add(d, &e, err);
    if (ls_store_is(d->mapping.base, d->mapping.size))
        return ls_dump_open_kept(d, err);
    for (size_t i = 0; !s && i < d->n_tensors; i++) {
        e.name = e.tensor = keep(d, d->tensors[i].name);
        s = e.name ? ls_dump_add(d, &e, err)
                   : ls_fail(err, LS_E_MEMORY, "no memory for a name");
    }
    return s;
}

/* --- finding by name -------------------------------------------------------------------------
 */

static int compare_entries(const void *a, const void *b, void *arg)
{
    const struct ls_dump *const d = arg;
    return strcmp(d->entries[*(const size_t *)a].name, d->entries[*(const size_t *)b].name);
}

ls_status ls_dump_sort(struct ls_dump *d, struct ls_err *err)
{
    d->by_name = malloc((d->n ? d->n : 1) * sizeof *d->by_name);
    if (!d->by_name)
        return ls_fail(err, LS_E_MEMORY, "no memory for %zu names", d->n);
    for (size_t i = 0; i < d->n; i++)
        d->by_name[i] = i;
    qsort_r(d->by_name, d->n, sizeof *d->by_name, compare_entries, d);
    for (size_t i = 1; i < d->n; i++)
        if (!compare_entries(&d->by_name[i - 1], &d->by_name[i], d))
            return ls_fail(err, LS_E_FORMAT, "two entries have the name '%s'",
                           d->entries[d->by_name[i]].name);
    return LS_OK;
}

int64_t ls_dump_find(const struct ls_dump *d, const char *name)
{
    size_t low = 0, high = d->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, d->entries[d->by_name[middle]].name);
        if (!order)
            return (int64_t)d->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

size_t ls_dump_n(const struct ls_dump *d)
{
    return d->n;
}

const struct ls_dump_entry *ls_dump_entry(const struct ls_dump *d, size_t i)
{
    return &d->entries[i];
}

ls_status ls_dump_new(struct ls_dump **out, struct ls_err *err)
{
    struct ls_dump *const d = calloc(1, sizeof *d);
    if (!d)
        return ls_fail(err, LS_E_MEMORY, "no memory for a dump");
    ls_arena_init(&d->arena);
    *out = d;
    return LS_OK;
}

ls_status ls_dump_open(struct ls_dump **out, const char *path, struct ls_err *err)
{
    return ls_dump_open_as(out, path, false, err);
}

ls_status ls_dump_open_as(struct ls_dump **out, const char *path, bool is_base,
                          struct ls_err *err)
{
    struct stat st;
    struct ls_dump *d;
    if (strlen(path) > 4000)
        return ls_fail(err, LS_E_IO, "the path of a dump is longer than 4000 bytes");
    if (ls_dump_new(&d, err))
        return err->status;
    d->is_base = is_base;
    const bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    ls_status s = folder ? read_index(d, path, err) : read_file(d, path, err);
    if (!s)
        s = ls_dump_sort(d, err);
    if (s)
        ls_dump_close(d);
    else
        *out = d;
    return s;
}

void ls_dump_close(struct ls_dump *d)
{
    if (!d)
        return;
    ls_dump_close(d->base);
    ls_free(d->rows);
    ls_free(d->scratch);
    close_file(d);
    free(d->by_name);
    free(d->entries);
    ls_arena_finish(&d->arena);
    free(d);
}
