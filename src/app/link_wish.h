/* What this rank's options say about the links between ranks. Layer: app. Local: every rank
 * reads its own command line, configuration file and secret; none takes another's word. */
#ifndef LS_APP_LINK_WISH_H
#define LS_APP_LINK_WISH_H

#include "base/options.h"
#include "pipeline/keyring.h"

/* What the command line gave by descriptor, or how that failed. */
struct ls_given_secret {
    struct ls_secret *secret; /* owned; NULL: none, or a failure */
    struct ls_err err;        /* status LS_OK: no failure */
};

/* Before MPI is started, which opens descriptors of its own: reads --secret-fd, if there is
 * one.
 */
void ls_secret_take_fd(struct ls_given_secret *given, const struct ls_options *o);

/* Reads --secret-file into *given, unless the secret is there already; given outlives the
 * wish's use. A failure is also recorded in the wish, for the other ranks to hear. */
ls_status ls_link_wish_of(struct ls_link_wish *wish, struct ls_given_secret *given,
                          const struct ls_options *o, struct ls_err *err);

#endif
