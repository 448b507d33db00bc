/* Matrix products over tiles of sixteen outputs: a register block of rows x tiles, the blocking
 * around it, and the table of blocks that attention uses for its scores too.
 * Layer: kernels, internal; included after a lanes.h. Every output is one chain along K, so no
 * choice made here (rows at once, tiles at once, the cache's blocks) can change a bit. */
#ifndef LS_KERNELS_WIDE_MATMUL_H
#define LS_KERNELS_WIDE_MATMUL_H

#ifdef __clang__
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif
#define LANES_ALIGNED __attribute__((aligned(64)))

enum {
    CACHE_ROWS = 240,          /* rows of x whose panel stays in the L2 cache, with ... */
    CACHE_TILES = 8,           /* ... one panel of so many tiles and the outputs of both */
    COPY_FLOATS = 256 * 1024,  /* copied rows: at least two panels of CACHE_ROWS */
    MAX_TILES = 4,             /* tiles of one register block */
    FEW_ROWS = 3 * LANES_ROWS, /* up to so many the weights' stream is what counts */
    AHEAD_BYTES = 2048,        /* a single stream of weights is fetched so far ahead */
};

/* How a register block reads its operands: the format of the weights; WIDE_PAIRS takes bf16
 * weights and x as pairs of bf16. */
enum wide_kind {
    WIDE_F32 = LS_FMT_F32,
    WIDE_F16 = LS_FMT_F16,
    WIDE_BF16 = LS_FMT_BF16,
    WIDE_PAIRS
};

/* The weights of a register block, and what is fetched beside them: for each pair and tile the
 * cache lines of one pair at `ahead`, which moves on by `ahead_step` bytes. */
struct stream {
    const char *w;
    size_t tile_bytes; /* from tile to tile, of `ahead` too */
    const char *ahead;
    size_t ahead_step;
};

/* One panel of a register block: rows of x (`ldx` floats apart) against tiles; c gets the
 * panel's sums when it is the first, else they are added. */
typedef void block_fn(int n_pairs, const float *x, size_t ldx, const struct stream *s, float *c,
                      size_t ldc, bool first);

LANES size_t kind_pair_bytes(enum wide_kind kind)
{
    return kind == WIDE_F32 ? 128 : 64;
}

/* Floats of x that one pair takes, and multiplications of each accumulator. */
LANES size_t kind_step(enum wide_kind kind)
{
    return kind == WIDE_PAIRS ? 1 : 2;
}

/* The weights of multiplication i of a pair: the odd element is the first. */
LANES struct v16 weights_at(enum wide_kind kind, size_t i, const char *w)
{
    if (kind == WIDE_PAIRS)
        return v_load((const float *)w);
    return i == 0 ? v_odd((enum ls_fmt)kind, w) : v_even((enum ls_fmt)kind, w);
}

/* acc + x w over the elements of weights_at, x at the same place of its pair. */
LANES struct v16 multiply(enum wide_kind kind, struct v16 acc, struct v16 x, struct v16 w)
{
#ifdef LS_LANES_PAIRS
    if (kind == WIDE_PAIRS)
        return v_pairs(acc, x, w);
#endif
    (void)kind;
    return v_fma(x, w, acc);
}

/* a[r][t] += x w over multiplication i of a pair of each tile. Up to three rows take one tile's
 * weights after the other; for more, the weights of all tiles wait in registers while the rows
 * pass. (The empty asm makes the compiler load x again for the next tile, not keep it.) */
LANES void block_step(enum wide_kind kind, size_t i, int rows, int tiles,
                      struct v16 a[][MAX_TILES], const float *x, size_t ldx, const char *w,
                      size_t tile_bytes)
{
    struct v16 weights[MAX_TILES];
    int at_once = rows <= 3 ? 1 : tiles;
    LANES_UNROLL
    for (int t0 = 0; t0 < tiles; t0 += at_once) {
        LANES_UNROLL
        for (int t = t0; t < t0 + at_once; t++)
            weights[t] = weights_at(kind, i, w + (size_t)t * tile_bytes);
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            struct v16 one = v_set1(x[(size_t)r * ldx]);
            LANES_UNROLL
            for (int t = t0; t < t0 + at_once; t++)
                a[r][t] = multiply(kind, a[r][t], one, weights[t]);
        }
        __asm__ volatile("" ::: "memory");
    }
}

