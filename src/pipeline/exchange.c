#include "pipeline/exchange.h"

#include "base/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

struct frame {
    unsigned char *bytes;
    uint64_t n;
    int replica;
};

struct lane {
    struct ls_step **steps; /* [max_steps] ring */
    int first_step, n_steps;
    /* frames: not done; of those, the coordinator's; done and not taken back */
    int n_lent, n_shown, n_done;
};

struct ls_exchange {
    pthread_mutex_t lock;
    pthread_cond_t news; /* for the coordinator: a frame, or closed */
    struct lane *lanes;  /* [n_replicas] */
    int n_replicas, max_steps, max_frames;
    struct frame *frames; /* [n_replicas * max_frames] ring: lent and not shown */
    int first_frame, n_frames;
    bool closed, finished;
    struct ls_arena arena;
};

static ls_status take_memory(struct ls_exchange *x, struct ls_err *err)
{
    const uint64_t n = (uint64_t)x->n_replicas, steps = (uint64_t)x->max_steps;
    x->lanes = ls_arena_take(&x->arena, n * sizeof *x->lanes);
    x->frames = ls_arena_take(&x->arena, n * (uint64_t)x->max_frames * sizeof *x->frames);
    struct ls_step **const all = ls_arena_take(&x->arena, n * steps * sizeof *all);
    if (!x->lanes || !x->frames || !all)
        return ls_fail(err, LS_E_MEMORY, "out of memory: hand-over of rank 0");
    for (uint64_t i = 0; i < n; i++)
        x->lanes[i].steps = all + i * steps;
    return LS_OK;
}

ls_status ls_exchange_create(struct ls_exchange **out, int n_replicas, int max_steps,
                             int max_frames, struct ls_err *err)
{
    void *memory = NULL;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_exchange), "exchange", err);
    if (s)
        return s;
    struct ls_exchange *x = memory;
    x->n_replicas = n_replicas;
    x->max_steps = max_steps;
    x->max_frames = max_frames;
    ls_arena_init(&x->arena);
    pthread_condattr_t attr;
    pthread_mutex_init(&x->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&x->news, &attr);
    pthread_condattr_destroy(&attr);
    s = take_memory(x, err);
    if (s)
        ls_exchange_destroy(x);
    else
        *out = x;
    return s;
}

void ls_exchange_destroy(struct ls_exchange *x)
{
    if (!x)
        return;
    pthread_cond_destroy(&x->news);
    pthread_mutex_destroy(&x->lock);
    ls_arena_finish(&x->arena);
    ls_free(x);
}

void ls_exchange_submit(struct ls_exchange *x, int replica, struct ls_step *step)
{
    struct lane *l = &x->lanes[replica];
    pthread_mutex_lock(&x->lock);
    assert(l->n_steps < x->max_steps);
    l->steps[(l->first_step + l->n_steps++) % x->max_steps] = step;
    pthread_mutex_unlock(&x->lock);
}

struct ls_step *ls_exchange_take(struct ls_exchange *x, int replica)
{
    struct lane *l = &x->lanes[replica];
    struct ls_step *step = NULL;
    pthread_mutex_lock(&x->lock);
    if (l->n_steps > 0) {
        step = l->steps[l->first_step];
        l->first_step = (l->first_step + 1) % x->max_steps;
        l->n_steps--;
    }
    pthread_mutex_unlock(&x->lock);
    return step;
}

static struct timespec later(uint64_t wait_us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + wait_us % 1000000 * 1000;
    t.tv_sec += (time_t)(wait_us / 1000000 + ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

unsigned char *ls_exchange_frame(struct ls_exchange *x, uint64_t wait_us, int *replica,
                                 uint64_t *n)
{
    unsigned char *bytes = NULL;
    struct timespec until = later(wait_us);
    pthread_mutex_lock(&x->lock);
    int rc = 0;
    while (x->n_frames == 0 && !x->closed && rc == 0)
        rc = pthread_cond_timedwait(&x->news, &x->lock, &until);
    if (x->n_frames > 0 && !x->closed) {
        const struct frame *f = &x->frames[x->first_frame];
        bytes = f->bytes;
        *n = f->n;
        *replica = f->replica;
        x->first_frame = (x->first_frame + 1) % (x->n_replicas * x->max_frames);
        x->n_frames--;
        x->lanes[f->replica].n_shown++;
    }
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

void ls_exchange_frames_done(struct ls_exchange *x, int replica)
{
    struct lane *l = &x->lanes[replica];
    pthread_mutex_lock(&x->lock);
    l->n_lent -= l->n_shown;
    l->n_done += l->n_shown;
    l->n_shown = 0;
    pthread_mutex_unlock(&x->lock);
}

bool ls_exchange_lend(struct ls_exchange *x, int replica, unsigned char *bytes, uint64_t n)
{
    struct lane *l = &x->lanes[replica];
    pthread_mutex_lock(&x->lock);
    bool has_room = l->n_lent + l->n_done < x->max_frames;
    if (has_room) {
        x->frames[(x->first_frame + x->n_frames++) % (x->n_replicas * x->max_frames)] =
            (struct frame){ .bytes = bytes, .n = n, .replica = replica };
        l->n_lent++;
        pthread_cond_signal(&x->news);
    }
    pthread_mutex_unlock(&x->lock);
    return has_room;
}

int ls_exchange_take_back(struct ls_exchange *x, int replica)
{
    struct lane *l = &x->lanes[replica];
    pthread_mutex_lock(&x->lock);
    int n = l->n_done;
    l->n_done = 0;
    pthread_mutex_unlock(&x->lock);
    return n;
}

static bool read_flag(struct ls_exchange *x, const bool *flag)
{
    pthread_mutex_lock(&x->lock);
    bool value = *flag;
    pthread_mutex_unlock(&x->lock);
    return value;
}

bool ls_exchange_is_closed(struct ls_exchange *x)
{
    return read_flag(x, &x->closed);
}

bool ls_exchange_is_finished(struct ls_exchange *x)
{
    return read_flag(x, &x->finished);
}

void ls_exchange_finish(struct ls_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->finished = true;
    pthread_mutex_unlock(&x->lock);
}

void ls_exchange_close(struct ls_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->closed = true;
    pthread_cond_signal(&x->news);
    pthread_mutex_unlock(&x->lock);
}
