#include "kernels/kernels.h"

#include "kernels/tables.h"

#include <stdatomic.h>
#include <string.h>

static const char *const names[LS_N_CPU_PATHS] = {
    [LS_CPU_REF] = "ref",
    [LS_CPU_AVX2] = "avx2",
    [LS_CPU_AVX512] = "avx512",
};

const char *ls_cpu_path_name(enum ls_cpu_path path)
{
    return (unsigned)path < LS_N_CPU_PATHS ? names[path] : NULL;
}

int ls_cpu_path_parse(const char *name)
{
    for (int p = 0; p < LS_N_CPU_PATHS; p++)
        if (!strcmp(name, names[p]))
            return p;
    return -1;
}

static bool always(void)
{
    return true;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* Measured once, so that every caller gets the same table. */
static bool pairs_pay(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int answer = UNKNOWN;
    int known = UNKNOWN;
    if (atomic_load(&answer) == UNKNOWN)
        atomic_compare_exchange_strong(&answer, &known, ls_pairs_pay() ? YES : NO);
    return atomic_load(&answer) == YES;
}

/* Every table, the fastest first; one that need not pay is asked whether it does. */
static const struct {
    enum ls_cpu_path path;
    const struct ls_kernels *table;
    bool (*cpu_has)(void);
    bool (*pays)(void);
} tables[] = {
    { LS_CPU_AVX512, &ls_kernels_avx512bf16, has_avx512bf16, pairs_pay },
    { LS_CPU_AVX512, &ls_kernels_avx512, has_avx512, always },
    { LS_CPU_AVX2, &ls_kernels_avx2, has_avx2, always },
    { LS_CPU_REF, &ls_kernels_ref, always, always },
};

enum { N_TABLES = sizeof tables / sizeof tables[0] };

const struct ls_kernels *ls_kernels_of(enum ls_cpu_path path)
{
    for (int i = 0; i < N_TABLES; i++)
        if (tables[i].path == path && tables[i].cpu_has() && tables[i].pays())
            return tables[i].table;
    return NULL;
}

const struct ls_kernels *ls_kernels_at(int i, enum ls_cpu_path *path)
{
    for (int t = 0; t < N_TABLES; t++) {
        if (!tables[t].cpu_has() || i-- > 0)
            continue;
        *path = tables[t].path;
        return tables[t].table;
    }
    return NULL;
}

const struct ls_kernels *ls_kernels_choose(enum ls_cpu_path wanted, int *n_failed)
{
    const struct ls_kernels *chosen = NULL;
    unsigned saved = ls_fp_enter();
    *n_failed = 0;
    for (int i = 0; i < N_TABLES && !chosen; i++) {
        if (tables[i].path > wanted || !tables[i].cpu_has() || !tables[i].pays())
            continue;
        if (ls_kernels_selftest(tables[i].table))
            ++*n_failed;
        else
            chosen = tables[i].table;
    }
    ls_fp_leave(saved);
    return chosen;
}
