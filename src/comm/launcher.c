#include "comm/launcher.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole number from the environment, or -1. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return -1;
    long n = strtol(text, &end, 10);
    return *end || n > INT_MAX ? -1 : (int)n;
}

/* Entry `node` of a list like "2(x3),1": how many tasks that node has; 0 when it cannot be
 * read.
 */
static int tasks_of_node(const char *list, int node)
{
    while (node >= 0 && *list) {
        char *end;
        long n = strtol(list, &end, 10), times = 1;
        if (end == list || n < 1 || n > INT_MAX)
            return 0;
        if (!strncmp(end, "(x", 2)) {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')' || times < 1)
                return 0;
        }
        if (node < times)
            return (int)n;
        node -= (int)times;
        list = *end == ',' ? end + 1 : end;
        if (list == end && *end)
            return 0;
    }
    return 0;
}

static void look_at_step(struct ls_launch *l)
{
    const char *list = getenv("SLURM_STEP_TASKS_PER_NODE");
    int n = number_of("SLURM_STEP_NUM_TASKS"), rank = number_of("SLURM_PROCID");
    if (n < 1)
        return;
    if (l->launcher == LS_LAUNCHER_NONE) {
        l->launcher = LS_LAUNCHER_SLURM;
        l->rank = rank > 0 ? rank : 0;
    }
    if (l->n_ranks == 0)
        l->n_ranks = n;
    l->n_local = list ? tasks_of_node(list, number_of("SLURM_NODEID")) : 0;
}

/* Under mpirun inside a batch job the scheduler's variables describe mpirun's own daemons, so
 * the order matters. */
void ls_launch_look(struct ls_launch *l)
{
    static const struct {
        enum ls_launcher launcher;
        const char *rank, *n_ranks, *n_local;
    } launchers[] = {
        { LS_LAUNCHER_MPIRUN, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_SIZE" },
        { LS_LAUNCHER_PMIX, "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_SIZE" },
        { LS_LAUNCHER_PMI, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS" },
    };
    *l = (struct ls_launch){ .launcher = LS_LAUNCHER_NONE };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int rank = number_of(launchers[i].rank), n = number_of(launchers[i].n_ranks);
        if (rank < 0)
            continue;
        int local = number_of(launchers[i].n_local);
        *l = (struct ls_launch){ .launcher = launchers[i].launcher,
                                 .n_ranks = n > 0 ? n : 0,
                                 .rank = rank,
                                 .n_local = local > 0 ? local : 0 };
        break;
    }
    if (l->launcher != LS_LAUNCHER_MPIRUN)
        look_at_step(l);
}

/* --- PMI
 * --------------------------------------------------------------------------------------
 */

/* Whether this Open MPI was built with a component that speaks srun's PMI-1 or PMI-2. */
static bool mpi_speaks_pmi(void)
{
    static const char *const names[] = { "pmix_s2_priority", "pmix_s1_priority" };
    int provided, index;
    bool found = false;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return false;
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = MPI_T_cvar_get_index(names[i], &index) == MPI_SUCCESS;
    MPI_T_finalize();
    return found;
}

ls_status ls_launch_check(const struct ls_launch *l, struct ls_err *err)
{
    bool by_srun = number_of("SLURM_STEP_NUM_TASKS") > 0;
    bool alone = l->launcher == LS_LAUNCHER_SLURM ||
                 (l->launcher == LS_LAUNCHER_PMI && by_srun && !mpi_speaks_pmi());
    if (!alone || l->n_ranks <= 1)
        return LS_OK;
    return ls_fail(
        err, LS_E_REFUSED,
        "srun started %d processes without the PMI of this MPI library, so that each "
        "would be alone; use srun --mpi=pmix (srun --mpi=list shows what there is), "
        "or mpirun inside the job",
        l->n_ranks);
}

/* --- Open MPI's settings
 * ----------------------------------------------------------------------
 */

/* Whether the user's own parameter file sets `name`. */
static bool in_home_file(const char *name)
{
    char path[PATH_MAX], line[512];
    const char *home = getenv("HOME");
    size_t n = strlen(name);
    bool found = false;
    if (!home ||
        snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf", home) >= (int)sizeof path)
        return false;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = line + strspn(line, " \t");
        found = !strncmp(at, name, n) && strchr(" \t=", at[n]);
    }
    if (f)
        fclose(f);
    return found;
}

static void set_default(const char *name, const char *value)
{
    char variable[64];
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", name);
    if (!in_home_file(name))
        setenv(variable, value, 0);
}

void ls_launch_settle(const struct ls_launch *l)
{
    cpu_set_t set;
    int n_cpus = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
    /* Rank 0's second thread makes even one rank a core a shared one. */
    if (l->n_local != 1 && (l->n_local == 0 || n_cpus == 0 || l->n_local >= n_cpus))
        set_default("mpi_yield_when_idle", "1");
    /* Both write a message that is longer than the receive behind the buffer's end. */
    set_default("btl_vader_single_copy_mechanism", "none");
    set_default("btl_tcp_flags", "send,inplace"); /* no put */
    /* Pieces of a message under way at once. With Open MPI's 3, a frame of 256 KiB takes three
     * more visits to MPI at both ends, and these lie as far apart as sealing a frame takes. */
    set_default("pml_ob1_send_pipeline_depth", "16");
}
