/* Ends of a run that has failed: `stuck`, rank 1 never comes to the end; `gone`, rank 1 is
 * killed while a large message to it is on the way (run it with the launcher's recovery on, or
 * the launcher kills the others first). Survivors leave in bounded time, and say so. Also
 * `launcher`: processes that MPI takes for one rank each although the launcher started several.
 */
#include "base/clock.h"
#include "check.h"
#include "comm/comm.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 8 << 20 };

static struct ls_err err;

static int leave(struct ls_comm *comm, int peer)
{
    struct ls_link *out, *in;
    CHECK(ls_comm_open(comm, &out, peer, LS_TAG_STEP, LS_SEND, 1, BYTES, &err) == LS_OK);
    CHECK(ls_comm_open(comm, &in, peer, LS_TAG_STEP, LS_RECV, 4, BYTES, &err) == LS_OK);
    CHECK(ls_link_buffer(out) && ls_link_send(out, BYTES, &err) == LS_OK);
    ls_comm_set_failed(comm);
    uint64_t start = ls_now_us();
    ls_comm_destroy(comm);
    CHECK(ls_now_us() - start < 3 * LS_COMM_GRACE_US + 1000000u);
    printf("rank %d left in time\n", check_rank);
    fflush(stdout);
    return 3;
}

static int without_peers(void)
{
    struct ls_comm *comm = NULL;
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    CHECK(ls_comm_launcher_ranks() == 4);
    CHECK(ls_comm_create(&comm, LS_COMM_MPI, &err) == LS_E_REFUSED && !comm);
    CHECK(strstr(err.text, "4 processes"));
    return 0;
}

int main(int argc, char **argv)
{
    struct ls_comm *comm;
    CHECK(argc == 2);
    if (!strcmp(argv[1], "launcher"))
        return without_peers();
    CHECK(ls_comm_create(&comm, LS_COMM_MPI, &err) == LS_OK);
    check_rank = ls_comm_rank(comm);
    CHECK(ls_comm_size(comm) == ls_comm_launcher_ranks());
    if (check_rank != 1)
        return leave(comm, 1);
    if (!strcmp(argv[1], "gone"))
        raise(SIGKILL);
    sleep(60);
    return 1;
}
