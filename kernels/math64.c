#include "kernels/math64.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A number as an unevaluated sum, |lo| <= ulp(hi) / 2. */
struct pair {
    double hi, lo;
};

#define LN2_HI 0x1.62e42fefa39efp-1
#define LN2_LO 0x1.abc9e3b39803fp-56
#define SQRT2  0x1.6a09e667f3bcdp+0
/* pi / 2 in three parts of 53 bits each */
#define PI_2_A 0x1.921fb54442d18p+0
#define PI_2_B 0x1.1a62633145c07p-54
#define MAGIC  0x1.8p+52 /* adding it rounds to an integer */

static double fma64(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

static struct pair two_sum(double a, double b)
{
    double hi = a + b, from_b = hi - a;
    return (struct pair){ hi, (a - (hi - from_b)) + (b - from_b) };
}

static struct pair two_product(double a, double b)
{
    double hi = a * b;
    return (struct pair){ hi, fma64(a, b, -hi) };
}

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* c[0] + c[1] z + ... */
static double polynomial(const double *c, int n, double z)
{
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        p = fma64(p, z, c[i]);
    return p;
}

/* x = m 2^e with m in [sqrt(1/2), sqrt 2), by bits, so that denormals need no arithmetic. */
static double split(double x, int *e)
{
    uint64_t u = bits_of(x);
    int shift = u >> 52 ? 0 : __builtin_clzll(u) - 11;
    *e = (int)(u >> 52) - 1023 + (u >> 52 ? 0 : 1) - shift;
    double m = double_of((u << shift & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m < SQRT2)
        return m;
    ++*e;
    return 0.5 * m;
}

/* log of a positive finite number: with s = (m - 1) / (m + 1), log m = 2 (s + s^3/3 + ...). */
static struct pair log_pair(double x)
{
    static const double odd[] = {
        /* 1/3, 1/5, ... */
        0x1.5555555555555p-2, 0x1.999999999999ap-3, 0x1.2492492492492p-3, 0x1.c71c71c71c71cp-4,
        0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4, 0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5,
        0x1.af286bca1af28p-5, 0x1.8618618618618p-5, 0x1.642c8590b2164p-5
    };
    int e;
    double m = split(x, &e);
    double numerator = m - 1.0; /* exact: m is within a factor of two of 1 */
    struct pair denominator = two_sum(m, 1.0);
    double s = numerator / denominator.hi;
    double rest = fma64(-s, denominator.hi, numerator) - s * denominator.lo;
    double s_lo = rest / denominator.hi;
    double z = s * s;
    double tail = s * (z * polynomial(odd, sizeof odd / sizeof odd[0], z)) + s_lo;
    struct pair scaled = two_product(e, LN2_HI);
    struct pair sum = two_sum(scaled.hi, 2.0 * s);
    double lo = sum.lo + (scaled.lo + (double)e * LN2_LO);
    struct pair all = two_sum(sum.hi, 2.0 * tail);
    return two_sum(all.hi, all.lo + lo);
}

double ls_log64(double x)
{
    if (!(bits_of(x) >> 63) && bits_of(x) < 0x7ff0000000000000u && bits_of(x))
        return log_pair(x).hi;
    if (bits_of(x) << 1 == 0)
        return -INFINITY;
    return bits_of(x) == 0x7ff0000000000000u ? x : NAN;
}

/* exp(x.hi + x.lo): n = rint(x / ln 2), then the power series of the rest, |r| <= 0.35. */
static double exp_pair(struct pair x)
{
    static const double inverse_factorial[] = { 1.0,
                                                1.0,
                                                0.5,
                                                1.66666666666666666667e-1,
                                                4.16666666666666666667e-2,
                                                8.33333333333333333333e-3,
                                                1.38888888888888888889e-3,
                                                1.98412698412698412698e-4,
                                                2.48015873015873015873e-5,
                                                2.75573192239858906526e-6,
                                                2.75573192239858906526e-7,
                                                2.50521083854417187751e-8,
                                                2.08767569878680989792e-9,
                                                1.60590438368216145994e-10,
                                                1.14707455977297247139e-11,
                                                7.64716373181981647590e-13 };
    if (!(x.hi > -708.0)) /* a NaN comes back as itself */
        return x.hi < 0.0 ? 0.0 : x.hi;
    if (x.hi > 709.0)
        return INFINITY;
    double n = fma64(x.hi, 0x1.71547652b82fep+0, MAGIC) - MAGIC;
    double r = fma64(-n, LN2_HI, x.hi);
    double r_lo = fma64(-n, LN2_LO, x.lo);
    struct pair all = two_sum(r, r_lo);
    double p = polynomial(inverse_factorial + 2, 14, all.hi);
    p = 1.0 + (all.hi + fma64(all.hi * all.hi, p, all.lo));
    return p * double_of((uint64_t)((int64_t)n + 1023) << 52);
}

double ls_exp64(double x)
{
    return exp_pair((struct pair){ x, 0.0 });
}

double ls_pow64(double x, double y)
{
    struct pair l = log_pair(x), product = two_product(y, l.hi);
    product.lo = fma64(y, l.lo, product.lo);
    return exp_pair(product);
}

static double sine(double r, double r_lo)
{
    static const double c[] = { -1.66666666666666666667e-1,  8.33333333333333333333e-3,
                                -1.98412698412698412698e-4,  2.75573192239858906526e-6,
                                -2.50521083854417187751e-8,  1.60590438368216145994e-10,
                                -7.64716373181981647590e-13, 2.81145725434552076320e-15 };
    double z = r * r;
    return r + fma64(r * z, polynomial(c, 8, z), r_lo);
}

static double cosine(double r, double r_lo)
{
    static const double c[] = { 4.16666666666666666667e-2, -1.38888888888888888889e-3,
                                2.48015873015873015873e-5, -2.75573192239858906526e-7,
                                2.08767569878680989792e-9, -1.14707455977297247139e-11,
                                4.77947733238738529744e-14 };
    double z = r * r;
    return 1.0 - (0.5 * z - fma64(z * z, polynomial(c, 7, z), -(r * r_lo)));
}

void ls_sincos64(float angle, double *sin_out, double *cos_out)
{
    uint32_t u;
    memcpy(&u, &angle, sizeof u);
    double a = (u & 0x7f800000u) ? (double)angle : 0.0; /* a denormal may be flushed or not */
    double n = fma64(a, 0x1.45f306dc9c883p-1, MAGIC) - MAGIC;
    double r = fma64(-n, PI_2_A, a); /* exact: both are multiples of 2^-52, the result < 1 */
    struct pair rest = two_sum(r, -(n * PI_2_B));
    double s = sine(rest.hi, rest.lo), c = cosine(rest.hi, rest.lo);
    switch ((int64_t)n & 3) {
    case 0:
        *sin_out = s;
        *cos_out = c;
        break;
    case 1:
        *sin_out = c;
        *cos_out = -s;
        break;
    case 2:
        *sin_out = -s;
        *cos_out = -c;
        break;
    default:
        *sin_out = -c;
        *cos_out = s;
    }
}
