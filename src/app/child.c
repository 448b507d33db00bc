#include "app/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int prepare(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes,
                   const char *log)
{
    sigset_t back;
    sigemptyset(&back); /* those that this program ignores or catches */
    sigaddset(&back, SIGPIPE);
    sigaddset(&back, SIGXFSZ);
    sigaddset(&back, SIGINT);
    sigaddset(&back, SIGTERM);
    int e = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!e)
        e = posix_spawn_file_actions_addopen(files, STDOUT_FILENO, log,
                                             O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (!e)
        e = posix_spawn_file_actions_adddup2(files, STDOUT_FILENO, STDERR_FILENO);
    if (!e)
        e = posix_spawnattr_setsigdefault(attributes, &back);
    if (!e)
        e = posix_spawnattr_setpgroup(attributes, 0);
    return e ? e
             : posix_spawnattr_setflags(attributes,
                                        POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
}

ls_status ls_child_start(pid_t *pid, const char *const *words, const char *const *env,
                         const char *log, struct ls_err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    int e = prepare(&files, &attributes, log);
    if (!e)
        e = posix_spawnp(pid, words[0], &files, &attributes, (char *const *)(uintptr_t)words,
                         env ? (char *const *)(uintptr_t)env : environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return e ? ls_fail(err, LS_E_IO, "%s cannot be started: %s", words[0], strerror(e)) : LS_OK;
}

bool ls_child_has_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

void ls_child_stop(pid_t pid)
{
    enum { KIND_MS = 5000, STEP_MS = 20 };
    int status;
    kill(-pid, SIGTERM);
    for (int ms = 0; ms < KIND_MS; ms += STEP_MS) {
        if (ls_child_has_ended(pid, &status))
            return;
        usleep(STEP_MS * 1000);
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
}
