/* Checks of the programs that run under mpirun: the first failure names rank and place and ends
 * this process with status 1, on which the launcher ends the others. */
#ifndef LS_MPI_TESTS_CHECK_H
#define LS_MPI_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static int check_rank = -1; /* set it when it is known */

#define CHECK(truth)                                                                           \
    do {                                                                                       \
        if (!(truth)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: not true: %s\n", check_rank, __FILE__, __LINE__,  \
                    #truth);                                                                   \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#endif
