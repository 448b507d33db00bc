/* One job at a time may hold a folder. Layer: jobs. Local.
 *
 * The holder keeps a lock on folder/lock, so the lock of a process that died is free at once;
 * where the file system has no locks, the owner written in the file decides. */
#ifndef LS_JOBS_LOCK_H
#define LS_JOBS_LOCK_H

#include "base/status.h"

#include <stdbool.h>

enum { LS_OWNER_TEXT = 256 };

struct ls_lock {
    char *path; /* owned; NULL: not held */
    int fd;
};

/* LS_E_REFUSED: held by another job, which the message names. LS_E_IO. `what` says in the
 * message what the folder is. */
ls_status ls_lock_take(struct ls_lock *lock, const char *folder, const char *what,
                       struct ls_err *err);
/* Whether a job holds the folder, and which (else ""). Does not touch the lock. LS_E_IO. */
ls_status ls_lock_look(const char *folder, bool *held, char owner[LS_OWNER_TEXT],
                       struct ls_err *err);
/* Removes the file and lets go. Takes a lock that is not held. */
void ls_lock_release(struct ls_lock *lock);

#endif
