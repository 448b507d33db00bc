/* The kernels of mixtures of experts: weighted sums, the clamped gate, a router's scores.
 * Layer: kernels, internal; included after wide/math.h. */
#ifndef LS_KERNELS_WIDE_EXPERTS_H
#define LS_KERNELS_WIDE_EXPERTS_H

static void accumulate(float *acc, const float *y, float w, int n)
{
    struct v16 weight = v_set1(w);
    for (int i = 0; i < n; i += LS_TILE)
        v_put(acc + i, v_fma(weight, v_get(y + i, n - i), v_get(acc + i, n - i)), n - i);
}

static void gated_clamped(float *y, const float *gate, const float *up, int n, float alpha,
                          float limit, enum ls_fmt d)
{
    struct v16 high = v_set1(limit), low = v_set1(-limit), one = v_set1(1.0f);
    for (int i = 0; i < n; i += LS_TILE) {
        struct v16 g = v_get(gate + i, n - i), u = v_get(up + i, n - i);
        g = v_if_less(high, g, high, g); /* NaN passes */
        u = v_if_less(high, u, high, u);
        u = v_if_less(u, low, low, u);
        struct v16 glu = v_mul(g, v_sigmoid(v_mul(g, v_set1(alpha))));
        v_put(y + i, v_round(v_mul(v_add(u, one), glu), d), n - i);
    }
}

static void exp_below(float *y, const float *x, float max, int n)
{
    struct v16 m = v_set1(max);
    for (int i = 0; i < n; i += LS_TILE)
        v_put(y + i, v_exp(v_sub(v_get(x + i, n - i), m)), n - i);
}

static void sigmoid(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LS_TILE)
        v_put(y + i, v_sigmoid(v_get(x + i, n - i)), n - i);
}

#endif
