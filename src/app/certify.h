/* run --certificate: what the job needs for it beside its own work. Layer: app. Local. */
#ifndef LS_APP_CERTIFY_H
#define LS_APP_CERTIFY_H

#include "base/options.h"
#include "jobs/job.h"

/* Zeroed is empty. */
struct ls_certify {
    bool wanted;
    struct ls_certificate_terms terms;
    unsigned char seed[32]; /* of the signature, when there is a key */
    void *parts;            /* owned */
};

/* The signing seed that belongs to a key file; LS_E_IO, LS_E_REFUSED, LS_E_FORMAT. Wipe it. */
ls_status ls_certify_seed(unsigned char seed[32], const char *path, struct ls_err *err);

/* From the options: the key is read here. LS_E_USAGE: they contradict each other. */
ls_status ls_certify_of(struct ls_certify *c, const struct ls_options *o, struct ls_err *err);
/* Opens the checkpoint in `folder` and digests its parts; takes as long as reading it. Nothing
 * when no certificate is wanted. */
ls_status ls_certify_look(struct ls_certify *c, const char *folder, const char *template,
                          struct ls_err *err);
void ls_certify_finish(struct ls_certify *c);

#endif
