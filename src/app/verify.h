/* verify: a certificate against everything that it speaks of. Layer: app, private to verify*.c
 * and cmd_verify.c. Local.
 *
 * A check that finds a difference says so, by name, and returns LS_OK; a failure is that
 * something could not be read. */
#ifndef LS_APP_VERIFY_H
#define LS_APP_VERIFY_H

#include "app/app.h"
#include "jobs/certificate.h"
#include "parity/replay.h"
#include "pipeline/plan.h"
#include "tensor/mapping.h"

struct ls_verify {
    const struct ls_options *o;
    struct ls_mapping file;
    struct ls_cert cert;
    char folder[LS_MAX_PATH];
    struct ls_replay_model model;
    uint64_t n_found; /* differences */
};

/* A difference; the first 20 are printed. */
void ls_verify_found(struct ls_verify *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* verify.c: the certificate's own digests and signature; the model's parts and sizes. */
ls_status ls_verify_certificate(struct ls_verify *v, struct ls_err *err);
ls_status ls_verify_model(struct ls_verify *v, struct ls_err *err);

/* verify_rows.c: the lines of --input, and the rows of --output and --logits. */
ls_status ls_verify_rows(struct ls_verify *v, struct ls_err *err);

/* verify_leaves.c: recomputes. */
ls_status ls_verify_leaves(struct ls_verify *v, struct ls_err *err);

#endif
