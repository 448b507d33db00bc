/* The kernels that work on rows: rounding, norms, activations, rope, conversions, log-sum-exp.
 * Layer: kernels, internal; included after wide/math.h. Sums are kept in sixteen lanes by
 * index, exactly one register's worth. */
#ifndef LS_KERNELS_WIDE_ROWS_H
#define LS_KERNELS_WIDE_ROWS_H

static void add_bias(float *y, const float *bias, int n)
{
    for (int i = 0; i < n; i += LS_TILE)
        v_put(y + i, v_add(v_get(y + i, n - i), v_get(bias + i, n - i)), n - i);
}

static void round_row(float *y, const float *acc, int n, enum ls_fmt d)
{
    for (int i = 0; i < n; i += LS_TILE)
        v_put(y + i, v_round(v_get(acc + i, n - i), d), n - i);
}

static void scale_row(float *y, const float *x, float s, int n, enum ls_fmt d)
{
    struct v16 factor = v_set1(s);
    for (int i = 0; i < n; i += LS_TILE)
        v_put(y + i, v_round(v_mul(v_get(x + i, n - i), factor), d), n - i);
}

static void residual(float *h, const float *acc, const float *multiplier, int n, enum ls_fmt d)
{
    struct v16 factor = multiplier ? v_set1(*multiplier) : v_zero();
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 branch = v_get(acc + i, n - i);
        if (multiplier)
            branch = v_mul(branch, factor);
        v_put(h + i, v_round(v_add(v_get(h + i, n - i), branch), d), n - i);
    }
}

static void gated(float *y, const float *gate, const float *up, int n, enum ls_act act,
                  enum ls_fmt d)
{
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 g = v_get(gate + i, n - i);
        g = act == LS_ACT_SILU ? v_silu(g) : v_gelu_tanh(g);
        v_put(y + i, v_round(v_mul(g, v_get(up + i, n - i)), d), n - i);
    }
}

/* 1 / sqrt(squares / n + eps) in every lane. */
static struct v16 inverse_root(float squares, int n, float eps)
{
    __m128 v = _mm_set_ss(squares / (float)n + eps);
    return v_set1(_mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1.0f), _mm_sqrt_ss(v))));
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps,
                    enum ls_norm_weight kind, enum ls_fmt d)
{
    struct v16 squares = v_zero(), one = v_set1(1.0f);
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 v = v_get(x + i, n - i); /* a missing lane adds +0 to a sum that is not -0 */
        squares = v_fma(v, v, squares);
    }
    struct v16 r = inverse_root(v_sum(squares), n, eps);
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 v = v_mul(v_get(x + i, n - i), r);
        if (w && kind == LS_NORM_W)
            v = v_mul(v_round(v, d), v_get(w + i, n - i));
        else if (w && kind == LS_NORM_W_ONCE)
            v = v_mul(v, v_get(w + i, n - i));
        else if (w)
            v = v_mul(v, v_add(one, v_get(w + i, n - i)));
        v_put(y + i, v_round(v, d), n - i);
    }
}

static void layernorm(float *y, const float *x, const float *w, const float *b, int n,
                      float eps, enum ls_fmt d)
{
    struct v16 sum = v_zero(), squares = v_zero();
    for (int i = 0; i < n; i += LS_TILE)
        sum = v_add(sum, v_get(x + i, n - i));
    struct v16 mean = v_set1(v_sum(sum) / (float)n);
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 v = v_sub(v_get(x + i, n - i), mean);
        if (n - i < LS_TILE)
            v = v_keep(v, 0, n - i, v_zero());
        squares = v_fma(v, v, squares);
    }
    struct v16 r = inverse_root(v_sum(squares), n, eps);
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 v = v_mul(v_sub(v_get(x + i, n - i), mean), r);
        if (w)
            v = v_mul(v, v_get(w + i, n - i));
        if (b)
            v = v_add(v, v_get(b + i, n - i));
        v_put(y + i, v_round(v, d), n - i);
    }
}

