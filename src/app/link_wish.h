/* What this rank's options say about the links between ranks. Layer: app. Local: every rank
 * reads its own command line, configuration file and secret; none takes another's word. */
#ifndef LS_APP_LINK_WISH_H
#define LS_APP_LINK_WISH_H

#include "base/options.h"
#include "pipeline/keyring.h"

/* *secret (NULL: none is given) belongs to the caller and outlives the wish's use. A failure is
 * also recorded in the wish, for the other ranks to hear. */
ls_status ls_link_wish_of(struct ls_link_wish *wish, struct ls_secret **secret,
                          const struct ls_options *o, struct ls_err *err);

#endif
