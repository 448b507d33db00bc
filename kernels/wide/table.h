/* The table of one instruction set, from the kernels of wide/. The including file defines
 * LANES_TABLE, the table's name as a symbol, and LANES_NAME, the name that users see.
 * Layer: kernels, internal; included after the other headers of wide/. */
#ifndef LS_KERNELS_WIDE_TABLE_H
#define LS_KERNELS_WIDE_TABLE_H

/* One entry of `matmul`. `fmt` is the format of the weights, `kind` how they are multiplied. */
LANES void table_matmul(enum wide_kind kind, enum ls_fmt fmt, float *y, size_t ldy,
                        const float *x, size_t ldx, const void *w, int m, int k, int tile0,
                        int tile1)
{
#ifdef LS_MUTANTS
    if (ls_kernels_even_first) {
        ls_kernels_ref.matmul[LS_FMT_F32][fmt](y, ldy, x, ldx, w, m, k, tile0, tile1);
        return;
    }
#endif
    const struct product p = {
        .y = y,
        .x = x,
        .w = w,
        .ldy = ldy,
        .ldx = ldx,
        .tile_bytes = ls_packed_bytes(fmt, LS_TILE, (size_t)k),
        .k = k,
        .tile0 = tile0,
        .tile1 = tile1,
    };
    matmul(kind, &p, m);
}

static void matmul_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1)
{
    table_matmul(WIDE_F32, LS_FMT_F32, y, ldy, x, ldx, w, m, k, tile0, tile1);
}

static void matmul_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1)
{
    table_matmul(WIDE_F16, LS_FMT_F16, y, ldy, x, ldx, w, m, k, tile0, tile1);
}

static void matmul_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                        int k, int tile0, int tile1)
{
    table_matmul(WIDE_BF16, LS_FMT_BF16, y, ldy, x, ldx, w, m, k, tile0, tile1);
}

#ifdef LS_LANES_PAIRS
static void matmul_pairs(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                         int k, int tile0, int tile1)
{
    table_matmul(WIDE_PAIRS, LS_FMT_BF16, y, ldy, x, ldx, w, m, k, tile0, tile1);
}
#else
#define matmul_pairs matmul_bf16
#endif

const struct ls_kernels LANES_TABLE = {
    .name = LANES_NAME,
    .matmul = {
        [LS_FMT_F32] = { matmul_f32, matmul_f16, matmul_bf16 },
        [LS_FMT_F16] = { matmul_f32, matmul_f16, matmul_bf16 },
        [LS_FMT_BF16] = { matmul_f32, matmul_f16, matmul_pairs },
    },
    .add_bias = add_bias,
    .round = round_row,
    .scale = scale_row,
    .residual = residual,
    .gated = gated,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .rope = rope,
    .softcap = softcap,
    .widen = widen,
    .narrow = narrow,
    .kv_store = kv_store,
    .attention = attention,
    .accumulate = accumulate,
    .gated_clamped = gated_clamped,
    .exp_below = exp_below,
    .sigmoid = sigmoid,
    .sum_exp = sum_exp,
    .canonical_nan = canonical_nan,
};

#endif
