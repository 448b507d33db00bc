/* report.json of a sweep and what is made of it.
 *
 * Layer: parity. Local. The report is a function of the sweep file, the prompts and the arms'
 * results: no time, host or run id is in it, so that a sweep that was killed and resumed has
 * the same bytes. Its fields are described in docs/formats.md. Objects that are returned are
 * the caller's; NULL when memory is exhausted. */
#ifndef LS_PARITY_REPORT_H
#define LS_PARITY_REPORT_H

#include "parity/arm_compare.h"
#include "parity/sweep.h"

#include <jansson.h>

#define LS_REPORT_FORMAT "lockstep-parity-1"

enum ls_phase { LS_PHASE_FREE, LS_PHASE_FORCED, LS_N_PHASES };
const char *ls_phase_name(enum ls_phase phase); /* "free", "forced" */

enum ls_arm_status { LS_ARM_EQUAL, LS_ARM_DIFFERENT, LS_ARM_FAILED };
const char *ls_arm_status_name(enum ls_arm_status status);

/* Text of a token as a new JSON string, or null. */
typedef json_t *ls_token_text(void *arg, int32_t id);

/* One comparison; `entries` has the names of its entries. */
json_t *ls_report_comparison(const struct ls_arm_result *result, const struct ls_dump *entries,
                             ls_token_text *text, void *arg);

/* What became of an arm. */
struct ls_outcome {
    const char *reason;                /* of its failure, one line; NULL: it did not fail */
    json_t *comparison[LS_N_PHASES];   /* NULL: this phase has none */
    json_t *command[LS_N_PHASES];      /* list of words; NULL: nothing was run */
    const char *manifest[LS_N_PHASES]; /* path seen from the sweep's folder; or NULL */
    const char *store[LS_N_PHASES];    /* the same, of its logits */
};
enum ls_arm_status ls_outcome_status(const struct ls_outcome *outcome);

struct ls_report {
    const struct ls_sweep *sweep;
    const char *version;
    const char *prompts_digest;
    uint64_t n_requests;
    const json_t *model;               /* from the reference's manifest; or NULL */
    const struct ls_outcome *outcomes; /* [sweep->n] */
};
json_t *ls_report_json(const struct ls_report *report);

/* The sweep as a JUnit file: an arm is a test case, a differing one a failure, one that failed
 * an error. seconds [n] per arm. To be freed; NULL: no memory. */
char *ls_report_junit(const struct ls_report *report, const double *seconds);

#endif
