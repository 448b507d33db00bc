#include "app/launch.h"

#include "comm/launcher.h"

/* A step of one task that has no PMI needs no MPI, and MPI_Init would fail in it. */
bool ls_launch_is_mpi(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    return launch.launcher == LS_LAUNCHER_MPIRUN || launch.launcher == LS_LAUNCHER_PMIX ||
           launch.n_ranks > 1;
}

int ls_launch_rank(void)
{
    struct ls_launch launch;
    ls_launch_look(&launch);
    return launch.rank;
}
