/* The plan: which layers on which rank, how much cache, how large a step. Formed once on rank
 * 0, the same bytes on every rank.
 *
 * Layer: pipeline. Pure: from an architecture, sizes and what the ranks report. */
#ifndef LS_PIPELINE_PLAN_H
#define LS_PIPELINE_PLAN_H

#include "model/arch.h"
#include "stage/step.h"
#include "tensor/checkpoint.h"

#include <stdbool.h>

enum {
    LS_MAX_STAGES = 1024, /* and ranks: stages x replicas */
    LS_REPLICAS_AUTO = -1,
    LS_MAX_HOST = 64,
    LS_MAX_PATH = 4096,
    LS_MAX_LAYERS_TEXT = 4096,
    LS_MAX_WINDOW = 256,
    LS_MAX_THREADS = 1024,
    LS_SILENCE_S = 8, /* unless the user or the plan says otherwise */
    LS_MAX_SILENCE_S = 3600,
    LS_FRAME_UNIT = 4096, /* sizes of frames are multiples of it */
    LS_FRAME_BYTES = 256 * 1024,
    LS_MAX_FRAME_BYTES = 1 << 30,
    /* byte forms on the control links */
    LS_WISH_BYTES = LS_MAX_PATH + LS_MAX_LAYERS_TEXT + 128,
    LS_PLAN_BYTES = 52 * LS_MAX_STAGES + 128,
    /* buffers of the links that carry results */
    LS_RESULT_SENDS = 2,
    LS_RESULT_RECEIVES = 10, /* those that the coordinator has not read yet included */
};

/* What the user asked for; 0 or "" means automatic. Plain data: rank 0 sends it to all. */
struct ls_run_wish {
    char model[LS_MAX_PATH];         /* checkpoint folder */
    char layers[LS_MAX_LAYERS_TEXT]; /* "0-3,4-7": one inclusive range per stage */
    int32_t stages, threads, context, budget, chunk, window, max_sequences;
    int32_t replicas;  /* pipelines; LS_REPLICAS_AUTO: as many as memory allows */
    uint64_t kv_bytes; /* --kv-memory, per rank */
    int32_t pack;      /* enum ls_pack */
    int32_t frame_bytes;
    int32_t cpu_path; /* enum ls_cpu_path; the fastest to try */
    uint8_t f32_activations;
    uint8_t check_bytes;      /* digest every weight at start */
    uint8_t digests;          /* any digest is wanted */
    uint8_t leaves;           /* a certificate is wanted: step limits' leaves */
    uint8_t trace;            /* every rank records what it does when */
    uint8_t few_logits;       /* rank 0: prompts need logits of their last position only */
    uint8_t prefix_reuse;     /* rank 0: equal beginnings of prompts are computed once */
    uint8_t own_weights;      /* every rank loads its own copy, whoever holds the same layers */
    uint8_t strict_placement; /* what placement.h warns of is refused */
    uint64_t placement_seed;  /* nonzero shuffles KV blocks and slots: for the tests that
                                 show that bits do not depend on it */
    int32_t silence_s;        /* seconds without a sign of life before a rank is given up */
};

/* What one rank says of itself before the plan. */
struct ls_rank_report {
    char host[LS_MAX_HOST];
    int32_t cores;         /* in its affinity mask, divided by the ranks that share it; 1.. */
    uint64_t memory_bytes; /* available to it: cgroup, physical, divided by ranks of the host;
                              0: unknown */
    unsigned char checkpoint_digest[32];
    unsigned char program_digest[32]; /* version and build of this program */
};

struct ls_stage_plan {
    int32_t first_layer, last_layer; /* global, half-open */
    int32_t threads;
    int32_t weights_rank; /* the rank whose copy of the weights this one uses; mostly its own */
    int32_t n_sharing;    /* ranks that use that copy, this one included */
    uint64_t weights_bytes, kv_bytes; /* predicted, of this rank's layers */
    uint64_t scratch_bytes;           /* the same; what its steps work in */
    uint64_t link_bytes;              /* the same; buffers of its links */
};

/* Its part of the copy that it uses. */
static inline uint64_t ls_stage_weights_share(const struct ls_stage_plan *stage)
{
    uint64_t n = (uint64_t)stage->n_sharing;
    return (stage->weights_bytes + n - 1) / n;
}

/* What a stage needs beside weights and cache. */
static inline uint64_t ls_stage_work_bytes(const struct ls_stage_plan *stage)
{
    return stage->scratch_bytes + stage->link_bytes;
}

struct ls_plan {
    unsigned char run_id[16];
    int32_t n_stages, n_replicas; /* stage s of replica r is on rank r * n_stages + s */
    struct ls_step_limits limits;
    int32_t budget, chunk; /* tokens of a step; of one prompt in a step */
    int32_t window;        /* steps in flight */
    uint32_t logit_rows;   /* rows of logits in one RESULT frame */
    int32_t pack;          /* enum ls_pack: of steps and results */
    int32_t frame_bytes;   /* larger payloads take several frames of about this size */
    int32_t silence_s;     /* without a sign of life for so long a rank is given up; more than a
                              layer of a full step may take */
    struct ls_stage_plan stages[LS_MAX_STAGES]; /* by rank */
};

