#include "app/stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stop_signal;

static void remember(int number)
{
    stop_signal = number;
}

const volatile sig_atomic_t *ls_stop_flag(void)
{
    return &stop_signal;
}

void ls_stop_catch(bool lead)
{
    struct sigaction action = { .sa_flags = SA_RESTART | (lead ? (int)SA_RESETHAND : 0) };
    action.sa_handler = remember;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static ls_status next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    return c->next(c->arg, seq, what, err);
}

static ls_status logits(void *arg, uint64_t id, const struct ls_logits *row,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    return c->logits(c->arg, id, row, verdict, token, err);
}

static ls_status done(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    return c->done(c->arg, id, digest, n_rows, err);
}

/* The launcher kills a moment after the signal, so what runs is given up, not finished. */
static ls_status tick(void *arg, uint64_t n_running, bool *drain, struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    if (stop_signal)
        return ls_fail(err, LS_E_DRAINED, "stopped by %s",
                       stop_signal == SIGINT ? "SIGINT" : "SIGTERM");
    return c->tick ? c->tick(c->arg, n_running, drain, err) : LS_OK;
}

void ls_stop_client_init(struct ls_stop_client *s, const struct ls_client *inner)
{
    *s = (struct ls_stop_client){
        .client = { .arg = s, .next = next, .logits = logits, .done = done, .tick = tick },
        .inner = inner
    };
}
