/* The tables that select.c chooses from. Layer: kernels, internal. */
#ifndef LS_KERNELS_TABLES_H
#define LS_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const struct ls_kernels ls_kernels_ref;
extern const struct ls_kernels ls_kernels_avx2;
extern const struct ls_kernels ls_kernels_avx512;
extern const struct ls_kernels ls_kernels_avx512bf16;

#endif
