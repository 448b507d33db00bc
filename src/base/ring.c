#include "base/ring.h"

#include "base/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool ls_ring_fits(uint64_t bytes)
{
    return bytes > 0 && bytes % (uint64_t)sysconf(_SC_PAGESIZE) == 0 && bytes < INT64_MAX / 2;
}

/* Both halves over the address space that was reserved at `at`. */
static bool map_twice(char *at, int fd, size_t n)
{
    for (int half = 0; half < 2; half++)
        if (mmap(at + half * n, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED)
            return false;
    return true;
}

static char *make(size_t n)
{
    int fd = LS_FAULT_MEMORY ? -1 : memfd_create("lockstep ring", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)n)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    void *at = mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = at != MAP_FAILED && map_twice(at, fd, n);
    if (!good && at != MAP_FAILED)
        munmap(at, 2 * n);
    close(fd);
    return good ? at : NULL;
}

ls_status ls_ring_alloc(void **out, uint64_t bytes, const char *what, struct ls_err *err)
{
    *out = ls_ring_fits(bytes) ? make((size_t)bytes) : NULL;
    if (*out)
        return LS_OK;
    return ls_fail(err, LS_E_MEMORY, "out of memory: %" PRIu64 " bytes in a ring for %s", bytes,
                   what);
}

void ls_ring_free(void *ring, uint64_t bytes)
{
    if (ring)
        munmap(ring, 2 * (size_t)bytes);
}
