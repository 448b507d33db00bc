/* Frames between rank 0, the chat server and Python: a length and that many bytes, over pipes.
 *
 * Layer: app. Local. A frame is 4 bytes of length, little-endian, and the body. Both ends are
 * ours and on this machine; lengths are checked all the same. No wait is endless unless asked
 * for. */
#ifndef LS_APP_CHAT_LINK_H
#define LS_APP_CHAT_LINK_H

#include "text/buffer.h"

#include <stdint.h>

enum { LS_CHAT_FRAME = 256 << 20 }; /* bytes of a body, at most */

enum ls_chat_end {
    LS_CHAT_OK,
    LS_CHAT_GONE, /* the other end is closed, or broke the format */
    LS_CHAT_LATE, /* not within the time */
    LS_CHAT_LEFT, /* `watch` ended meanwhile */
};

/* A descriptor that never blocks; its end of the pipe only. */
void ls_chat_unblock(int fd);

/* timeout_ms: for the whole frame; -1: for ever. watch: a descriptor on which nothing may come
 * before this frame is through, so that anything there is its end; -1: none. */
enum ls_chat_end ls_chat_write(int fd, const void *body, size_t n, int watch, int timeout_ms);
/* Replaces *body. */
enum ls_chat_end ls_chat_read(int fd, struct ls_bytes *body, int watch, int timeout_ms);

#endif
