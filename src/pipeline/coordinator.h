/* Rank 0's second thread: admits the client's sequences, each to the replica that runs fewest,
 * schedules steps, gives the client its logits.
 *
 * Layer: pipeline. Never calls MPI; talks to the computing thread through an exchange, and
 * opens the frames that it gets there, in place. Owns a scheduler for each replica and its
 * record of every step in flight, from which it knows exactly which frames must come back and
 * refuses any other. */
#ifndef LS_PIPELINE_COORDINATOR_H
#define LS_PIPELINE_COORDINATOR_H

#include "pipeline/channel.h"
#include "pipeline/client.h"
#include "pipeline/exchange.h"
#include "pipeline/session.h"

struct ls_coordinator;

struct ls_coordinator_config {
    const struct ls_plan *plan; /* all outlive the coordinator */
    const struct ls_arch *arch;
    const struct ls_client *client;
    struct ls_exchange *exchange;
    struct ls_channel *results; /* [n_replicas] only to open frames; polled and returned by the
                                   other thread */
    uint64_t placement_seed;
    bool prefix_reuse;
};

ls_status ls_coordinator_create(struct ls_coordinator **out,
                                const struct ls_coordinator_config *config, struct ls_err *err);
void ls_coordinator_destroy(struct ls_coordinator *c); /* takes NULL; after join */

/* Starts the thread. */
ls_status ls_coordinator_start(struct ls_coordinator *c, struct ls_err *err);
/* Waits for the thread (the exchange must be finished or closed) and returns how it ended:
 * LS_OK, LS_E_DRAINED, or a failure of client or protocol. */
ls_status ls_coordinator_join(struct ls_coordinator *c, struct ls_err *err);

/* After join. */
void ls_coordinator_stats(const struct ls_coordinator *c, struct ls_run_stats *stats);

#endif
