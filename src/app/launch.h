/* How this process was started. Layer: app. Local; reads the launcher's environment only. */
#ifndef LS_APP_LAUNCH_H
#define LS_APP_LAUNCH_H

#include <stdbool.h>

/* True when mpirun, srun or another PMI launcher started this process, be it alone. */
bool ls_launch_is_mpi(void);

/* This process's rank by the launcher's word, before MPI is there; 0 without a launcher. */
int ls_launch_rank(void);

#endif
