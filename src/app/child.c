#include "app/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Those that this program ignores or catches. */
static void reset_signals(void)
{
    static const int list[] = { SIGPIPE, SIGXFSZ, SIGINT, SIGTERM };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        signal(list[i], SIG_DFL);
}

/* Ends this child when its parent ends, in whatever way; mpirun and srun end their ranks. */
static void follow(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
}

/* NULL: stays as it is. */
static int redirect(int to, const char *path, int flags)
{
    if (!path)
        return 0;
    const int fd = open(path, flags | O_CLOEXEC, 0666);
    return fd < 0 || dup2(fd, to) < 0 ? -1 : 0;
}

/* In the child: becomes the program, or says through `failure` why not. */
static _Noreturn void become(const struct ls_child *child, pid_t parent, int failure)
{
    static const int append = O_WRONLY | O_CREAT | O_APPEND;
    const char *const out = child->out ? child->out : child->log;
    setpgid(0, 0);
    reset_signals();
    follow(parent);
    if (!redirect(STDIN_FILENO, "/dev/null", O_RDONLY) &&
        !redirect(STDOUT_FILENO, out, append) && !redirect(STDERR_FILENO, child->log, append)) {
        environ = child->env ? (char **)(uintptr_t)child->env : environ;
        execvp(child->words[0], (char *const *)(uintptr_t)child->words);
    }
    const int e = errno;
    if (write(failure, &e, sizeof e) != sizeof e)
        _exit(126);
    _exit(127);
}

/* errno of a child that did not become the program, or 0. */
static int read_failure(int fd)
{
    int e = 0;
    ssize_t n;
    do {
        n = read(fd, &e, sizeof e);
    } while (n < 0 && errno == EINTR);
    return n == sizeof e ? e : 0;
}

ls_status ls_child_start(pid_t *pid, const struct ls_child *child, struct ls_err *err)
{
    int ends[2], e = 0;
    const pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC))
        return ls_fail(err, LS_E_IO, "%s cannot be started: %s", child->words[0],
                       strerror(errno));
    *pid = fork();
    if (*pid == 0)
        become(child, parent, ends[1]);
    if (*pid < 0)
        e = errno;
    close(ends[1]);
    if (*pid > 0 && (e = read_failure(ends[0])) != 0)
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    close(ends[0]);
    if (!e)
        return LS_OK;
    return ls_fail(err, LS_E_IO, "%s cannot be started: %s", child->words[0], strerror(e));
}

bool ls_child_has_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

ls_status ls_child_wait(pid_t pid, int *status, struct rusage *used, struct ls_err *err)
{
    while (wait4(pid, status, 0, used) < 0)
        if (errno != EINTR)
            return ls_fail(err, LS_E_IO, "waiting for a process: %s", strerror(errno));
    return LS_OK;
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
