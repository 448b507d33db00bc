#include "app/launch.h"

#include "app/stop.h"
#include "comm/launcher.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { LET_OTHERS_END_S = 2, LET_RANK_0_END_S = 3 };

/* A step of one task that has no PMI needs no MPI, and MPI_Init would fail in it. */
bool ls_launch_is_mpi(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    return launch.launcher == LS_LAUNCHER_MPIRUN || launch.launcher == LS_LAUNCHER_PMIX ||
           launch.n_ranks > 1;
}

int ls_launch_rank(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    return launch.rank;
}

static char limit_text[256];
static size_t limit_bytes;
static int limit_code;

/* Nothing but what a signal handler may do. */
static void give_up(int number)
{
    (void)number;
    /* after a signal the launcher is ending the job: another rank has spoken */
    if (*ls_stop_flag() == 0 && write(STDERR_FILENO, limit_text, limit_bytes) < 0)
        limit_code = limit_code ? limit_code : 1;
    _exit(limit_code);
}

void ls_launch_limit(const char *what, int seconds, int code)
{
    char host[64] = "unknown";
    struct itimerval timer = { .it_value = { .tv_sec = seconds } };
    const struct sigaction action = { .sa_handler = give_up };
    if (seconds > 0) {
        const int rank = ls_launch_rank();
        gethostname(host, sizeof host - 1);
        const int n =
            snprintf(limit_text, sizeof limit_text,
                     "lockstep: rank %d on %s: %s after %d s; another rank is stuck or "
                     "cannot be reached\n",
                     rank, host, what, seconds);
        limit_bytes = n < (int)sizeof limit_text ? (size_t)n : sizeof limit_text - 1;
        limit_code = code;
        timer.it_value.tv_sec += 2 * (rank < 30 ? rank : 30);
        sigaction(SIGALRM, &action, NULL);
    }
    setitimer(ITIMER_REAL, &timer, NULL);
}

void ls_launch_let_others_end(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    if (launch.n_ranks > 1 && launch.launcher != LS_LAUNCHER_MPIRUN)
        sleep(LET_OTHERS_END_S);
}

static void end_as_success(int number)
{
    (void)number;
    _exit(0);
}

bool ls_launch_failed_alone(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    if (launch.launcher != LS_LAUNCHER_MPIRUN)
        return false;
    signal(SIGTERM, end_as_success);
    sleep(LET_RANK_0_END_S);
    return true;
}