/* Turns sixteen pairs (a, b) or the first n of them. */
LANES void turn(float *a, float *b, const float *cosines, const float *sines, int n,
                enum ls_fmt d)
{
    struct v16 x = v_get(a, n), y = v_get(b, n), c = v_get(cosines, n), s = v_get(sines, n);
    v_put(a, v_round(v_fms(x, c, v_mul(y, s)), d), n);
    v_put(b, v_round(v_fma(y, c, v_mul(x, s)), d), n);
}

static void rope(float *x, const float *cosines, const float *sines, int n_pairs,
                 enum ls_rope_pairs pairs, enum ls_fmt d)
{
    for (int i = 0; i < n_pairs; i += LS_TILE) {
        int n = n_pairs - i < LS_TILE ? n_pairs - i : LS_TILE;
        float a[LS_TILE], b[LS_TILE];
        if (pairs == LS_ROPE_HALVES) {
            turn(x + i, x + n_pairs + i, cosines + i, sines + i, n, d);
            continue;
        }
        for (int p = 0; p < n; p++) {
            a[p] = x[2 * (i + p)];
            b[p] = x[2 * (i + p) + 1];
        }
        turn(a, b, cosines + i, sines + i, n, d);
        for (int p = 0; p < n; p++) {
            x[2 * (i + p)] = a[p];
            x[2 * (i + p) + 1] = b[p];
        }
    }
}

static void softcap(float *x, int n, float cap)
{
    struct v16 c = v_set1(cap);
    for (int i = 0; i < n; i += LS_TILE)
        v_put(x + i, v_softcap(v_get(x + i, n - i), c), n - i);
}

static void widen(float *dst, const void *src, int n, enum ls_fmt fmt)
{
    size_t bytes = ls_fmt_bytes(fmt);
    for (int i = 0; i < n; i += LS_TILE) {
        const char *p = (const char *)src + (size_t)i * bytes;
        char rest[LS_TILE * 4] = { 0 };
        if (n - i < LS_TILE)
            p = memcpy(rest, p, (size_t)(n - i) * bytes);
        v_put(dst + i, v_widen(fmt, p), n - i);
    }
}

static void narrow(void *dst, const float *src, int n, enum ls_fmt fmt)
{
    size_t bytes = ls_fmt_bytes(fmt);
    for (int i = 0; i < n; i += LS_TILE) {
        char *p = (char *)dst + (size_t)i * bytes, rest[LS_TILE * 4];
        bool whole = n - i >= LS_TILE;
        v_narrow(fmt, whole ? p : rest, v_get(src + i, n - i));
        if (!whole)
            memcpy(p, rest, (size_t)(n - i) * bytes);
    }
}

/* One position's key: its pairs lie 64 or 128 bytes apart in the tile. */
static void store_key(char *tile, int lane, const float *k, int k_dim, enum ls_fmt d)
{
    enum { WORD = sizeof(uint32_t), HALF = sizeof(uint16_t) };
    char *at = tile + lane * (d == LS_FMT_F16 ? HALF : WORD);
    for (int i = 0; i < k_dim; i += LS_TILE) {
        char row[LS_TILE * WORD] = { 0 };
        v_narrow(d, row, v_get(k + i, k_dim - i)); /* an odd end is completed by +0 */
        int n = k_dim - i < LS_TILE ? (k_dim - i + 1) / 2 : LS_TILE / 2;
        for (int p = 0; p < n; p++) {
            if (d == LS_FMT_BF16) {
                memcpy(at, row + p * WORD, WORD);
            } else if (d == LS_FMT_F16) {
                memcpy(at, row + p * WORD, HALF);
                memcpy(at + LS_TILE * HALF, row + p * WORD + HALF, HALF);
            } else {
                memcpy(at, row + 2 * p * WORD, WORD);
                memcpy(at + LS_TILE * WORD, row + (2 * p + 1) * WORD, WORD);
            }
            at += d == LS_FMT_F32 ? 2 * LS_TILE * WORD : LS_TILE * WORD;
        }
    }
}

