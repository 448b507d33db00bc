/* The AVX2 table (with FMA and F16C): the kernels of wide/ over two ymm registers. */
#include "kernels/avx2/lanes.h"
#include "kernels/tables.h"

#include "kernels/wide/math.h"

#include "kernels/wide/matmul.h"

#include "kernels/wide/attention.h"
#include "kernels/wide/experts.h"
#include "kernels/wide/rows.h"

#define LANES_TABLE ls_kernels_avx2
#define LANES_NAME  "avx2"
#include "kernels/wide/table.h"
