#include "pipeline/secret_file.h"

#include "base/clock.h"
#include "base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_WAIT_MS = 10000 };

enum { SHARED_NAME = sizeof "/lockstep-" + 2 * LS_SECRET_NAME };

/* --- reading ------------------------------------------------------------------------------ */

/* The descriptor's bytes, up to room; -1 with errno, ETIMEDOUT when they have no end in time.
 */
static ssize_t read_all(int fd, unsigned char *bytes, size_t room)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    const uint64_t end_us = ls_now_us() + 1000u * (uint64_t)READ_WAIT_MS;
    size_t n = 0;
    while (n < room) {
        const uint64_t now_us = ls_now_us();
        int there = now_us < end_us ? poll(&ready, 1, (int)((end_us - now_us) / 1000 + 1)) : 0;
        if (there == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        ssize_t got = there < 0 ? -1 : read(fd, bytes + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static ls_status parse_fd(struct ls_secret **out, int fd, const char *what, struct ls_err *err)
{
    unsigned char bytes[LS_SECRET_FILE_MAX + 1]; /* one more shows that the file is too long */
    ssize_t n = read_all(fd, bytes, sizeof bytes);
    ls_status s = LS_OK;
    if (n < 0 && errno == ETIMEDOUT)
        s = ls_fail(err, LS_E_IO, "cannot be read: no end of it in %d s", READ_WAIT_MS / 1000);
    else if (n < 0)
        s = ls_fail(err, LS_E_IO, "cannot be read: %s", strerror(errno));
    else
        s = ls_secret_parse(out, bytes, (size_t)n, err);
    sodium_memzero(bytes, sizeof bytes);
    if (s)
        ls_fail_prefix(err, "%s", what);
    return s;
}

/* The opened file itself is looked at, so nobody can change it in between. */
static ls_status check_private(int fd, const char *path, struct ls_err *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    if (LS_GUARD("secret-regular") && !S_ISREG(st.st_mode))
        return ls_fail(err, LS_E_REFUSED, "%s: not a regular file", path);
    if (LS_GUARD("secret-owner") && st.st_uid != geteuid())
        return ls_fail(err, LS_E_REFUSED, "%s: belongs to user %u, expected %u, who runs this",
                       path, (unsigned)st.st_uid, (unsigned)geteuid());
    if (LS_GUARD("secret-mode") && (st.st_mode & 07777 & ~(mode_t)0600))
        return ls_fail(err, LS_E_REFUSED,
                       "%s: mode %04o, expected 0600: a secret that others may read is none; "
                       "chmod 600 it, or make a new one with lockstep keygen",
                       path, (unsigned)st.st_mode & 07777);
    return LS_OK;
}

ls_status ls_secret_read_file(struct ls_secret **out, const char *path, struct ls_err *err)
{
    char what[256];
    /* NONBLOCK: a fifo is refused, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    ls_status s = check_private(fd, path, err);
    snprintf(what, sizeof what, "%s", path);
    if (!s)
        s = parse_fd(out, fd, what, err);
    close(fd);
    return s;
}

ls_status ls_secret_read_fd(struct ls_secret **out, int fd, struct ls_err *err)
{
    char what[32];
    struct stat st;
    snprintf(what, sizeof what, "descriptor %d", fd);
    if (fstat(fd, &st))
        return ls_fail(err, LS_E_IO, "%s: %s", what, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return ls_fail(err, LS_E_REFUSED, "%s: neither a file nor a pipe", what);
    ls_status s = parse_fd(out, fd, what, err);
    close(fd);
    return s;
}

/* --- writing ------------------------------------------------------------------------------ */

static bool write_all(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        at += written;
        n -= (size_t)written;
    }
    return true;
}

ls_status ls_secret_write_file(const struct ls_secret *secret, const char *path,
                               const char *about, struct ls_err *err)
{
    char line[LS_SECRET_LINE + 2], first[LS_ERR_TEXT];
    int fd = open(path,
                  O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                      (LS_GUARD("secret-overwrite") ? O_EXCL : O_TRUNC),
                  0600);
    if (fd < 0)
        return ls_fail(err, LS_E_IO, "%s: %s", path,
                       errno == EEXIST ? "is there already; a key file is never overwritten"
                                       : strerror(errno));
    snprintf(first, sizeof first, "# %s\n", about);
    ls_secret_print(secret, line);
    line[LS_SECRET_LINE] = '\n';
    bool good = !fchmod(fd, 0600) && write_all(fd, first, strlen(first)) &&
                write_all(fd, line, LS_SECRET_LINE + 1) && !fsync(fd);
    int error = errno;
    sodium_memzero(line, sizeof line);
    good = !close(fd) && good;
    if (good)
        return LS_OK;
    unlink(path);
    return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(error));
}

/* --- one host ----------------------------------------------------------------------------- */

static void shared_name(const uint8_t name[LS_SECRET_NAME], char text[SHARED_NAME])
{
    memcpy(text, "/lockstep-", sizeof "/lockstep-");
    sodium_bin2hex(text + strlen(text), 2 * LS_SECRET_NAME + 1, name, LS_SECRET_NAME);
}

ls_status ls_secret_publish(const struct ls_secret *secret, uint8_t name[LS_SECRET_NAME],
                            struct ls_err *err)
{
    char text[SHARED_NAME];
    randombytes_buf(name, LS_SECRET_NAME);
    shared_name(name, text);
    int fd = shm_open(text, O_WRONLY | O_CREAT | O_EXCL, 0600);
    bool good = fd >= 0 && write_all(fd, ls_secret_bytes(secret), LS_SECRET_BYTES);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (good)
        return LS_OK;
    if (fd >= 0)
        shm_unlink(text);
    return ls_fail(err, LS_E_REFUSED,
                   "no shared memory to hand the ephemeral secret over in (%s); make a secret "
                   "with lockstep keygen and give --secret-file",
                   strerror(error));
}

ls_status ls_secret_fetch(struct ls_secret **out, const uint8_t name[LS_SECRET_NAME],
                          struct ls_err *err)
{
    char text[SHARED_NAME];
    shared_name(name, text);
    int fd = shm_open(text, O_RDONLY, 0);
    if (fd < 0)
        return ls_fail(
            err, LS_E_REFUSED,
            "the ephemeral secret of rank 0 is not in this rank's shared memory (%s); "
            "make a secret with lockstep keygen and give --secret-file",
            strerror(errno));
    ls_status s = check_private(fd, "the ephemeral secret", err);
    if (!s)
        s = parse_fd(out, fd, "the ephemeral secret", err);
    close(fd);
    return s;
}

void ls_secret_withdraw(const uint8_t name[LS_SECRET_NAME])
{
    char text[SHARED_NAME];
    shared_name(name, text);
    shm_unlink(text);
}
