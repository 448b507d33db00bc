#include "tensor/safetensors.h"

#include "base/le.h"
#include "base/size.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* Enough of a name for a message; the rest of a hostile one is cut. */
#define NAME "tensor '%.200s'"

struct image {
    const unsigned char *data; /* tensor bytes, behind the header */
    uint64_t data_bytes;
};

static ls_status load_header(const unsigned char *bytes, uint64_t size, json_t **header,
                             struct image *image, struct ls_err *err)
{
    if (size < LENGTH_BYTES)
        return ls_fail(err, LS_E_FORMAT,
                       "%" PRIu64
                       " bytes are too few for a safetensors file (header length: %d)",
                       size, LENGTH_BYTES);
    const uint64_t n = ls_le_get(bytes, LENGTH_BYTES);
    if (n > LS_SAFETENSORS_MAX_HEADER)
        return ls_fail(err, LS_E_FORMAT, "header of %" PRIu64 " bytes is over the limit of %d",
                       n, LS_SAFETENSORS_MAX_HEADER);
    if (n > size - LENGTH_BYTES)
        return ls_fail(err, LS_E_FORMAT,
                       "header of %" PRIu64 " bytes does not fit the file of %" PRIu64
                       " bytes: truncated",
                       n, size);
    json_error_t at;
    *header = json_loadb((const char *)bytes + LENGTH_BYTES, n, JSON_REJECT_DUPLICATES, &at);
    if (!*header)
        return ls_fail(err, LS_E_FORMAT, "header is not valid JSON at byte %d: %s", at.position,
                       at.text);
    *image = (struct image){ bytes + LENGTH_BYTES + n, size - LENGTH_BYTES - n };
    if (!json_is_object(*header))
        return ls_fail(err, LS_E_FORMAT, "header is not a JSON object");
    return LS_OK;
}

static ls_status check_metadata(json_t *value, struct ls_err *err)
{
    const char *key;
    json_t *text;
    if (!json_is_object(value))
        return ls_fail(err, LS_E_FORMAT, "__metadata__ is not a JSON object");
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text))
            return ls_fail(err, LS_E_FORMAT, "__metadata__ entry '%.200s' is not a string",
                           key);
    }
    return LS_OK;
}

static ls_status read_dtype(struct ls_tensor *t, const json_t *entry, struct ls_err *err)
{
    const json_t *text = json_object_get(entry, "dtype");
    if (!json_is_string(text))
        return ls_fail(err, LS_E_FORMAT, NAME " has no dtype", t->name);
    t->dtype = ls_dtype_parse(json_string_value(text), json_string_length(text));
    if (t->dtype == LS_DTYPE_NONE)
        return ls_fail(err, LS_E_FORMAT, NAME " has the unknown dtype '%.40s'", t->name,
                       json_string_value(text));
    return LS_OK;
}

/* Dims, and in *bytes what dtype and dims need. */
static ls_status read_shape(struct ls_tensor *t, const json_t *entry, uint64_t *bytes,
                            struct ls_err *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return ls_fail(err, LS_E_FORMAT, NAME " has no shape", t->name);
    const size_t n = json_array_size(shape);
    if (n > LS_MAX_DIMS)
        return ls_fail(err, LS_E_FORMAT, NAME " has %zu dims, at most %d are supported",
                       t->name, n, LS_MAX_DIMS);
    t->n_dims = (int)n;
    *bytes = ls_dtype_bytes(t->dtype);
    bool empty = false, fits = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return ls_fail(err, LS_E_FORMAT, NAME ": dim %zu is not a whole number >= 0",
                           t->name, i);
        t->dims[i] = (uint64_t)json_integer_value(dim);
        empty |= !t->dims[i];
        fits = fits && ls_mul_u64(*bytes, t->dims[i], bytes);
    }
    if (empty)
        *bytes = 0;
    else if (!fits)
        return ls_fail(err, LS_E_FORMAT, NAME ": its shape overflows 64 bits", t->name);
    return LS_OK;
}

