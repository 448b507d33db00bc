/* What one arm computes, written to a file: digests of rows, hidden states of all layers, or
 * every operation of one layer.
 *
 * Layer: parity. Local. The forward is the stage's, looked into by a tap (model/tap.h); one
 * sequence at a time. The file is safetensors, [rows][elements], one row for each position:
 *
 *   rows        rows.<i> U8 [n][32]: BLAKE2b-256 of each row of logits (little-endian binary32)
 *               of request i, and ids.<i> I32 [n][1]: its tokens
 *   layers      hidden_states.<k> F32 [n][hidden]: the embedding for k = 0, else what layer
 *               k - 1 gives; final_norm, and rows and ids of the request as number 0
 *   operations  <operation> F32 (expert_choice: I32) [n][elements], by ls_op_name; of scores,
 *               head and logits the last position alone
 *
 * Values that the forward rounds to the activations' dtype are written as the same number in
 * F32. */
#ifndef LS_PARITY_PROBE_H
#define LS_PARITY_PROBE_H

#include "base/status.h"
#include "kernels/kernels.h"
#include "model/arch.h"
#include "model/tap.h"
#include "tensor/checkpoint.h"

enum ls_probe_kind { LS_PROBE_ROWS, LS_PROBE_LAYERS, LS_PROBE_OPERATIONS };

struct ls_probe_prompt {
    const int32_t *tokens; /* [n] */
    uint32_t n;            /* 1.. */
};

struct ls_probe_config {
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    const struct ls_kernels *kernels;
    int n_threads;
    enum ls_probe_kind kind;
    int layer;                             /* of operations; n_layers: final norm and head */
    const struct ls_probe_prompt *prompts; /* [n_prompts]; rows: any number, else one */
    size_t n_prompts;
};

/* Operations of which the last position alone is written. */
bool ls_probe_at_last_only(enum ls_op op);

/* Loads the weights, runs, writes. On failure no file is left. */
ls_status ls_probe_write(const char *path, const struct ls_probe_config *config,
                         struct ls_err *err);

#endif
