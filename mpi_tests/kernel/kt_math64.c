/* The binary64 functions against long double, over the ranges that rope tables and
 * log-probabilities use: relative error (absolute for sine and cosine) below 2^-45, and the
 * same bits whether the thread flushes or not. */
#include "kt.h"

#include "kernels/math64.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *name;
    long double worst;
} seen[5] = { { "log", 0 }, { "exp", 0 }, { "pow", 0 }, { "sine", 0 }, { "cosine", 0 } };

static void note(int which, double got, long double exact, long double unit)
{
    long double error = fabsl((long double)got - exact) / unit;
    if (!(error <= seen[which].worst))
        seen[which].worst = error;
}

static double uniform(double lo, double hi)
{
    return lo + (hi - lo) * (double)(kt_bits() >> 11) * 0x1p-53;
}

/* Both states of the thread: the arguments of every function, its result twice. */
static void one_round(void)
{
    double x = exp(uniform(-700, 700)), y = uniform(-700, 700), base = exp(uniform(0, 20));
    double power = -uniform(0, 1), out[2][6];
    float angle = (float)(uniform(-1, 1) * exp2(uniform(-30, 27)));
    if (kt_int(0, 3) == 0)
        x = 1.0 + uniform(-1, 1) * exp2(uniform(-40, -2));
    for (int flushing = 0; flushing < 2; flushing++) {
        double *o = out[flushing];
        unsigned saved = ls_fp_enter();
        if (!flushing)
            ls_fp_leave(0x1f80);
        o[0] = ls_log64(x);
        o[1] = ls_exp64(y);
        o[2] = ls_pow64(base, power);
        ls_sincos64(angle, &o[3], &o[4]);
        o[5] = ls_log_prob((float)-fabs(y), 0.0f, 1.0 + fabs(power));
        ls_fp_leave(saved);
    }
    kt_check(!memcmp(out[0], out[1], sizeof out[0]), "math64: flushing changes a result");
    note(0, out[0][0], logl(x), x == 1.0 ? 1.0L : fabsl(logl(x)));
    note(1, out[0][1], expl(y), expl(y));
    note(2, out[0][2], powl(base, power), powl(base, power));
    note(3, out[0][3], sinl(angle), 1.0L);
    note(4, out[0][4], cosl(angle), 1.0L);
}

/* Hard angles: floats next to multiples of pi/2, all quadrants; and the ends. */
static void hard_cases(void)
{
    double s, c;
    for (int i = 0; i < 200000; i++) {
        float angle = (float)((double)kt_int(0, 85000000) * 1.57079632679489661923);
        ls_sincos64(angle, &s, &c);
        note(3, s, sinl(angle), 1.0L);
        note(4, c, cosl(angle), 1.0L);
    }
    ls_sincos64(0.0f, &s, &c);
    kt_check(s == 0.0 && c == 1.0, "sine and cosine of 0");
    ls_sincos64(-0x1p-149f, &s, &c);
    kt_check(s == 0.0 && c == 1.0, "a denormal angle is a zero");
    kt_check(ls_log64(1.0) == 0.0 && ls_exp64(0.0) == 1.0, "log 1 and exp 0 are exact");
    kt_check(ls_pow64(10000.0, 0.0) == 1.0, "x^0 is exact");
    kt_check(isnan(ls_log64(NAN)) && isnan(ls_log64(-1.0)), "log of NaN and of -1");
    kt_check(ls_log64(INFINITY) == INFINITY && ls_log64(0.0) == -INFINITY, "log at its ends");
    kt_check(isnan(ls_log_prob(1.0f, NAN, (double)NAN)), "NaN logits: a NaN probability");
}

int main(int argc, char **argv)
{
    kt_start("kt_math64", argc, argv);
    for (int i = 0; i < (kt_is_long() ? 20000000 : 300000); i++)
        one_round();
    hard_cases();
    for (int i = 0; i < 5; i++) {
        printf("  %-6s worst 2^%.2f\n", seen[i].name, log2((double)seen[i].worst));
        kt_check(seen[i].worst < 0x1p-45L, "%s: 2^%.2f", seen[i].name,
                 log2((double)seen[i].worst));
    }
    return kt_finish();
}
