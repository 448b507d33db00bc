/* Work that may take long, on a thread of its own, while this rank goes on hearing its peers
 * and telling them that it lives.
 *
 * Layer: pipeline. The work must not call MPI. A rank without peers does it on its own thread.
 */
#ifndef LS_PIPELINE_APART_H
#define LS_PIPELINE_APART_H

#include "pipeline/control.h"

typedef ls_status ls_apart_fn(void *arg, struct ls_err *err);

/* Returns what fn returned. When a peer is lost first, that failure is returned and *abandoned
 * is set: fn still runs, and nothing that it uses may be freed until the process ends. */
ls_status ls_apart_run(struct ls_control *ctl, ls_apart_fn *fn, void *arg, bool *abandoned,
                       struct ls_err *err);

#endif
