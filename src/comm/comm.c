#include "comm/comm.h"

#include "base/alloc.h"
#include "base/ring.h"
#include "base/size.h"
#include "comm/backend.h"
#include "comm/launcher.h"

#include <immintrin.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

int ls_comm_launcher_ranks(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    return launch.n_ranks;
}

ls_status ls_comm_create(struct ls_comm **out, enum ls_comm_backend backend, struct ls_err *err)
{
    void *memory;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_comm), "communication", err);
    if (s)
        return s;
    struct ls_comm *comm = memory;
    comm->kind = backend;
    comm->size = 1;
    comm->lost = -1;
    comm->one_host = true;
    /* ls_comm_idle sleeps 20 us; the default slack would make that 70. */
    prctl(PR_SET_TIMERSLACK, 1000ul);
    if (gethostname(comm->host, sizeof comm->host) != 0)
        snprintf(comm->host, sizeof comm->host, "unknown");
    comm->host[sizeof comm->host - 1] = '\0';
    if (backend == LS_COMM_MPI)
        s = ls_mpi_start(comm, err);
    if (s)
        ls_free(comm);
    else
        *out = comm;
    return s;
}

static void free_link(struct ls_link *link)
{
    if (link->ring)
        ls_ring_free(link->buffers, (uint64_t)link->n_buffers * link->stride_bytes);
    else
        ls_free(link->buffers);
    ls_free(link->sent);
    ls_free(link);
}

/* Links of failed runs whose buffers MPI may touch until the process ends. */
static struct ls_link *abandoned;

static void close_link(struct ls_link *link)
{
    if (!link->backend->close(link)) {
        link->next = abandoned;
        abandoned = link;
        return;
    }
    free_link(link);
}

void ls_comm_destroy(struct ls_comm *comm)
{
    if (!comm)
        return;
    if (comm->mpi)
        ls_mpi_quiesce(comm);
    while (comm->links) {
        struct ls_link *link = comm->links;
        comm->links = link->next;
        close_link(link);
    }
    if (comm->mpi)
        ls_mpi_stop(comm);
    ls_free(comm);
}

void ls_comm_set_failed(struct ls_comm *comm)
{
    comm->failed = true;
}

void ls_comm_set_lost(struct ls_comm *comm, int rank)
{
    ls_comm_set_failed(comm);
    if (comm->lost < 0)
        comm->lost = rank;
}

int ls_comm_lost(const struct ls_comm *comm)
{
    return comm->lost;
}

int ls_comm_rank(const struct ls_comm *comm)
{
    return comm->rank;
}

int ls_comm_size(const struct ls_comm *comm)
{
    return comm->size;
}

const char *ls_comm_host(const struct ls_comm *comm)
{
    return comm->host;
}

const char *ls_comm_backend_name(const struct ls_comm *comm)
{
    return comm->kind == LS_COMM_MPI ? "mpi" : "self";
}

bool ls_comm_is_one_host(const struct ls_comm *comm)
{
    return comm->one_host;
}

void ls_comm_get_counts(const struct ls_comm *comm, struct ls_comm_counts *counts)
{
    *counts = comm->counts;
}

static ls_status check_open(const struct ls_comm *comm, const struct ls_link *link,
                            struct ls_err *err)
{
    char label[LS_LINK_LABEL];
    ls_link_label(link, label);
    if (link->peer < 0 || link->peer >= comm->size)
        return ls_fail(err, LS_E_INTERNAL, "%s: there are %d ranks", label, comm->size);
    if (link->n_buffers < 1 || link->n_buffers > LS_MAX_BUFFERS)
        return ls_fail(err, LS_E_INTERNAL, "%s: %d buffers, expected 1 to %d", label,
                       link->n_buffers, LS_MAX_BUFFERS);
    if (link->buffer_bytes < 1 || link->buffer_bytes > INT_MAX)
        return ls_fail(err, LS_E_REFUSED,
                       "%s: messages of %" PRIu64 " bytes planned, one message holds 1 to %d "
                       "bytes; lower --budget or --chunk",
                       label, link->buffer_bytes, INT_MAX);
    for (const struct ls_link *other = comm->links; other; other = other->next)
        if (other->peer == link->peer && other->tag == link->tag &&
            other->direction == link->direction)
            return ls_fail(err, LS_E_INTERNAL, "%s: already open", label);
    return LS_OK;
}

