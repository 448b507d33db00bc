/* The tables that select.c chooses from. Layer: kernels, internal. */
#ifndef LS_KERNELS_TABLES_H
#define LS_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const struct ls_kernels ls_kernels_ref;
extern const struct ls_kernels ls_kernels_avx2;
extern const struct ls_kernels ls_kernels_avx512;
extern const struct ls_kernels ls_kernels_avx512bf16;

/* True when a product of bf16 pairs takes less time than the two FMAs that give the same bits:
 * measured, in less than a millisecond. Only on a CPU that has both. */
bool ls_pairs_pay(void);

#endif
