#include "base/team.h"

#include "base/alloc.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 2000, YIELDS = 200, MAX_MEMBERS = 1024 };

struct member {
    struct ls_team *team;
    pthread_t thread;
    int id;
};

struct ls_team {
    int n_members;
    int n_started; /* threads that exist, without member 0 */
    ls_team_fn *fn;
    void *arg;
    _Alignas(64) atomic_uint job;      /* counts jobs; members wait for it to change */
    _Alignas(64) atomic_uint arrived;  /* members in the current barrier */
    _Alignas(64) atomic_uint phase;    /* counts completed barriers */
    _Alignas(64) atomic_uint sleepers; /* members inside the kernel, or about to be */
    atomic_bool stop;
    struct member *members;
};

/* The kernel compares the word again, so a change between the caller's look and the sleep is
 * not missed; a waker that saw no sleeper changed the word before this count rose. */
static void sleep_while(struct ls_team *team, atomic_uint *word, unsigned value)
{
    atomic_fetch_add(&team->sleepers, 1);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    atomic_fetch_sub(&team->sleepers, 1);
}

static void wake_all(struct ls_team *team, atomic_uint *word)
{
    if (atomic_load(&team->sleepers))
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A member without a core of its own must not make the others spin through its time slice. */
static void wait_while(struct ls_team *team, atomic_uint *word, unsigned value)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
        __builtin_ia32_pause();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
        sched_yield();
    }
    while (atomic_load_explicit(word, memory_order_acquire) == value)
        sleep_while(team, word, value);
}

void ls_team_barrier(struct ls_team *team)
{
    if (team->n_members == 1)
        return;
    unsigned phase = atomic_load_explicit(&team->phase, memory_order_relaxed);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == (unsigned)team->n_members) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store(&team->phase, phase + 1);
        wake_all(team, &team->phase);
    } else {
        wait_while(team, &team->phase, phase);
    }
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct ls_team *team = m->team;
    for (unsigned seen = 0;; seen++) {
        wait_while(team, &team->job, seen);
        if (atomic_load(&team->stop))
            return NULL;
        team->fn(team->arg, m->id, team->n_members);
        ls_team_barrier(team);
    }
}

void ls_team_run(struct ls_team *team, ls_team_fn *fn, void *arg)
{
    team->fn = fn;
    team->arg = arg;
    if (team->n_members > 1) {
        atomic_fetch_add(&team->job, 1);
        wake_all(team, &team->job);
    }
    fn(arg, 0, team->n_members);
    ls_team_barrier(team);
}

ls_status ls_team_create(struct ls_team **out, int n_members, struct ls_err *err)
{
    if (n_members < 1 || n_members > MAX_MEMBERS)
        return ls_fail(err, LS_E_USAGE, "threads: %d, expected 1..%d", n_members, MAX_MEMBERS);
    void *p;
    ls_status s = ls_alloc(&p, sizeof(struct ls_team), "thread team", err);
    if (s)
        return s;
    struct ls_team *team = p;
    team->n_members = n_members;
    s = ls_alloc(&p, sizeof(struct member) * (uint64_t)n_members, "thread team", err);
    if (s) {
        ls_free(team);
        return s;
    }
    team->members = p;
    for (int i = 1; i < n_members; i++) {
        team->members[i] = (struct member){ .team = team, .id = i };
        if (pthread_create(&team->members[i].thread, NULL, member_main, &team->members[i])) {
            ls_team_destroy(team);
            return ls_fail(err, LS_E_MEMORY, "cannot start thread %d of %d", i, n_members);
        }
        team->n_started = i;
    }
    *out = team;
    return LS_OK;
}

void ls_team_destroy(struct ls_team *team)
{
    if (!team)
        return;
    atomic_store(&team->stop, true);
    atomic_fetch_add(&team->job, 1);
    wake_all(team, &team->job);
    for (int i = 1; i <= team->n_started; i++)
        pthread_join(team->members[i].thread, NULL);
    ls_free(team->members);
    ls_free(team);
}

int ls_team_size(const struct ls_team *team)
{
    return team->n_members;
}
