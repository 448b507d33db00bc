#include "kernels/kernels.h"

#include "kernels/selftest_vectors.h"

#include <string.h>

/* Shapes that the vectors were computed for. */
enum {
    POOL = 61,
    N = 19, /* a row: one register and a tail */
    N_SPECIAL = 24,
    K = 259, /* two panels, odd */
    OUTPUTS = 17,
    MAX_ROWS = 25, /* every register block of rows is used by some number below */
    K_DIM = 7,
    V_DIM = 19,
    FIRST = 251, /* first visible key: its window crosses a panel and a block */
    QUERIES = 2,
    WINDOW = 12,
};

#define EPS   0x1.4f8b58p-17f
#define THIRD 0x1.555556p-2f
#define FIVE  5.0f

static bool equal(const float *got, const uint32_t *want, int n)
{
    return !memcmp(got, want, (size_t)n * sizeof *got);
}

static float pool_at(int i)
{
    float x;
    memcpy(&x, &pool[i % POOL], sizeof x);
    return x;
}

/* n numbers of the pool from `start` on, `step` apart: the inputs of every vector. */
static void fill(float *x, int n, int start, int step)
{
    for (int i = 0; i < n; i++)
        x[i] = pool_at(start + step * i);
}

static void fill_special(float x[N_SPECIAL])
{
    memcpy(x, special, N_SPECIAL * sizeof *x);
}

/* gate, up and gate times three: what most row vectors start from. */
struct rows {
    float gate[N], up[N], wide[N], y[2 * N];
};

static struct rows start_rows(const struct ls_kernels *k)
{
    struct rows r;
    fill(r.gate, N, 3, 7);
    fill(r.up, N, 11, 5);
    k->scale(r.wide, r.gate, 3.0f, N, LS_FMT_F32);
    return r;
}

static bool check_add_bias(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    k->add_bias(r.gate, r.up, N);
    return equal(r.gate, want_add_bias, N);
}

static bool check_round(const struct ls_kernels *k)
{
    static const uint32_t *const want[LS_N_FMT] = { want_round_f32, want_round_f16,
                                                    want_round_bf16 };
    float x[N_SPECIAL], y[N_SPECIAL];
    fill_special(x);
    bool ok = true;
    for (int d = 0; d < LS_N_FMT; d++) {
        k->round(y, x, N_SPECIAL, (enum ls_fmt)d);
        ok = ok && equal(y, want[d], N_SPECIAL);
    }
    return ok;
}

/* Products around 2^-126: what is tiny is decided after rounding. */
static bool check_scale(const struct ls_kernels *k)
{
    float tiny[4] = { 0x1.fff8p-64f, -0x1.fff8p-64f, 0x1.fffp-64f, 0x1p-63f };
    struct rows r = start_rows(k);
    k->scale(tiny, tiny, 0x1.0008p-63f, 4, LS_FMT_F32);
    k->scale(r.y, r.gate, THIRD, N, LS_FMT_BF16);
    return equal(tiny, want_tiny_product, 4) && equal(r.y, want_scale, N);
}

static bool check_residual(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    const float third = THIRD;
    memcpy(r.y, r.gate, sizeof r.gate);
    k->residual(r.y, r.up, NULL, N, LS_FMT_BF16);
    k->residual(r.gate, r.up, &third, N, LS_FMT_F16);
    return equal(r.y, want_residual, N) && equal(r.gate, want_residual_times, N);
}

static bool check_gated(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    float y[N];
    k->gated(r.y, r.wide, r.up, N, LS_ACT_SILU, LS_FMT_BF16);
    k->gated(y, r.gate, r.up, N, LS_ACT_GELU_TANH, LS_FMT_F32);
    return equal(r.y, want_silu, N) && equal(y, want_gelu, N);
}

static bool check_rmsnorm(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    float y[N];
    k->rmsnorm(r.y, r.gate, r.up, N, EPS, LS_NORM_W, LS_FMT_BF16);
    k->rmsnorm(y, r.gate, r.up, N, EPS, LS_NORM_ONE_PLUS_W, LS_FMT_F16);
    bool ok = equal(r.y, want_rmsnorm, N) && equal(y, want_rmsnorm_one_plus, N);
    k->rmsnorm(y, r.gate, r.up, N, EPS, LS_NORM_W_ONCE, LS_FMT_F32);
    return ok && equal(y, want_rmsnorm_once, N);
}

