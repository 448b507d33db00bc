/* What rank 0's two threads hand to each other: steps to the computing thread, result frames to
 * the coordinator, and the end of either.
 *
 * Layer: pipeline. All memory is made at creation. Steps stay the coordinator's: it may not
 * touch a submitted one, but for reading rows and events, until all of its results have come.
 * The computing thread never waits here; the coordinator does. Local. */
#ifndef LS_PIPELINE_EXCHANGE_H
#define LS_PIPELINE_EXCHANGE_H

#include "stage/step.h"

#include <stdbool.h>

struct ls_exchange;

/* For each replica at most max_steps submitted and not taken, and max_frames frames lent. */
ls_status ls_exchange_create(struct ls_exchange **out, int n_replicas, int max_steps,
                             int max_frames, struct ls_err *err);
void ls_exchange_destroy(struct ls_exchange *x); /* takes NULL */

/* --- coordinator -------------------------------------------------------------------------- */
void ls_exchange_submit(struct ls_exchange *x, int replica, struct ls_step *step);
/* The next result frame of any replica, waiting up to wait_us; NULL when none came or the run
 * is closed. It is the coordinator's, to open in place, until ls_exchange_frames_done, which
 * gives all back that it has of the replica. */
unsigned char *ls_exchange_frame(struct ls_exchange *x, uint64_t wait_us, int *replica,
                                 uint64_t *n);
void ls_exchange_frames_done(struct ls_exchange *x, int replica);
/* True once the computing thread has given up: the coordinator returns at once. */
bool ls_exchange_is_closed(struct ls_exchange *x);
/* The coordinator's last word. */
void ls_exchange_finish(struct ls_exchange *x);

/* --- computing thread --------------------------------------------------------------------- */
struct ls_step *ls_exchange_take(struct ls_exchange *x, int replica); /* NULL: none waits */
/* Lends a frame where it lies, no copy; false: too many of this replica are lent. */
bool ls_exchange_lend(struct ls_exchange *x, int replica, unsigned char *bytes, uint64_t n);
/* How many frames of the replica, the oldest first, have come back since the last call. */
int ls_exchange_take_back(struct ls_exchange *x, int replica);
bool ls_exchange_is_finished(struct ls_exchange *x);
void ls_exchange_close(struct ls_exchange *x);

#endif