uint64_t ls_link_stride(uint64_t buffer_bytes)
{
    return ls_round_up(buffer_bytes, LS_ALIGN);
}

uint64_t ls_link_bytes(const struct ls_link *link)
{
    return link->buffers ? (uint64_t)link->n_buffers * link->stride_bytes : 0;
}

ls_status ls_comm_open(struct ls_comm *comm, struct ls_link **out, int peer, enum ls_tag tag,
                       enum ls_direction direction, int n_buffers, uint64_t buffer_bytes,
                       struct ls_err *err)
{
    void *memory;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_link), "link", err);
    if (s)
        return s;
    struct ls_link *link = memory;
    *link = (struct ls_link){ .comm = comm,
                              .peer = peer,
                              .tag = tag,
                              .direction = direction,
                              .n_buffers = n_buffers,
                              .buffer_bytes = buffer_bytes };
    s = check_open(comm, link, err);
    if (s)
        goto out;
    link->stride_bytes = ls_link_stride(buffer_bytes);
    link->backend = peer == comm->rank ? &ls_backend_self : &ls_backend_mpi;
    s = link->backend->open(link, err);
    if (s)
        goto out;
    link->next = comm->links;
    comm->links = link;
    *out = link;
    return LS_OK;
out:
    free_link(link);
    return s;
}

const char *ls_link_label(const struct ls_link *link, char text[LS_LINK_LABEL])
{
    const bool sends = link->direction == LS_SEND;
    const int self = link->comm->rank;
    snprintf(text, LS_LINK_LABEL, "link from rank %d to rank %d, tag %d",
             sends ? self : link->peer, sends ? link->peer : self, (int)link->tag);
    return text;
}

ls_status ls_link_alloc_buffers(struct ls_link *link, struct ls_err *err)
{
    void *buffers = NULL, *sent = NULL;
    const uint64_t n = (uint64_t)link->n_buffers, bytes = n * link->stride_bytes;
    link->ring = ls_ring_fits(link->buffer_bytes);
    ls_status s = link->ring ? ls_ring_alloc(&buffers, bytes, "link buffers", err)
                             : ls_alloc(&buffers, bytes, "link buffers", err);
    link->buffers = buffers;
    if (!s && link->direction == LS_SEND)
        s = ls_alloc(&sent, n * sizeof *link->sent, "link buffers", err);
    link->sent = sent;
    return s;
}

void ls_link_fail(struct ls_link *link, ls_status status, const char *failure)
{
    if (link->failed)
        return;
    link->failed = status;
    snprintf(link->failure, sizeof link->failure, "%s", failure);
    ls_comm_set_failed(link->comm);
}

void ls_link_fail_too_large(struct ls_link *link)
{
    char failure[LS_LINK_FAILURE];
    snprintf(failure, sizeof failure, "a message longer than the buffer of %" PRIu64 " bytes",
             link->buffer_bytes);
    ls_link_fail(link, LS_E_TOO_LARGE, failure);
}

/* A link that has failed once says so from then on. */
static ls_status check_usable(const struct ls_link *link, enum ls_direction direction,
                              struct ls_err *err)
{
    char label[LS_LINK_LABEL];
    if (link->direction != direction)
        return ls_fail(err, LS_E_INTERNAL, "%s: used in the wrong direction",
                       ls_link_label(link, label));
    if (link->failed)
        return ls_fail(err, link->failed, "%s: %s", ls_link_label(link, label), link->failure);
    return LS_OK;
}

int ls_link_n_buffers(const struct ls_link *link)
{
    return link->n_buffers;
}

