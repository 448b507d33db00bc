#include "app/chat_link.h"

#include "base/clock.h"
#include "base/le.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

struct transfer {
    int fd, watch;
    short events;
    bool endless;
    uint64_t deadline_us;
};

void ls_chat_unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static struct transfer transfer_of(int fd, int watch, short events, int timeout_ms)
{
    return (struct transfer){ .fd = fd,
                              .watch = watch,
                              .events = events,
                              .endless = timeout_ms < 0,
                              .deadline_us = ls_now_us() + (uint64_t)timeout_ms * 1000 };
}

/* Until fd can move bytes. */
static enum ls_chat_end await(const struct transfer *t)
{
    struct pollfd fds[2] = { { t->fd, t->events, 0 }, { t->watch, POLLIN, 0 } };
    for (;;) {
        int wait_ms = -1;
        if (!t->endless) {
            const uint64_t now = ls_now_us();
            if (now >= t->deadline_us)
                return LS_CHAT_LATE;
            wait_ms = (int)((t->deadline_us - now) / 1000) + 1;
        }
        const int n = poll(fds, 2, wait_ms);
        if (n < 0 && errno != EINTR)
            return LS_CHAT_GONE;
        if (n > 0 && fds[1].revents)
            return LS_CHAT_LEFT;
        if (n > 0)
            return LS_CHAT_OK;
    }
}

static enum ls_chat_end move(const struct transfer *t, unsigned char *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        const enum ls_chat_end end = await(t);
        if (end)
            return end;
        const ssize_t moved = t->events == POLLIN ? read(t->fd, data + at, n - at)
                                                  : write(t->fd, data + at, n - at);
        if (moved > 0)
            at += (size_t)moved;
        else if (moved == 0 || (errno != EINTR && errno != EAGAIN))
            return LS_CHAT_GONE;
    }
    return LS_CHAT_OK;
}

enum ls_chat_end ls_chat_write(int fd, const void *body, size_t n, int watch, int timeout_ms)
{
    const struct transfer t = transfer_of(fd, watch, POLLOUT, timeout_ms);
    unsigned char head[4];
    if (n > LS_CHAT_FRAME)
        return LS_CHAT_GONE;
    ls_le_put(head, n, sizeof head);
    const enum ls_chat_end end = move(&t, head, sizeof head);
    return end ? end : move(&t, (unsigned char *)(uintptr_t)body, n);
}

enum ls_chat_end ls_chat_read(int fd, struct ls_bytes *body, int watch, int timeout_ms)
{
    const struct transfer t = transfer_of(fd, watch, POLLIN, timeout_ms);
    unsigned char head[4];
    enum ls_chat_end end = move(&t, head, sizeof head);
    if (end)
        return end;
    const uint32_t n = ls_le_get32(head);
    body->n = 0;
    if (n > LS_CHAT_FRAME || ls_bytes_reserve(body, n, NULL))
        return LS_CHAT_GONE;
    end = move(&t, body->data, n);
    body->n = end ? 0 : n;
    return end;
}
