#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* poll() is never restarted. */
int ls_wait_to_read(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return poll(&wait, 1, -1) < 0 ? -1 : 0;
}

/* The descriptor with calls that wait, or -1. */
static int finish(int fd, bool is_open)
{
    const int flags = is_open ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0 && !fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

int ls_open_read(const char *path)
{
    struct stat s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return finish(fd,
                  fd >= 0 && !fstat(fd, &s) && (!S_ISFIFO(s.st_mode) || !ls_wait_to_read(fd)));
}

int ls_open_write(const char *path, int flags)
{
    const int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    return finish(fd, fd >= 0);
}
