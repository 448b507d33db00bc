#include "tensor/shard_index.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 65536, MAX_FILE_NAME = 255 };

/* While names are gathered, `shard` of an entry is not known yet; this pairs them. */
struct pair {
    const char *tensor, *file;
};

static bool is_plain_name(const char *name)
{
    static const char suffix[] = ".safetensors";
    const size_t n = strlen(name), k = sizeof suffix - 1;
    return n > k && n <= MAX_FILE_NAME && !strchr(name, '/') && !strchr(name, '\\') &&
           name[0] != '.' && !strcmp(name + n - k, suffix);
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->file, ((const struct pair *)b)->file);
}

static int by_tensor(const void *a, const void *b)
{
    const struct ls_index_entry *x = a, *y = b;
    return strcmp(x->tensor, y->tensor);
}

static ls_status read_pairs(struct pair *pairs, json_t *map, struct ls_arena *arena,
                            struct ls_err *err)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach(map, key, value)
    {
        if (!json_is_string(value))
            return ls_fail(err, LS_E_FORMAT, "weight_map of tensor '%.200s' is not a file name",
                           key);
        const char *file = json_string_value(value);
        if (!is_plain_name(file) || strlen(file) != json_string_length(value))
            return ls_fail(
                err, LS_E_FORMAT,
                "weight_map puts tensor '%.200s' into '%.200s', expected a plain name "
                "*.safetensors",
                key, file);
        pairs[i].tensor = ls_arena_text(arena, key, strlen(key));
        pairs[i].file = ls_arena_text(arena, file, strlen(file));
        if (!pairs[i].tensor || !pairs[i].file)
            return ls_fail(err, LS_E_MEMORY, "out of memory for the names of the index");
        i++;
    }
    return LS_OK;
}

/* Numbers the files in order and leaves the entries sorted by tensor. */
static ls_status number_shards(struct ls_index *index, struct pair *pairs, struct ls_err *err)
{
    qsort(pairs, index->n_entries, sizeof *pairs, by_file);
    for (size_t i = 0; i < index->n_entries; i++) {
        if (!i || strcmp(pairs[i].file, pairs[i - 1].file)) {
            if (index->n_shards == MAX_SHARDS)
                return ls_fail(err, LS_E_FORMAT, "weight_map names more than %d files",
                               MAX_SHARDS);
            index->shards[index->n_shards++] = pairs[i].file;
        }
        index->entries[i] = (struct ls_index_entry){ pairs[i].tensor, index->n_shards - 1 };
    }
    qsort(index->entries, index->n_entries, sizeof *index->entries, by_tensor);
    return LS_OK;
}

static ls_status read_map(struct ls_index *index, json_t *map, struct ls_arena *arena,
                          struct ls_err *err)
{
    const size_t n = json_object_size(map);
    if (!json_is_object(map))
        return ls_fail(err, LS_E_FORMAT, "no weight_map object");
    if (!n)
        return ls_fail(err, LS_E_FORMAT, "weight_map names no tensor");
    struct ls_index found = { .n_entries = n };
    struct pair *pairs = ls_arena_take(arena, n * sizeof *pairs);
    found.shards = ls_arena_take(arena, n * sizeof *found.shards);
    found.entries = ls_arena_take(arena, n * sizeof *found.entries);
    if (!pairs || !found.shards || !found.entries)
        return ls_fail(err, LS_E_MEMORY, "out of memory for %zu index entries", n);
    ls_status s = read_pairs(pairs, map, arena, err);
    if (!s)
        s = number_shards(&found, pairs, err);
    if (!s)
        *index = found;
    return s;
}

ls_status ls_index_parse(struct ls_index *index, const char *json, size_t n,
                         struct ls_arena *arena, struct ls_err *err)
{
    json_error_t at;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &at);
    if (!root)
        return ls_fail(err, LS_E_FORMAT, "not valid JSON at line %d: %s", at.line, at.text);
    ls_status s = read_map(index, json_object_get(root, "weight_map"), arena, err);
    json_decref(root);
    return s;
}

const struct ls_index_entry *ls_index_find(const struct ls_index *index, const char *tensor)
{
    const struct ls_index_entry key = { tensor, 0 };
    return bsearch(&key, index->entries, index->n_entries, sizeof key, by_tensor);
}
