/* Another program, started without a shell and waited for. Layer: app. Local.
 *
 * A child gets a process group of its own, so that whatever it starts can be stopped with it;
 * its standard input is empty, its output and errors go to a file. */
#ifndef LS_APP_CHILD_H
#define LS_APP_CHILD_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

/* words [.., NULL]; the first one is looked for in PATH. env: the environment; NULL: this
 * program's. LS_E_IO: cannot be started. */
ls_status ls_child_start(pid_t *pid, const char *const *words, const char *const *env,
                         const char *log, struct ls_err *err);
/* Whether it has ended, and how (as waitpid says it). Does not wait. */
bool ls_child_has_ended(pid_t pid, int *status);
/* Ends the child's group, at first kindly, and takes its status. */
void ls_child_stop(pid_t pid);

#endif
