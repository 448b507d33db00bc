#include "tensor/mapping.h"

#include "base/alloc.h"
#include "base/size.h"
#include "tensor/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux maps up to this much of a file around a fault (fault_around_bytes), aligned. */
enum { FAULT_WINDOW = 65536 };

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static ls_status open_regular(const char *path, int *fd, uint64_t *size, struct ls_err *err)
{
    struct stat st;
    /* Without O_NONBLOCK a FIFO in place of the file would hold the job here for ever. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return ls_fail(err, LS_E_IO, "%s: cannot open: %s", last_part(path), strerror(errno));
    if (fstat(*fd, &st) < 0) {
        ls_fail(err, LS_E_IO, "%s: cannot stat: %s", last_part(path), strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        ls_fail(err, LS_E_IO, "%s: not a regular file", last_part(path));
    } else {
        *size = (uint64_t)st.st_size;
        return LS_OK;
    }
    close(*fd);
    return LS_E_IO;
}

ls_status ls_mapping_open(struct ls_mapping *m, const char *path, struct ls_err *err)
{
    int fd;
    struct ls_mapping got = { 0 };
    ls_status s = open_regular(path, &fd, &got.size, err);
    if (s)
        return s;
    if (got.size) {
        got.base = mmap(NULL, got.size, PROT_READ, MAP_SHARED, fd, 0);
        if (got.base == MAP_FAILED)
            s = ls_fail(err, LS_E_IO, "%s: cannot map %" PRIu64 " bytes: %s", last_part(path),
                        got.size, strerror(errno));
    }
    close(fd);
    if (!s)
        *m = got;
    return s;
}

void ls_mapping_close(struct ls_mapping *m)
{
    if (m->base)
        munmap(m->base, m->size);
    *m = (struct ls_mapping){ 0 };
}

void ls_mapping_release(const struct ls_mapping *m, const void *data, uint64_t bytes)
{
    if (!m->base || !bytes)
        return;
    const uintptr_t start = (uintptr_t)m->base, end = start + m->size;
    uintptr_t low = (uintptr_t)data & ~(uintptr_t)(FAULT_WINDOW - 1);
    uintptr_t high = ls_round_up((uintptr_t)data + bytes, FAULT_WINDOW);
    low = low < start ? start : low;
    high = high > end ? end : high;
    madvise((void *)low, high - low, MADV_DONTNEED);
}

static bool inside(const struct ls_mapping *m, int n, uintptr_t low, uintptr_t high)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < n; i++) {
        const uintptr_t start = (uintptr_t)m[i].base;
        if (m[i].base && low >= start && high <= start + ls_round_up(m[i].size, page))
            return true;
    }
    return false;
}

ls_status ls_mapping_resident(const struct ls_mapping *m, int n, uint64_t *bytes,
                              struct ls_err *err)
{
    char line[512];
    uint64_t low, high, kib, total = 0;
    bool ours = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    if (!f)
        return ls_fail(err, LS_E_IO, "/proc/self/smaps: cannot open: %s", strerror(errno));
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &low, &high) == 2)
            ours = inside(m, n, low, high);
        else if (ours && sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
            total += kib * 1024;
    }
    fclose(f);
    *bytes += total;
    return LS_OK;
}

static ls_status read_all(int fd, char *to, uint64_t n, const char *path, struct ls_err *err)
{
    for (uint64_t done = 0; done < n;) {
        const ssize_t got = read(fd, to + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ls_fail(err, LS_E_IO, "%s: cannot read: %s", last_part(path),
                           strerror(errno));
        if (got == 0)
            return ls_fail(err, LS_E_IO, "%s: ended at byte %" PRIu64 " of %" PRIu64,
                           last_part(path), done, n);
        done += (uint64_t)got;
    }
    return LS_OK;
}

ls_status ls_file_read(const char *path, uint64_t max_bytes, char **out, size_t *n,
                       struct ls_err *err)
{
    int fd;
    uint64_t size = 0;
    void *buffer = NULL;
    ls_status s = open_regular(path, &fd, &size, err);
    if (s)
        return s;
    if (size > max_bytes)
        s = ls_fail(err, LS_E_FORMAT, "%s: %" PRIu64 " bytes, at most %" PRIu64 " are read",
                    last_part(path), size, max_bytes);
    if (!s)
        s = ls_alloc(&buffer, size + 1, last_part(path), err);
    if (!s)
        s = read_all(fd, buffer, size, path, err);
    close(fd);
    if (s) {
        ls_free(buffer);
        return s;
    }
    *out = buffer;
    *n = size;
    return LS_OK;
}
