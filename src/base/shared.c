#include "base/shared.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static bool map(struct ls_shared *shared, int fd, int protection, void *at)
{
    void *p = mmap(at, shared->n, protection, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    if (p == MAP_FAILED)
        return false;
    madvise(p, shared->n, MADV_HUGEPAGE); /* nothing depends on it */
    shared->bytes = p;
    return true;
}

ls_status ls_shared_create(struct ls_shared *shared, uint64_t n, const char *what,
                           struct ls_err *err)
{
    *shared = (struct ls_shared){ .n = n, .fd = -1 };
    if (n <= INT64_MAX && !LS_FAULT_MEMORY)
        shared->fd = memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (shared->fd >= 0 && !ftruncate(shared->fd, (off_t)n) &&
        map(shared, shared->fd, PROT_READ | PROT_WRITE, NULL))
        return LS_OK;
    /* memory that has a descriptor counts as a file */
    ls_fail(err, LS_E_MEMORY, "out of shared memory: %" PRIu64 " bytes for %s: %s", n, what,
            errno == EFBIG ? "more than a file may have (ulimit -f)" : strerror(errno));
    ls_shared_finish(shared);
    return LS_E_MEMORY;
}

static int open_readable(uint32_t pid, int fd, char path[64])
{
    snprintf(path, 64, "/proc/%" PRIu32 "/fd/%d", pid, fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Write seals are refused while there is a mapping that could be made writable. */
ls_status ls_shared_freeze(struct ls_shared *shared, struct ls_err *err)
{
    char path[64];
    const int readable = open_readable((uint32_t)getpid(), shared->fd, path);
    const bool good = readable >= 0 && map(shared, readable, PROT_READ, shared->bytes) &&
                      !fcntl(shared->fd, F_ADD_SEALS, SEALS);
    if (!good)
        ls_fail(err, LS_E_MEMORY, "cannot freeze %" PRIu64 " bytes of shared memory: %s",
                shared->n, strerror(errno));
    if (readable >= 0)
        close(readable);
    return good ? LS_OK : LS_E_MEMORY;
}

static ls_status check(int fd, uint64_t n, struct ls_err *err)
{
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return ls_fail(err, LS_E_REFUSED, "it is not frozen shared memory");
    if (fstat(fd, &st) || (uint64_t)st.st_size != n)
        return ls_fail(err, LS_E_REFUSED, "it has not the %" PRIu64 " bytes that are expected",
                       n);
    return LS_OK;
}

ls_status ls_shared_adopt(struct ls_shared *shared, uint32_t pid, int fd, uint64_t n,
                          struct ls_err *err)
{
    char path[64];
    const int here = open_readable(pid, fd, path);
    *shared = (struct ls_shared){ .n = n, .fd = -1 };
    ls_status s =
        here < 0 ? ls_fail(err, LS_E_REFUSED, "%s", strerror(errno)) : check(here, n, err);
    if (!s && !map(shared, here, PROT_READ, NULL))
        s = ls_fail(err, LS_E_REFUSED, "it cannot be mapped: %s", strerror(errno));
    if (here >= 0)
        close(here);
    return s ? ls_fail_prefix(err, "shared memory %s", path) : LS_OK;
}

void ls_shared_finish(struct ls_shared *shared)
{
    if (shared->bytes)
        munmap(shared->bytes, shared->n);
    if (shared->fd >= 0)
        close(shared->fd);
    *shared = (struct ls_shared){ .fd = -1 };
}
