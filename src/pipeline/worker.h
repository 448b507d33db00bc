/* A stage's loop during a run: receive a step, compute, send it on; on rank 0 also the
 * hand-over to the coordinator; on the last stage the logits.
 *
 * Layer: pipeline. The one thread of the rank that communicates and computes. Between layers
 * and while it waits it pumps: lets messages move, hands results over, beats, and notices
 * failures and STOP. Nothing is allocated per step. */
#ifndef LS_PIPELINE_WORKER_H
#define LS_PIPELINE_WORKER_H

#include "pipeline/exchange.h"
#include "pipeline/session_state.h"

struct ls_worker;

/* exchange: rank 0's, else NULL. Both outlive the worker. */
ls_status ls_worker_create(struct ls_worker **out, struct ls_session *session,
                           struct ls_exchange *exchange, struct ls_err *err);
void ls_worker_destroy(struct ls_worker *w); /* takes NULL */

/* Runs steps until the coordinator has finished (rank 0), STOP has come (the others: LS_OK when
 * the run ended well, else rank 0's status and text), or something fails here or, on rank 0,
 * anywhere. */
ls_status ls_worker_run(struct ls_worker *w, struct ls_err *err);

/* The end, on every rank, after a good or a bad run: lets the others' messages through until
 * all ranks have stopped or a deadline of a few seconds has passed. Fills the session's stats.
 * status, text: how the run ended, told to all by rank 0, and to rank 0 by a rank that failed.
 */
void ls_worker_end(struct ls_worker *w, ls_status status, const char *text);

#endif
