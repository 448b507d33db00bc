/* Moving frames between ranks: ordered one-way links over one of several backends.
 *
 * Layer: comm. Knows bytes, ranks and tags; never tensors, layers or headers. Everything is
 * nonblocking: a receiving link posts all of its fixed-size buffers ahead, a sending link owns
 * a ring of buffers and never copies. Only one thread per rank may call (MPI_THREAD_FUNNELED).
 *
 * Backends: self (one process, no MPI; also used between a rank and itself) and MPI.
 *
 * Nothing is allocated after ls_comm_open. On a link from a rank to itself a message is the
 * sender's own buffer, handed over: it is in flight until the receiver returns it. */
#ifndef LS_COMM_COMM_H
#define LS_COMM_COMM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_comm;
struct ls_link;

enum ls_comm_backend { LS_COMM_SELF, LS_COMM_MPI };
enum ls_direction { LS_SEND, LS_RECV };

/* MPI tags; one link per (peer, tag, direction). */
enum ls_tag { LS_TAG_CONTROL = 1, LS_TAG_STEP = 2, LS_TAG_RESULT = 3, LS_TAG_HELLO = 4 };

enum {
    LS_MAX_BUFFERS = 1024,
    /* How long a failed run waits for its peers at the end, in each of two waits. */
    LS_COMM_GRACE_US = 2000000,
};

/* How many ranks the launcher says there are (see launcher.h); 0 when there is no launcher, or
 * it does not say. Local, needs no comm. */
int ls_comm_launcher_ranks(void);

/* Collective for MPI: calls MPI_Init_thread when nobody has, after what launcher.h refuses and
 * settles. A process that MPI believes to be alone although the launcher started several is
 * LS_E_REFUSED. Makes the calling thread's
 * timers precise (its timer slack), for ls_comm_idle. */
ls_status ls_comm_create(struct ls_comm **out, enum ls_comm_backend backend,
                         struct ls_err *err);

/* Collective in a clean end: waits for pending sends and for all ranks, cancels posted
 * receives, MPI_Finalize. Takes NULL. No wait is longer than a few seconds; after a failure
 * (see ls_comm_set_failed) none is longer than LS_COMM_GRACE_US, and if a peer does not come
 * MPI is left unfinalised: the launcher then ends the job when this process exits. */
void ls_comm_destroy(struct ls_comm *comm);

/* The run has failed: peers may be gone. Transport errors do this themselves. Local. */
void ls_comm_set_failed(struct ls_comm *comm);
/* The same, because this rank fell silent. The first one is remembered; -1: none. Local. */
void ls_comm_set_lost(struct ls_comm *comm, int rank);
int ls_comm_lost(const struct ls_comm *comm);

int ls_comm_rank(const struct ls_comm *comm);
int ls_comm_size(const struct ls_comm *comm);
/* This rank's host name; ranks of one host have equal names. */
const char *ls_comm_host(const struct ls_comm *comm);
const char *ls_comm_backend_name(const struct ls_comm *comm);
/* True when the ranks share memory, as MPI sees it, and have one host name. */
bool ls_comm_is_one_host(const struct ls_comm *comm);

/* Opens one end of a link with n_buffers (1..LS_MAX_BUFFERS) of buffer_bytes each (1..INT_MAX;
 * more is LS_E_REFUSED); a receiving end posts them all. Local: both ranks must do it with the
 * same sizes. Owned by comm. Buffers of whole pages lie in a ring without gaps: successive
 * messages, or as many neighbours as there are, are one piece of memory. */
ls_status ls_comm_open(struct ls_comm *comm, struct ls_link **out, int peer, enum ls_tag tag,
                       enum ls_direction direction, int n_buffers, uint64_t buffer_bytes,
                       struct ls_err *err);
/* What one buffer takes in memory, and all buffers of an open link; links hold none where a
 * message stays in the sender's. */
uint64_t ls_link_stride(uint64_t buffer_bytes);
uint64_t ls_link_bytes(const struct ls_link *link);

/* Sending: the next n free buffers, or NULL while too many are in flight (then
 * ls_comm_progress). The same ones are returned until the first of them is sent. More than one
 * only of whole pages. */
void *ls_link_buffers(struct ls_link *link, int n);
static inline void *ls_link_buffer(struct ls_link *link)
{
    return ls_link_buffers(link, 1);
}
/* Starts sending the first n bytes of the first buffer that was returned last; the caller must
 * not touch it afterwards. */
ls_status ls_link_send(struct ls_link *link, uint64_t n, struct ls_err *err);
/* Sending: bytes that the link has moved in a microsecond at best, over messages of 64 KiB and
 * more, as far as this end saw it; 0: not known. */
uint64_t ls_link_rate(const struct ls_link *link);
/* Sending: true when nothing is in flight. Receiving: true when no message waits or is held. */
bool ls_link_idle(struct ls_link *link);
int ls_link_n_buffers(const struct ls_link *link);

/* Receiving: *bytes is the oldest arrived message that is not held (stays valid until
 * ls_link_return) or NULL when none has arrived. The caller may write to it (opening a frame
 * works in place). A message longer than the buffer is LS_E_TOO_LARGE, for this and every later
 * call. */
ls_status ls_link_poll(struct ls_link *link, void **bytes, uint64_t *n, struct ls_err *err);
/* Keeps the message that ls_link_poll has just shown, so that the next poll shows the one
 * behind it. While all buffers are held nothing more arrives. */
ls_status ls_link_hold(struct ls_link *link, struct ls_err *err);
int ls_link_n_held(const struct ls_link *link);
/* Gives the oldest message's buffer back, held or just shown; it is posted again. */
ls_status ls_link_return(struct ls_link *link, struct ls_err *err);

/* Lets the backend move data and completes sends; fails when a send has failed (failed receives
 * are told by ls_link_poll). Cheap enough for every layer of a forward. */
ls_status ls_comm_progress(struct ls_comm *comm, struct ls_err *err);

/* To be called by a loop that found nothing to do: first spins, then yields the core, then
 * sleeps for a small part of the time already waited. Reset the counter to 0 when something was
 * found. */
void ls_comm_idle(unsigned *idle_count);

/* Bytes and messages moved, for the manifest. */
struct ls_comm_counts {
    uint64_t sent_messages, sent_bytes, received_messages, received_bytes;
};
void ls_comm_get_counts(const struct ls_comm *comm, struct ls_comm_counts *counts);

#endif