static bool check_layernorm(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    float bias[N];
    fill(bias, N, 29, 3);
    k->layernorm(r.y, r.gate, r.up, bias, N, EPS, LS_FMT_F32);
    return equal(r.y, want_layernorm, N);
}

static bool check_rope(const struct ls_kernels *k)
{
    float x[2 * N], y[2 * N], cosines[N], sines[N];
    fill(x, 2 * N, 17, 9);
    fill(y, 2 * N, 17, 9);
    fill(cosines, N, 5, 3);
    fill(sines, N, 8, 11);
    k->rope(x, cosines, sines, N, LS_ROPE_HALVES, LS_FMT_F32);
    k->rope(y, cosines, sines, N, LS_ROPE_NEIGHBOURS, LS_FMT_BF16);
    return equal(x, want_rope_halves, 2 * N) && equal(y, want_rope_neighbours, 2 * N);
}

static bool check_softcap(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    k->softcap(r.wide, N, FIVE);
    return equal(r.wide, want_softcap, N);
}

static bool check_accumulate(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    k->accumulate(r.gate, r.up, THIRD, N);
    return equal(r.gate, want_accumulate, N);
}

static bool check_gated_clamped(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    k->gated_clamped(r.y, r.wide, r.up, N, 1.75f, 2.5f, LS_FMT_BF16);
    return equal(r.y, want_gated_clamped, N);
}

static bool check_exp_below(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    float most = r.wide[0];
    for (int i = 1; i < N; i++)
        most = r.wide[i] > most ? r.wide[i] : most;
    k->exp_below(r.y, r.wide, most, N);
    return equal(r.y, want_exp_below, N);
}

static bool check_sigmoid(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    k->sigmoid(r.y, r.wide, N);
    return equal(r.y, want_sigmoid, N);
}

static bool check_sum_exp(const struct ls_kernels *k)
{
    struct rows r = start_rows(k);
    float most, zeros[3] = { -0.0f, 0.0f, -0.0f }, zero = 0.0f;
    double sum = k->sum_exp(r.wide, N, &most);
    bool ok = !memcmp(&sum, want_sum_exp, sizeof sum);
    k->sum_exp(zeros, 3, &most);
    return ok && !memcmp(&most, &zero, sizeof zero);
}

static bool check_widen(const struct ls_kernels *k)
{
    float x[N_SPECIAL], y[N_SPECIAL];
    uint16_t h[N_SPECIAL];
    fill_special(x);
    k->widen(y, x, N_SPECIAL, LS_FMT_F32);
    bool ok = equal(y, special, N_SPECIAL);
    for (int i = 0; i < N_SPECIAL; i++)
        h[i] = (uint16_t)special_f16[i];
    k->widen(y, h, N_SPECIAL, LS_FMT_F16);
    ok = ok && equal(y, want_round_f16, N_SPECIAL);
    for (int i = 0; i < N_SPECIAL; i++)
        h[i] = (uint16_t)special_bf16[i];
    k->widen(y, h, N_SPECIAL, LS_FMT_BF16);
    return ok && equal(y, want_round_bf16, N_SPECIAL);
}

static bool check_narrow(const struct ls_kernels *k)
{
    float x[N_SPECIAL], y[N_SPECIAL];
    uint16_t f16[N_SPECIAL], bf16[N_SPECIAL];
    bool ok = true;
    fill_special(x);
    k->narrow(y, x, N_SPECIAL, LS_FMT_F32);
    k->narrow(f16, x, N_SPECIAL, LS_FMT_F16);
    k->narrow(bf16, x, N_SPECIAL, LS_FMT_BF16);
    for (int i = 0; i < N_SPECIAL; i++)
        ok = ok && f16[i] == special_f16[i] && bf16[i] == special_bf16[i];
    return ok && equal(y, special, N_SPECIAL);
}

static bool check_canonical_nan(const struct ls_kernels *k)
{
    float x[N];
    uint32_t want[N];
    fill(x, N, 0, 1);
    memcpy(want, x, sizeof want);
    want[2] = want[N - 1] = 0x7fc00000u;
    const uint32_t odd[2] = { 0xffc12345u, 0x7f800001u };
    memcpy(x + 2, &odd[0], sizeof *x);
    memcpy(x + N - 1, &odd[1], sizeof *x);
    return k->canonical_nan(x, N) == 2 && equal(x, want, N);
}

/* --- matrix products -------------------------------------------------------------------------
 */

