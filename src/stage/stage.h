/* What one rank owns: its layers' weights, its KV pool, its scratch, its threads.
 *
 * Layer: stage. Runs steps; never communicates. Every step is checked against the stage's own
 * tables before anything is computed: a row must continue its slot exactly where the slot's
 * cache ends. Nothing is allocated after creation. Used by one thread; the team works inside.
 */
#ifndef LS_STAGE_STAGE_H
#define LS_STAGE_STAGE_H

#include "base/team.h"
#include "kernels/kernels.h"
#include "model/arch.h"
#include "model/forward.h"
#include "model/tap.h"
#include "model/weights.h"
#include "stage/step.h"
#include "tensor/checkpoint.h"

struct ls_stage;

struct ls_stage_config {
    const struct ls_arch *arch;       /* outlives the stage */
    const struct ls_checkpoint *ckpt; /* outlives the stage */
    const struct ls_kernels *kernels;
    int first_layer, last_layer; /* global, half-open, not empty */
    struct ls_weights_home weights;
    int n_threads; /* 1.. */
    struct ls_step_limits limits;
    uint32_t max_logit_rows;     /* logits rows of one ls_stage_logits call */
    bool (*progress)(void *arg); /* called between layers by the stage's own thread, or NULL;
                                    false: the run is over, give the step up */
    void *progress_arg;
    const struct ls_tap *tap; /* model/tap.h: looks into its layers, or NULL; outlives it; NULL
                                 with limits.leaves */
    struct ls_forward_times *times; /* outlives the stage; filled when not NULL */
};

/* Evidence for the manifest. */
struct ls_stage_counts {
    uint64_t steps, tokens, logits_rows;
    uint64_t weights_bytes, kv_bytes, scratch_bytes;
    uint64_t shared_bytes;   /* of weights_bytes, in another process's copy */
    uint64_t resident_bytes; /* weights resident in this process after loading: packed copies
                                and what the checkpoint's mapping still holds; not what is
                                shared */
};

/* Loads weights (only its own layers are touched) and allocates everything. */
ls_status ls_stage_create(struct ls_stage **out, const struct ls_stage_config *config,
                          struct ls_err *err);
void ls_stage_destroy(struct ls_stage *stage); /* takes NULL */
/* Offered weights: the descriptor from which other processes adopt them; else -1. */
int ls_stage_weights_fd(const struct ls_stage *stage);

/* Runs one step. hidden_in: [n_tokens][ls_inbound_width(first_layer)] in D's bytes; NULL when
 * first_layer is 0 (then step->tokens is used). hidden_out: [n_tokens][inbound width of
 * last_layer]; NULL on the last stage. Lowers step->rows[].nan_layer, which holds what earlier
 * stages saw: LS_NO_LAYER in front of layer 0. LS_E_SHAPE when the step does not fit the
 * stage's tables, names a layer of this stage or a later one, or a token outside the
 * vocabulary: nothing has changed then. */
ls_status ls_stage_run(struct ls_stage *stage, struct ls_step *step, const void *hidden_in,
                       void *hidden_out, struct ls_err *err);

/* Last stage, after ls_stage_run of the same step: computes logits [begin, end) of the step
 * (end - begin <= max_logit_rows), feeds the digests, and writes those that are sent, in order,
 * to out: [ls_step_n_sent(step, begin, end)][vocab] binary32, NaNs canonical. Call with begin
 * ascending from 0 to ls_step_n_logits(step), each row once. */
void ls_stage_logits(struct ls_stage *stage, const struct ls_step *step, uint32_t begin,
                     uint32_t end, float *out);

/* Last stage: BLAKE2b-256 over the logits rows digested for this slot since it was opened. A
 * CLOSE leaves it readable until the slot is opened again. */
void ls_stage_digest(const struct ls_stage *stage, uint32_t slot, unsigned char digest[32]);

/* First global layer whose output held NaN for any token of the slot since it was opened, as
 * far as this stage and those before it saw, or LS_NO_LAYER. */
int32_t ls_stage_nan_layer(const struct ls_stage *stage, uint32_t slot);

/* With limits.leaves, after the run (last stage: and the logits) of a step of n tokens: the
 * leaves (tensor/merkle.h) of its own layers, [layer][n][LS_LEAF] over the binary32 form of
 * each token's hidden state behind the layer; on the last stage one layer more, over the logits
 * rows that were computed, the others' zero. Valid until the next run. */
const unsigned char *ls_stage_leaves(const struct ls_stage *stage);

/* The stage's threads, for other work of its own thread between steps. Owned by the stage. */
struct ls_team *ls_stage_team(struct ls_stage *stage);

void ls_stage_get_counts(const struct ls_stage *stage, struct ls_stage_counts *counts);

/* Bytes beside weights and KV pool that a stage of these layers will allocate. For the plan. */
uint64_t ls_stage_scratch_bytes(const struct ls_arch *arch, int first_layer, int last_layer,
                                int n_threads, const struct ls_step_limits *limits,
                                uint32_t max_logit_rows);
/* What of them comes into memory when no step has more tokens and logits than these; of config,
 * what decides sizes. */
uint64_t ls_stage_used_scratch_bytes(const struct ls_stage_config *config, uint32_t n_tokens,
                                     uint32_t n_logit_rows);

#endif
