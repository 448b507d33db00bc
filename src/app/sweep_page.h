/* report.html of a sweep's folder. Layer: app. Local. */
#ifndef LS_APP_SWEEP_PAGE_H
#define LS_APP_SWEEP_PAGE_H

#include "base/status.h"

/* Reads report.json of the sweep in `folder` and, where they are there, timings.json, the arms'
 * manifests and locate/NNN.json, and replaces the file `output` as a whole. LS_E_USAGE: no
 * report there; LS_E_FORMAT: it is not one of ours; LS_E_IO, LS_E_FULL, LS_E_MEMORY. */
ls_status ls_sweep_page(const char *folder, const char *output, struct ls_err *err);

#endif
