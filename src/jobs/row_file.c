#include "jobs/row_file.h"

#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 256 * 1024 };

static ls_status check_kind(const struct stat *s, const char *path, int input_fd,
                            struct ls_err *err)
{
    struct stat in;
    if (S_ISDIR(s->st_mode))
        return ls_fail(err, LS_E_USAGE, "output %s is a folder", path);
    if (S_ISREG(s->st_mode) && input_fd >= 0 && !fstat(input_fd, &in) &&
        in.st_dev == s->st_dev && in.st_ino == s->st_ino)
        return ls_fail(err, LS_E_USAGE, "output %s is the input file", path);
    return LS_OK;
}

ls_status ls_row_file_open(struct ls_row_file *file, const char *path, int input_fd,
                           struct ls_err *err)
{
    struct stat s;
    const bool there = stat(path, &s) == 0;
    ls_status status = there ? check_kind(&s, path, input_fd, err) : LS_OK;
    if (status)
        return status;
    const int how = there && !S_ISREG(s.st_mode) ? O_WRONLY : O_RDWR;
    int fd = ls_open_write(path, how | O_CREAT);
    if (fd < 0 || fstat(fd, &s)) {
        const int why = errno;
        if (fd >= 0)
            close(fd);
        return ls_fail(err, ls_io_status(why), "cannot write output %s: %s", path,
                       strerror(why));
    }
    *file = (struct ls_row_file){
        .path = path, .fd = fd, .regular = S_ISREG(s.st_mode), .made = !there
    };
    if (file->regular)
        file->old_bytes = (uint64_t)s.st_size;
    return LS_OK;
}

ls_status ls_row_file_empty(struct ls_row_file *file, struct ls_err *err)
{
    file->old_bytes = 0;
    if (file->regular && ftruncate(file->fd, 0))
        return ls_fail(err, ls_io_status(errno), "cannot empty output %s: %s", file->path,
                       strerror(errno));
    return LS_OK;
}

/* Keeps the last whole line that reached the file. */
static ls_status give_up(struct ls_row_file *f, size_t n_written, int why, struct ls_err *err)
{
    const char *end = n_written ? memrchr(f->waiting.data, '\n', n_written) : NULL;
    f->bytes += end ? (uint64_t)(end - f->waiting.data) + 1 : 0;
    f->failed = true;
    if (f->regular && ftruncate(f->fd, (off_t)f->bytes))
        return ls_fail(err, ls_io_status(why),
                       "cannot write output %s: %s; nor cut it back to its last whole line",
                       f->path, strerror(why));
    return ls_fail(err, ls_io_status(why), "cannot write output %s: %s", f->path,
                   strerror(why));
}

/* How many of the waiting bytes the file holds already; behind the first difference nothing of
 * it stays. */
static ls_status keep_equal(struct ls_row_file *f, size_t *n_equal, struct ls_err *err)
{
    char block[4096];
    size_t at = 0;
    while (at < f->waiting.n && f->bytes + at < f->old_bytes) {
        size_t want = f->waiting.n - at < sizeof block ? f->waiting.n - at : sizeof block;
        ssize_t got = pread(f->fd, block, want, (off_t)(f->bytes + at));
        if (got <= 0 || memcmp(block, f->waiting.data + at, (size_t)got))
            break;
        at += (size_t)got;
    }
    *n_equal = at;
    if (!f->old_bytes || (at == f->waiting.n && f->bytes + at <= f->old_bytes))
        return LS_OK;
    f->old_bytes = 0;
    if (ftruncate(f->fd, (off_t)(f->bytes + at)))
        return ls_fail(err, ls_io_status(errno), "cannot cut output %s: %s", f->path,
                       strerror(errno));
    return LS_OK;
}

ls_status ls_row_file_flush(struct ls_row_file *file, struct ls_err *err)
{
    size_t at = 0;
    if (file->failed)
        return ls_fail(err, LS_E_IO, "output %s failed before", file->path);
    ls_status status = keep_equal(file, &at, err);
    if (status)
        return status;
    while (at < file->waiting.n) {
        const char *from = file->waiting.data + at;
        const size_t left = file->waiting.n - at;
        ssize_t n = file->regular ? pwrite(file->fd, from, left, (off_t)(file->bytes + at))
                                  : write(file->fd, from, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return give_up(file, at, n < 0 ? errno : ENOSPC, err);
        at += (size_t)n;
    }
    file->bytes += at;
    file->waiting.n = 0;
    return LS_OK;
}

ls_status ls_row_file_add(struct ls_row_file *file, const void *rows, size_t n,
                          struct ls_err *err)
{
    ls_out_add(&file->waiting, rows, n);
    ls_status status = ls_out_check(&file->waiting, "rows to be written", err);
    if (!status && file->waiting.n >= BLOCK)
        status = ls_row_file_flush(file, err);
    return status;
}

ls_status ls_row_file_close(struct ls_row_file *file, bool whole, struct ls_err *err)
{
    ls_status status = file->failed ? LS_OK : ls_row_file_flush(file, err);
    if (whole && !status && file->old_bytes > file->bytes &&
        ftruncate(file->fd, (off_t)file->bytes))
        status = ls_fail(err, ls_io_status(errno), "cannot cut output %s: %s", file->path,
                         strerror(errno));
    if (!status && !file->failed && file->regular && fsync(file->fd))
        status = ls_fail(err, ls_io_status(errno), "cannot make output %s durable: %s",
                         file->path, strerror(errno));
    if (close(file->fd) && !status && !file->failed)
        status = ls_fail(err, ls_io_status(errno), "cannot close output %s: %s", file->path,
                         strerror(errno));
    file->fd = -1;
    ls_out_finish(&file->waiting);
    return status;
}

void ls_row_file_abandon(struct ls_row_file *file)
{
    struct stat s;
    if (file->fd < 0)
        return;
    if (file->made && file->regular && !fstat(file->fd, &s) && s.st_size == 0)
        unlink(file->path);
    close(file->fd);
    file->fd = -1;
    ls_out_finish(&file->waiting);
}
