/* How this process was started. Layer: app. Local; reads the launcher's environment only. */
#ifndef LS_APP_LAUNCH_H
#define LS_APP_LAUNCH_H

#include <stdbool.h>

/* True when mpirun, srun or another PMI launcher started this process, be it alone. */
bool ls_launch_is_mpi(void);

/* This process's rank by the launcher's word, before MPI is there; 0 without a launcher. */
int ls_launch_rank(void);

/* From now on MPI may take so many seconds, in its start or its end, where this program has no
 * deadline of its own: then a line that names this rank and `what`, and the process ends with
 * `code`, which makes the launcher end the others. Ranks give up one after the other, so that
 * one speaks. 0 seconds: no limit any more. Process-wide. */
void ls_launch_limit(const char *what, int seconds, int code);

/* Before rank 0 ends with a failure that all ranks found without MPI. srun's exit code is the
 * highest of all ranks', and with --kill-on-bad-exit it ends those that are still starting,
 * whose 143 would then stand for this failure: they get two seconds to come to their own end.
 */
void ls_launch_let_others_end(void);

/* Above rank 0, after a failure in the words: true where rank 0 does not share it (the words
 * after mpirun's colon, another build on this host), and would wait for this rank in the start
 * of MPI. Takes three seconds, in which mpirun ends this process, as a success, when rank 0
 * fails, too. False at once under any other launcher: all its ranks have the same words, and it
 * may leave them alone when one has failed. */
bool ls_launch_failed_alone(void);

#endif
