#include "jobs/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_BLOCK = 256 * 1024 };

ls_status ls_input_open(int *fd, const char *path, struct ls_err *err)
{
    struct stat s;
    const int got = open(path, O_RDONLY | O_CLOEXEC);
    if (got < 0 || fstat(got, &s)) {
        ls_fail(err, LS_E_IO, "cannot open input %s: %s", path, strerror(errno));
        if (got >= 0)
            close(got);
        return LS_E_IO;
    }
    if (S_ISDIR(s.st_mode)) {
        close(got);
        return ls_fail(err, LS_E_USAGE, "input %s is a folder", path);
    }
    *fd = got;
    return LS_OK;
}

static ls_status write_all(int fd, const char *data, size_t n, const char *path,
                           struct ls_err *err)
{
    while (n) {
        ssize_t put = write(fd, data, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return ls_fail(err, ls_io_status(errno), "cannot copy standard input to %s: %s",
                           path, put ? strerror(errno) : "nothing was written");
        data += put;
        n -= (size_t)put;
    }
    return LS_OK;
}

/* *any: there was a byte. */
static ls_status copy(int to, const char *path, bool *any, struct ls_err *err)
{
    char *block = malloc(COPY_BLOCK);
    ls_status status = block ? LS_OK : ls_fail(err, LS_E_MEMORY, "out of memory to copy input");
    *any = false;
    while (!status) {
        ssize_t got = read(STDIN_FILENO, block, COPY_BLOCK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = ls_fail(err, LS_E_IO, "cannot read standard input: %s", strerror(errno));
        else if (got > 0)
            status = write_all(to, block, (size_t)got, path, err);
        if (got <= 0)
            break;
        *any = true;
    }
    free(block);
    return status;
}

static ls_status spool(const char *part, const char *path, bool fresh, struct ls_err *err)
{
    bool any;
    int to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (to < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make %s: %s", part, strerror(errno));
    ls_status status = copy(to, part, &any, err);
    if (!status && fsync(to))
        status = ls_fail(err, ls_io_status(errno), "cannot make %s durable: %s", part,
                         strerror(errno));
    close(to);
    const bool keep_old = !status && !any && !fresh && !access(path, F_OK);
    if (!status && !keep_old && rename(part, path))
        status = ls_fail(err, ls_io_status(errno), "cannot make %s: %s", path, strerror(errno));
    if (status || keep_old)
        unlink(part);
    return status;
}

ls_status ls_input_spool(int *fd, const char *folder, bool fresh, struct ls_err *err)
{
    char *path, *part = NULL;
    if (asprintf(&path, "%s/input", folder) < 0)
        path = NULL;
    if (path && asprintf(&part, "%s.part", path) < 0)
        part = NULL;
    ls_status status = part ? spool(part, path, fresh, err)
                            : ls_fail(err, LS_E_MEMORY, "out of memory for the path of input");
    if (!status)
        status = ls_input_open(fd, path, err);
    free(part);
    free(path);
    return status;
}