void *ls_link_buffers(struct ls_link *link, int n)
{
    if (link->direction != LS_SEND || link->failed || (n > 1 && !link->ring))
        return NULL;
    if (link->n_busy + n > link->n_buffers)
        link->backend->advance(link);
    if (link->n_busy + n > link->n_buffers)
        return NULL;
    return ls_link_slot(link, (link->oldest + link->n_busy) % link->n_buffers);
}

ls_status ls_link_send(struct ls_link *link, uint64_t n, struct ls_err *err)
{
    char label[LS_LINK_LABEL];
    ls_status s = check_usable(link, LS_SEND, err);
    if (s)
        return s;
    if (n > link->buffer_bytes || link->n_busy == link->n_buffers)
        return ls_fail(
            err, LS_E_INTERNAL,
            "%s: sending %" PRIu64 " bytes with %d of %d buffers of %" PRIu64 " bytes busy",
            ls_link_label(link, label), n, link->n_busy, link->n_buffers, link->buffer_bytes);
    link->backend->send(link, (link->oldest + link->n_busy) % link->n_buffers, n);
    if (link->failed)
        return check_usable(link, LS_SEND, err);
    link->n_busy++;
    link->comm->counts.sent_messages++;
    link->comm->counts.sent_bytes += n;
    return LS_OK;
}

uint64_t ls_link_rate(const struct ls_link *link)
{
    return link->best_rate;
}

bool ls_link_idle(struct ls_link *link)
{
    if (!link->failed)
        link->backend->advance(link);
    return link->direction == LS_SEND ? link->n_busy == 0 : !link->arrived && link->n_held == 0;
}

ls_status ls_link_poll(struct ls_link *link, void **bytes, uint64_t *n, struct ls_err *err)
{
    if (link->direction == LS_RECV && !link->failed)
        link->backend->advance(link);
    ls_status s = check_usable(link, LS_RECV, err);
    if (s)
        return s;
    *bytes = link->arrived ? link->message : NULL;
    *n = link->arrived ? link->arrived_bytes : 0;
    return LS_OK;
}

ls_status ls_link_hold(struct ls_link *link, struct ls_err *err)
{
    char label[LS_LINK_LABEL];
    ls_status s = check_usable(link, LS_RECV, err);
    if (s)
        return s;
    if (!link->arrived)
        return ls_fail(err, LS_E_INTERNAL, "%s: no message has arrived",
                       ls_link_label(link, label));
    link->arrived = false;
    link->message = NULL;
    link->n_held++;
    link->comm->counts.received_messages++;
    link->comm->counts.received_bytes += link->arrived_bytes;
    return LS_OK;
}

int ls_link_n_held(const struct ls_link *link)
{
    return link->n_held;
}

ls_status ls_link_return(struct ls_link *link, struct ls_err *err)
{
    ls_status s = check_usable(link, LS_RECV, err);
    if (s)
        return s;
    if (link->n_held == 0)
        s = ls_link_hold(link, err);
    if (s)
        return s;
    link->n_held--;
    link->backend->release(link);
    return check_usable(link, LS_RECV, err);
}

ls_status ls_comm_progress(struct ls_comm *comm, struct ls_err *err)
{
    for (struct ls_link *link = comm->links; link; link = link->next) {
        if (!link->failed)
            link->backend->advance(link);
        ls_status s = link->direction == LS_SEND ? check_usable(link, LS_SEND, err) : LS_OK;
        if (s)
            return s;
    }
    return LS_OK;
}

void ls_comm_idle(unsigned *idle_count)
{
    enum { SPIN = 200, YIELD = 1000, DOZE = 6000 };
    unsigned count = *idle_count;
    *idle_count = count < DOZE ? count + 1 : count;
    if (count < SPIN) {
        _mm_pause();
    } else if (count < YIELD) {
        sched_yield();
    } else {
        const struct timespec pause = { .tv_nsec = count < DOZE ? 20000 : 200000 };
        nanosleep(&pause, NULL);
    }
}
