#include "base/ring.h"

#include "base/fault.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

bool ls_ring_fits(uint64_t bytes)
{
    return bytes > 0 && bytes % (uint64_t)sysconf(_SC_PAGESIZE) == 0 && bytes < INT64_MAX / 2;
}

/* Both halves over the address space that was reserved at `at`. A shared mapping of no file: a
 * limit on the size of files has no part in it. Remapping from an old size of 0 makes a second
 * mapping of the same pages. */
static bool map_twice(char *at, size_t n)
{
    const int protection = PROT_READ | PROT_WRITE;
    return mmap(at, n, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at &&
           mremap(at, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, at + n) == at + n;
}

static char *make(size_t n)
{
    void *at = LS_FAULT_MEMORY
                   ? MAP_FAILED
                   : mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (map_twice(at, n))
        return at;
    munmap(at, 2 * n);
    return NULL;
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
