#include "comm/raw.h"

#include "base/clock.h"
#include "comm/mpi_state.h"

static const int tag = LS_TAG_STEP;

static ls_status status_of(const struct ls_comm *comm, int rc, struct ls_err *err)
{
    return rc == MPI_SUCCESS
               ? LS_OK
               : ls_fail(err, LS_E_LINK, "rank %d: MPI failed with code %d", comm->rank, rc);
}

static int send_one(const struct ls_raw *r)
{
    return MPI_Send(r->buffer, (int)r->n, MPI_BYTE, r->peer, tag, r->comm->mpi->comm);
}

static int receive_one(const struct ls_raw *r)
{
    return MPI_Recv(r->buffer, (int)r->n, MPI_BYTE, r->peer, tag, r->comm->mpi->comm,
                    MPI_STATUS_IGNORE);
}

ls_status ls_raw_ping(const struct ls_raw *raw, struct ls_err *err)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; rc == MPI_SUCCESS && i < raw->count; i++) {
        rc = raw->begins ? send_one(raw) : receive_one(raw);
        if (rc == MPI_SUCCESS)
            rc = raw->begins ? receive_one(raw) : send_one(raw);
    }
    return status_of(raw->comm, rc, err);
}

/* Message number i, in the buffer and request of its place in the window. */
static int start(const struct ls_raw *r, int i, MPI_Request *requests)
{
    MPI_Request *const request = &requests[i % LS_RAW_DEPTH];
    unsigned char *const at = r->buffer + (uint64_t)(i % LS_RAW_DEPTH) * r->n;
    const int n = (int)r->n;
    MPI_Comm comm = r->comm->mpi->comm;
    const int rc = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return rc;
    return r->begins ? MPI_Isend(at, n, MPI_BYTE, r->peer, tag, comm, request)
                     : MPI_Irecv(at, n, MPI_BYTE, r->peer, tag, comm, request);
}

ls_status ls_raw_stream(const struct ls_raw *raw, struct ls_err *err)
{
    MPI_Request requests[LS_RAW_DEPTH];
    unsigned char last = 0;
    const struct ls_raw back = {
        .comm = raw->comm, .peer = raw->peer, .n = 1, .buffer = &last
    };
    int rc = MPI_SUCCESS;
    for (int i = 0; i < LS_RAW_DEPTH; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; rc == MPI_SUCCESS && i < raw->count; i++)
        rc = start(raw, i, requests);
    if (rc == MPI_SUCCESS)
        rc = MPI_Waitall(LS_RAW_DEPTH, requests, MPI_STATUSES_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = raw->begins ? receive_one(&back) : send_one(&back);
    return status_of(raw->comm, rc, err);
}

ls_status ls_raw_share(struct ls_comm *comm, int root, void *bytes, int n, int wait_s,
                       struct ls_err *err)
{
    MPI_Request request;
    const uint64_t deadline_us = ls_now_us() + 1000000u * (uint64_t)wait_s;
    unsigned idle = 0;
    int done = 0, rc = MPI_Ibcast(bytes, n, MPI_BYTE, root, comm->mpi->comm, &request);
    while (rc == MPI_SUCCESS && !done) {
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done && ls_now_us() > deadline_us)
            return ls_fail(err, LS_E_LINK, "rank %d: nothing from rank %d for %d s", comm->rank,
                           root, wait_s);
        if (!done)
            ls_comm_idle(&idle);
    }
    return status_of(comm, rc, err);
}
