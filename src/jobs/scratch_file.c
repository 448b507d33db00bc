#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ls_status ls_scratch_open(int *fd, const char *folder, struct ls_err *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/scratch.XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return ls_fail(err, LS_E_IO, "path too long: %s", folder);
    int made = mkostemp(path, O_CLOEXEC);
    if (made < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make a scratch file in %s: %s", folder,
                       strerror(errno));
    unlink(path);
    *fd = made;
    return LS_OK;
}

ls_status ls_read_at(int fd, void *data, size_t n, uint64_t off, const char *where,
                     struct ls_err *err)
{
    char *to = data;
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)off);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ls_fail(err, LS_E_IO, "cannot read in %s: %s", where, strerror(errno));
        if (got == 0) {
            memset(to, 0, n);
            return LS_OK;
        }
        to += got;
        n -= (size_t)got;
        off += (uint64_t)got;
    }
    return LS_OK;
}

/* Returns 0, or the errno of the write that failed. */
static int write_all(int fd, const void *data, size_t n, uint64_t off)
{
    const char *from = data;
    while (n) {
        ssize_t put = pwrite(fd, from, n, (off_t)off);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put ? errno : ENOSPC;
        from += put;
        n -= (size_t)put;
        off += (uint64_t)put;
    }
    return 0;
}

ls_status ls_write_at(int fd, const void *data, size_t n, uint64_t off, const char *path,
                      struct ls_err *err)
{
    const int why = write_all(fd, data, n, off);
    return why ? ls_fail(err, ls_io_status(why), "cannot write %s: %s", path, strerror(why))
               : LS_OK;
}

ls_status ls_scratch_write(int fd, const void *data, size_t n, uint64_t off, const char *folder,
                           struct ls_err *err)
{
    const int why = write_all(fd, data, n, off);
    return why ? ls_fail(err, ls_io_status(why), "cannot write a scratch file in %s: %s",
                         folder, strerror(why))
               : LS_OK;
}