LANES void block(enum wide_kind kind, int rows, int tiles, int n_pairs, const float *x,
                 size_t ldx, const struct stream *s, float *c, size_t ldc, bool first)
{
    const char *w = s->w, *ahead = s->ahead;
    size_t tile_bytes = s->tile_bytes, ahead_step = s->ahead_step;
    struct v16 a[LANES_ROWS][MAX_TILES]; /* constant bounds: a variable one lives in memory */
    LANES_UNROLL
    for (int r = 0; r < rows; r++)
        LANES_UNROLL
    for (int t = 0; t < tiles; t++)
        a[r][t] = v_zero();
    for (int p = 0; p < n_pairs; p++) {
        LANES_UNROLL
        for (size_t i = 0, n = kind_step(kind); i < n; i++)
            block_step(kind, i, rows, tiles, a, x + (n - 1 - i), ldx, w, tile_bytes);
        for (int t = 0; t < tiles; t++)
            for (size_t line = 0; line < kind_pair_bytes(kind); line += 64)
                _mm_prefetch(ahead + (size_t)t * tile_bytes + line, _MM_HINT_T0);
        ahead += ahead_step;
        x += kind_step(kind);
        w += kind_pair_bytes(kind);
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++)
        LANES_UNROLL
    for (int t = 0; t < tiles; t++) {
        float *out = c + (size_t)r * ldc + t * LS_TILE;
        v_store(out, first ? a[r][t] : v_add(v_load(out), a[r][t]));
    }
}

/* A function each: inlined side by side the blocks would spill each other's registers. */
#define BLOCK(kind, rows, tiles)                                                               \
    static __attribute__((noinline)) void block_##kind##_##rows##_##tiles(                     \
        int n_pairs, const float *x, size_t ldx, const struct stream *s, float *c, size_t ldc, \
        bool first)                                                                            \
    {                                                                                          \
        block(kind, rows, tiles, n_pairs, x, ldx, s, c, ldc, first);                           \
    }

LANES_BLOCKS(BLOCK, WIDE_F32)
LANES_BLOCKS(BLOCK, WIDE_F16)
LANES_BLOCKS(BLOCK, WIDE_BF16)
#ifdef LS_LANES_PAIRS
LANES_BLOCKS(BLOCK, WIDE_PAIRS)
#endif
#define BLOCK_ENTRY(kind, rows, tiles) [rows][tiles] = block_##kind##_##rows##_##tiles,

static block_fn *const blocks[][LANES_ROWS + 1][MAX_TILES + 1] = {
    [WIDE_F32] = { LANES_BLOCKS(BLOCK_ENTRY, WIDE_F32) },
    [WIDE_F16] = { LANES_BLOCKS(BLOCK_ENTRY, WIDE_F16) },
    [WIDE_BF16] = { LANES_BLOCKS(BLOCK_ENTRY, WIDE_BF16) },
#ifdef LS_LANES_PAIRS
    [WIDE_PAIRS] = { LANES_BLOCKS(BLOCK_ENTRY, WIDE_PAIRS) },
#endif
};

/* Tiles in flight for so many rows, a power of two not above `left`. */
LANES int tiles_in_flight(int rows, int left)
{
    int tiles = lanes_tiles[rows];
    while (tiles > left)
        tiles /= 2;
    return tiles;
}

/* Copies n elements of x, completed by +0 to an even number, as the blocks of `kind` want them.
 */
LANES void gather(enum wide_kind kind, float *dst, const float *x, int n)
{
#ifdef LS_LANES_PAIRS
    for (int i = 0; kind == WIDE_PAIRS && i < n; i += 2 * LS_TILE)
        v_narrow_pairs(dst + i / 2, v_get(x + i, n - i),
                       v_get(x + i + LS_TILE, n - i - LS_TILE));
#endif
    for (int i = 0; kind != WIDE_PAIRS && i < n; i += LS_TILE)
        v_store(dst + i, v_get(x + i, n - i));
}

/* Rows into a buffer of their own, `stride` floats apart. */
LANES void gather_rows(enum wide_kind kind, float *dst, size_t stride, const float *x,
                       size_t ldx, int rows, int n)
{
    for (int r = 0; r < rows; r++)
        gather(kind, dst + (size_t)r * stride, x + (size_t)r * ldx, n);
}

/* One call: y[r][o] = sum_k x[r][k] w[o][k] for the outputs of tiles [tile0, tile1). */
struct product {
    float *y;
    const float *x;
    const char *w;
    size_t ldy, ldx, tile_bytes;
    int k, tile0, tile1;
};

/* What register block b of n fetches while it works on a panel of `bytes` at w: one that is
 * alone looks a little ahead in its own streams; others share the panels that come next, of the
 * same tiles, or behind the last panel the first of the next tiles. */
LANES struct stream stream_of(enum wide_kind kind, const char *w, size_t tile_bytes,
                              const char *next, size_t bytes, int b, int n)
{
    struct stream s = { w, tile_bytes, w + AHEAD_BYTES, kind_pair_bytes(kind) };
    if (n > 1) {
        s.ahead = next + bytes * (size_t)b / (size_t)n / 64 * 64;
        s.ahead_step = kind_pair_bytes(kind) / (size_t)n;
    }
    return s;
}