static ls_status read_offsets(struct ls_tensor *t, const json_t *entry,
                              const struct image *image, uint64_t bytes, struct ls_err *err)
{
    const json_t *pair = json_object_get(entry, "data_offsets");
    const json_t *b = json_array_get(pair, 0), *e = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return ls_fail(err, LS_E_FORMAT, NAME " has no pair of data_offsets", t->name);
    const json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin)
        return ls_fail(err, LS_E_FORMAT, NAME ": data_offsets [%lld, %lld) are no range",
                       t->name, (long long)begin, (long long)end);
    if ((uint64_t)end > image->data_bytes)
        return ls_fail(err, LS_E_FORMAT,
                       NAME ": data_offsets [%lld, %lld) lie beyond the %" PRIu64
                            " data bytes of the file: truncated",
                       t->name, (long long)begin, (long long)end, image->data_bytes);
    t->bytes = (uint64_t)(end - begin);
    if (t->bytes != bytes)
        return ls_fail(err, LS_E_FORMAT,
                       NAME ": data_offsets hold %" PRIu64
                            " bytes, but its dtype and shape need %" PRIu64,
                       t->name, t->bytes, bytes);
    t->data = image->data + begin;
    return LS_OK;
}

static ls_status read_tensor(struct ls_tensor *t, const char *name, const json_t *entry,
                             const struct image *image, struct ls_arena *arena,
                             struct ls_err *err)
{
    uint64_t bytes = 0;
    t->name = ls_arena_text(arena, name, strlen(name));
    if (!t->name)
        return ls_fail(err, LS_E_MEMORY, "out of memory for tensor names");
    if (!*name)
        return ls_fail(err, LS_E_FORMAT, "a tensor has an empty name");
    if (!json_is_object(entry))
        return ls_fail(err, LS_E_FORMAT, NAME ": its entry is not a JSON object", name);
    ls_status s = read_dtype(t, entry, err);
    if (!s)
        s = read_shape(t, entry, &bytes, err);
    return s ? s : read_offsets(t, entry, image, bytes, err);
}

static ls_status read_tensors(json_t *header, const struct image *image, struct ls_arena *arena,
                              struct ls_tensor *tensors, size_t *n, struct ls_err *err)
{
    const char *key;
    json_t *entry;
    ls_status s = LS_OK;
    *n = 0;
    json_object_foreach(header, key, entry)
    {
        if (!strcmp(key, "__metadata__"))
            s = check_metadata(entry, err);
        else
            s = read_tensor(&tensors[(*n)++], key, entry, image, arena, err);
        if (s)
            return s;
    }
    return LS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct ls_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    const struct ls_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The format asks for every data byte to belong to exactly one tensor. */
static ls_status check_cover(struct ls_tensor *tensors, size_t n, const struct image *image,
                             struct ls_err *err)
{
    const unsigned char *at = image->data;
    qsort(tensors, n, sizeof *tensors, by_offset);
    for (size_t i = 0; i < n; i++) {
        const struct ls_tensor *t = &tensors[i];
        if (t->data < at)
            return ls_fail(err, LS_E_FORMAT, NAME " overlaps tensor '%.200s'", t->name,
                           tensors[i - 1].name);
        if (t->data > at)
            return ls_fail(err, LS_E_FORMAT,
                           NAME ": %" PRIu64 " bytes before it belong to none", t->name,
                           (uint64_t)(t->data - at));
        at += t->bytes;
    }
    const uint64_t rest = image->data_bytes - (uint64_t)(at - image->data);
    if (rest)
        return ls_fail(err, LS_E_FORMAT,
                       "%" PRIu64 " bytes at the end of the file belong to no tensor", rest);
    return LS_OK;
}

ls_status ls_safetensors_parse(const void *image, uint64_t size, struct ls_arena *arena,
                               struct ls_tensor **tensors, size_t *n, struct ls_err *err)
{
    json_t *header = NULL;
    struct image body = { 0 };
    size_t found = 0;
    struct ls_tensor *list = NULL;
    ls_status s = load_header(image, size, &header, &body, err);
    if (s)
        goto out;
    list = ls_arena_take(arena, json_object_size(header) * sizeof *list);
    if (!list) {
        s = ls_fail(err, LS_E_MEMORY, "out of memory for %zu tensors",
                    json_object_size(header));
        goto out;
    }
    s = read_tensors(header, &body, arena, list, &found, err);
    if (!s)
        s = check_cover(list, found, &body, err);
    if (s)
        goto out;
    qsort(list, found, sizeof *list, by_name);
    *tensors = list;
    *n = found;
out:
    json_decref(header);
    return s;
}
