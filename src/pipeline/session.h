/* A run from start-up to the last result, on all ranks.
 *
 * Layer: pipeline. Collective functions are called by every rank of the communicator with the
 * same arguments, except where "rank 0 only" is said. Failure is agreed: when one rank fails,
 * all return a failure, rank 0 with the cause of the rank that failed. */
#ifndef LS_PIPELINE_SESSION_H
#define LS_PIPELINE_SESSION_H

#include "comm/comm.h"
#include "pipeline/client.h"
#include "pipeline/keyring.h"
#include "pipeline/placement.h"
#include "pipeline/plan.h"
#include "stage/stage.h"

struct ls_session;

/* Rank 0, when it failed before start-up (usage, files): lets the others end quietly. Pair of
 * ls_session_create on the other ranks, which then return LS_E_DRAINED with an empty text. */
void ls_session_cancel(struct ls_comm *comm);

/* Keys; then two votes: configuration and reports, plan, vote; load, vote. `wish` is read on
 * rank 0 only and reaches the others by the wire; `link` is each rank's own (NULL: sealed, no
 * secret given), and its secret is not needed afterwards. Collective. */
ls_status ls_session_create(struct ls_session **out, struct ls_comm *comm,
                            const struct ls_run_wish *wish, const struct ls_link_wish *link,
                            struct ls_err *err);
void ls_session_destroy(struct ls_session *session); /* takes NULL; local */

/* Runs the client's sequences (rank 0 only; NULL elsewhere) to the end, once in a session's
 * life. Collective. LS_E_DRAINED: the client asked for it, and what ran has ended. After a
 * failure every rank returns within seconds: a step in progress is given up between two layers,
 * and a rank that shows no sign of life for the wish's silence_s is given up by the others. */
ls_status ls_session_run(struct ls_session *session, const struct ls_client *client,
                         struct ls_err *err);

const struct ls_plan *ls_session_plan(const struct ls_session *session);
const struct ls_placement *ls_session_placement(const struct ls_session *session); /* rank 0 */
const struct ls_arch *ls_session_arch(const struct ls_session *session);
const struct ls_link_terms *ls_session_terms(const struct ls_session *session);
const struct ls_checkpoint *ls_session_checkpoint(const struct ls_session *session);

/* Per stage, gathered on rank 0 by ls_session_run's end (STATS). */
struct ls_stage_stats {
    char host[LS_MAX_HOST];
    char kernels[16];       /* table that computed: "avx2", "avx512bf16", ... */
    int32_t kernels_failed; /* paths whose self-test failed here */
    int32_t threads;
    struct ls_stage_counts counts;
    uint64_t compute_us, wait_us, send_us; /* wait: nothing to compute; send: no free buffer */
    uint64_t frames_sent, frames_received, bytes_sent, bytes_received;
    uint64_t step_allocs; /* allocations made by steps after the first: 0 */
};
const struct ls_stage_stats *ls_session_stats(const struct ls_session *session, int stage);
/* Steps, most in flight, blocks in use at most. Rank 0. */
struct ls_run_stats {
    uint64_t steps, tokens, max_in_flight, peak_blocks, sequences;
};
void ls_session_run_stats(const struct ls_session *session, struct ls_run_stats *stats);

#endif
