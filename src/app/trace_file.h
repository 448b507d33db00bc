/* --trace FILE: what every stage did when, for Chrome and Perfetto. Layer: app, rank 0. */
#ifndef LS_APP_TRACE_FILE_H
#define LS_APP_TRACE_FILE_H

#include "app/app.h"
#include "pipeline/session.h"

/* Before the run: whether the file can be written; path may be NULL. LS_E_IO. */
ls_status ls_trace_check(const char *path, struct ls_err *err);

/* After the run. One lane a stage: compute, send, and wait while some step was in flight, idle
 * while none was. LS_E_IO. */
ls_status ls_trace_write(const struct ls_app *app, const struct ls_session *session,
                         const char *path, struct ls_err *err);

#endif
