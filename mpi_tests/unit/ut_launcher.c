/* What the launchers' variables mean, and what is set for Open MPI because of them. */
#include "comm/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const variables[] = {
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_RANK",
    "PMIX_SIZE",
    "PMIX_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
};
static const char yield_name[] = "OMPI_MCA_mpi_yield_when_idle";
static const char copy_name[] = "OMPI_MCA_btl_vader_single_copy_mechanism";
static const char tcp_name[] = "OMPI_MCA_btl_tcp_flags";
static const char depth_name[] = "OMPI_MCA_pml_ob1_send_pipeline_depth";

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    unsetenv(yield_name);
    unsetenv(copy_name);
    unsetenv(tcp_name);
    unsetenv(depth_name);
    return 0;
}

/* "NAME=VALUE" words, ended by NULL. */
static struct ls_launch look(const char *first, ...)
{
    struct ls_launch l;
    va_list ap;
    clear(NULL);
    va_start(ap, first);
    for (const char *word = first; word; word = va_arg(ap, const char *))
        assert_int_equal(putenv((char *)(uintptr_t)word), 0);
    va_end(ap);
    ls_launch_look(&l);
    return l;
}

static void assert_launch(struct ls_launch l, enum ls_launcher launcher, int n, int rank,
                          int local)
{
    assert_int_equal(l.launcher, launcher);
    assert_int_equal(l.n_ranks, n);
    assert_int_equal(l.rank, rank);
    assert_int_equal(l.n_local, local);
}

static void test_none(void **state)
{
    (void)state;
    assert_launch(look(NULL), LS_LAUNCHER_NONE, 0, 0, 0);
    /* a batch script has the job's variables, and is no step */
    assert_launch(
        look("SLURM_NTASKS=8", "SLURM_NPROCS=8", "SLURM_PROCID=0", "SLURM_NODEID=0", NULL),
        LS_LAUNCHER_NONE, 0, 0, 0);
    assert_launch(look("PMI_RANK=", "PMIX_RANK=-1", "SLURM_STEP_NUM_TASKS=x", NULL),
                  LS_LAUNCHER_NONE, 0, 0, 0);
}

static void test_launchers(void **state)
{
    (void)state;
    assert_launch(look("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=5",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=3", "PMIX_RANK=2", NULL),
                  LS_LAUNCHER_MPIRUN, 5, 2, 3);
    /* mpirun in a job: the step is that of its daemons */
    assert_launch(look("OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=6",
                       "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", NULL),
                  LS_LAUNCHER_MPIRUN, 6, 4, 0);
    assert_launch(look("PMIX_RANK=1", "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=1",
                       "SLURM_STEP_TASKS_PER_NODE=2(x1),1", "SLURM_NODEID=0", NULL),
                  LS_LAUNCHER_PMIX, 3, 1, 2);
    assert_launch(look("PMI_RANK=3", "PMI_SIZE=4", NULL), LS_LAUNCHER_PMI, 4, 3, 0);
    assert_launch(look("SLURM_STEP_NUM_TASKS=7", "SLURM_PROCID=6",
                       "SLURM_STEP_TASKS_PER_NODE=2(x3),1", "SLURM_NODEID=3", NULL),
                  LS_LAUNCHER_SLURM, 7, 6, 1);
}

static int local_of(const char *list, const char *node)
{
    char tasks[64], id[64];
    snprintf(tasks, sizeof tasks, "SLURM_STEP_TASKS_PER_NODE=%s", list);
    snprintf(id, sizeof id, "SLURM_NODEID=%s", node);
    int n = look("SLURM_STEP_NUM_TASKS=9", tasks, id, NULL).n_local;
    clear(NULL); /* the words above go out of scope */
    return n;
}

static void test_tasks_of_node(void **state)
{
    (void)state;
    assert_int_equal(local_of("4", "0"), 4);
    assert_int_equal(local_of("3(x2),5", "1"), 3);
    assert_int_equal(local_of("3(x2),5", "2"), 5);
    assert_int_equal(local_of("3(x2),5", "3"), 0);
    assert_int_equal(local_of("", "0"), 0);
    assert_int_equal(local_of("x", "0"), 0);
    assert_int_equal(local_of("3(x", "1"), 0);
    assert_int_equal(local_of("3(x2", "0"), 0);
    assert_int_equal(local_of("3;5", "1"), 0);
    assert_int_equal(local_of("3", "-1"), 0);
}

static void test_check(void **state)
{
    (void)state;
    struct ls_err err;
    struct ls_launch l = look("SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=1", NULL);
    assert_int_equal(ls_launch_check(&l, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "srun started 3 processes"));
    assert_non_null(strstr(err.text, "--mpi=pmix"));
    l = look("SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", NULL);
    assert_int_equal(ls_launch_check(&l, &err), LS_OK);
    l = look("SLURM_STEP_NUM_TASKS=3", "PMIX_RANK=1", NULL);
    assert_int_equal(ls_launch_check(&l, &err), LS_OK);
    l = look("PMI_SIZE=3", "PMI_RANK=1", NULL); /* no srun: MPI_Init will see */
    assert_int_equal(ls_launch_check(&l, &err), LS_OK);
}

static const char *settle(int n_local, const char *name)
{
    const struct ls_launch l = { .launcher = LS_LAUNCHER_MPIRUN, .n_local = n_local };
    ls_launch_settle(&l);
    return getenv(name);
}

static void test_settle(void **state)
{
    (void)state;
    char home[] = "/tmp/ut_launcher_XXXXXX", path[256];
    assert_non_null(mkdtemp(home));
    setenv("HOME", home, 1);
    clear(NULL);
    assert_null(settle(1, yield_name));
    assert_string_equal(getenv(copy_name), "none");
    assert_string_equal(getenv(tcp_name), "send,inplace");
    assert_string_equal(getenv(depth_name), "16");
    assert_string_equal(settle(100000, yield_name), "1");
    clear(NULL);
    assert_string_equal(settle(0, yield_name), "1");
    clear(NULL);
    setenv(yield_name, "0", 1); /* the user's word holds */
    setenv(copy_name, "cma", 1);
    setenv(tcp_name, "send", 1);
    assert_string_equal(settle(100000, yield_name), "0");
    assert_string_equal(getenv(tcp_name), "send");
    assert_string_equal(getenv(copy_name), "cma");
    clear(NULL);
    snprintf(path, sizeof path, "%s/.openmpi", home);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf", home);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("# mine\n  btl_vader_single_copy_mechanism = cma\nmpi_yield_when_idle_not = 3\n", f);
    fclose(f);
    assert_string_equal(settle(100000, yield_name), "1");
    assert_null(getenv(copy_name));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_none, clear),
        cmocka_unit_test_teardown(test_launchers, clear),
        cmocka_unit_test_teardown(test_tasks_of_node, clear),
        cmocka_unit_test_teardown(test_check, clear),
        cmocka_unit_test_teardown(test_settle, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
