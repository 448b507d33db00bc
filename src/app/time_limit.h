/* When a run has to end: --time-limit, or the end of the Slurm job that it runs in.
 *
 * Layer: app. Local. Reads SLURM_JOB_END_TIME, the launcher's word. */
#ifndef LS_APP_TIME_LIMIT_H
#define LS_APP_TIME_LIMIT_H

#include "base/status.h"

#include <stdint.h>

/* Times of ls_now_us; 0: no limit. Between them what runs is finished if it can be, behind the
 * second it is given up. */
struct ls_time_limit {
    uint64_t drain_us, stop_us;
    const char *what; /* "the time limit", "the end of the Slurm job" */
};

/* "90" or "90s", "15m", "6h", "2d", "1:30:00", "5:00" in seconds. LS_E_USAGE. */
ls_status ls_time_limit_parse(uint64_t *seconds, const char *text, struct ls_err *err);

/* The earlier of both limits. text: of --time-limit or NULL; it counts from start_us. epoch_s:
 * seconds since 1970 now. */
ls_status ls_time_limit_of(struct ls_time_limit *limit, const char *text, uint64_t start_us,
                           uint64_t epoch_s, struct ls_err *err);

#endif
