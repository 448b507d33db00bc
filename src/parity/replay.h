/* A model, or some of its layers, on this process alone: sequences of tokens through one stage,
 * by the code that every job runs, and digests of what comes out.
 *
 * Layer: parity. Local. For checks that need a few rows and no job. Sequence i has slot i and
 * its own KV blocks; its positions follow each other from 0. Memory: the stage's, and some rows
 * of logits. */
#ifndef LS_PARITY_REPLAY_H
#define LS_PARITY_REPLAY_H

#include "base/alloc.h"
#include "model/arch.h"
#include "stage/stage.h"
#include "tensor/checkpoint.h"

enum { LS_REPLAY_DIGEST = 32 /* bytes: BLAKE2b-256 */ };

/* A checkpoint folder that was opened and checked, no weight read. */
struct ls_replay_model {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
};

/* Finish it in every case. */
ls_status ls_replay_model_open(struct ls_replay_model *model, const char *folder,
                               const struct ls_arch_wish *wish, struct ls_err *err);
void ls_replay_model_finish(struct ls_replay_model *model);

struct ls_replay_config {
    const struct ls_arch *arch;       /* outlives the replay */
    const struct ls_checkpoint *ckpt; /* outlives the replay */
    const struct ls_kernels *kernels;
    int first_layer, last_layer; /* global, half-open */
    int n_threads;
    uint32_t n_sequences;     /* at the same time */
    uint32_t positions;       /* of one sequence, at most; <= the arch's context */
    uint32_t max_tokens;      /* of one run */
    const struct ls_tap *tap; /* of the stage, or NULL */
    bool leaves;              /* ls_replay_leaves is wanted */
};

struct ls_replay;

/* Loads the weights of its layers. */
ls_status ls_replay_create(struct ls_replay **out, const struct ls_replay_config *config,
                           struct ls_err *err);
void ls_replay_destroy(struct ls_replay *replay); /* takes NULL */

/* All sequences are empty again. */
void ls_replay_restart(struct ls_replay *replay);

/* The next `count` tokens of a sequence; a sequence has one row in a run. */
struct ls_replay_row {
    uint32_t sequence, count;
    const int32_t *tokens; /* [count]; NULL where hidden states come in instead */
};

/* Runs the rows. hidden_in: as ls_stage_run; hidden_out: the same, or NULL with the last layer.
 * What does not fit the config is LS_E_SHAPE. */
ls_status ls_replay_run(struct ls_replay *replay, const struct ls_replay_row *rows,
                        uint32_t n_rows, const void *hidden_in, void *hidden_out,
                        struct ls_err *err);

/* With the last layer, after a run: BLAKE2b-256 of the logits row (little-endian binary32) of
 * each of its tokens, in row order; NULL: they are computed for the leaves only. Once for each
 * run. */
void ls_replay_logits(struct ls_replay *replay, unsigned char (*digests)[LS_REPLAY_DIGEST]);

/* After a run, and its logits with the last layer: ls_stage_leaves. */
const unsigned char *ls_replay_leaves(const struct ls_replay *replay);

#endif
