/* A run from start-up to the last result, on all ranks.
 *
 * Layer: pipeline. Collective functions are called by every rank of the communicator with the
 * same arguments, except where "rank 0 only" is said. Failure is agreed: when one rank fails,
 * all return a failure, rank 0 with the cause of the rank that failed. */
#ifndef LS_PIPELINE_SESSION_H
#define LS_PIPELINE_SESSION_H

#include "comm/comm.h"
#include "pipeline/apart.h"
#include "pipeline/client.h"
#include "pipeline/keyring.h"
#include "pipeline/placement.h"
#include "pipeline/plan.h"
#include "stage/stage.h"

#include <signal.h>

struct ls_session;
struct ls_trace;

/* Rank 0, when it failed before start-up (usage, files): lets the others end quietly. Pair of
 * ls_session_open on the other ranks, which then return LS_E_DRAINED with an empty text. */
void ls_session_cancel(struct ls_comm *comm);

/* Keys and control links. `link` is each rank's own (NULL: sealed, no secret given), and its
 * secret is not needed afterwards. From here on ranks know of each other whether they live.
 * Collective. */
ls_status ls_session_open(struct ls_session **out, struct ls_comm *comm,
                          const struct ls_link_wish *link, struct ls_err *err);
/* Rank 0, between open and start: does work that may take long (and must not call MPI) on a
 * thread of its own. Returns what it returned; or LS_E_LINK when a rank was lost meanwhile, and
 * then the work goes on and its memory must stay. */
ls_status ls_session_meanwhile(struct ls_session *session, ls_apart_fn *work, void *arg,
                               struct ls_err *err);
/* Two votes: configuration and reports, plan, vote; load, vote. `wish` is read on rank 0 only
 * and reaches the others by the wire. Collective; on failure the session is only good to be
 * destroyed. Rank 0 may destroy a session that was not started: the others' start then returns
 * LS_E_DRAINED with an empty text. */
ls_status ls_session_start(struct ls_session *session, const struct ls_run_wish *wish,
                           struct ls_err *err);

/* Open and start together. */
ls_status ls_session_create(struct ls_session **out, struct ls_comm *comm,
                            const struct ls_run_wish *wish, const struct ls_link_wish *link,
                            struct ls_err *err);
void ls_session_destroy(struct ls_session *session); /* takes NULL; local */

/* Runs the client's sequences (rank 0 only; NULL elsewhere) to the end, once in a session's
 * life. Collective. LS_E_DRAINED: the client asked for it, and what ran has ended. After a
 * failure every rank returns within seconds: a step in progress is given up between two layers,
 * and a rank that shows no sign of life for the plan's silence_s is given up by the others. */
ls_status ls_session_run(struct ls_session *session, const struct ls_client *client,
                         struct ls_err *err);

/* Not 0 in *hurry: the launcher is about to kill this process, because the user wants it to or
 * because a rank has died; the end waits for nobody. After open. */
void ls_session_set_hurry(struct ls_session *session, const volatile sig_atomic_t *hurry);
/* LS_E_LINK when a rank that this one hears of is gone, as far as can be told: why the launcher
 * ends the job. Local. */
ls_status ls_session_find_gone(const struct ls_session *session, struct ls_err *err);
/* A rank was given up: on rank 0 any, on the others rank 0, and then somebody else must say so
 * to the user. Whoever was given up does not come to any common end. */
bool ls_session_lost_rank(const struct ls_session *session);
/* This rank itself has just come back after it was stopped for so long that the others may have
 * given it up. */
bool ls_session_was_away(const struct ls_session *session);
/* Rank 0, after a run: the first rank that did not come to the end, for a message; else NULL.
 */
enum { LS_SESSION_TEXT = 256 };
const char *ls_session_missing(const struct ls_session *session, char text[LS_SESSION_TEXT]);

const struct ls_plan *ls_session_plan(const struct ls_session *session);
const struct ls_placement *ls_session_placement(const struct ls_session *session); /* rank 0 */
const struct ls_arch *ls_session_arch(const struct ls_session *session);
const struct ls_link_terms *ls_session_terms(const struct ls_session *session);
const struct ls_checkpoint *ls_session_checkpoint(const struct ls_session *session);
/* How many tensors of the checkpoint nothing uses, and the first one's name, valid while the
 * session lives. */
size_t ls_session_unused(const struct ls_session *session, const char **first);

enum { LS_N_REFUSALS = LS_E_SHAPE - LS_E_AUTH + 1 };

/* What the links of a stage have sealed, opened and refused. */
struct ls_link_counts {
    uint64_t sealed, opened;             /* frames under a key */
    uint64_t sealed_bytes, opened_bytes; /* of these, header and tag included */
    uint64_t buffer_bytes;               /* of its frames, both directions */
    uint64_t rekeys; /* keys begun after the first, over its sending links */
    uint64_t crypto_us;
    uint64_t packed, unpacked;        /* tensors */
    uint64_t raw_bytes, packed_bytes; /* of the packed ones, before and after */
    uint64_t split;                   /* payloads sent or received in several frames */
    uint64_t pack_us;
    uint64_t copies;                 /* payloads of steps and results that were copied: 0 */
    uint64_t refused[LS_N_REFUSALS]; /* arrived frames, by status - LS_E_AUTH */
};

/* Per stage, gathered on rank 0 by ls_session_run's end (STATS). */
struct ls_stage_stats {
    char host[LS_MAX_HOST];
    char kernels[16];       /* table that computed: "avx2", "avx512bf16", ... */
    int32_t kernels_failed; /* paths whose self-test failed here */
    int32_t threads;
    struct ls_stage_counts counts;
    uint64_t compute_us, wait_us, send_us; /* wait: nothing to compute; send: no free buffer */
    uint64_t prompt_us; /* of compute_us, in steps that hold a part of a prompt */
    uint64_t frames_sent, frames_received, bytes_sent, bytes_received;
    uint64_t peak_bytes;  /* of the process in memory at most, whatever they are for */
    uint64_t step_allocs; /* allocations made by steps after the first: 0 */
    uint64_t least_us;    /* of rank 0, as its control link has it; two's complement */
    struct ls_link_counts links;
};
const struct ls_stage_stats *ls_session_stats(const struct ls_session *session, int stage);
/* What a stage did when (rank 0, after the run); NULL unless the wish says trace. */
const struct ls_trace *ls_session_trace(const struct ls_session *session, int stage);
/* Steps, most in flight, blocks in use at most. Rank 0. */
struct ls_run_stats {
    uint64_t steps, tokens, max_in_flight, peak_blocks, sequences;
    uint64_t reused_blocks;  /* adopted instead of computed, each time counted */
    uint64_t coordinator_us; /* that its thread did not wait for results */
};
void ls_session_run_stats(const struct ls_session *session, struct ls_run_stats *stats);

#endif
