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

/* dst[i][lane] = src[lane][i] for n words of 4 or of 2 bytes; rows of src are lds bytes apart.
 */
static void turn_words(char *dst, const char *src, size_t lds, size_t lanes, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += LS_TILE * sizeof(uint32_t))
        for (size_t l = 0; l < lanes; l++)
            memcpy(dst + l * sizeof(uint32_t), src + l * lds + i * sizeof(uint32_t),
                   sizeof(uint32_t));
}

static void turn_halves(char *dst, const char *src, size_t lds, size_t lanes, size_t n)
{
    for (size_t i = 0; i < n; i++, dst += LS_TILE * sizeof(uint16_t))
        for (size_t l = 0; l < lanes; l++)
            memcpy(dst + l * sizeof(uint16_t), src + l * lds + i * sizeof(uint16_t),
                   sizeof(uint16_t));
}

/* A pair of bf16 is one word of a lane, the other formats have a row for each element. */
static void pack_tile(enum ls_fmt fmt, char *tile, const char *src, size_t lds, size_t lanes,
                      size_t k)
{
    if (fmt == LS_FMT_F32) {
        turn_words(tile, src, lds, lanes, k);
    } else if (fmt == LS_FMT_F16) {
        turn_halves(tile, src, lds, lanes, k);
    } else {
        turn_words(tile, src, lds, lanes, k / 2);
        for (size_t l = 0; k % 2 && l < lanes; l++)
            memcpy(tile + k / 2 * pair_bytes(fmt) + l * sizeof(uint32_t),
                   src + l * lds + (k - 1) * sizeof(uint16_t), sizeof(uint16_t));
    }
}

void ls_pack(enum ls_fmt fmt, void *dst, const void *src, size_t lds, size_t n, size_t k,
             size_t tile0, size_t tile1)
{
    size_t row_bytes = lds * ls_fmt_bytes(fmt), tile_bytes = (k + 1) / 2 * pair_bytes(fmt);
    for (size_t t = tile0; t < tile1; t++) {
        char *tile = (char *)dst + t * tile_bytes;
        const char *rows = (const char *)src + t * LS_TILE * row_bytes;
        size_t lanes = n - t * LS_TILE < LS_TILE ? n - t * LS_TILE : LS_TILE;
        if (lanes < LS_TILE || k % 2)
            memset(tile, 0, tile_bytes);
        if (lanes == LS_TILE)
            pack_tile(fmt, tile, rows, row_bytes, LS_TILE, k);
        else
            pack_tile(fmt, tile, rows, row_bytes, lanes, k);
    }
}

int ls_attn_rows(int n_keys)
{
    return n_keys <= 4096 ? LS_ATTN_MAX_ROWS : LS_ATTN_MAX_ROWS / 2;
}

size_t ls_attn_stride(int n_keys)
{
    enum { BLOCK = LS_KV_BLOCK, SPARE = LS_KV_BLOCK + LS_ATTN_MAX_ROWS + 24 };
    return ((size_t)n_keys + BLOCK - 1) / BLOCK * BLOCK + SPARE;
}

size_t ls_attn_scratch_floats(int max_visible)
{
    /* fewer rows where the keys grow: the largest need may lie at the end of a step */
    static const int ends[] = { 4096, INT32_MAX };
    size_t most = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int n_keys = max_visible < ends[i] ? max_visible : ends[i];
        size_t need = (size_t)ls_attn_rows(n_keys) * ls_attn_stride(n_keys);
        most = need > most ? need : most;
    }
    return most;
}
