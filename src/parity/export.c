#include "parity/export.h"

#include "base/le.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP = 8 << 20 };

static const char *name_of(const struct ls_dump_entry *e)
{
    return *e->name ? e->name : "logits";
}

static json_t *describe(const struct ls_tensor *t, uint64_t begin)
{
    json_t *const shape = json_array();
    for (int d = 0; d < t->n_dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ls_dtype_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + t->bytes));
}

/* The header's text, to be freed. */
static ls_status make_header(char **text, struct ls_dump *dump, struct ls_err *err)
{
    json_t *const header = json_object();
    uint64_t at = 0;
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < ls_dump_n(dump); i++) {
        const char *const name = name_of(ls_dump_entry(dump, i));
        struct ls_tensor t;
        s = ls_dump_view(dump, i, &t, err);
        if (!s && !strcmp(name, "__metadata__"))
            s = ls_fail(err, LS_E_REFUSED,
                        "a tensor is named '%s', which safetensors keeps for itself", name);
        if (!s && json_object_set_new(header, name, describe(&t, at)))
            s = ls_fail(err, LS_E_MEMORY, "no memory for the names of %zu tensors",
                        ls_dump_n(dump));
        at += s ? 0 : t.bytes;
    }
    *text = s ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return s || *text ? s : ls_fail(err, LS_E_MEMORY, "no memory for a header");
}

static bool put_header(FILE *out, const char *text)
{
    const uint64_t n = ls_round_up(strlen(text), 8);
    unsigned char length[8];
    ls_le_put(length, n, sizeof length);
    return fwrite(length, 1, 8, out) == 8 && fprintf(out, "%-*s", (int)n, text) == (int)n;
}

static ls_status fail_write(const char *path, struct ls_err *err)
{
    const int error = errno;
    return ls_fail(err, ls_io_status(error), "%s: cannot be written: %s", path,
                   strerror(error));
}

static ls_status put_tensors(FILE *out, struct ls_dump *dump, const char *part,
                             struct ls_err *err)
{
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < ls_dump_n(dump); i++) {
        struct ls_tensor t;
        s = ls_dump_view(dump, i, &t, err);
        for (uint64_t at = 0; !s && at < t.bytes; at += STEP) {
            const uint64_t n = ls_min_u64(STEP, t.bytes - at);
            if (fwrite(t.data + at, 1, n, out) != n)
                s = fail_write(part, err);
            ls_dump_release(dump, t.data + at, n);
        }
    }
    return s;
}

static ls_status write_part(struct ls_dump *dump, const char *part, const char *header,
                            struct ls_err *err)
{
    FILE *const out = fopen(part, "we");
    if (!out)
        return fail_write(part, err);
    ls_status s = put_header(out, header) ? LS_OK : fail_write(part, err);
    if (!s)
        s = put_tensors(out, dump, part, err);
    if (!s && (fflush(out) || fsync(fileno(out))))
        s = fail_write(part, err);
    fclose(out);
    return s;
}

ls_status ls_dump_export(struct ls_dump *dump, const char *path, struct ls_err *err)
{
    char *header, *part;
    ls_status s = make_header(&header, dump, err);
    if (s)
        return s;
    if (asprintf(&part, "%s.part", path) < 0) {
        free(header);
        return ls_fail(err, LS_E_MEMORY, "no memory for a path");
    }
    s = write_part(dump, part, header, err);
    if (!s && rename(part, path))
        s = fail_write(path, err);
    if (s)
        unlink(part);
    free(header);
    free(part);
    return s;
}
