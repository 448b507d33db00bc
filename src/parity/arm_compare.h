/* One arm's logits and texts against the reference's, as a stream of rows.
 *
 * Layer: parity. Local. Two rows are in memory at a time, and what files are mapped. In a free
 * run two texts may part; a row is compared while the tokens before it are the same in both,
 * and later rows are only counted: they answer other questions. */
#ifndef LS_PARITY_ARM_COMPARE_H
#define LS_PARITY_ARM_COMPARE_H

#include "parity/dump.h"
#include "parity/metrics.h"
#include "parity/passages.h"
#include "parity/store.h"

enum { LS_DIVERGED_KEPT = 256, LS_MISMATCH_TEXT = 384 };

struct ls_diverged {
    const char *name;       /* of the reference's passage */
    uint64_t index;         /* of the first generated token that differs */
    int32_t reference, arm; /* -1: the text had ended */
};

struct ls_arm_result {
    bool equal;                /* every bit of every row, every generated token, every error */
    struct ls_metrics metrics; /* its entries are the reference's */
    uint64_t n_requests;       /* in both */
    uint64_t n_only_reference, n_only_arm, n_mismatched;
    char first_mismatch[LS_MISMATCH_TEXT]; /* in words; "" when there is none */
    uint64_t n_rows_apart;                 /* rows behind a parting of texts, of the arm */
    uint64_t n_digests, n_digests_equal;   /* of requests that have one in both */
    uint64_t n_texts, n_texts_equal;       /* generated; of requests in both */
    uint64_t n_errors_different;           /* an error row against none or another */
    uint64_t n_diverged;
    struct ls_diverged diverged[LS_DIVERGED_KEPT]; /* the first ones */
};

struct ls_arm_input {
    struct ls_dump *reference, *arm;
    const struct ls_passages *truth; /* the reference's, with prompts */
    const struct ls_passages *rows;  /* the arm's result rows; NULL: it has none */
    bool free_run; /* the arm's tokens are its own; else they are the reference's */
    struct ls_store_writer *store; /* that keeps the arm's rows; or NULL */
};

/* *out is to be finished in every case. LS_E_FORMAT, LS_E_IO, LS_E_MEMORY. */
ls_status ls_arm_compare(struct ls_arm_result *out, const struct ls_arm_input *in,
                         struct ls_err *err);
void ls_arm_result_finish(struct ls_arm_result *result);

#endif
