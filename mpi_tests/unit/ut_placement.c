/* What is wrong with where ranks were put, and that nothing is said of what is right. */
#include "pipeline/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 40 };

static struct ls_rank_view views[MAX];
static struct ls_plan plan;
static struct ls_placement p;
static int n_ranks;

static int begin(void **state)
{
    (void)state;
    n_ranks = 0;
    memset(views, 0, sizeof views);
    memset(&plan, 0, sizeof plan);
    return 0;
}

/* One more rank that may use CPUs [first, first + n) of a host with n_cpus. */
static void add(const char *host, int first, int n, int n_cpus, int threads)
{
    struct ls_rank_view *v = &views[n_ranks];
    snprintf(v->report.host, sizeof v->report.host, "%s", host);
    for (int i = first; i < first + n; i++)
        v->cpus[i / 64] |= 1ull << (i % 64);
    v->report.cores = n;
    v->host_cpus = n_cpus;
    plan.stages[n_ranks++].threads = threads;
}

static void judge(int expected)
{
    ls_placement_judge(&p, views, &plan, n_ranks);
    if (p.n_warnings != expected)
        print_error("%d warnings, the first: %s\n", p.n_warnings, p.texts[0]);
    assert_int_equal(p.n_warnings, expected);
}

static void test_good(void **state)
{
    (void)state;
    add("a", 0, 64, 64, 32);
    add("a", 0, 64, 64, 32);
    add("b", 0, 16, 64, 16);
    add("b", 16, 16, 64, 16);
    add("c", 0, 1, 2, 1); /* two ranks on two cores, one each */
    add("c", 1, 1, 2, 1);
    judge(0);
}

static void test_bound_to_one(void **state)
{
    (void)state;
    add("a", 0, 1, 64, 1);
    add("b", 5, 1, 64, 1);
    add("b", 6, 1, 64, 1);
    judge(2);
    assert_non_null(strstr(p.texts[0], "a: 1 rank is bound to 1 of 64 cores"));
    assert_non_null(strstr(p.texts[1], "b: 2 ranks are bound to 2 of 64 cores"));
    assert_non_null(strstr(p.texts[1], "--bind-to none"));
}

static void test_all_on_one_core(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        add("a", 3, 1, 64, 1);
    judge(2);
    assert_non_null(strstr(p.texts[0], "4 ranks are bound to 1 of 64 cores"));
    assert_non_null(strstr(p.texts[1], "4 ranks share 1 core;"));
}

static void test_too_many(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        add("a", 0, 2, 2, 1);
    judge(1);
    assert_non_null(strstr(p.texts[0], "a: 3 ranks share 2 cores; start at most 2"));
    begin(NULL);
    add("a", 0, 4, 4, 4);
    add("a", 0, 4, 4, 1);
    judge(1);
    assert_non_null(strstr(p.texts[0], "5 threads for 4 cores; lower --threads to at most 2"));
}

static void test_quota(void **state)
{
    (void)state;
    add("a", 0, 8, 8, 2);
    add("a", 0, 8, 8, 2);
    views[0].cpu_quota = views[1].cpu_quota = 4;
    judge(0);
    plan.stages[1].threads = 3;
    judge(1);
    views[0].cpu_quota = views[1].cpu_quota = 1;
    judge(1);
    assert_non_null(strstr(p.texts[0], "2 ranks share 1 core;"));
}

/* Unknown masks say nothing; many hosts are counted, the first ones kept. */
static void test_many(void **state)
{
    (void)state;
    char name[8];
    add("unknown", 0, 0, 0, 7);
    judge(0);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "h%d", i);
        add(name, 0, 1, 8, 1);
    }
    judge(30);
    assert_non_null(strstr(p.texts[LS_PLACEMENT_KEPT - 1], "h7: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_good, begin),
        cmocka_unit_test_setup(test_bound_to_one, begin),
        cmocka_unit_test_setup(test_all_on_one_core, begin),
        cmocka_unit_test_setup(test_too_many, begin),
        cmocka_unit_test_setup(test_quota, begin),
        cmocka_unit_test_setup(test_many, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
