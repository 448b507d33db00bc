#include "pipeline/apart.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

enum { GRACE_US = 1000000 };

struct work {
    ls_apart_fn *fn;
    void *arg;
    ls_status status;
    struct ls_err err;
    atomic_bool done;
};

static void *thread_main(void *arg)
{
    struct work *w = arg;
    w->status = w->fn(w->arg, &w->err);
    atomic_store(&w->done, true);
    return NULL;
}

ls_status ls_apart_run(struct ls_control *ctl, ls_apart_fn *fn, void *arg, bool *abandoned,
                       struct ls_err *err)
{
    if (ctl->n_ranks == 1)
        return fn(arg, err);
    void *memory = NULL;
    pthread_t thread;
    ls_status s = ls_alloc(&memory, sizeof(struct work), "a thread's work", err);
    if (s)
        return s;
    struct work *w = memory;
    w->fn = fn;
    w->arg = arg;
    if (pthread_create(&thread, NULL, thread_main, w)) {
        ls_free(w);
        return ls_fail(err, LS_E_MEMORY, "cannot start a thread");
    }
    unsigned idle = 0;
    while (!s && !atomic_load(&w->done)) {
        s = ls_control_tend(ctl, err);
        ls_comm_idle(&idle);
    }
    /* Mostly it is nearly done, and what it uses can then be taken down in order. */
    for (uint64_t end = ls_now_us() + GRACE_US; s && !atomic_load(&w->done);) {
        if (ls_now_us() > end)
            break;
        ls_comm_idle(&idle);
    }
    if (s && !atomic_load(&w->done)) {
        *abandoned = true;
        pthread_detach(thread);
        return s;
    }
    pthread_join(thread, NULL);
    if (!s && w->status)
        s = ls_fail(err, w->status, "%s", w->err.text);
    ls_free(w);
    return s;
}