/* One panel of `rows` rows against a group of `tiles` tiles, in register blocks of rows as even
 * as possible (8 = 4 + 4). */
LANES void panel_rows(enum wide_kind kind, const struct product *p, const float *x, size_t ldx,
                      float *y, size_t ldy, int rows, int t, int tiles, int k0)
{
    int n_blocks = (rows + LANES_ROWS - 1) / LANES_ROWS;
    const char *first = p->w + (size_t)t * p->tile_bytes;
    const char *w = first + (size_t)(k0 / 2) * kind_pair_bytes(kind);
    int n_pairs = ((p->k - k0 < LS_PANEL ? p->k - k0 : LS_PANEL) + 1) / 2;
    size_t bytes = (size_t)n_pairs * kind_pair_bytes(kind);
    bool last = rows <= FEW_ROWS && k0 + LS_PANEL >= p->k;
    const char *next = rows > FEW_ROWS ? w + (size_t)tiles * p->tile_bytes
                       : last          ? first + (size_t)tiles * p->tile_bytes
                                       : w + bytes;
    for (int b = 0; b < n_blocks; b++) {
        int r = rows * b / n_blocks, n = rows * (b + 1) / n_blocks - r;
        const struct stream s = stream_of(kind, w, p->tile_bytes, next, bytes, b, n_blocks);
        blocks[kind][n][tiles](n_pairs, x + (size_t)r * ldx, ldx, &s, y + (size_t)r * ldy, ldy,
                               k0 == 0);
    }
}

/* Tiles in flight where `rows` rows are cut into even register blocks. */
LANES int tiles_for(int rows, int left)
{
    int n_blocks = (rows + LANES_ROWS - 1) / LANES_ROWS;
    return tiles_in_flight((rows + n_blocks - 1) / n_blocks, left);
}

/* Elements [begin, end) of K for all tiles, from x as the blocks want it, `ldx` floats apart.
 * Up to FEW_ROWS rows take a group of tiles with all of its panels, so that weights are read
 * once and in order; more rows take a panel of CACHE_TILES tiles at a time, which stays in the
 * cache while the rows pass. */
LANES void all_tiles(enum wide_kind kind, const struct product *p, const float *x, size_t ldx,
                     int row0, int rows, int begin, int end)
{
    for (int t0 = p->tile0, t1; t0 < p->tile1; t0 = t1) {
        int wide = rows <= FEW_ROWS ? tiles_for(rows, p->tile1 - t0) : CACHE_TILES;
        t1 = p->tile1 - t0 < wide ? p->tile1 : t0 + wide;
        for (int k0 = begin; k0 < end; k0 += LS_PANEL)
            for (int t = t0, tiles; t < t1; t += tiles) {
                tiles = tiles_for(rows, t1 - t);
                panel_rows(kind, p, x + (size_t)((k0 - begin) / 2) * kind_step(kind), ldx,
                           p->y + (size_t)row0 * p->ldy + (size_t)t * LS_TILE, p->ldy, rows, t,
                           tiles, k0);
            }
    }
}

/* Rows whose distance is a multiple of the cache's ways evict each other; pairs must be made.
 */
LANES bool takes_copy(enum wide_kind kind, const struct product *p, int rows)
{
    return kind == WIDE_PAIRS || (rows > FEW_ROWS && p->ldx % 512 == 0);
}

/* Up to CACHE_ROWS rows. */
LANES void some_rows(enum wide_kind kind, const struct product *p, int row0, int rows)
{
    float copy[COPY_FLOATS] LANES_ALIGNED;
    const float *x = p->x + (size_t)row0 * p->ldx;
    if (!takes_copy(kind, p, rows)) {
        all_tiles(kind, p, x, p->ldx, row0, rows, 0, p->k);
        return;
    }
    size_t step = kind_step(kind);
    int chunk = (COPY_FLOATS / rows - LS_TILE) * 2 / (int)step / LS_PANEL * LS_PANEL;
    for (int begin = 0; begin < p->k; begin += chunk) {
        int end = p->k - begin < chunk ? p->k : begin + chunk;
        size_t ldx = (size_t)(end - begin + 2 * LS_TILE - 1) / (2 * LS_TILE) * LS_TILE * step +
                     LS_TILE; /* no power of two */
        gather_rows(kind, copy, ldx, x + begin, p->ldx, rows, end - begin);
        all_tiles(kind, p, copy, ldx, row0, rows, begin, end);
    }
}

LANES void matmul(enum wide_kind kind, const struct product *p, int m)
{
    int n_parts = (m + CACHE_ROWS - 1) / CACHE_ROWS;
    for (int i = 0, row0 = 0; i < n_parts; i++) {
        int rows = (m - row0 + n_parts - i - 1) / (n_parts - i);
        some_rows(kind, p, row0, rows);
        row0 += rows;
    }
}

#endif
