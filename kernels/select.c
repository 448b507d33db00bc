#include "kernels/kernels.h"

#include "kernels/ref/ref.h"

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

/* Every table, the fastest first. */
enum { N_TABLES = 1 };

static const struct {
    enum ls_cpu_path path;
    const struct ls_kernels *table;
} tables[N_TABLES] = {
    { LS_CPU_REF, &ls_kernels_ref },
};

static bool cpu_has(int i)
{
    (void)i;
    return true;
}

const struct ls_kernels *ls_kernels_of(enum ls_cpu_path path)
{
    for (int i = 0; i < N_TABLES; i++)
        if (tables[i].path == path && cpu_has(i))
            return tables[i].table;
    return NULL;
}

const struct ls_kernels *ls_kernels_choose(enum ls_cpu_path wanted, int *n_failed)
{
    const struct ls_kernels *chosen = NULL;
    unsigned saved = ls_fp_enter();
    *n_failed = 0;
    for (int i = 0; i < N_TABLES && !chosen; i++) {
        if (tables[i].path > wanted || !cpu_has(i))
            continue;
        if (ls_kernels_selftest(tables[i].table))
            ++*n_failed;
        else
            chosen = tables[i].table;
    }
    ls_fp_leave(saved);
    return chosen;
}