/* Rounded to `fmt` exactly: the pool's numbers are representable in every format. */
static void store(void *dst, const float *x, size_t n, enum ls_fmt fmt)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        uint32_t half = u >> 16;
        if (fmt == LS_FMT_F16) /* exponent from bias 127 to 15, seven bits of fraction to ten */
            half = (u >> 16 & 0x8000u) | ((u >> 23 & 0xffu) - 112u) << 10 | (u >> 13 & 0x3ffu);
        size_t bytes = ls_fmt_bytes(fmt);
        uint16_t word = (uint16_t)half;
        memcpy((char *)dst + i * bytes, fmt == LS_FMT_F32 ? (void *)&u : (void *)&word, bytes);
    }
}

struct product {
    float w[(OUTPUTS + 15) / 16 * 16 * (K + 1)] __attribute__((aligned(64))); /* packed */
    float raw[OUTPUTS * K], wide[OUTPUTS * K];
    float x[MAX_ROWS * (K + 1)], y[MAX_ROWS * 32];
};

/* Rows take turns between the two that the vectors know. */
static bool rows_agree(const struct product *p, int m)
{
    for (int r = 0; r < m; r++)
        if (!equal(p->y + r * 32, want_matmul + r % 2 * OUTPUTS, OUTPUTS))
            return false;
    return true;
}

static bool check_product(const struct ls_kernels *k, enum ls_fmt d, enum ls_fmt fmt)
{
    static const int some_rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 13, MAX_ROWS };
    struct product p;
    for (int n = 0; n < OUTPUTS; n++)
        fill(p.wide + n * K, K, 11 * n, 5);
    store(p.raw, p.wide, OUTPUTS * K, fmt);
    ls_pack(fmt, p.w, p.raw, K, OUTPUTS, K, 0, ls_tiles(OUTPUTS));
    for (int r = 0; r < MAX_ROWS; r++) {
        fill(p.x + r * (K + 1), K, 3 * (r % 2), 7);
        p.x[r * (K + 1) + K] = 0.0f;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof some_rows / sizeof *some_rows; i++) {
        memset(p.y, 0, sizeof p.y);
        k->matmul[d][fmt](p.y, 32, p.x, K + 1, p.w, some_rows[i], K, 0, (int)ls_tiles(OUTPUTS));
        ok = rows_agree(&p, some_rows[i]);
    }
    return ok;
}

/* 2^-126 - 2^-151 and its neighbours: one chain of two elements each. */
static bool check_tiny_product(const struct ls_kernels *k, enum ls_fmt d, enum ls_fmt fmt)
{
    const float w[3][2] = { { -0x1p-75f, 0x1p-63f },
                            { -0x1p-76f, 0x1p-63f },
                            { -0x1p-77f, 0x1p-63f } };
    float x[2] = { 0x1p-75f, 0x1p-63f }, raw[6], y[LS_TILE];
    float packed[2 * LS_TILE] __attribute__((aligned(64)));
    if (d == LS_FMT_F16 || fmt == LS_FMT_F16) /* not representable */
        return true;
    store(raw, &w[0][0], 6, fmt);
    ls_pack(fmt, packed, raw, 2, 3, 2, 0, 1);
    k->matmul[d][fmt](y, LS_TILE, x, 2, packed, 1, 2, 0, 1);
    return equal(y, want_tiny_matmul, 3);
}

static bool check_matmul(const struct ls_kernels *k)
{
    bool ok = true;
    for (int d = 0; d < LS_N_FMT; d++)
        for (int fmt = 0; ok && fmt < LS_N_FMT; fmt++)
            ok = check_product(k, (enum ls_fmt)d, (enum ls_fmt)fmt) &&
                 check_tiny_product(k, (enum ls_fmt)d, (enum ls_fmt)fmt);
    return ok;
}

/* --- attention -------------------------------------------------------------------------------
 */

enum { N_BLOCKS = (FIRST + WINDOW + QUERIES + LS_KV_BLOCK - 1) / LS_KV_BLOCK, N_USED = 2 };

struct scene {
    struct {
        char k[2 * (K_DIM + 1) * LS_TILE * 4], v[LS_KV_BLOCK * V_DIM * 4];
    } pool[N_USED];
    uint32_t blocks[N_BLOCKS];
    float q[QUERIES * K_DIM], o[QUERIES * V_DIM];
};