static void kv_store(void *k_block, void *v_block, const float *k, const float *v, int slot,
                     int k_dim, int v_dim, enum ls_fmt d)
{
    char *tile =
        (char *)k_block + (size_t)(slot / LS_TILE) * ls_packed_bytes(d, LS_TILE, (size_t)k_dim);
    store_key(tile, slot % LS_TILE, k, k_dim, d);
    narrow((char *)v_block + (size_t)slot * (size_t)v_dim * ls_fmt_bytes(d), v, v_dim, d);
}

/* Numbers as integers in the order of the maximum, +0 above -0. */
LANES __m256i in_order(__m256 a)
{
    __m256i u = _mm256_castps_si256(a), sign = _mm256_srai_epi32(u, 31);
    return _mm256_xor_si256(u, _mm256_srli_epi32(sign, 1));
}

static float greatest_of(__m256i order, bool any_nan)
{
    int32_t lane[8], most = INT32_MIN;
    float m;
    _mm256_storeu_si256((__m256i *)lane, order);
    for (int i = 0; i < 8; i++)
        most = lane[i] > most ? lane[i] : most;
    most = most < 0 ? most ^ 0x7fffffff : most;
    most = any_nan ? 0x7fc00000 : most;
    memcpy(&m, &most, sizeof m);
    return m;
}

/* The maximum that carries NaN and takes +0 above -0. */
static float row_max(const float *x, int n)
{
    __m256i most = _mm256_set1_epi32(INT32_MIN);
    unsigned nan = 0;
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 v = v_get(x + i, n - i);
        if (n - i < LS_TILE)
            v = v_keep(v, 0, n - i, v_set1(x[i]));
        nan |= v_nan_lanes(v);
        most = _mm256_max_epi32(
            most, _mm256_max_epi32(in_order(v_low_half(v)), in_order(v_high_half(v))));
    }
    return greatest_of(most, nan != 0);
}

/* Sixteen double lanes as four registers. */
static void add_wide(__m256d lane[4], struct v16 p)
{
    __m256 lo = v_low_half(p), hi = v_high_half(p);
    lane[0] = _mm256_add_pd(lane[0], _mm256_cvtps_pd(_mm256_castps256_ps128(lo)));
    lane[1] = _mm256_add_pd(lane[1], _mm256_cvtps_pd(_mm256_extractf128_ps(lo, 1)));
    lane[2] = _mm256_add_pd(lane[2], _mm256_cvtps_pd(_mm256_castps256_ps128(hi)));
    lane[3] = _mm256_add_pd(lane[3], _mm256_cvtps_pd(_mm256_extractf128_ps(hi, 1)));
}

static double sum_exp(const float *x, int n, float *max)
{
    __m256d lane[4] = { _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                        _mm256_setzero_pd() };
    struct v16 m = v_set1(*max = row_max(x, n));
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 p = v_exp(v_sub(v_get(x + i, n - i), m));
        if (n - i < LS_TILE)
            p = v_keep(p, 0, n - i, v_zero());
        add_wide(lane, p);
    }
    __m256d four =
        _mm256_add_pd(_mm256_add_pd(lane[0], lane[2]), _mm256_add_pd(lane[1], lane[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static int canonical_nan(float *x, int n)
{
    int n_nan = 0;
    for (int i = 0; i < n; i += LS_TILE) {
        unsigned nan = v_nan_lanes(v_get(x + i, n - i));
        n_nan += __builtin_popcount(nan);
        for (; nan; nan &= nan - 1u) {
            const uint32_t canonical = 0x7fc00000u;
            memcpy(x + i + __builtin_ctz(nan), &canonical, sizeof canonical);
        }
    }
    return n_nan;
}

#endif
