/* What the backends share behind comm.h: the ring of a link, and the table of a backend.
 *
 * Layer: comm, private to this folder. A link is a ring of n_buffers slots; `oldest` is the
 * first busy one. Sending: n_busy slots from `oldest` on are in flight, the next one is being
 * filled. Receiving: n_held slots from `oldest` on are held by the caller, all others are
 * posted; the one behind the held ones is either posted, or arrived and lent to the caller. MPI
 * matches messages of one (peer, tag) in order, so ring order is arrival order.
 *
 * Backend functions report failure by ls_link_fail; comm.c turns it into a status. */
#ifndef LS_COMM_BACKEND_H
#define LS_COMM_BACKEND_H

#include "comm/comm.h"

enum { LS_HOST_NAME = 256, LS_LINK_LABEL = 64, LS_LINK_FAILURE = 128 };

/* A message in flight. */
struct ls_sent {
    uint64_t bytes;
    uint64_t at_us; /* MPI: when it went off */
};

struct ls_link {
    struct ls_comm *comm;
    struct ls_link *next; /* of the same comm */
    const struct ls_backend *backend;
    int peer; /* rank */
    enum ls_tag tag;
    enum ls_direction direction;
    int n_buffers;
    uint64_t buffer_bytes;
    uint64_t stride_bytes;  /* from one buffer to the next, a multiple of LS_ALIGN */
    unsigned char *buffers; /* [n_buffers][stride_bytes]; NULL on a receiving self link */
    bool ring;              /* mapped twice, see base/ring.h */
    int oldest, n_busy, n_held;
    bool arrived; /* receiving: the message behind the held ones has arrived */
    void *message;
    uint64_t arrived_bytes;
    ls_status failed; /* first failure; the link is unusable from then on */
    char failure[LS_LINK_FAILURE];
    void *requests;       /* MPI: [n_buffers] of MPI_Request */
    struct ls_link *pair; /* self: the other end, NULL until it is opened */
    struct ls_sent *sent; /* [n_buffers], sending */
    uint64_t best_rate;   /* see ls_link_rate */
};

struct ls_backend {
    ls_status (*open)(struct ls_link *link, struct ls_err *err);
    void (*send)(struct ls_link *link, int slot, uint64_t n);
    /* Retires finished sends, or notices an arrival behind the held ones. Never blocks. */
    void (*advance)(struct ls_link *link);
    /* Posts the oldest buffer again and makes the next one the oldest. */
    void (*release)(struct ls_link *link);
    /* Frees what open made except the buffers; false when those must outlive the link. */
    bool (*close)(struct ls_link *link);
};

struct ls_comm {
    enum ls_comm_backend kind;
    int rank, size;
    char host[LS_HOST_NAME];
    struct ls_link *links;
    struct ls_comm_counts counts;
    bool failed;
    int lost;           /* the first rank that fell silent; -1 */
    bool one_host;      /* all ranks run on this host */
    struct ls_mpi *mpi; /* NULL for self */
};

extern const struct ls_backend ls_backend_self;
extern const struct ls_backend ls_backend_mpi;

/* MPI's part of create: fills comm->rank, size, one_host and mpi. Collective. */
ls_status ls_mpi_start(struct ls_comm *comm, struct ls_err *err);
/* Waits for sends and then for all ranks, bounded as comm.h says. */
void ls_mpi_quiesce(struct ls_comm *comm);
/* After the links are closed: MPI_Finalize if every rank came. */
void ls_mpi_stop(struct ls_comm *comm);

/* Names the link in a message: "link from rank 0 to rank 3, tag 2". Returns text. */
const char *ls_link_label(const struct ls_link *link, char text[LS_LINK_LABEL]);

/* Records the first failure of a link and marks the whole comm as failed. */
void ls_link_fail(struct ls_link *link, ls_status status, const char *failure);
/* The same for a message longer than the buffer. */
void ls_link_fail_too_large(struct ls_link *link);

/* The slot in which the next message arrives; its index is below n_buffers unless all are held.
 */
static inline int ls_link_arrival_slot(const struct ls_link *link)
{
    return (link->oldest + link->n_held) % link->n_buffers;
}

ls_status ls_link_alloc_buffers(struct ls_link *link, struct ls_err *err);

static inline unsigned char *ls_link_slot(const struct ls_link *link, int slot)
{
    return link->buffers + (uint64_t)slot * link->stride_bytes;
}

#endif
