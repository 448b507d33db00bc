#include "kernels/kernels.h"

const char *ls_kernels_selftest(const struct ls_kernels *k)
{
    (void)k;
    return ls_fp_is_flushing() ? (const char *)0 : "flush to zero";
}
