/* The MPI backend: rings of Isend and Irecv on a communicator of our own. */
#include "base/alloc.h"
#include "base/clock.h"
#include "comm/launcher.h"
#include "comm/mpi_state.h"

#include <stdio.h>

enum {
    /* A clean end: nobody computes any more, so only a rank that is stuck takes so long. */
    CLEAN_US = 6000000,
    LARGE_BYTES = 64 * 1024, /* messages from here on show how fast a link is */
};

static MPI_Request *requests_of(const struct ls_link *link)
{
    return link->requests;
}

/* Turns MPI's error into the link's. */
static void fail_by_code(struct ls_link *link, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_ERR_OTHER, length = 0;
    MPI_Error_class(code, &class);
    if (class == MPI_ERR_TRUNCATE) {
        ls_link_fail_too_large(link);
        return;
    }
    char failure[LS_LINK_FAILURE];
    MPI_Error_string(code, text, &length);
    snprintf(failure, sizeof failure, "%s: %s", call, text);
    ls_link_fail(link, LS_E_LINK, failure);
}

static void post(struct ls_link *link, int slot)
{
    int rc = MPI_Irecv(ls_link_slot(link, slot), (int)link->buffer_bytes, MPI_BYTE, link->peer,
                       (int)link->tag, link->comm->mpi->comm, &requests_of(link)[slot]);
    if (rc != MPI_SUCCESS)
        fail_by_code(link, "MPI_Irecv", rc);
}

static ls_status mpi_open(struct ls_link *link, struct ls_err *err)
{
    ls_status s = ls_link_alloc_buffers(link, err);
    if (!s)
        s = ls_alloc(&link->requests, (uint64_t)link->n_buffers * sizeof(MPI_Request),
                     "link requests", err);
    if (s)
        return s;
    for (int i = 0; i < link->n_buffers; i++)
        requests_of(link)[i] = MPI_REQUEST_NULL;
    for (int i = 0; link->direction == LS_RECV && !link->failed && i < link->n_buffers; i++)
        post(link, i);
    return LS_OK;
}

/* Smaller messages are sent by a copy: their time says nothing of the link. */
static void note_rate(struct ls_link *link, int slot)
{
    uint64_t n = link->sent[slot].bytes, took = ls_now_us() - link->sent[slot].at_us;
    if (n >= LARGE_BYTES && n / (took + 1) > link->best_rate)
        link->best_rate = n / (took + 1);
}

static void mpi_send(struct ls_link *link, int slot, uint64_t n)
{
    link->sent[slot] = (struct ls_sent){ .bytes = n, .at_us = ls_now_us() };
    int rc = MPI_Isend(ls_link_slot(link, slot), (int)n, MPI_BYTE, link->peer, (int)link->tag,
                       link->comm->mpi->comm, &requests_of(link)[slot]);
    if (rc != MPI_SUCCESS)
        fail_by_code(link, "MPI_Isend", rc);
}

static void retire_sends(struct ls_link *link)
{
    while (link->n_busy > 0) {
        int done = 0;
        int rc = MPI_Test(&requests_of(link)[link->oldest], &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            fail_by_code(link, "MPI_Test of a send", rc);
        if (rc != MPI_SUCCESS || !done)
            return;
        note_rate(link, link->oldest);
        link->oldest = (link->oldest + 1) % link->n_buffers;
        link->n_busy--;
    }
}

/* Testing for a message that is here moves nothing, while the sender of large ones waits for an
 * answer to each: a receiver that is busy with those that are here would find no more behind
 * them. */
static void move_those_behind(const struct ls_link *link)
{
    int found;
    MPI_Iprobe(link->peer, (int)link->tag, link->comm->mpi->comm, &found, MPI_STATUS_IGNORE);
}

static void notice_arrival(struct ls_link *link)
{
    MPI_Status status;
    int done = 0, count = 0;
    int slot = ls_link_arrival_slot(link);
    int rc = MPI_Test(&requests_of(link)[slot], &done, &status);
    if (rc == MPI_SUCCESS && done)
        rc = MPI_Get_count(&status, MPI_BYTE, &count);
    if (rc != MPI_SUCCESS) {
        fail_by_code(link, "MPI_Test of a receive", rc);
        return;
    }
    if (!done)
        return;
    link->message = ls_link_slot(link, slot);
    link->arrived_bytes = (uint64_t)count;
    link->arrived = true;
    if (count >= LARGE_BYTES)
        move_those_behind(link);
}

static void mpi_advance(struct ls_link *link)
{
    if (link->direction == LS_SEND)
        retire_sends(link);
    else if (!link->arrived && link->n_held < link->n_buffers)
        notice_arrival(link);
}

static void mpi_release(struct ls_link *link)
{
    post(link, link->oldest);
    link->oldest = (link->oldest + 1) % link->n_buffers;
}

/* Cancels a posted receive; false when it is still not over at the deadline. */
static bool cancel_receive(MPI_Request *request, uint64_t deadline_us)
{
    int done = 0;
    unsigned idle = 0;
    MPI_Cancel(request);
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (ls_now_us() > deadline_us)
            return false;
        ls_comm_idle(&idle);
    }
    return true;
}

/* MPI may still touch the buffer of a request that is not over, so such buffers are not freed.
 */
static bool mpi_close(struct ls_link *link)
{
    bool all_over = true;
    uint64_t deadline_us = ls_now_us() + LS_COMM_GRACE_US;
    for (int i = 0; i < link->n_buffers; i++) {
        MPI_Request *request = &requests_of(link)[i];
        if (*request == MPI_REQUEST_NULL)
            continue;
        if (link->direction == LS_SEND || !cancel_receive(request, deadline_us))
            all_over = false;
        if (*request != MPI_REQUEST_NULL)
            MPI_Request_free(request);
    }
    ls_free(link->requests);
    return all_over;
}

