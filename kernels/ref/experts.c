#include "kernels/ref/ref.h"

#include "kernels/ref/scalar.h"

void ls_ref_accumulate(float *acc, const float *y, float w, int n)
{
    for (int i = 0; i < n; i++)
        acc[i] = fma32(w, y[i], acc[i]);
}

/* A comparison with NaN is false, so NaN passes both clamps. */
void ls_ref_gated_clamped(float *y, const float *gate, const float *up, int n, float alpha,
                          float limit, enum ls_fmt d)
{
    for (int i = 0; i < n; i++) {
        float g = limit < gate[i] ? limit : gate[i];
        float u = limit < up[i] ? limit : up[i];
        u = u < -limit ? -limit : u;
        y[i] = rounded((u + 1.0f) * (g * sigmoid32(g * alpha)), d);
    }
}

void ls_ref_exp_below(float *y, const float *x, float max, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = exp32(x[i] - max);
}

void ls_ref_sigmoid(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = sigmoid32(x[i]);
}
