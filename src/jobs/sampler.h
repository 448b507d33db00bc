/* From a row of logits to the next token: pure, in binary64, and the same on every host.
 *
 * Layer: jobs. Local; no libm, no clock, no state but what is passed in, so a token depends on
 * the row, the request's own settings and tokens, and the key, and on nothing else.
 *
 * The order, x being the binary32 logits:
 *   1. y = (double)x. Repetition: for tokens of prompt or continuation, y = y > 0 ? y / r : y *
 * r. Then for tokens of the continuation y -= frequency * count, then y -= presence.
 *   2. y += bias of the token.
 *   3. Temperature 0: the largest y, the lower id among equals. Else z = (y - max) /
 * temperature, and z = 0 where y is the maximum.
 *   4. Rank: z descending, id ascending. top-k keeps the first k ranks.
 *   5. w = exp(z) (kernels/math64.h; 0 below -700). top-p keeps the shortest run of first ranks
 *      whose sum of w reaches top_p times the sum over all that top-k kept.
 *   6. min-p keeps what has w >= min_p (the largest w is 1).
 *   7. The token is the first whose running sum of w exceeds u times the sum over the kept
 * ones; u = ls_philox_uniform(key, number of tokens generated so far). Sums run by rank when
 * top-k or top-p is in force, except that top-p without top-k takes its total by id; otherwise
 * by id. A NaN in the row is the caller's to find first. */
#ifndef LS_JOBS_SAMPLER_H
#define LS_JOBS_SAMPLER_H

#include "base/status.h"
#include "jobs/ranks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_bias {
    int32_t token;
    double value; /* -100..100 */
};

/* What a request asks for. */
struct ls_sampling {
    double temperature;        /* 0: greedy; up to 2 */
    double top_p;              /* (0, 1]; 1: off */
    double min_p;              /* [0, 1]; 0: off */
    int64_t top_k;             /* 1..; 0 or -1: off */
    double repetition_penalty; /* > 0; 1: off */
    double presence_penalty;   /* -2..2; 0: off */
    double frequency_penalty;  /* -2..2; 0: off */
    struct ls_bias *bias;      /* [n_bias], each token once */
    size_t n_bias;
};

/* How often a token occurs, for the penalties. */
struct ls_token_count {
    int32_t token;   /* -1: free */
    uint32_t output; /* times in the continuation; 0: only in the prompt */
};

/* One sequence's state. */
struct ls_sampler {
    const struct ls_sampling *sampling; /* the request's */
    uint64_t key;
    struct ls_token_count *counts; /* hash table [n_slots], NULL without penalties; owned */
    size_t n_slots, n_used;        /* n_slots: 0 or a power of two */
};

/* Working memory for rows of one vocabulary, shared by all sequences of a job. */
struct ls_sampler_scratch {
    int32_t vocab;
    double *y; /* [vocab] */
    struct ls_ranks ranks;
};

ls_status ls_sampler_scratch_init(struct ls_sampler_scratch *scratch, int32_t vocab,
                                  struct ls_err *err);
void ls_sampler_scratch_finish(struct ls_sampler_scratch *scratch);

/* First 8 bytes, little-endian, of BLAKE2b-256 over: run seed (8 bytes, little-endian), 1 and
 * the request's seed (8 bytes), or 0 and eight zeros; the custom_id's length (8 bytes) and
 * bytes; choice index (4 bytes). */
uint64_t ls_sampler_key(uint64_t run_seed, const int64_t *request_seed, const char *custom_id,
                        size_t n_custom_id, uint32_t choice);

/* prompt: for the repetition penalty. sampling outlives the sampler. LS_E_MEMORY. */
ls_status ls_sampler_init(struct ls_sampler *sampler, const struct ls_sampling *sampling,
                          uint64_t key, const int32_t *prompt, size_t n_prompt,
                          struct ls_err *err);
void ls_sampler_finish(struct ls_sampler *sampler);

/* The token after `index` generated ones. row [scratch->vocab] without NaN. */
int32_t ls_sampler_pick(const struct ls_sampler *sampler, struct ls_sampler_scratch *scratch,
                        const float *row, uint64_t index);
/* Tells the penalties that `token` was appended. LS_E_MEMORY. */
ls_status ls_sampler_note(struct ls_sampler *sampler, int32_t token, struct ls_err *err);

#endif
