#include "app/chat_process.h"

#include "app/chat_link.h"
#include "app/chat_server.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    /* the server's own limits come first */
    ANSWER_MS = LS_CHAT_START_MS + LS_CHAT_ANSWER_MS + 10000,
    END_MS = 3000,
};

/* In a build folder the program lies one below the sources; installed, in bin beside share. */
static bool find_script(char *path, size_t size)
{
    static const char *const beside[] = { "../src/tools", "../share/lockstep" };
    char program[3072];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    for (int i = 0; n > 0 && i < 2; i++) {
        program[n] = 0;
        snprintf(path, size, "%.*s/%s/render_chat.py", (int)(strrchr(program, '/') - program),
                 program, beside[i]);
        if (!access(path, R_OK))
            return true;
    }
    snprintf(path, size, "%s/src/tools/render_chat.py", LS_SOURCE_DIR);
    return !access(path, R_OK);
}

static ls_status unusable(struct ls_err *err, const char *why)
{
    return ls_fail(err, LS_E_REFUSED, "chat templates cannot be rendered: %s", why);
}

/* --- one chat --------------------------------------------------------------------------------
 */

static ls_status take_reply(struct ls_chat_process *p, struct ls_bytes *text,
                            struct ls_err *err)
{
    json_t *object = json_loadb((const char *)p->reply.data, p->reply.n, JSON_ALLOW_NUL, NULL);
    const json_t *rendered = json_object_get(object, "text");
    const char *error = json_string_value(json_object_get(object, "error"));
    const char *fatal = json_string_value(json_object_get(object, "fatal"));
    ls_status status;
    if (json_is_string(rendered))
        status = ls_bytes_append(text, json_string_value(rendered),
                                 json_string_length(rendered), err);
    else if (error)
        status = ls_fail(err, LS_E_REQUEST, "the chat template refuses this chat: %s", error);
    else
        status = unusable(err, fatal ? fatal : "an answer that makes no sense");
    json_decref(object);
    return status;
}

static ls_status render(void *arg, const char *request, size_t n, struct ls_bytes *text,
                        struct ls_err *err)
{
    struct ls_chat_process *p = arg;
    if (!p->pid)
        return unusable(err, "no process could be started for it");
    if (!p->setting)
        return unusable(err, "no checkpoint was named");
    enum ls_chat_end end = LS_CHAT_OK;
    if (!p->sent)
        end = ls_chat_write(p->to, p->setting, strlen(p->setting), -1, ANSWER_MS);
    p->sent = true;
    if (!end)
        end = ls_chat_write(p->to, request, n, -1, ANSWER_MS);
    if (!end)
        end = ls_chat_read(p->from, &p->reply, -1, ANSWER_MS);
    if (!end)
        return take_reply(p, text, err);
    ls_chat_end(p); /* the two no longer agree about whose turn it is */
    return unusable(err, end == LS_CHAT_LATE ? "its process does not answer"
                                             : "its process has died");
}

/* --- the process -----------------------------------------------------------------------------
 */

static void run_server(const int to[2], const int from[2])
{
    char script[4096];
    close(to[1]);
    close(from[0]);
    find_script(script, sizeof script); /* when it is not there, Python says so */
    ls_chat_serve(to[0], from[1], script);
}

void ls_chat_fork(struct ls_chat_process *p)
{
    int to[2], from[2];
    *p = (struct ls_chat_process){ .chat = { .arg = p, .render = render } };
    if (pipe2(to, O_CLOEXEC))
        return;
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return;
    }
    const pid_t pid = fork();
    if (pid == 0)
        run_server(to, from);
    close(to[0]);
    close(from[1]);
    p->to = to[1];
    p->from = from[0];
    p->pid = pid > 0 ? pid : 0;
    ls_chat_unblock(p->to);
    ls_chat_unblock(p->from);
    if (pid < 0) {
        close(p->to);
        close(p->from);
    }
}

void ls_chat_end(struct ls_chat_process *p)
{
    if (p->pid) {
        close(p->to);
        close(p->from);
        int waited_ms = 0;
        for (; waited_ms < END_MS && !waitpid(p->pid, NULL, WNOHANG); waited_ms += 5)
            usleep(5000);
        if (waited_ms >= END_MS) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, NULL, 0);
        }
    }
    p->pid = 0;
    free(p->setting);
    p->setting = NULL;
    ls_bytes_finish(&p->reply);
}

ls_status ls_chat_set(struct ls_chat_process *p, const char *folder, const char *template,
                      const char *now, struct ls_err *err)
{
    if (template && access(template, R_OK))
        return ls_fail(err, LS_E_USAGE, "--chat-template %s: %s", template, strerror(errno));
    json_t *object =
        json_pack("{s:s, s:s?, s:s?}", "folder", folder, "template", template, "now", now);
    free(p->setting);
    p->setting = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!p->setting)
        return ls_fail(err, LS_E_USAGE,
                       "the model's path, --chat-template or --chat-time is not UTF-8");
    return LS_OK;
}
