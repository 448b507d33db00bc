/* The AVX-512 table for CPUs with BF16: bf16 weights by vdpbf16ps when D is bf16. */
#define LS_LANES_PAIRS 1
#include "kernels/avx512/lanes.h"
#include "kernels/tables.h"

#include "kernels/wide/math.h"

#include "kernels/wide/matmul.h"

#include "kernels/wide/attention.h"
#include "kernels/wide/experts.h"
#include "kernels/wide/rows.h"

#define LANES_TABLE ls_kernels_avx512bf16
#define LANES_NAME  "avx512bf16"
#include "kernels/wide/table.h"
