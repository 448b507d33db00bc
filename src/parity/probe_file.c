#include "parity/probe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- writing ---------------------------------------------------------------------------------
 */

static ls_status io_failure(const struct ls_probe_writer *w, int error, struct ls_err *err)
{
    return ls_fail(err, ls_io_status(error), "%s: cannot be written: %s", w->path,
                   strerror(error));
}

ls_status ls_probe_writer_open(struct ls_probe_writer *w, const char *path, size_t capacity,
                               struct ls_err *err)
{
    void *tensors;
    *w = (struct ls_probe_writer){ .path = path, .fd = -1, .capacity = capacity };
    ls_status s = ls_alloc(&tensors, capacity * sizeof *w->tensors, "tensors of a probe", err);
    if (s)
        return s;
    w->tensors = tensors;
    w->header_bytes = 8 + 64 + (uint64_t)capacity * LS_PROBE_ENTRY;
    w->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        s = io_failure(w, errno, err);
        ls_free(w->tensors);
        return s;
    }
    pthread_mutex_init(&w->mutex, NULL);
    return LS_OK;
}

static void keep_error(struct ls_probe_writer *w, int error)
{
    pthread_mutex_lock(&w->mutex);
    w->error = w->error ? w->error : error;
    pthread_mutex_unlock(&w->mutex);
}

static void write_at(struct ls_probe_writer *w, const void *bytes, uint64_t n, uint64_t at)
{
    const char *from = bytes;
    while (n > 0) {
        const ssize_t done = pwrite(w->fd, from, (size_t)n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            keep_error(w, done < 0 ? errno : ENOSPC);
            return;
        }
        from += done;
        at += (uint64_t)done;
        n -= (uint64_t)done;
    }
}

static struct ls_probe_tensor *made(struct ls_probe_writer *w, size_t i,
                                    const struct ls_probe_tensor *shape)
{
    struct ls_probe_tensor *const t = &w->tensors[i];
    pthread_mutex_lock(&w->mutex);
    if (!t->rows) {
        *t = *shape;
        t->begin = w->end;
        w->end += t->rows * t->columns * ls_dtype_bytes(t->dtype);
        if (ftruncate(w->fd, (off_t)(w->header_bytes + w->end)))
            w->error = w->error ? w->error : errno;
    }
    pthread_mutex_unlock(&w->mutex);
    return t;
}

void ls_probe_put(struct ls_probe_writer *w, size_t i, const struct ls_probe_tensor *shape,
                  uint64_t row, uint64_t first, uint64_t count, const void *elements)
{
    const struct ls_probe_tensor *const t = made(w, i, shape);
    const uint64_t size = ls_dtype_bytes(t->dtype);
    write_at(w, elements, count * size,
             w->header_bytes + t->begin + (row * t->columns + first) * size);
}

static void write_header(struct ls_probe_writer *w)
{
    char entry[LS_PROBE_ENTRY];
    const uint64_t n = w->header_bytes - 8;
    uint64_t at = 8;
    int length = snprintf(entry, sizeof entry, "{\"__metadata__\":{\"format\":\"probe-1\"}");
    write_at(w, &n, sizeof n, 0);
    write_at(w, entry, (uint64_t)length, at);
    at += (uint64_t)length;
    for (size_t i = 0; i < w->capacity; i++) {
        const struct ls_probe_tensor *const t = &w->tensors[i];
        const uint64_t bytes = t->rows * t->columns * ls_dtype_bytes(t->dtype);
        if (!t->rows)
            continue;
        length = snprintf(entry, sizeof entry,
                          ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64 ",%" PRIu64
                          "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                          t->name, ls_dtype_name(t->dtype), t->rows, t->columns, t->begin,
                          t->begin + bytes);
        write_at(w, entry, (uint64_t)length, at);
        at += (uint64_t)length;
    }
    write_at(w, "}", 1, at++);
    while (at < w->header_bytes) {
        memset(entry, ' ', sizeof entry);
        const uint64_t left = w->header_bytes - at;
        const uint64_t part = left < sizeof entry ? left : sizeof entry;
        write_at(w, entry, part, at);
        at += part;
    }
}

ls_status ls_probe_writer_close(struct ls_probe_writer *w, struct ls_err *err)
{
    if (!w->error)
        write_header(w);
    if (w->error) {
        const ls_status s = io_failure(w, w->error, err);
        ls_probe_writer_abandon(w);
        return s;
    }
    close(w->fd);
    w->fd = -1;
    pthread_mutex_destroy(&w->mutex);
    ls_free(w->tensors);
    return LS_OK;
}

void ls_probe_writer_abandon(struct ls_probe_writer *w)
{
    if (w->fd < 0)
        return;
    close(w->fd);
    w->fd = -1;
    unlink(w->path);
    pthread_mutex_destroy(&w->mutex);
    ls_free(w->tensors);
}

/* --- reading ---------------------------------------------------------------------------------
 */

ls_status ls_probe_file_open(struct ls_probe_file *f, const char *path, struct ls_err *err)
{
    *f = (struct ls_probe_file){ .n = 0 };
    ls_arena_init(&f->arena);
    ls_status s = ls_mapping_open(&f->mapping, path, err);
    if (!s)
        s = ls_safetensors_parse(f->mapping.base, f->mapping.size, &f->arena, &f->tensors,
                                 &f->n, err);
    if (s)
        ls_fail_prefix(err, "%s", path);
    return s;
}

void ls_probe_file_finish(struct ls_probe_file *f)
{
    ls_mapping_close(&f->mapping);
    ls_arena_finish(&f->arena);
    *f = (struct ls_probe_file){ .n = 0 };
}

const struct ls_tensor *ls_probe_file_find(const struct ls_probe_file *f, const char *name)
{
    for (size_t low = 0, high = f->n; low < high;) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, f->tensors[middle].name);
        if (order == 0)
            return &f->tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
