#include "jobs/input.h"

#include "base/open.h"

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
    const int got = ls_open_read(path);
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

bool ls_input_is_file(int fd)
{
    struct stat s;
    return !fstat(fd, &s) && S_ISREG(s.st_mode);
}

/* What is copied, and where to. */
struct copy {
    const char *name, *path;
    int from, to;
};

static ls_status write_all(const struct copy *c, const char *data, size_t n, struct ls_err *err)
{
    while (n) {
        ssize_t put = write(c->to, data, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return ls_fail(err, ls_io_status(errno), "cannot copy %s to %s: %s", c->name,
                           c->path, put ? strerror(errno) : "nothing was written");
        data += put;
        n -= (size_t)put;
    }
    return LS_OK;
}

/* *any: there was a byte. */
static ls_status copy(const struct copy *c, bool *any, struct ls_err *err)
{
    char *block = malloc(COPY_BLOCK);
    ls_status status = block ? LS_OK : ls_fail(err, LS_E_MEMORY, "out of memory to copy input");
    *any = false;
    while (!status) {
        ssize_t got = ls_wait_to_read(c->from) ? -1 : read(c->from, block, COPY_BLOCK);
        if (got < 0)
            status = ls_fail(err, LS_E_IO, "cannot read %s: %s", c->name, strerror(errno));
        else if (got > 0)
            status = write_all(c, block, (size_t)got, err);
        if (got <= 0)
            break;
        *any = true;
    }
    free(block);
    return status;
}

static ls_status spool(struct copy *c, const char *path, bool fresh, struct ls_err *err)
{
    bool any;
    const char *const part = c->path;
    c->to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->to < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make %s: %s", part, strerror(errno));
    ls_status status = copy(c, &any, err);
    if (!status && fsync(c->to))
        status = ls_fail(err, ls_io_status(errno), "cannot make %s durable: %s", part,
                         strerror(errno));
    close(c->to);
    const bool keep_old = !status && !any && !fresh && !access(path, F_OK);
    if (!status && !keep_old && rename(part, path))
        status = ls_fail(err, ls_io_status(errno), "cannot make %s: %s", path, strerror(errno));
    if (status || keep_old)
        unlink(part);
    return status;
}

ls_status ls_input_spool(int *fd, const char *name, const char *folder, bool fresh,
                         struct ls_err *err)
{
    char *path, *part = NULL;
    if (asprintf(&path, "%s/input", folder) < 0)
        path = NULL;
    if (path && asprintf(&part, "%s.part", path) < 0)
        part = NULL;
    struct copy c = { .name = name, .path = part, .from = *fd };
    ls_status status = part ? spool(&c, path, fresh, err)
                            : ls_fail(err, LS_E_MEMORY, "out of memory for the path of input");
    if (!status && c.from > STDIN_FILENO)
        close(c.from);
    if (!status)
        status = ls_input_open(fd, path, err);
    free(part);
    free(path);
    return status;
}
