/* What the launcher's own variables say, before MPI is started.
 *
 * Layer: comm. Reads the environment of mpirun (OMPI_*), of PMIx and PMI, and of a Slurm step;
 * never the variables of a Slurm job, which a batch script has too: a program started in it by
 * hand is one rank. Local. */
#ifndef LS_COMM_LAUNCHER_H
#define LS_COMM_LAUNCHER_H

#include "base/status.h"

enum ls_launcher {
    LS_LAUNCHER_NONE,
    LS_LAUNCHER_MPIRUN, /* Open MPI's */
    LS_LAUNCHER_PMIX,   /* srun --mpi=pmix, prun */
    LS_LAUNCHER_PMI,    /* srun --mpi=pmi2, another MPI's mpiexec */
    LS_LAUNCHER_SLURM,  /* srun without any PMI: MPI cannot work */
};

struct ls_launch {
    enum ls_launcher launcher;
    int n_ranks; /* 0: the launcher does not say */
    int rank;    /* 0.. */
    int n_local; /* ranks on this host; 0: the launcher does not say */
};

void ls_launch_look(struct ls_launch *launch);

/* LS_E_REFUSED, with the remedy, where MPI_Init would fail or take each process for the only
 * one. A Slurm step of one task needs no MPI and is fine. */
ls_status ls_launch_check(const struct ls_launch *launch, struct ls_err *err);

/* Sets what Open MPI reads in MPI_Init and the user has not set, neither in the environment nor
 * in the parameter file of the home folder: yield while waiting where ranks may share cores, no
 * single-copy mechanism and no put over TCP. Call before MPI_Init, while there is one thread.
 */
void ls_launch_settle(const struct ls_launch *launch);

#endif
