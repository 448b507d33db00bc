#include "kernels/ref/ref.h"

#include "kernels/ref/scalar.h"

#ifdef LS_MUTANTS
int ls_kernels_even_first;
#endif

/* Element i of one lane of a packed tile. */
static float tile_element(enum ls_fmt fmt, const void *tile, int lane, int i)
{
    size_t pair = (size_t)(i / 2) * 2 * LS_TILE, odd = i % 2, l = (size_t)lane;
    size_t at = fmt == LS_FMT_BF16 ? pair + 2 * l + odd : pair + odd * LS_TILE + l;
    return element_at(fmt, tile, at);
}

/* Elements [begin, end) of one panel: pairs in ascending order, the odd element first. An odd
 * end is completed by a zero element, whose multiplication is executed. */
static float panel_dot(enum ls_fmt fmt, const float *x, const void *tile, int lane, int begin,
                       int end)
{
    float s = 0.0f;
    for (int i = begin; i < end; i += 2) {
        float x_odd = i + 1 < end ? x[i + 1] : 0.0f;
        float w_odd = i + 1 < end ? tile_element(fmt, tile, lane, i + 1) : 0.0f;
        float x_even = x[i], w_even = tile_element(fmt, tile, lane, i);
#ifdef LS_MUTANTS
        if (ls_kernels_even_first) {
            s = fma32(x_odd, w_odd, fma32(x_even, w_even, s));
            continue;
        }
#endif
        s = fma32(x_odd, w_odd, s);
        s = fma32(x_even, w_even, s);
    }
    return s;
}

float ls_ref_dot(enum ls_fmt fmt, const float *x, const void *tile, int lane, int k)
{
    float total = 0.0f;
    for (int begin = 0; begin < k; begin += LS_PANEL) {
        int end = k - begin < LS_PANEL ? k : begin + LS_PANEL;
        float s = panel_dot(fmt, x, tile, lane, begin, end);
        total = begin ? total + s : s;
    }
    return total;
}

static void matmul(enum ls_fmt fmt, float *y, size_t ldy, const float *x, size_t ldx,
                   const void *w, int m, int k, int tile0, int tile1)
{
    size_t tile_bytes = ls_packed_bytes(fmt, LS_TILE, (size_t)k);
    for (int r = 0; r < m; r++)
        for (int t = tile0; t < tile1; t++)
            for (int lane = 0; lane < LS_TILE; lane++)
                y[(size_t)r * ldy + (size_t)t * LS_TILE + (size_t)lane] =
                    ls_ref_dot(fmt, x + (size_t)r * ldx,
                               (const char *)w + (size_t)t * tile_bytes, lane, k);
}

void ls_ref_matmul_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1)
{
    matmul(LS_FMT_F32, y, ldy, x, ldx, w, m, k, tile0, tile1);
}

void ls_ref_matmul_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1)
{
    matmul(LS_FMT_F16, y, ldy, x, ldx, w, m, k, tile0, tile1);
}

void ls_ref_matmul_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                        int k, int tile0, int tile1)
{
    matmul(LS_FMT_BF16, y, ldy, x, ldx, w, m, k, tile0, tile1);
}
