#include "app/chat_server.h"

#include "app/chat_link.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

struct server {
    int in, out;
    const char *script;
    struct ls_bytes setting, request, reply;
    pid_t python; /* 0: not running */
    int to, from; /* its standard input and output */
    bool fatal;   /* `reply` holds the answer to everything */
};

static void set_reply(struct server *s, const char *key, const char *text)
{
    json_t *object = json_pack("{s:s}", key, text);
    char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
    s->reply.n = 0;
    if (!body || ls_bytes_text(&s->reply, body, NULL))
        _exit(1);
    free(body);
    json_decref(object);
}

static void become_python(const struct server *s, int in, int out)
{
    char *const words[] = { (char *)(uintptr_t) "python3", (char *)(uintptr_t)s->script,
                            (char *)(uintptr_t) "--serve", NULL };
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execvp(words[0], words);
    _exit(NOT_FOUND);
}

/* False when there are no descriptors or no process to be had. */
static bool start_python(struct server *s)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC))
        return false;
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    s->python = fork();
    if (s->python == 0)
        become_python(s, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    s->to = to[1];
    s->from = from[0];
    ls_chat_unblock(s->to);
    ls_chat_unblock(s->from);
    if (s->python > 0)
        return true;
    s->python = 0;
    close(s->to);
    close(s->from);
    return false;
}

/* Ends Python and says how it ended; late: it was still running. */
static void end_python(struct server *s, bool late, char *how, size_t size)
{
    int status = 0;
    close(s->to);
    close(s->from);
    if (late)
        kill(s->python, SIGKILL);
    while (waitpid(s->python, &status, 0) < 0)
        ;
    s->python = 0;
    if (late)
        snprintf(how, size, "did not answer in time");
    else if (WIFSIGNALED(status))
        snprintf(how, size, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, size, "ended with code %d", WEXITSTATUS(status));
    if (!late && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        snprintf(how, size, "python3 is not on the PATH");
}

/* One frame to Python and one back. Rank 0 sends nothing before its answer, so anything on `in`
 * is its end. */
static enum ls_chat_end ask(struct server *s, const struct ls_bytes *frame, int timeout_ms)
{
    const enum ls_chat_end end = ls_chat_write(s->to, frame->data, frame->n, s->in, timeout_ms);
    return end ? end : ls_chat_read(s->from, &s->reply, s->in, timeout_ms);
}

static void leave(struct server *s)
{
    char how[64];
    if (s->python)
        end_python(s, true, how, sizeof how);
    _exit(0);
}

static bool says_ready(const struct ls_bytes *reply)
{
    json_t *object = json_loadb((const char *)reply->data, reply->n, 0, NULL);
    const bool ready = json_is_true(json_object_get(object, "ready"));
    json_decref(object);
    return ready;
}

/* Brings Python up; false: *s says why nothing can be rendered. */
static bool prepare(struct server *s)
{
    char how[64], text[160];
    if (s->python)
        return true;
    s->fatal = true;
    if (!start_python(s)) {
        set_reply(s, "fatal", "no process can be started for chat templates");
        return false;
    }
    const enum ls_chat_end end = ask(s, &s->setting, LS_CHAT_START_MS);
    if (end == LS_CHAT_LEFT)
        leave(s);
    s->fatal = end != LS_CHAT_OK || !says_ready(&s->reply);
    if (!s->fatal)
        return true;
    end_python(s, end == LS_CHAT_LATE, how, sizeof how);
    if (end) {
        snprintf(text, sizeof text, "chat templates need python3 with jinja2: %s%s",
                 !strncmp(how, "python3", 7) ? "" : "python3 ", how);
        set_reply(s, "fatal", text);
    }
    return false;
}

static void answer(struct server *s)
{
    char how[64], text[160];
    if (s->fatal || !prepare(s))
        return;
    const enum ls_chat_end end = ask(s, &s->request, LS_CHAT_ANSWER_MS);
    if (end == LS_CHAT_LEFT)
        leave(s);
    if (end == LS_CHAT_OK)
        return;
    end_python(s, end == LS_CHAT_LATE, how, sizeof how);
    snprintf(text, sizeof text, "the process that renders chat templates %s", how);
    set_reply(s, "error", text);
}

/* What stops rank 0 reaches the whole process group; this process ends when rank 0 does. */
static void settle(int in, int out)
{
    const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE };
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* waitpid must find its children */
    /* nothing else of rank 0's is this process's business: a secret's descriptor above all */
    const unsigned low = (unsigned)(in < out ? in : out),
                   high = (unsigned)(in < out ? out : in);
    if (low > 3)
        close_range(3, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
}

void ls_chat_serve(int in, int out, const char *script)
{
    struct server s = { .in = in, .out = out, .script = script };
    settle(in, out);
    if (ls_chat_read(in, &s.setting, -1, -1))
        _exit(0);
    while (ls_chat_read(in, &s.request, -1, -1) == LS_CHAT_OK) {
        answer(&s);
        if (ls_chat_write(out, s.reply.data, s.reply.n, -1, -1))
            break;
    }
    leave(&s);
    _exit(0);
}
