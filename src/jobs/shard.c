#include "jobs/shard.h"

#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENTRY_BYTES = 160, /* of a header entry beside the name, at most */
    ESCAPED = 6,       /* bytes that one byte of a name may become */
    CACHE_LINE = 64,   /* the data begins at a multiple of it */
};

ls_status ls_shard_open(struct ls_shard *shard, const char *folder, const char *name,
                        size_t first_name_bytes, struct ls_err *err)
{
    struct ls_shard s = { .fd = -1 };
    if (asprintf(&s.path, "%s/%s", folder, name) < 0)
        s.path = NULL;
    if (!s.path || asprintf(&s.part, "%s.part", s.path) < 0) {
        free(s.path);
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a logits file");
    }
    s.fd = open(s.part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s.fd < 0) {
        ls_status status = ls_fail(err, LS_E_IO, "cannot make %s: %s", s.part, strerror(errno));
        free(s.part);
        free(s.path);
        return status;
    }
    const uint64_t first = ESCAPED * (uint64_t)first_name_bytes + 2 * ENTRY_BYTES;
    s.reserved =
        first > LS_SHARD_HEADER ? first + CACHE_LINE - first % CACHE_LINE : LS_SHARD_HEADER;
    *shard = s;
    return LS_OK;
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

ls_status ls_shard_write(struct ls_shard *shard, const void *data, size_t n, struct ls_err *err)
{
    ls_status status =
        ls_write_at(shard->fd, data, n, shard->reserved + shard->write_off, shard->part, err);
    if (!status)
        shard->write_off += n;
    return status;
}

static ls_status write_header(struct ls_shard *s, struct ls_err *err)
{
    unsigned char length[8];
    const uint64_t n = s->reserved - sizeof length;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(n >> 8 * i);
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

static void let_go(struct ls_shard *s)
{
    if (s->fd >= 0)
        close(s->fd);
    ls_out_finish(&s->header);
    free(s->part);
    free(s->path);
    *s = (struct ls_shard){ .fd = -1 };
}

ls_status ls_shard_close(struct ls_shard *shard, struct ls_err *err)
{
    if (!shard->path)
        return LS_OK;
    ls_status status = write_header(shard, err);
    if (!status && fsync(shard->fd))
        status =
            ls_fail(err, LS_E_IO, "cannot make %s durable: %s", shard->part, strerror(errno));
    if (!status && rename(shard->part, shard->path))
        status = ls_fail(err, LS_E_IO, "cannot name %s: %s", shard->path, strerror(errno));
    let_go(shard);
    return status;
}

void ls_shard_abandon(struct ls_shard *shard)
{
    if (!shard->path)
        return;
    unlink(shard->part);
    let_go(shard);
}
