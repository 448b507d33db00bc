#include "app/stop.h"

#include "base/clock.h"

#include <signal.h>
#include <stddef.h>

enum { FINISH_US = 30000000 /* after SIGUSR1, for what runs */ };

static volatile sig_atomic_t stop_signal, drain_signal;

/* Nothing but what a signal handler may do. The second request to stop is the default one. */
static void remember(int number)
{
    if (number == SIGUSR1) {
        drain_signal = number;
    } else if (stop_signal) {
        signal(number, SIG_DFL);
        raise(number);
    } else {
        stop_signal = number;
    }
}

const volatile sig_atomic_t *ls_stop_flag(void)
{
    return &stop_signal;
}

void ls_stop_catch(void)
{
    struct sigaction action = { .sa_handler = remember, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

static ls_status next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    return c->next(c->arg, seq, what, err);
}

static ls_status leaves(void *arg, uint64_t id, uint32_t pos, const unsigned char *row,
                        struct ls_err *err)
{
    const struct ls_client *const c = ((struct ls_stop_client *)arg)->inner;
    return c->leaves(c->arg, id, pos, row, err);
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

static void begin_to_stop(struct ls_stop_client *s, uint64_t now)
{
    if (drain_signal) {
        s->because = "SIGUSR1";
        s->stop_us = now + FINISH_US;
    } else if (s->limit.drain_us && now >= s->limit.drain_us) {
        s->because = s->limit.what;
        s->stop_us = s->limit.stop_us;
    }
}

static ls_status tick(void *arg, uint64_t n_running, bool *drain, struct ls_err *err)
{
    struct ls_stop_client *const s = arg;
    const struct ls_client *const c = s->inner;
    const uint64_t now = ls_now_us();
    if (stop_signal) {
        s->because = stop_signal == SIGINT ? "SIGINT" : "SIGTERM";
        return ls_fail(err, LS_E_DRAINED, "stopped by %s", s->because);
    }
    if (!s->because)
        begin_to_stop(s, now);
    if (s->because && now >= s->stop_us)
        return ls_fail(err, LS_E_DRAINED, "stopped by %s", s->because);
    const ls_status status = c->tick ? c->tick(c->arg, n_running, drain, err) : LS_OK;
    *drain = s->because != NULL;
    return status;
}

void ls_stop_client_init(struct ls_stop_client *s, const struct ls_client *inner,
                         const struct ls_time_limit *limit)
{
    *s = (struct ls_stop_client){ .client = { .arg = s,
                                              .next = next,
                                              .logits = logits,
                                              .leaves = leaves,
                                              .done = done,
                                              .tick = tick },
                                  .inner = inner,
                                  .limit = *limit };
}
