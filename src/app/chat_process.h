/* Rank 0's side of chat template rendering.
 *
 * Layer: app. Local to rank 0. The order is: fork before MPI starts, setting once the options
 * are known, chats while the run reads requests, end. Without a fork, every chat is refused by
 * name and nothing else suffers. */
#ifndef LS_APP_CHAT_PROCESS_H
#define LS_APP_CHAT_PROCESS_H

#include "jobs/chat.h"

#include <stdbool.h>
#include <sys/types.h>

struct ls_chat_process {
    struct ls_chat chat; /* to hand to jobs */
    pid_t pid;           /* of the server; 0: none */
    int to, from;
    char *setting; /* [JSON] sent before the first chat; owned */
    bool sent;
    struct ls_bytes reply;
};

/* Forks the server. Call before MPI is started and with no other thread running. Never fails:
 * what is missing is said of each chat. */
void ls_chat_fork(struct ls_chat_process *p);
/* Ends the server and waits for it, not for long. Takes a zeroed struct. */
void ls_chat_end(struct ls_chat_process *p);

/* folder: the checkpoint; template: a file, or NULL for the checkpoint's own; now: ISO time
 * that templates see, or NULL for the clock. LS_E_USAGE: the file cannot be read. */
ls_status ls_chat_set(struct ls_chat_process *p, const char *folder, const char *template,
                      const char *now, struct ls_err *err);

#endif
