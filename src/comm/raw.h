/* MPI's own calls between two ranks, for measuring what links add to them.
 *
 * Layer: comm. No links, no frames, no copies: blocking calls on the communicator of an MPI
 * comm that has no link open between the two. Failures are LS_E_LINK. */
#ifndef LS_COMM_RAW_H
#define LS_COMM_RAW_H

#include "comm/comm.h"

enum { LS_RAW_DEPTH = 2 /* messages of a stream that are in flight at once */ };

struct ls_raw {
    struct ls_comm *comm;
    int peer;              /* rank */
    bool begins;           /* this rank sends first; the other one has it false */
    int count;             /* round trips, or messages of a stream */
    uint64_t n;            /* bytes of each, at most INT_MAX */
    unsigned char *buffer; /* [LS_RAW_DEPTH][n] */
};

/* Point-to-point: `count` messages to and fro; or as many one way, then one byte back. */
ls_status ls_raw_ping(const struct ls_raw *raw, struct ls_err *err);
ls_status ls_raw_stream(const struct ls_raw *raw, struct ls_err *err);

/* Collective: all ranks get root's n bytes. Waits without occupying its core, for at most
 * wait_s seconds. */
ls_status ls_raw_share(struct ls_comm *comm, int root, void *bytes, int n, int wait_s,
                       struct ls_err *err);

#endif
