/* One run of an arm that has ended: why it failed, or how it compares. Layer: app. Local. */
#ifndef LS_APP_SWEEP_RESULT_H
#define LS_APP_SWEEP_RESULT_H

#include "app/sweep_run.h"

#include <stdbool.h>

enum { LS_SWEEP_PLACE = 48 };
/* Where the files of a run stay, seen from the sweep's folder. Returns out. */
const char *ls_sweep_place(char out[LS_SWEEP_PLACE], size_t arm, enum ls_phase phase);

/* Why a run failed, from its status and the log in its folder, one line in the run's arena; a
 * path into the folder of the attempt becomes one into `place`. NULL: it did not fail. */
const char *ls_sweep_reason(struct ls_sweep_run *run, const char *place, const char *attempt,
                            int status);

/* Compares what is in `attempt` (or an arm's dump: attempt NULL) with the reference, keeps it,
 * and records it. LS_E_MEMORY, LS_E_IO and LS_E_FULL of the sweep's own folder end the sweep;
 * what is wrong with the arm's files becomes its reason. */
ls_status ls_sweep_take(struct ls_sweep_run *run, size_t arm, enum ls_phase phase,
                        const char *attempt, double wall_s, struct ls_err *err);

/* Takes a recorded result up. False: there is none. */
bool ls_sweep_take_recorded(struct ls_sweep_run *run, size_t arm, enum ls_phase phase);

/* Whether a run of this arm and phase is part of the sweep, and whether its logits are. */
bool ls_sweep_has_phase(const struct ls_sweep_run *run, size_t arm, enum ls_phase phase);
bool ls_sweep_has_logits(const struct ls_sweep_run *run, size_t arm, enum ls_phase phase);

#endif