/* Everything unwritten is NaN; blocks before the window have no storage. */
static void write_keys(const struct ls_kernels *k, struct scene *s, enum ls_fmt d)
{
    float key[K_DIM], value[V_DIM];
    memset(s, 0xff, sizeof *s);
    for (int b = FIRST / LS_KV_BLOCK; b < N_BLOCKS; b++)
        s->blocks[b] = (uint32_t)(N_BLOCKS - 1 - b);
    for (int j = FIRST; j < FIRST + WINDOW + QUERIES; j++) {
        uint32_t id = s->blocks[j / LS_KV_BLOCK];
        fill(key, K_DIM, 5 * j, 3);
        fill(value, V_DIM, 7 * j, 2);
        k->kv_store(s->pool[id].k, s->pool[id].v, key, value, j % LS_KV_BLOCK, K_DIM, V_DIM, d);
    }
    for (int i = 0; i < QUERIES; i++)
        fill(s->q + i * K_DIM, K_DIM, 13 * i, 4);
}

static bool check_attention_in(const struct ls_kernels *k, enum ls_fmt d, const uint32_t *want)
{
    struct scene s;
    float scratch[4096] __attribute__((aligned(64)));
    const float sink = 0.5f;
    const int32_t first_visible[QUERIES] = { FIRST, FIRST + 1 };
    write_keys(k, &s, d);
    struct ls_attn a = { .q = s.q, .o = s.o, .ldq = K_DIM, .ldo = V_DIM };
    a.n_queries = QUERIES;
    a.n_group = 1;
    a.k_dim = K_DIM;
    a.v_dim = V_DIM;
    a.first_pos = FIRST + WINDOW;
    a.first_visible = first_visible;
    a.blocks = s.blocks;
    a.k_pool = s.pool[0].k;
    a.v_pool = s.pool[0].v;
    a.block_stride = sizeof s.pool[0];
    a.d = d;
    a.scale = 0.25f;
    a.softcap = d == LS_FMT_F16 ? 3.0f : 0.0f;
    a.sinks = d == LS_FMT_BF16 ? &sink : NULL;
    if (ls_attn_scratch_floats(WINDOW + 1) > sizeof scratch / sizeof *scratch)
        return false;
    k->attention(&a, scratch);
    return equal(s.o, want, QUERIES * V_DIM);
}

static bool check_attention(const struct ls_kernels *k)
{
    return check_attention_in(k, LS_FMT_F32, want_attention_f32) &&
           check_attention_in(k, LS_FMT_F16, want_attention_f16) &&
           check_attention_in(k, LS_FMT_BF16, want_attention_bf16);
}

static bool check_kv_store(const struct ls_kernels *k)
{
    float x[N], packed[LS_KV_BLOCK * (N + 1)], block[LS_KV_BLOCK * (N + 1)];
    float raw[LS_KV_BLOCK * N], want_v[LS_KV_BLOCK * N], v[LS_KV_BLOCK * N];
    bool ok = true;
    for (int f = 0; ok && f < LS_N_FMT; f++) {
        enum ls_fmt d = (enum ls_fmt)f;
        for (int slot = 0; slot < LS_KV_BLOCK; slot++) {
            fill(x, N, slot, 3);
            store((char *)raw + (size_t)(slot * N) * ls_fmt_bytes(d), x, N, d);
            k->kv_store(block, v, x, x, slot, N, N, d);
        }
        memcpy(want_v, raw, sizeof raw);
        ls_pack(d, packed, raw, N, LS_KV_BLOCK, N, 0, LS_KV_BLOCK / LS_TILE);
        ok = !memcmp(packed, block, ls_kv_k_bytes(d, N)) &&
             !memcmp(want_v, v, ls_kv_v_bytes(d, N));
    }
    return ok;
}

const char *ls_kernels_selftest(const struct ls_kernels *k)
{
    static const struct {
        const char *name;
        bool (*check)(const struct ls_kernels *k);
    } checks[] = {
        { "scale", check_scale }, /* first: the others take their inputs from it */
        { "matmul", check_matmul },
        { "add_bias", check_add_bias },
        { "round", check_round },
        { "residual", check_residual },
        { "gated", check_gated },
        { "rmsnorm", check_rmsnorm },
        { "layernorm", check_layernorm },
        { "rope", check_rope },
        { "softcap", check_softcap },
        { "widen", check_widen },
        { "narrow", check_narrow },
        { "kv_store", check_kv_store },
        { "attention", check_attention },
        { "accumulate", check_accumulate },
        { "gated_clamped", check_gated_clamped },
        { "exp_below", check_exp_below },
        { "sigmoid", check_sigmoid },
        { "sum_exp", check_sum_exp },
        { "canonical_nan", check_canonical_nan },
    };
    if (!ls_fp_is_flushing())
        return "flush to zero";
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i].check(k))
            return checks[i].name;
    return NULL;
}
