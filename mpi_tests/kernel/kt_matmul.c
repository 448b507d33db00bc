/* Matrix products of every fast path against ref, bit for bit: random shapes, formats, values,
 * splits of the tiles; canaries around y; odd K and lanes past n included. */
#include "kt.h"

#include <stdio.h>
#include <string.h>

struct shape {
    int m, k, n;
    size_t ldx, ldy;
    enum ls_fmt d, fmt;
    enum kt_values kind;
};

static int pick_k(void)
{
    static const int edges[] = { 1,   2,   3,   15,  16,  17,  31,  33,  127,
                                 255, 256, 257, 258, 511, 512, 513, 768, 769 };
    return kt_int(0, 1) ? edges[kt_int(0, 17)] : kt_int(1, 900);
}

/* More rows than are taken together, and more of K than is copied at once. */
static void pick_many(struct shape *s)
{
    static const int edges[] = { 1023, 1025, 1281, 2047, 2048, 2049, 2305 };
    s->m = kt_int(110, 500);
    if (kt_int(0, 1))
        s->k = edges[kt_int(0, 6)];
}

static struct shape pick_shape(int round)
{
    struct shape s = { .k = pick_k(), .n = kt_int(1, 70) };
    s.m = round % 8 == 0 ? kt_int(1, 130) : kt_int(1, 14);
    s.d = (enum ls_fmt)kt_int(0, LS_N_FMT - 1);
    s.fmt = (enum ls_fmt)kt_int(0, LS_N_FMT - 1);
    s.kind = (enum kt_values)kt_int(0, KT_N_VALUES - 1);
    if (s.kind == KT_WILD && kt_int(0, 1))
        s.k = kt_int(1, 8); /* else nearly every sum is NaN */
    if (round % 64 == 1)
        pick_many(&s);
    s.ldx = (size_t)(s.k + s.k % 2 + kt_int(0, 3));
    if (kt_int(0, 3) == 0)
        s.ldx = (s.ldx + 511) / 512 * 512; /* rows that evict each other */
    s.ldy = ls_tiles((size_t)s.n) * LS_TILE + (size_t)kt_int(0, 3);
    return s;
}

/* The fast path, its tiles in up to three calls in any order. */
static void in_parts(const struct ls_kernels *k, const struct shape *s, float *y,
                     const float *x, const void *w)
{
    int tiles = (int)ls_tiles((size_t)s->n), a = kt_int(0, tiles), b = kt_int(a, tiles);
    int cut[4] = { 0, a, b, tiles };
    for (int i = 2; i >= 0; i--)
        if (cut[i] < cut[i + 1])
            k->matmul[s->d][s->fmt](y, s->ldy, x, s->ldx, w, s->m, s->k, cut[i], cut[i + 1]);
}

static void one_round(int round, const struct kt_table *table, int n_tables)
{
    struct shape s = pick_shape(round);
    size_t rows = (size_t)s.m, k = (size_t)s.k, n = (size_t)s.n, tiles = ls_tiles(n);
    size_t y_floats = (rows - 1) * s.ldy + tiles * LS_TILE;
    float *x = kt_floats(rows * s.ldx), *want = kt_floats(y_floats), *got;
    void *raw = kt_buffer(n * k * ls_fmt_bytes(s.fmt));
    void *w = kt_buffer(ls_packed_bytes(s.fmt, n, k));
    kt_fill_floats(x, rows * s.ldx, s.kind, s.d);
    for (size_t r = 0; k % 2 && r < rows; r++)
        x[r * s.ldx + k] = 0.0f;
    kt_fill(raw, n * k, s.kind, s.fmt);
    ls_pack(s.fmt, w, raw, k, n, k, 0, tiles);
    ls_kernels_ref.matmul[s.d][s.fmt](want, s.ldy, x, s.ldx, w, s.m, s.k, 0, (int)tiles);
    char what[128];
    snprintf(what, sizeof what, "matmul m %d k %d n %d D %d weights %d values %d", s.m, s.k,
             s.n, s.d, s.fmt, s.kind);
    for (int t = 0; t < n_tables; t++) {
        got = kt_floats(y_floats);
        in_parts(table[t].k, &s, got, x, w);
        kt_equal(what, table[t].label, want, got, y_floats);
    }
    kt_release(what);
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_matmul", argc, argv);
    int n_tables = kt_tables(table);
    for (int round = 0; round < (kt_is_long() ? 8000 : 800); round++)
        one_round(round, table, kt_tables_in(round, n_tables));
    return kt_finish();
}
