#include "parity/passages.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_passages_init(struct ls_passages *s)
{
    *s = (struct ls_passages){ .n = 0 };
    ls_arena_init(&s->arena);
}

void ls_passages_finish(struct ls_passages *s)
{
    free(s->list);
    free(s->by_name);
    ls_arena_finish(&s->arena);
    *s = (struct ls_passages){ .n = 0 };
}

static ls_status no_memory(struct ls_err *err)
{
    return ls_fail(err, LS_E_MEMORY, "no memory for the token ids of a run");
}

static const char *keep(struct ls_passages *s, const char *text)
{
    return text ? ls_arena_text(&s->arena, text, strlen(text)) : NULL;
}

ls_status ls_passages_add(struct ls_passages *s, const struct ls_passage *passage,
                          struct ls_err *err)
{
    if (s->n == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 64;
        void *const more = realloc(s->list, capacity * sizeof *s->list);
        if (!more)
            return no_memory(err);
        s->list = more;
        s->capacity = capacity;
    }
    struct ls_passage copy = *passage;
    int32_t *const ids = ls_arena_take(&s->arena, passage->n * sizeof *ids);
    if (!ids)
        return no_memory(err);
    if (passage->n)
        memcpy(ids, passage->ids, passage->n * sizeof *ids);
    copy.ids = ids;
    copy.name = keep(s, passage->name);
    copy.digest = keep(s, passage->digest);
    copy.error = keep(s, passage->error);
    if (!copy.name || (passage->digest && !copy.digest) || (passage->error && !copy.error))
        return no_memory(err);
    s->list[s->n++] = copy;
    return LS_OK;
}

static int compare_names(const void *a, const void *b, void *arg)
{
    const struct ls_passages *const s = arg;
    return strcmp(s->list[*(const size_t *)a].name, s->list[*(const size_t *)b].name);
}

ls_status ls_passages_sort(struct ls_passages *s, struct ls_err *err)
{
    s->by_name = malloc((s->n ? s->n : 1) * sizeof *s->by_name);
    if (!s->by_name)
        return no_memory(err);
    for (size_t i = 0; i < s->n; i++)
        s->by_name[i] = i;
    qsort_r(s->by_name, s->n, sizeof *s->by_name, compare_names, s);
    for (size_t i = 1; i < s->n; i++)
        if (!compare_names(&s->by_name[i - 1], &s->by_name[i], s))
            return ls_fail(err, LS_E_FORMAT, "two requests have the name '%.200s'",
                           s->list[s->by_name[i]].name);
    return LS_OK;
}

const struct ls_passage *ls_passages_find(const struct ls_passages *s, const char *name)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct ls_passage *const at = &s->list[s->by_name[middle]];
        const int order = strcmp(name, at->name);
        if (!order)
            return at;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

char *ls_passage_name(const char *id, size_t choice)
{
    char *name = NULL;
    if (!choice)
        return strdup(id);
    return asprintf(&name, "%s [choice %zu]", id, choice) < 0 ? NULL : name;
}

/* --- result rows -----------------------------------------------------------------------------
 */

static ls_status add_choice(struct ls_passages *s, const char *id, size_t k, uint64_t number,
                            const json_t *facts, struct ls_err *err)
{
    const json_t *const tokens = json_object_get(facts, "token_ids");
    const size_t n = json_array_size(tokens);
    char *const name = ls_passage_name(id, k);
    int32_t *const ids = malloc((n ? n : 1) * sizeof *ids);
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    const struct ls_passage passage = {
        .name = name,
        .ids = ids,
        .n = (uint32_t)n,
        .number = number,
        .digest = json_string_value(json_object_get(facts, "logits_digest")),
    };
    const ls_status status = name && ids ? ls_passages_add(s, &passage, err) : no_memory(err);
    free(name);
    free(ids);
    return status;
}

static ls_status add_error(struct ls_passages *s, const char *id, uint64_t number,
                           const json_t *error, struct ls_err *err)
{
    const char *const text = json_string_value(json_object_get(error, "message"));
    const struct ls_passage passage = { .name = id,
                                        .number = number,
                                        .error = text ? text : "" };
    return ls_passages_add(s, &passage, err);
}

static ls_status add_row(struct ls_passages *s, const json_t *row, uint64_t number,
                         struct ls_err *err)
{
    char line[32];
    const char *id = json_string_value(json_object_get(row, "custom_id"));
    const json_t *const facts = json_object_get(row, "lockstep");
    const json_t *const choices = json_object_get(facts, "choices");
    const json_t *const error = json_object_get(row, "error");
    snprintf(line, sizeof line, "line-%llu", (unsigned long long)number);
    id = id ? id : line;
    if (json_is_object(error))
        return add_error(s, id, number, error, err);
    if (!choices)
        return add_choice(s, id, 0, number, facts, err);
    ls_status status = LS_OK;
    for (size_t k = 0; !status && k < json_array_size(choices); k++)
        status = add_choice(s, id, k, number, json_array_get(choices, k), err);
    return status;
}

ls_status ls_passages_read_rows(struct ls_passages *s, const char *path, struct ls_err *err)
{
    char *line = NULL;
    size_t capacity = 0;
    uint64_t number = 0;
    ssize_t n;
    ls_status status = LS_OK;
    FILE *const f = fopen(path, "re");
    if (!f)
        return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    while (!status && (n = getline(&line, &capacity, f)) > 0) {
        json_error_t problem;
        json_t *const row = json_loadb(line, (size_t)n, 0, &problem);
        number++;
        status = json_is_object(row)
                     ? add_row(s, row, number, err)
                     : ls_fail(err, LS_E_FORMAT, "%s: line %llu is no result row", path,
                               (unsigned long long)number);
        json_decref(row);
    }
    if (!status && ferror(f))
        status = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    free(line);
    fclose(f);
    return status ? status : ls_passages_sort(s, err);
}
