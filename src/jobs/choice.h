/* One sequence of a request: one prompt and one continuation, from its first logits to its end.
 *
 * Layer: jobs. Local. Takes rows of logits in position order, finds NaN, scores, samples, cuts
 * at stops, and says whether to go on. What it holds grows with the tokens generated; logits go
 * to the spool. Nothing here depends on other sequences or on time. */
#ifndef LS_JOBS_CHOICE_H
#define LS_JOBS_CHOICE_H

#include "jobs/job.h"
#include "jobs/request.h"
#include "jobs/sampler.h"
#include "jobs/scores.h"
#include "jobs/spool.h"
#include "pipeline/client.h"
#include "text/detok.h"

/* What all sequences of a job share. All outlive them. */
struct ls_choice_rules {
    const struct ls_tokenizer *tokenizer; /* or NULL */
    const struct ls_kernels *kernels;
    struct ls_sampler_scratch *scratch;
    const int32_t *eos; /* [n_eos] */
    int n_eos;
    int32_t vocab;
    uint64_t seed; /* of the run */
    enum ls_digest digest;
    struct ls_spool *spool; /* NULL: no logits files */
    enum ls_logits_rows logits_rows;
    struct ls_spool *leaves; /* NULL: no certificate */
};

struct ls_choice {
    const struct ls_request *req;
    const struct ls_prompt *prompt;
    uint32_t index; /* among the choices of its request */
    struct ls_sampler sampler;
    struct ls_detok *detok; /* NULL without a tokenizer */

    struct ls_ids tokens; /* generated, the one that ended it included */
    struct ls_bytes text; /* of the continuation: whole characters, cut at a stop */
    bool stopped;         /* by an end token or a stop; else by length */
    bool cut;             /* text was cut at a stop: of the last tokens nothing may be left */
    struct ls_scores scores, prompt_scores; /* echo puts the prompt's tokens into scores too */
    struct ls_spooled rows;                 /* logits for the files */
    uint32_t first_row;                     /* position of the first of them */
    struct ls_spooled leaves;               /* of each position, for the certificate */

    uint32_t next_pos; /* of the next row, for the check that none is missing */
    bool nan;          /* NaN reached a row */
    uint32_t nan_pos;  /* first such position */
    int32_t nan_layer; /* first layer that produced it; -1: behind the layers */
    bool ended;        /* no more tokens are wanted */
    bool done;         /* `digest` and n_digested are final */
    unsigned char digest[32];
    uint64_t n_digested; /* rows */
};

/* Choice `index` of req: prompt index / n. req outlives it. LS_E_MEMORY. */
ls_status ls_choice_init(struct ls_choice *choice, const struct ls_request *req, uint32_t index,
                         const struct ls_choice_rules *rules, struct ls_err *err);
/* Releases spooled rows too. Takes a zeroed struct. */
void ls_choice_finish(struct ls_choice *choice, const struct ls_choice_rules *rules);

/* What the pipeline is to run; the id is the caller's business. */
void ls_choice_sequence(const struct ls_choice *choice, const struct ls_choice_rules *rules,
                        struct ls_sequence *seq);

/* The next row. */
ls_status ls_choice_logits(struct ls_choice *choice, const struct ls_choice_rules *rules,
                           const struct ls_logits *logits, enum ls_verdict *verdict,
                           int32_t *token, struct ls_err *err);

/* The sequence has ended. LS_E_INTERNAL when tokens are still missing. */
ls_status ls_choice_done(struct ls_choice *choice, const unsigned char digest[32],
                         uint64_t n_digested, struct ls_err *err);

/* Feeds the end of a prompt, so that the continuation is decoded as one: its first token keeps
 * its leading space. What comes out belongs to the prompt and is dropped. */
ls_status ls_prime_detok(struct ls_detok *detok, const struct ls_prompt *prompt,
                         struct ls_err *err);

#endif
