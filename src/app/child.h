/* Another program, started without a shell and waited for. Layer: app. Local.
 *
 * A child gets a process group of its own, so that whatever it starts can be stopped with it;
 * its standard input is empty, its output and errors go to files or stay this program's. When
 * this process ends in whatever way, its children get SIGTERM. */
#ifndef LS_APP_CHILD_H
#define LS_APP_CHILD_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct ls_child {
    const char *const *words; /* [.., NULL]; the first one is looked for in PATH */
    const char *const *env;   /* the environment; NULL: this program's */
    const char *log;          /* file for its errors; NULL: to this program's own */
    const char *out;          /* file for its output; NULL: as `log` */
};

/* Files are appended to. LS_E_IO: cannot be started. */
ls_status ls_child_start(pid_t *pid, const struct ls_child *child, struct ls_err *err);
/* Whether it has ended, and how (as waitpid says it). Does not wait. */
bool ls_child_has_ended(pid_t pid, int *status);
/* Waits until it ends; its status, and what it used. LS_E_IO. */
ls_status ls_child_wait(pid_t pid, int *status, struct rusage *used, struct ls_err *err);
/* Ends the child's group, at first kindly, and takes its status. */
void ls_child_stop(pid_t pid);

#endif
