/* The AVX-512 table for CPUs without BF16: the kernels of wide/ over one zmm register. */
#include "kernels/avx512/lanes.h"
#include "kernels/tables.h"

#include "kernels/wide/math.h"

#include "kernels/wide/matmul.h"

#include "kernels/wide/attention.h"
#include "kernels/wide/experts.h"
#include "kernels/wide/rows.h"

#define LANES_TABLE ls_kernels_avx512
#define LANES_NAME  "avx512"
#include "kernels/wide/table.h"
