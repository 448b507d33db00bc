/* One forward for all families: layers [first, last) over one step's tokens.
 *
 * Layer: model. Driven by struct ls_arch alone; every per-layer decision takes the GLOBAL layer
 * index. Knows neither communication nor who owns a sequence: spans, block tables and the KV
 * pool are handed in, and were checked by the caller. Owns its scratch, sized once; nothing is
 * allocated by a run. A run is one job of the team with barriers between its phases; phases
 * split rows, outputs or (span, head) pairs over the members, never a sum, so the number of
 * members does not move a bit. */
#ifndef LS_MODEL_FORWARD_H
#define LS_MODEL_FORWARD_H

#include "base/team.h"
#include "kernels/kernels.h"
#include "model/arch.h"
#include "model/tap.h"
#include "model/weights.h"

#include <stdint.h>

/* KV blocks of one layer: block x of KV head h is K at base + x * block_bytes + h * head_bytes,
 * V k_bytes behind it; both 64-byte aligned. */
struct ls_kv_layer {
    char *base;
    size_t k_bytes, head_bytes, block_bytes;
};

/* Consecutive tokens of one sequence in this step. */
struct ls_span {
    uint32_t token;         /* index of the first among the step's tokens */
    uint32_t count;         /* 1.. */
    int32_t first_pos;      /* absolute position of the first */
    int32_t live_first;     /* first position that the cache still holds */
    const uint32_t *blocks; /* block id of positions [32 b, 32 b + 32) at blocks[b] */
};

/* Where a forward's time goes; each with the wait for the slowest member. */
enum ls_forward_phase {
    LS_PHASE_ROWS, /* embedding, norms, joins, rope tables, what comes in and goes out */
    LS_PHASE_QKV,
    LS_PHASE_CACHE, /* q and k norms, rope, keys and values into their blocks */
    LS_PHASE_ATTENTION,
    LS_PHASE_ATTN_OUT,
    LS_PHASE_FFN_IN,
    LS_PHASE_FFN_OUT,
    LS_PHASE_EXPERTS, /* the whole feed-forward of a layer of experts */
    LS_PHASE_HEAD,    /* final norm and head */
    LS_N_PHASES
};

struct ls_forward_times {
    uint64_t ns[LS_N_PHASES]; /* summed over all runs, as member 0 saw them */
};

struct ls_forward_config {
    const struct ls_arch *arch;
    const struct ls_kernels *kernels;
    int first_layer, last_layer; /* global, half-open */
    uint32_t max_tokens;         /* tokens of a run */
    uint32_t max_spans;          /* spans of a run */
    uint32_t max_logit_rows;     /* rows of a logits call; 0 before the last stage */
    uint32_t context;            /* positions are below */
    bool (*progress)(void *arg); /* called between layers by member 0, or NULL; false: give
                                    the run up */
    void *progress_arg;
    const struct ls_tap *tap;       /* NULL: none; outlives the forward */
    struct ls_forward_times *times; /* filled when not NULL */
};

struct ls_forward;

/* Bytes that ls_forward_create allocates; UINT64_MAX when they do not fit 64 bits. */
uint64_t ls_forward_bytes(const struct ls_forward_config *config, int n_threads);
/* What of them comes into memory when no step has more tokens and logits than these. */
uint64_t ls_forward_used_bytes(const struct ls_forward_config *config, int n_threads,
                               uint32_t n_tokens, uint32_t n_logit_rows);

/* The config's pointers, `team` and `weights` (of the same layers) outlive the forward; `kv` is
 * [last_layer - first_layer] and is copied. LS_E_COMPUTE when a member of the team cannot flush
 * denormals. Heap; local. */
ls_status ls_forward_create(struct ls_forward **out, const struct ls_forward_config *config,
                            const struct ls_weights *weights, const struct ls_kv_layer *kv,
                            struct ls_team *team, struct ls_err *err);
void ls_forward_destroy(struct ls_forward *f); /* takes NULL */

/* What one run reads and writes. */
struct ls_forward_io {
    const struct ls_span *spans; /* [n_spans], tokens ascending and without gaps */
    uint32_t n_spans, n_tokens;
    const int32_t *tokens; /* [n_tokens] ids when first_layer is 0, else unused */
    const void
        *hidden_in;   /* [n_tokens][inbound width of first_layer], D's bytes, else unused */
    void *hidden_out; /* [n_tokens][inbound width of last_layer], D's bytes, or NULL */
    int32_t *span_nan_layer; /* [n_spans] out: first own layer whose output held NaN, or -1 */
};

/* Runs the layers; keys and values of the tokens are in the pool afterwards. False when
 * progress gave the run up: outputs and pool then hold nothing of use. */
bool ls_forward_run(struct ls_forward *f, const struct ls_forward_io *io);

/* Rows of logits that are wanted of the last run. */
struct ls_logits_io {
    uint32_t n_rows;        /* <= max_logit_rows */
    const uint32_t *tokens; /* [n_rows] index among the last run's tokens */
};

/* Last stage only: final norm, head, scale, cap; NaNs canonical. The result, row i at
 * ls_forward_logits_row(f, i), holds vocab binary32 values and stays until the next call. */
void ls_forward_logits(struct ls_forward *f, const struct ls_logits_io *io);
const float *ls_forward_logits_row(const struct ls_forward *f, uint32_t i);

#endif
