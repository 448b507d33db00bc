/* The small process between rank 0 and Python.
 *
 * Layer: app. It is forked before MPI starts, because a process that uses MPI must not fork. It
 * starts Python only when the first chat comes, starts it again when it died, gives up one that
 * does not answer, and ends with Python when rank 0's end of the pipe closes, however rank 0
 * ended. */
#ifndef LS_APP_CHAT_SERVER_H
#define LS_APP_CHAT_SERVER_H

enum {
    LS_CHAT_START_MS = 120 * 1000, /* for Python to come up: file systems can be slow */
    LS_CHAT_ANSWER_MS = 20 * 1000, /* for one chat */
};

/* Runs in the forked process and does not return. in, out: its ends of the pipes to rank 0;
 * script: render_chat.py. The first frame is the setting; each later one is a request and is
 * answered by {"text"}, {"error"} (this chat) or {"fatal"} (every chat). */
void ls_chat_serve(int in, int out, const char *script) __attribute__((noreturn));

#endif
