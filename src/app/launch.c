#include "app/launch.h"

#include "comm/comm.h"

#include <limits.h>
#include <stdlib.h>

/* A whole number from the environment, or -1. */
static int number_of(const char *name)
{
    const char *const text = getenv(name);
    char *end;
    if (!text || !*text)
        return -1;
    const long n = strtol(text, &end, 10);
    return *end || n < 0 || n > INT_MAX ? -1 : (int)n;
}

bool ls_launch_is_mpi(void)
{
    return ls_comm_launcher_ranks() > 0 || number_of("PMIX_RANK") >= 0;
}

int ls_launch_rank(void)
{
    /* In the order in which comm looks for the number of ranks: under mpirun inside a batch job
     * the scheduler's variables describe mpirun's own daemons. */
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };
    if (!ls_launch_is_mpi())
        return 0;
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (number_of(names[i]) >= 0)
            return number_of(names[i]);
    return 0;
}
