/* Stopping on request, with what is finished written and durable.
 *
 * Layer: app. SIGINT and SIGTERM, to any rank, end a run between two steps: the launcher kills
 * a moment after the signal, so what runs is given up. SIGUSR1 to rank 0 and a time limit let
 * what runs finish for a while, without beginning anything new. The second SIGINT or SIGTERM
 * kills the process that gets it. A rank above 0 reports the first one to rank 0 (control.h)
 * and waits for its word: the launcher sends the signal to all, also when it is about to kill
 * them because one has died, and which of the two it is rank 0 finds out. */
#ifndef LS_APP_STOP_H
#define LS_APP_STOP_H

#include "app/time_limit.h"
#include "pipeline/client.h"

#include <signal.h>

/* Catches the signals from here on. Process-wide. */
void ls_stop_catch(void);

/* SIGINT or SIGTERM once it has come, else 0. */
const volatile sig_atomic_t *ls_stop_flag(void);

/* A client that passes everything on to `inner` and ends the run (LS_E_DRAINED) when a signal
 * has come or the time is up. inner must outlive it. */
struct ls_stop_client {
    struct ls_client client;
    const struct ls_client *inner;
    struct ls_time_limit limit;
    uint64_t stop_us;    /* when what runs is given up; 0: nothing stops yet */
    const char *because; /* what stops the run; NULL: nothing */
};
void ls_stop_client_init(struct ls_stop_client *s, const struct ls_client *inner,
                         const struct ls_time_limit *limit);

#endif
