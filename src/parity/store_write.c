#include "parity/store.h"

#include "base/le.h"
#include "wire/pack.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_store_writer {
    char *path, *part;
    FILE *file;
    crypto_generichash_state hash;
    uint64_t n_entries, n_rows, columns;
    unsigned char *row, *scratch; /* [room] */
    size_t room;
};

static ls_status fail_write(const struct ls_store_writer *w, struct ls_err *err)
{
    const int error = errno;
    return ls_fail(err, ls_io_status(error), "%s: cannot be written: %s", w->part,
                   strerror(error));
}

static ls_status put(struct ls_store_writer *w, const void *data, size_t n, struct ls_err *err)
{
    crypto_generichash_update(&w->hash, data, n);
    return fwrite(data, 1, n, w->file) == n ? LS_OK : fail_write(w, err);
}

static size_t number(unsigned char *out, uint64_t v, size_t n)
{
    ls_le_put(out, v, (int)n);
    return n;
}

static ls_status begin(struct ls_store_writer *w, const char *reference,
                       const unsigned char digest[32], struct ls_err *err)
{
    unsigned char length[4];
    number(length, strlen(reference), 4);
    ls_status s = put(w, "LSDIFF01", 8, err);
    if (!s)
        s = put(w, digest, 32, err);
    if (!s)
        s = put(w, length, 4, err);
    return s ? s : put(w, reference, strlen(reference), err);
}

ls_status ls_store_create(struct ls_store_writer **out, const char *path, const char *reference,
                          const unsigned char digest[32], struct ls_err *err)
{
    struct ls_store_writer *const w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(path)) || asprintf(&w->part, "%s.part", path) < 0) {
        if (w)
            free(w->path);
        free(w);
        return ls_fail(err, LS_E_MEMORY, "%s: no memory to write it", path);
    }
    crypto_generichash_init(&w->hash, NULL, 0, 32);
    w->file = fopen(w->part, "we");
    const ls_status s = w->file ? begin(w, reference, digest, err) : fail_write(w, err);
    if (s)
        ls_store_abandon(w);
    else
        *out = w;
    return s;
}

ls_status ls_store_entry(struct ls_store_writer *w, const char *name, uint64_t first_position,
                         uint64_t rows, uint64_t columns, struct ls_err *err)
{
    unsigned char head[29];
    size_t n = 0;
    head[n++] = 'E';
    n += number(head + n, strlen(name), 4);
    n += number(head + n, first_position, 8);
    n += number(head + n, rows, 8);
    n += number(head + n, columns, 8);
    if (strlen(name) > LS_STORE_NAME || columns > LS_STORE_COLUMNS)
        return ls_fail(err, LS_E_REFUSED, "%s: an entry is too large to be kept", w->path);
    w->n_entries++;
    w->columns = columns;
    const ls_status s = put(w, head, n, err);
    return s ? s : put(w, name, strlen(name), err);
}

static ls_status make_room(struct ls_store_writer *w, size_t n, struct ls_err *err)
{
    if (w->room >= n)
        return LS_OK;
    free(w->row);
    free(w->scratch);
    w->row = malloc(n);
    w->scratch = malloc(n);
    w->room = w->row && w->scratch ? n : 0;
    return w->room ? LS_OK : ls_fail(err, LS_E_MEMORY, "%s: no memory for a row", w->path);
}

ls_status ls_store_row(struct ls_store_writer *w, uint64_t row, const float *values,
                       const float *reference, struct ls_err *err)
{
    const size_t n = (size_t)w->columns * sizeof *values;
    unsigned char head[14];
    if (reference && !memcmp(values, reference, n))
        return LS_OK;
    ls_status s = make_room(w, n, err);
    if (s)
        return s;
    memcpy(w->row, values, n);
    for (size_t i = 0; reference && i < n; i++)
        w->row[i] ^= ((const unsigned char *)reference)[i];
    const uint64_t packed = ls_pack_apply(w->row, n, sizeof *values, w->scratch);
    const size_t bytes = packed ? (size_t)packed : n;
    head[0] = 'R';
    number(head + 1, row, 8);
    number(head + 9, bytes, 4);
    head[13] = packed != 0;
    w->n_rows++;
    s = put(w, head, sizeof head, err);
    return s ? s : put(w, w->row, bytes, err);
}

static void forget(struct ls_store_writer *w)
{
    if (w->file)
        fclose(w->file);
    free(w->row);
    free(w->scratch);
    free(w->path);
    free(w->part);
    free(w);
}

ls_status ls_store_close(struct ls_store_writer *w, struct ls_err *err)
{
    unsigned char tail[17 + 32];
    tail[0] = 'Z';
    number(tail + 1, w->n_entries, 8);
    number(tail + 9, w->n_rows, 8);
    ls_status s = put(w, tail, 17, err);
    crypto_generichash_final(&w->hash, tail + 17, 32);
    if (!s && (fwrite(tail + 17, 1, 32, w->file) != 32 || fflush(w->file) ||
               fsync(fileno(w->file)) || rename(w->part, w->path)))
        s = fail_write(w, err);
    if (s)
        unlink(w->part);
    forget(w);
    return s;
}

void ls_store_abandon(struct ls_store_writer *w)
{
    if (!w)
        return;
    unlink(w->part);
    forget(w);
}
