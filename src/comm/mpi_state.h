/* What the MPI files share. Layer: comm, private to this folder. */
#ifndef LS_COMM_MPI_STATE_H
#define LS_COMM_MPI_STATE_H

#include "comm/backend.h"

#include <mpi.h>

struct ls_mpi {
    MPI_Comm comm;
    bool own;     /* we initialised MPI, so we finalise it */
    bool all_met; /* every rank has come to its end */
};

#endif
