#include "jobs/shard.h"

#include "base/le.h"
#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ENTRY_BYTES = 160, /* of a header entry beside the name, at most */
    ESCAPED = 6,       /* bytes that one byte of a name may become */
    CACHE_LINE = 64,   /* the data begins at a multiple of it */
};

static void let_go(struct ls_shard *s)
{
    if (s->fd >= 0)
        close(s->fd);
    ls_out_finish(&s->header);
    free(s->part);
    free(s->path);
    *s = (struct ls_shard){ .fd = -1 };
}

static ls_status open_new(struct ls_shard *s, struct ls_err *err)
{
    s->fd = open(s->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make %s: %s", s->part,
                       strerror(errno));
    return LS_OK;
}

/* The file of an earlier run, which may have been completed just before that run ended; what
 * lies behind the skipped data was never recorded. */
static ls_status open_again(struct ls_shard *s, struct ls_err *err)
{
    struct stat st;
    const uint64_t kept = s->write_off ? s->reserved + s->write_off : 0;
    if (access(s->part, F_OK) && !access(s->path, F_OK) && rename(s->path, s->part))
        return ls_fail(err, ls_io_status(errno), "cannot rename %s: %s", s->path,
                       strerror(errno));
    s->fd = open(s->part, O_RDWR | (kept ? 0 : O_CREAT) | O_CLOEXEC, 0666);
    if (s->fd < 0 || fstat(s->fd, &st) || (uint64_t)st.st_size < kept)
        return ls_fail(err, LS_E_REFUSED,
                       "%s is not there, or shorter than the journal says; --fresh starts over",
                       s->path);
    if (ftruncate(s->fd, (off_t)kept))
        return ls_fail(err, ls_io_status(errno), "cannot cut %s: %s", s->part, strerror(errno));
    return LS_OK;
}

ls_status ls_shard_open(struct ls_shard *shard, const char *folder, const char *name,
                        size_t first_name_bytes, bool again, struct ls_err *err)
{
    struct ls_shard s = { .fd = -1, .again = again };
    if (asprintf(&s.path, "%s/%s", folder, name) < 0)
        s.path = NULL;
    if (!s.path || asprintf(&s.part, "%s.part", s.path) < 0) {
        free(s.path);
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a logits file");
    }
    const uint64_t first = ESCAPED * (uint64_t)first_name_bytes + 2 * ENTRY_BYTES;
    s.reserved =
        first > LS_SHARD_HEADER ? first + CACHE_LINE - first % CACHE_LINE : LS_SHARD_HEADER;
    ls_status status = again ? LS_OK : open_new(&s, err);
    if (status)
        let_go(&s);
    else
        *shard = s;
    return status;
}

bool ls_shard_fits(const struct ls_shard *shard, size_t name_bytes, uint64_t data_bytes)
{
    const uint64_t header = shard->header.n + ESCAPED * (uint64_t)name_bytes + 2 * ENTRY_BYTES;
    if (header > shard->reserved)
        return false;
    return !shard->data_bytes || shard->data_bytes + data_bytes <= LS_SHARD_BYTES;
}

void ls_shard_tensor(struct ls_shard *shard, const char *name, size_t n_name, uint64_t rows,
                     uint64_t columns)
{
    struct ls_out *h = &shard->header;
    ls_out_text(h, h->n ? "," : "{");
    ls_out_string(h, name, n_name);
    ls_out_text(h, ":{\"dtype\":\"F32\",\"shape\":[");
    ls_out_u64(h, rows);
    ls_out_text(h, ",");
    ls_out_u64(h, columns);
    ls_out_text(h, "],\"data_offsets\":[");
    ls_out_u64(h, shard->data_bytes);
    shard->data_bytes += rows * columns * sizeof(float);
    ls_out_text(h, ",");
    ls_out_u64(h, shard->data_bytes);
    ls_out_text(h, "]}");
}

void ls_shard_skip(struct ls_shard *shard, uint64_t n)
{
    shard->write_off += n;
}

ls_status ls_shard_write(struct ls_shard *shard, const void *data, size_t n, struct ls_err *err)
{
    ls_status status = shard->fd < 0 ? open_again(shard, err) : LS_OK;
    if (status)
        return status;
    status =
        ls_write_at(shard->fd, data, n, shard->reserved + shard->write_off, shard->part, err);
    if (!status)
        shard->write_off += n;
    return status;
}

static ls_status write_header(struct ls_shard *s, struct ls_err *err)
{
    unsigned char length[8];
    const uint64_t n = s->reserved - sizeof length;
    ls_le_put(length, n, sizeof length);
    ls_out_text(&s->header, "}");
    while (s->header.n < n && !s->header.failed)
        ls_out_text(&s->header, " ");
    ls_status status = ls_out_check(&s->header, "the header of a logits file", err);
    if (!status && (s->header.n != n || s->write_off != s->data_bytes))
        status = ls_fail(err, LS_E_INTERNAL, "%s: header of %zu bytes, expected %llu", s->part,
                         s->header.n, (unsigned long long)n);
    if (!status)
        status = ls_write_at(s->fd, length, sizeof length, 0, s->part, err);
    if (!status)
        status = ls_write_at(s->fd, s->header.data, n, sizeof length, s->part, err);
    return status;
}

ls_status ls_shard_sync(const struct ls_shard *shard, struct ls_err *err)
{
    if (!shard->path || shard->fd < 0 || !fdatasync(shard->fd))
        return LS_OK;
    return ls_fail(err, ls_io_status(errno), "cannot make %s durable: %s", shard->part,
                   strerror(errno));
}

/* True when an earlier run completed the shard with just these tensors. */
static bool is_complete(const struct ls_shard *s)
{
    struct stat st;
    return s->fd < 0 && !stat(s->path, &st) &&
           (uint64_t)st.st_size == s->reserved + s->data_bytes;
}

ls_status ls_shard_close(struct ls_shard *shard, struct ls_err *err)
{
    if (!shard->path)
        return LS_OK;
    ls_status status = LS_OK;
    if (!is_complete(shard)) {
        status = shard->fd < 0 ? open_again(shard, err) : LS_OK;
        if (!status)
            status = write_header(shard, err);
        if (!status && fsync(shard->fd))
            status = ls_fail(err, ls_io_status(errno), "cannot make %s durable: %s",
                             shard->part, strerror(errno));
        if (!status && rename(shard->part, shard->path))
            status = ls_fail(err, ls_io_status(errno), "cannot name %s: %s", shard->path,
                             strerror(errno));
    }
    let_go(shard);
    return status;
}

void ls_shard_abandon(struct ls_shard *shard)
{
    if (shard->path)
        let_go(shard);
}
