/* The token passages that a sweep is about: each prompt's ids, and what the reference made of
 * it. Layer: app. Local. */
#ifndef LS_APP_SWEEP_TRUTH_H
#define LS_APP_SWEEP_TRUTH_H

#include "base/options.h"
#include "parity/passages.h"
#include "parity/sweep.h"
#include "text/tokenizer.h"

struct ls_sweep_truth {
    struct ls_options options;      /* of the reference arm */
    struct ls_tokenizer *tokenizer; /* or NULL */
    struct ls_passages free_run;    /* prompts, and tokens of the reference's rows */
    struct ls_passages forced;      /* the same ids, as they are forced upon every arm */
    uint64_t n_requests;            /* lines of the prompts file */
};

/* Options and tokenizer of the reference arm. LS_E_USAGE, LS_E_FORMAT. On failure it is
 * finished. */
ls_status ls_sweep_truth_open(struct ls_sweep_truth *t, const struct ls_arm *reference,
                              struct ls_err *err);
void ls_sweep_truth_finish(struct ls_sweep_truth *t);

/* Reads the prompts file and, unless it is NULL, the reference's result rows; fills both lists
 * and writes `forced_path`, requests of ids with nothing to generate. A request that is an
 * error row has no tokens there. LS_E_USAGE: a request that cannot be taken apart here, as a
 * chat. */
ls_status ls_sweep_truth_read(struct ls_sweep_truth *t, const char *prompts, const char *rows,
                              const char *forced_path, struct ls_err *err);

/* Puts the digests and errors of the reference's forced rows beside the forced passages. */
ls_status ls_sweep_truth_digests(struct ls_sweep_truth *t, const struct ls_passages *rows,
                                 struct ls_err *err);

#endif
