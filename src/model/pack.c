#include "model/pack.h"

#include <immintrin.h>
#include <string.h>

enum { MXFP4_BLOCK = 32 };

static bool is_plain(const struct ls_pack_source *src)
{
    return src->col_step == 1 && !src->scales;
}

uint64_t ls_pack_scratch(const struct ls_pack_source *src, const struct ls_matrix *m)
{
    return is_plain(src) ? 0 : (uint64_t)m->k * LS_TILE * ls_fmt_bytes(src->fmt);
}

/* Scale and four bits to bf16, by the bits: e2m1 is 0, 0.5, then (1 + m / 2) 2^(e - 1). */
static uint16_t bf16_of_mxfp4(unsigned scale, unsigned four)
{
    const unsigned sign = (four & 8) << 12, e = four >> 1 & 3, m = four & 1;
    if (scale == 255)
        return 0x7fc0;
    if (!e && !m)
        return (uint16_t)sign;
    /* value = (1 + fraction / 2) 2^(exponent - 127) */
    const unsigned exponent = e ? scale + e - 1 : scale - 1, fraction = e ? m : 0;
    if ((int)exponent >= 255)
        return (uint16_t)(sign | 0x7f80);
    if ((int)exponent > 0)
        return (uint16_t)(sign | exponent << 7 | fraction << 6);
    /* below 2^-126: an eighth bit, shifted down; nothing is lost down to 2^-128 */
    const unsigned whole = 0x80 | fraction << 6;
    return (uint16_t)(sign | whole >> (1 - (int)exponent));
}

static void expand_row(const struct ls_pack_source *src, uint64_t at, uint16_t *to, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) {
        const unsigned both = src->data[(at + i) / 2];
        to[i] = bf16_of_mxfp4(src->scales[(at + i) / MXFP4_BLOCK],
                              (at + i) % 2 ? both >> 4 : both & 15);
    }
}

/* Columns outside: neighbouring outputs lie side by side in the file. */
static void gather_rows(const struct ls_pack_source *src, uint64_t at, char *to, uint64_t n,
                        uint64_t k)
{
    const size_t bytes = ls_fmt_bytes(src->fmt);
    for (uint64_t c = 0; c < k; c++) {
        const unsigned char *from = src->data + (at + c * src->col_step) * bytes;
        for (uint64_t r = 0; r < n; r++)
            memcpy(to + (r * k + c) * bytes, from + r * src->row_step * bytes, bytes);
    }
}

void ls_pack_tiles(const struct ls_pack_source *src, const struct ls_matrix *m, uint64_t tile0,
                   uint64_t tile1, void *scratch)
{
    const uint64_t n = (uint64_t)m->n, k = (uint64_t)m->k;
    const size_t tile_bytes = ls_packed_bytes(m->fmt, LS_TILE, k);
    if (is_plain(src)) {
        ls_pack(m->fmt, m->packed, src->data + src->first * ls_fmt_bytes(m->fmt), src->row_step,
                n, k, tile0, tile1);
        return;
    }
    for (uint64_t t = tile0; t < tile1; t++) {
        const uint64_t row = t * LS_TILE, lanes = n - row < LS_TILE ? n - row : LS_TILE;
        const uint64_t at = src->first + row * src->row_step;
        for (uint64_t r = 0; src->scales && r < lanes; r++)
            expand_row(src, at + r * src->row_step, (uint16_t *)scratch + r * k, k);
        if (!src->scales)
            gather_rows(src, at, scratch, lanes, k);
        ls_pack(m->fmt, (char *)m->packed + t * tile_bytes, scratch, k, lanes, k, 0, 1);
    }
}

void ls_pack_vector(const struct ls_pack_source *src, float *to, uint64_t n)
{
    const size_t bytes = ls_fmt_bytes(src->fmt);
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *from = src->data + (src->first + i * src->row_step) * bytes;
        uint16_t half;
        uint32_t bits;
        memcpy(&half, from, sizeof half);
        bits = (uint32_t)half << 16;
        if (src->fmt == LS_FMT_F32)
            memcpy(to + i, from, sizeof *to);
        else if (src->fmt == LS_FMT_BF16)
            memcpy(to + i, &bits, sizeof *to);
        else
            to[i] = _cvtsh_ss(half);
    }
}
