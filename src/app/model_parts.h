/* Digests of everything in a checkpoint folder that results depend on: each tensor, and the
 * files that say how text becomes tokens.
 *
 * Layer: app. Local. Reads every weight once. Certificates hold the list, and verify makes it
 * again. */
#ifndef LS_APP_MODEL_PARTS_H
#define LS_APP_MODEL_PARTS_H

#include "base/alloc.h"
#include "jobs/certificate.h"
#include "tensor/checkpoint.h"

struct ls_model_parts {
    struct ls_cert_part *parts; /* [n], in a certificate's order; names in ckpt or static */
    size_t n;
};

/* template: the file of --chat-template, or NULL. The names live as long as ckpt. Finish it in
 * every case. LS_E_IO, LS_E_MEMORY. */
ls_status ls_model_parts_make(struct ls_model_parts *parts, const struct ls_checkpoint *ckpt,
                              const char *folder, const char *template, struct ls_err *err);
void ls_model_parts_finish(struct ls_model_parts *parts);

#endif
