#include "jobs/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 256 * 1024 };

void ls_lines_init(struct ls_lines *lines, int fd, const char *name)
{
    *lines = (struct ls_lines){ .fd = fd, .name = name };
}

void ls_lines_finish(struct ls_lines *lines)
{
    free(lines->data);
    *lines = (struct ls_lines){ .fd = -1 };
}

/* Room for one more block behind `end`. */
static ls_status make_room(struct ls_lines *l, struct ls_err *err)
{
    if (l->begin) {
        memmove(l->data, l->data + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->cap - l->end >= BLOCK)
        return LS_OK;
    size_t cap = l->cap ? 2 * l->cap : 2 * (size_t)BLOCK;
    char *data = realloc(l->data, cap);
    if (!data)
        return ls_fail(err, LS_E_MEMORY, "out of memory: %zu bytes for line %" PRIu64 " of %s",
                       cap, l->n_lines + 1, l->name);
    l->data = data;
    l->cap = cap;
    return LS_OK;
}

static ls_status read_block(struct ls_lines *l, struct ls_err *err)
{
    ls_status status = make_room(l, err);
    if (status)
        return status;
    ssize_t got;
    do
        got = read(l->fd, l->data + l->end, BLOCK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return ls_fail(err, LS_E_IO, "cannot read %s behind line %" PRIu64 ": %s", l->name,
                       l->n_lines, strerror(errno));
    l->eof = got == 0;
    l->end += (size_t)got;
    l->bytes_read += (uint64_t)got;
    return LS_OK;
}

/* A mark is dropped as soon as it is seen whole, before any line is looked for. */
static ls_status start(struct ls_lines *l, struct ls_err *err)
{
    while (!l->eof && l->end - l->begin < 3) {
        ls_status status = read_block(l, err);
        if (status)
            return status;
    }
    if (l->end - l->begin >= 3 && !memcmp(l->data + l->begin, "\xef\xbb\xbf", 3))
        l->begin += 3;
    l->started = true;
    return LS_OK;
}

ls_status ls_lines_peek(struct ls_lines *lines, size_t want, const char **data, size_t *n,
                        struct ls_err *err)
{
    ls_status status = lines->started ? LS_OK : start(lines, err);
    while (!status && !lines->eof && lines->end - lines->begin < want)
        status = read_block(lines, err);
    if (status)
        return status;
    *data = lines->data + lines->begin;
    *n = lines->end - lines->begin;
    return LS_OK;
}

/* Reads on until a line end is held (*length is the bytes in front of it), the file ends, or
 * the line is too long. */
static ls_status find_end(struct ls_lines *l, size_t *length, bool *found, struct ls_err *err)
{
    size_t looked = 0;
    for (;;) {
        const char *from = l->data + l->begin;
        const size_t held = l->end - l->begin;
        const char *lf = held > looked ? memchr(from + looked, '\n', held - looked) : NULL;
        *found = lf != NULL;
        *length = lf ? (size_t)(lf - from) : held;
        /* one byte more may be a CR */
        if (lf || l->eof || held > LS_MAX_LINE + 1)
            return LS_OK;
        looked = held;
        ls_status status = read_block(l, err);
        if (status)
            return status;
    }
}

/* Drops everything up to and including the next LF. */
static ls_status skip_rest(struct ls_lines *l, struct ls_err *err)
{
    for (;;) {
        const char *lf = memchr(l->data + l->begin, '\n', l->end - l->begin);
        if (lf) {
            l->begin = (size_t)(lf - l->data) + 1;
            return LS_OK;
        }
        l->begin = l->end = 0;
        if (l->eof)
            return LS_OK;
        ls_status status = read_block(l, err);
        if (status)
            return status;
    }
}

/* The one line of a `whole` input; an empty one has none. */
static ls_status take_all(struct ls_lines *l, struct ls_line *line, bool *more,
                          struct ls_err *err)
{
    while (!l->eof && l->end - l->begin <= LS_MAX_DOCUMENT) {
        ls_status status = read_block(l, err);
        if (status)
            return status;
    }
    const size_t n = l->end - l->begin;
    *more = n > 0;
    if (!*more)
        return LS_OK;
    *line = (struct ls_line){ .data = l->data + l->begin, .n = n, .number = ++l->n_lines };
    l->begin = l->end;
    if (n <= LS_MAX_DOCUMENT)
        return LS_OK;
    line->too_long = true;
    line->n = 0;
    l->eof = true;
    return LS_OK;
}

ls_status ls_lines_next(struct ls_lines *lines, struct ls_line *line, bool *more,
                        struct ls_err *err)
{
    bool found;
    size_t length;
    ls_status status = lines->started ? LS_OK : start(lines, err);
    if (!status && lines->whole)
        return take_all(lines, line, more, err);
    if (!status)
        status = find_end(lines, &length, &found, err);
    if (status)
        return status;
    *more = found || length > 0;
    if (!*more)
        return LS_OK;
    const char *data = lines->data + lines->begin;
    const size_t n = length && data[length - 1] == '\r' ? length - 1 : length;
    *line = (struct ls_line){ .data = data, .n = n, .number = ++lines->n_lines };
    if (n > LS_MAX_LINE) {
        line->too_long = true;
        line->n = 0;
    }
    if (!found && !lines->eof)
        return skip_rest(lines, err);
    lines->begin += length + (found ? 1 : 0);
    return LS_OK;
}