const struct ls_backend ls_backend_mpi = { .open = mpi_open,
                                           .send = mpi_send,
                                           .advance = mpi_advance,
                                           .release = mpi_release,
                                           .close = mpi_close };

static ls_status init_mpi(const struct ls_launch *launch, bool *own, struct ls_err *err)
{
    int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Finalized(&finalized);
    if (finalized)
        return ls_fail(err, LS_E_INTERNAL, "MPI has already been finalised in this process");
    MPI_Initialized(&initialized);
    *own = !initialized;
    if (!initialized) {
        ls_status s = ls_launch_check(launch, err);
        if (s)
            return s;
        ls_launch_settle(launch);
    }
    int rc = initialized ? MPI_Query_thread(&provided)
                         : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (rc != MPI_SUCCESS)
        return ls_fail(err, LS_E_LINK, "MPI_Init_thread failed with code %d", rc);
    if (provided < MPI_THREAD_FUNNELED)
        return ls_fail(err, LS_E_REFUSED,
                       "this MPI gives thread level %d, MPI_THREAD_FUNNELED (%d) is needed",
                       provided, MPI_THREAD_FUNNELED);
    return LS_OK;
}

/* Containers of one machine share memory by MPI's word but not their names: not one host. */
static int find_one_host(struct ls_comm *comm, MPI_Comm world)
{
    MPI_Comm node;
    int n_here = 0;
    uint64_t name = 14695981039346656037u, ends[2]; /* FNV-1a */
    for (const char *p = comm->host; *p; p++)
        name = (name ^ (unsigned char)*p) * 1099511628211u;
    const uint64_t own[2] = { name, ~name };
    int rc = MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &node);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_size(node, &n_here);
    MPI_Comm_free(&node);
    rc = MPI_Allreduce(own, ends, 2, MPI_UINT64_T, MPI_MIN, world);
    if (rc != MPI_SUCCESS)
        return rc;
    const uint64_t alone = n_here != comm->size || ends[0] != ~ends[1];
    uint64_t anybody_alone = 0;
    rc = MPI_Allreduce(&alone, &anybody_alone, 1, MPI_UINT64_T, MPI_MAX, world);
    comm->one_host = !anybody_alone;
    return rc;
}

static ls_status join_world(struct ls_comm *comm, struct ls_mpi *mpi, int launched,
                            struct ls_err *err)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(mpi->comm, &comm->rank);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(mpi->comm, &comm->size);
    if (rc == MPI_SUCCESS)
        rc = find_one_host(comm, mpi->comm);
    if (rc != MPI_SUCCESS)
        return ls_fail(err, LS_E_LINK, "setting up the communicator failed with MPI code %d",
                       rc);
    if (comm->size == 1 && launched > 1)
        return ls_fail(err, LS_E_REFUSED,
                       "the launcher started %d processes but MPI sees one rank in each; use "
                       "mpirun, or srun with the --mpi type of this MPI library",
                       launched);
    return LS_OK;
}

ls_status ls_mpi_start(struct ls_comm *comm, struct ls_err *err)
{
    void *memory;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_mpi), "MPI state", err);
    if (s)
        return s;
    struct ls_mpi *mpi = memory;
    /* before MPI_Init, which may set some of the launchers' variables itself */
    struct ls_launch launch;
    ls_launch_look(&launch);
    mpi->comm = MPI_COMM_NULL;
    s = init_mpi(&launch, &mpi->own, err);
    if (!s)
        s = join_world(comm, mpi, launch.n_ranks, err);
    if (!s) {
        comm->mpi = mpi;
        return LS_OK;
    }
    if (mpi->comm != MPI_COMM_NULL)
        MPI_Comm_free(&mpi->comm);
    ls_free(mpi);
    return s;
}

static bool sends_over(const struct ls_comm *comm)
{
    bool over = true;
    for (struct ls_link *link = comm->links; link; link = link->next)
        if (link->backend == &ls_backend_mpi && link->direction == LS_SEND && !link->failed) {
            retire_sends(link);
            over = over && (link->n_busy == 0 || link->failed);
        }
    return over;
}

/* Receives stay posted while we wait, so that the peers' last sends complete too. */
static bool meet_all(const struct ls_comm *comm)
{
    MPI_Request barrier;
    if (MPI_Ibarrier(comm->mpi->comm, &barrier) != MPI_SUCCESS)
        return false;
    uint64_t deadline_us = ls_now_us() + (comm->failed ? LS_COMM_GRACE_US : CLEAN_US);
    unsigned idle = 0;
    int done = 0;
    while (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (ls_now_us() > deadline_us)
            return false;
        ls_comm_idle(&idle);
    }
    return done;
}

void ls_mpi_quiesce(struct ls_comm *comm)
{
    uint64_t wait_us = comm->failed ? LS_COMM_GRACE_US : CLEAN_US;
    uint64_t deadline_us = ls_now_us() + wait_us;
    unsigned idle = 0;
    while (!sends_over(comm)) {
        if (ls_now_us() > deadline_us) {
            ls_comm_set_failed(comm);
            break;
        }
        ls_comm_idle(&idle);
    }
    comm->mpi->all_met = meet_all(comm);
}

void ls_mpi_stop(struct ls_comm *comm)
{
    struct ls_mpi *mpi = comm->mpi;
    if (mpi->all_met) {
        MPI_Comm_free(&mpi->comm);
        if (mpi->own)
            MPI_Finalize();
    }
    ls_free(mpi);
}
