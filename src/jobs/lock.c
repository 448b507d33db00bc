#include "jobs/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void owner_text(char out[LS_OWNER_TEXT])
{
    char host[128] = "?";
    const char *job = getenv("SLURM_JOB_ID");
    gethostname(host, sizeof host - 1);
    snprintf(out, LS_OWNER_TEXT, "host %.100s, pid %ld%s%.32s\n", host, (long)getpid(),
             job ? ", job " : "", job ? job : "");
}

static void read_owner(int fd, char out[LS_OWNER_TEXT])
{
    ssize_t n = pread(fd, out, LS_OWNER_TEXT - 1, 0);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

/* Without file locks: whether the owner that the file names may still be alive. Another host's
 * cannot be asked. */
static bool owner_lives(const char *owner)
{
    char host[128] = "", mine[128] = "?";
    long pid = 0;
    gethostname(mine, sizeof mine - 1);
    if (sscanf(owner, "host %127[^,], pid %ld", host, &pid) != 2)
        return false;
    return strcmp(host, mine) || kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

enum hold { HELD, TAKEN_BY_OTHER, NO_LOCKS_HERE };

static enum hold try_lock(int fd)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
        return HELD;
    return errno == EAGAIN || errno == EACCES ? TAKEN_BY_OTHER : NO_LOCKS_HERE;
}

/* True when the path still leads to fd: a former holder may have removed the file between our
 * opening and locking it. */
static bool still_there(int fd, const char *path)
{
    struct stat a, b;
    return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static ls_status open_and_lock(int *fd, const char *path, const char *what, struct ls_err *err)
{
    for (;;) {
        char owner[LS_OWNER_TEXT];
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*fd < 0)
            return ls_fail(err, ls_io_status(errno), "cannot open %s: %s", path,
                           strerror(errno));
        enum hold hold = try_lock(*fd);
        read_owner(*fd, owner);
        if (hold == TAKEN_BY_OTHER || (hold == NO_LOCKS_HERE && owner_lives(owner)))
            return ls_fail(err, LS_E_REFUSED, "%s is held by another job (%s); its lock is %s",
                           what, owner[0] ? owner : "unknown", path);
        if (still_there(*fd, path))
            return LS_OK;
        close(*fd);
    }
}

ls_status ls_lock_take(struct ls_lock *lock, const char *folder, const char *what,
                       struct ls_err *err)
{
    struct ls_lock l = { .fd = -1 };
    char owner[LS_OWNER_TEXT];
    if (asprintf(&l.path, "%s/lock", folder) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a lock");
    ls_status status = open_and_lock(&l.fd, l.path, what, err);
    const bool ours = !status;
    owner_text(owner);
    const ssize_t length = (ssize_t)strlen(owner);
    if (!status && (ftruncate(l.fd, 0) || pwrite(l.fd, owner, (size_t)length, 0) != length))
        status =
            ls_fail(err, ls_io_status(errno), "cannot write %s: %s", l.path, strerror(errno));
    if (status) {
        if (l.fd >= 0 && ours)
            unlink(l.path);
        if (l.fd >= 0)
            close(l.fd);
        free(l.path);
        return status;
    }
    *lock = l;
    return LS_OK;
}

ls_status ls_lock_look(const char *folder, bool *held, char owner[LS_OWNER_TEXT],
                       struct ls_err *err)
{
    char *path;
    *held = false;
    owner[0] = 0;
    if (asprintf(&path, "%s/lock", folder) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a lock");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ls_status status = LS_OK;
    if (fd < 0 && errno != ENOENT)
        status = ls_fail(err, ls_io_status(errno), "cannot open %s: %s", path, strerror(errno));
    if (fd >= 0) {
        struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        read_owner(fd, owner);
        *held = fcntl(fd, F_OFD_GETLK, &whole) ? owner_lives(owner) : whole.l_type != F_UNLCK;
        close(fd);
    }
    if (!*held)
        owner[0] = 0;
    free(path);
    return status;
}

void ls_lock_release(struct ls_lock *lock)
{
    if (!lock->path)
        return;
    unlink(lock->path);
    close(lock->fd);
    free(lock->path);
    *lock = (struct ls_lock){ .fd = -1 };
}
