/* The plan: which layers on which rank, how much cache, how large a step. Formed once on rank 0,
 * the same bytes on every rank.
 *
 * Layer: pipeline. Pure: from an architecture, sizes and what the ranks report. */
#ifndef LS_PIPELINE_PLAN_H
#define LS_PIPELINE_PLAN_H

#include "model/arch.h"
#include "stage/step.h"
#include "tensor/checkpoint.h"

enum { LS_MAX_STAGES = 1024, LS_MAX_HOST = 64, LS_MAX_PATH = 4096, LS_MAX_LAYERS_TEXT = 4096 };

/* What the user asked for; 0 or "" means automatic. Plain data: rank 0 sends it to all. */
struct ls_run_wish {
    char model[LS_MAX_PATH];            /* checkpoint folder */
    char layers[LS_MAX_LAYERS_TEXT];    /* "0-3,4-7": one inclusive range per stage */
    int32_t stages, threads, context, budget, chunk, window, max_sequences;
    uint64_t kv_bytes;                  /* --kv-memory, per rank */
    int32_t cpu_path;                   /* enum ls_cpu_path; the fastest to try */
    uint8_t f32_activations;
    uint8_t check_bytes;                /* digest every weight at start */
    uint8_t digests;                    /* any digest is wanted */
};

/* What one rank says of itself before the plan. */
struct ls_rank_report {
    char host[LS_MAX_HOST];
    int32_t cores;            /* in its affinity mask, divided by the ranks that share it */
    uint64_t memory_bytes;    /* available to it: cgroup, physical, divided by ranks of the host */
    unsigned char checkpoint_digest[32];
    unsigned char program_digest[32]; /* version and build of this program */
};

struct ls_stage_plan {
    int32_t first_layer, last_layer; /* global, half-open */
    int32_t threads;
    uint64_t weights_bytes, kv_bytes, scratch_bytes; /* predicted, of this rank */
};

struct ls_plan {
    unsigned char run_id[16];
    int32_t n_stages;           /* stage s is on rank s */
    struct ls_step_limits limits;
    int32_t budget, chunk;      /* tokens of a step; of one prompt in a step */
    int32_t window;             /* steps in flight */
    uint32_t logit_rows;        /* rows of logits in one RESULT frame */
    struct ls_stage_plan stages[LS_MAX_STAGES];
};

/* Splits n_layers over n_stages so that the slowest stage is as fast as can be: the largest cost
 * over stages is minimal; cost[l] >= 0 per layer, head_cost on the last stage, embed_cost on the
 * first. Every layer exactly once, no stage empty. LS_E_REFUSED when n_stages > n_layers.
 * first[s]..first[s + 1] is stage s; first has n_stages + 1 entries. */
ls_status ls_plan_split(const uint64_t *cost, int n_layers, uint64_t embed_cost,
                        uint64_t head_cost, int n_stages, int32_t *first, struct ls_err *err);

/* Parses "0-3,4-7" against n_layers and n_stages; every layer once, ascending. */
ls_status ls_plan_parse_layers(const char *text, int n_layers, int n_stages, int32_t *first,
                               struct ls_err *err);

/* Forms the plan. reports has n_ranks entries; a size that does not fit is refused with the
 * numbers and the smallest change that would fit. run_id is left to the caller. */
ls_status ls_plan_form(struct ls_plan *plan, const struct ls_arch *arch,
                       const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                       const struct ls_rank_report *reports, int n_ranks, struct ls_err *err);

/* BLAKE2b-256 of everything in the plan but the run id. */
void ls_plan_digest(const struct ls_plan *plan, unsigned char digest[32]);

/* Checks a received plan on this rank: ranges cover every layer once, its own share fits. */
ls_status ls_plan_check(const struct ls_plan *plan, const struct ls_arch *arch, int n_ranks,
                        struct ls_err *err);

#endif