static inline int ls_plan_n_ranks(const struct ls_plan *plan)
{
    return plan->n_stages * plan->n_replicas;
}

static inline int ls_plan_stage_of(const struct ls_plan *plan, int rank)
{
    return rank % plan->n_stages;
}

static inline bool ls_plan_is_first(const struct ls_plan *plan, int rank)
{
    return ls_plan_stage_of(plan, rank) == 0;
}

static inline bool ls_plan_is_last(const struct ls_plan *plan, int rank)
{
    return ls_plan_stage_of(plan, rank) == plan->n_stages - 1;
}

/* Splits n_layers over n_stages so that the slowest stage is as fast as can be: the largest
 * cost over stages is minimal; cost[l] >= 0 per layer, head_cost on the last stage, embed_cost
 * on the first. Every layer exactly once, no stage empty. LS_E_REFUSED when n_stages >
 * n_layers. first[s]..first[s + 1] is stage s; first has n_stages + 1 entries. */
ls_status ls_plan_split(const uint64_t *cost, int n_layers, uint64_t embed_cost,
                        uint64_t head_cost, int n_stages, int32_t *first, struct ls_err *err);

/* A rank as a split sees it. */
struct ls_split_rank {
    uint64_t room_bytes; /* for weights and cache; UINT64_MAX: unknown */
    uint32_t speed;      /* relative to the others, 1.. */
};

/* The same over ranks that are not equal, stage s on ranks[s]: the largest cost / speed is
 * minimal among the splits in which every stage's bytes[] fit into its room; then the sum of
 * their squares. LS_E_MEMORY when no split fits; first is untouched then. */
ls_status ls_plan_split_over(const uint64_t *cost, const uint64_t *bytes, int n_layers,
                             const struct ls_split_rank *ranks, int n_stages, int32_t *first,
                             struct ls_err *err);

/* Parses "0-3,4-7" against n_layers and n_stages; every layer once, ascending. */
ls_status ls_plan_parse_layers(const char *text, int n_layers, int n_stages, int32_t *first,
                               struct ls_err *err);

/* Forms the plan. With LS_REPLICAS_AUTO the cut into the fewest stages that fits. reports has
 * n_ranks entries; a size that does not fit is refused with the numbers and the smallest change
 * that would fit. run_id is left to the caller. */
ls_status ls_plan_form(struct ls_plan *plan, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                       const struct ls_rank_report *reports, int n_ranks, struct ls_err *err);

/* How many keys behind the newest position any layer still needs, the own one included, when
 * every layer is windowed; 0 when one layer sees everything. */
int ls_plan_all_window(const struct ls_arch *arch);

/* Payload bytes of the largest STEP frame over the cut in front of global layer first_layer,
 * and of the largest RESULT frame. Buffers of the links are these plus header and tag. */
uint64_t ls_plan_step_payload(const struct ls_plan *plan, const struct ls_arch *arch,
                              int first_layer);
uint64_t ls_plan_result_payload(const struct ls_plan *plan, const struct ls_arch *arch);
/* Events of a step at most, but for the blocks that slots adopt: closes and opens per slot,
 * trims and a partial block per row, the full blocks. */
uint32_t ls_plan_step_events(const struct ls_step_limits *limits);
/* Buffers of one link that carries steps; of the last stage on `rank` for its results; of rank
 * 0 for the results of one replica. */
int ls_plan_step_buffers(const struct ls_plan *plan);
int ls_plan_result_sends(const struct ls_plan *plan, int rank);
int ls_plan_result_receives(const struct ls_plan *plan);

/* Byte forms. encode writes at most LS_WISH_BYTES or LS_PLAN_BYTES and returns the size; decode
 * takes exactly n untrusted bytes and checks every field's range (LS_E_SHAPE). The plan's form
 * holds the run id and the digest of the rest. */
size_t ls_wish_encode(const struct ls_run_wish *wish, unsigned char out[LS_WISH_BYTES]);
ls_status ls_wish_decode(struct ls_run_wish *wish, const unsigned char *bytes, size_t n,
                         struct ls_err *err);
size_t ls_plan_encode(const struct ls_plan *plan, unsigned char out[LS_PLAN_BYTES]);
ls_status ls_plan_decode(struct ls_plan *plan, const unsigned char *bytes, size_t n,
                         struct ls_err *err);
/* Writes the digest of an encoded plan into it; n is more than run id and digest. */
void ls_plan_sign(unsigned char *bytes, size_t n);

/* BLAKE2b-256 of everything in the plan but the run id. */
void ls_plan_digest(const struct ls_plan *plan, unsigned char digest[32]);

/* Checks a received plan on this rank: ranges cover every layer once, its own share fits. */
ls_status ls_plan_check(const struct ls_plan *plan, const struct ls_arch *arch, int n_ranks,
                        struct ls_err *err);

#endif
