/* The scheduler: decides what the next step holds. A state machine without I/O, clock or
 * thread.
 *
 * Layer: pipeline. Owns slots and KV blocks. Continuous batching: decoding rows first (one
 * token each), then prompt chunks up to the budget; a sequence is admitted only when the worst
 * case of its blocks is free, so a running sequence is never evicted. While a sequence's token
 * is in flight it is in no other step; a prompt's chunks may be in several steps at once.
 *
 * Prefix reuse: a block of 32 prompt positions that all stages have computed can be adopted by
 * every sequence whose prompt begins with the same tokens, unless the logits of one of these
 * positions are wanted. A prompt waits while another sequence computes a block that it can
 * adopt, so of many with one beginning the first computes it. Blocks that nobody holds are kept
 * until their memory is wanted. */
#ifndef LS_PIPELINE_SCHEDULER_H
#define LS_PIPELINE_SCHEDULER_H

#include "pipeline/client.h"
#include "pipeline/plan.h"

struct ls_scheduler;

/* seed_placement: nonzero shuffles block and slot choice (tests: bits must not care).
 * all_window: keys needed behind the newest position when every layer is windowed, else 0.
 * reuse: sequences with equal beginnings share the blocks of these. */
ls_status ls_scheduler_create(struct ls_scheduler **out, const struct ls_plan *plan,
                              int all_window, uint64_t seed_placement, bool reuse,
                              struct ls_err *err);
void ls_scheduler_destroy(struct ls_scheduler *s);

/* Blocks that a sequence of `positions` fed positions holds at most at one time. */
uint32_t ls_scheduler_worst_blocks(const struct ls_plan *plan, int all_window,
                                   uint32_t positions);

/* LS_E_REQUEST: it can never fit, or its fields contradict each other. */
ls_status ls_scheduler_check(const struct ls_scheduler *s, const struct ls_sequence *seq,
                             struct ls_err *err);
/* True when `seq`, which passed the check, can be admitted now; then ls_scheduler_add takes it
 * (the tokens stay the client's, until ls_scheduler_end) and returns its slot. */
bool ls_scheduler_has_room(const struct ls_scheduler *s, const struct ls_sequence *seq);
uint32_t ls_scheduler_add(struct ls_scheduler *s, const struct ls_sequence *seq);

/* Fills the next step (arrays made for the plan's limits, with tokens). False when there is
 * nothing to do now: every sequence waits for a result, or there is none. */
bool ls_scheduler_step(struct ls_scheduler *s, struct ls_step *step);

/* What came back for a row of a step: the token sampled after its last position (token >= 0),
 * or the end of the sequence. Rows in the middle of a prompt need no call. After the end the
 * slot may be given to another sequence in the very next step, even when steps in flight still
 * hold rows of the old one: the caller must tell them apart. */
void ls_scheduler_token(struct ls_scheduler *s, uint32_t slot, int32_t token);
void ls_scheduler_end(struct ls_scheduler *s, uint32_t slot);

/* All stages have computed the slot's positions before end_pos; clean: without NaN. Then its
 * full blocks can be shared. For the sequence that is in the slot now only, before its token or
 * its end. */
void ls_scheduler_computed(struct ls_scheduler *s, uint32_t slot, uint32_t end_pos, bool clean);

uint32_t ls_scheduler_n_running(const struct ls_scheduler *s);
/* Blocks held by sequences now and at most, and how often one was taken over instead of being
 * computed, for the manifest. */
void ls_scheduler_blocks(const struct ls_scheduler *s, uint32_t *in_use, uint32_t *peak);
/* Blocks that have ever held something; the memory of the others was never used. */
uint32_t ls_scheduler_touched_blocks(const struct ls_scheduler *s);
uint64_t ls_scheduler_reused_blocks(const struct ls_scheduler *s);

#endif
