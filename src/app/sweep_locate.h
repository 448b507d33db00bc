/* Where the differing arms of a sweep part from the reference: locate/NNN.json. Layer: app.
 * Local; a child of this process at a time. */
#ifndef LS_APP_SWEEP_LOCATE_H
#define LS_APP_SWEEP_LOCATE_H

#include "app/sweep_run.h"

/* For each arm that differs, in their order, what `parity --locate --json` says of the request
 * in which the first row differs, up to that row; or {"why"}: why it was not located, as for a
 * dump, and for all behind the first 8. Files that have a location are left as they are. The
 * arms have been run. LS_E_IO, LS_E_FULL, LS_E_MEMORY of the sweep's own folder; LS_E_DRAINED.
 */
ls_status ls_sweep_locate(struct ls_sweep_run *run, struct ls_err *err);

#endif
