#include "kernels/kernels.h"

#include "kernels/attn_scratch.h"

#include <string.h>

size_t ls_fmt_bytes(enum ls_fmt fmt)
{
    return fmt == LS_FMT_F32 ? 4 : 2;
}

static size_t pair_bytes(enum ls_fmt fmt)
{
    return 2 * LS_TILE * ls_fmt_bytes(fmt);
}

size_t ls_packed_bytes(enum ls_fmt fmt, size_t n, size_t k)
{
    return ls_tiles(n) * ((k + 1) / 2) * pair_bytes(fmt);
}

size_t ls_kv_k_bytes(enum ls_fmt d, int k_dim)
{
    return ls_packed_bytes(d, LS_KV_BLOCK, (size_t)k_dim);
}

size_t ls_kv_v_bytes(enum ls_fmt d, int v_dim)
{
    return (size_t)LS_KV_BLOCK * (size_t)v_dim * ls_fmt_bytes(d);
}

/* One lane of a tile: k elements of 2 or 4 bytes; `step` bytes from the even to the odd one. */
static void pack_lane(char *lane, const char *src, size_t k, size_t bytes, size_t step)
{
    size_t pair = 2 * LS_TILE * bytes;
    for (size_t i = 0; i < k; i++)
        memcpy(lane + i / 2 * pair + (i & 1) * step, src + i * bytes, bytes);
}

void ls_pack(enum ls_fmt fmt, void *dst, const void *src, size_t lds, size_t n, size_t k,
             size_t tile0, size_t tile1)
{
    size_t bytes = ls_fmt_bytes(fmt), tile_bytes = (k + 1) / 2 * pair_bytes(fmt);
    size_t lane_step = fmt == LS_FMT_BF16 ? 2 * bytes : bytes;
    size_t odd_step = fmt == LS_FMT_BF16 ? bytes : LS_TILE * bytes;
    for (size_t t = tile0; t < tile1; t++) {
        char *tile = (char *)dst + t * tile_bytes;
        size_t lanes = n - t * LS_TILE < LS_TILE ? n - t * LS_TILE : LS_TILE;
        if (lanes < LS_TILE || k % 2)
            memset(tile, 0, tile_bytes);
        for (size_t l = 0; l < lanes; l++) {
            const char *row = (const char *)src + (t * LS_TILE + l) * lds * bytes;
            pack_lane(tile + l * lane_step, row, k, bytes, odd_step);
        }
    }
}

int ls_attn_rows(int n_keys)
{
    return n_keys <= 4096 ? LS_ATTN_MAX_ROWS : n_keys <= 16384 ? 12 : 6;
}

size_t ls_attn_stride(int n_keys)
{
    enum { BLOCK = LS_KV_BLOCK, SPARE = LS_KV_BLOCK + LS_ATTN_MAX_ROWS + 24 };
    return ((size_t)n_keys + BLOCK - 1) / BLOCK * BLOCK + SPARE;
}

size_t ls_attn_scratch_floats(int max_visible)
{
    /* fewer rows where the keys grow: the largest need may lie at the end of a step */
    static const int ends[] = { 4096, 16384, INT32_MAX };
    size_t most = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int n_keys = max_visible < ends[i] ? max_visible : ends[i];
        size_t need = (size_t)ls_attn_rows(n_keys) * ls_attn_stride(n_keys);
        most = need > most ? need : most;
    }
    return most;
}
