#include "parity/gap.h"

#include "base/size.h"
#include "parity/element.h"

#include <math.h>
#include <string.h>

uint64_t ls_gap_columns(const struct ls_tensor *t)
{
    uint64_t n = 1;
    for (int d = 1; d < t->n_dims; d++)
        n *= t->dims[d];
    return n;
}

static uint64_t rows_of(const struct ls_tensor *t)
{
    return t->n_dims ? t->dims[0] : 1;
}

bool ls_gap_same_shape(const struct ls_tensor *a, const struct ls_tensor *b)
{
    return rows_of(a) == rows_of(b) && ls_gap_columns(a) == ls_gap_columns(b);
}

/* --- units in the last place -----------------------------------------------------------------
 */

/* Place of x among the numbers of d that are not negative; false when it is none of them. */
static bool order_of(float x, enum ls_fmt d, int64_t *order)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7fffffff;
    const double scaled = ldexp(fabs((double)x), 24);
    if (d == LS_FMT_BF16) {
        *order = bits >> 16;
        return !(bits & 0xffff);
    }
    *order = bits;
    if (d == LS_FMT_F32)
        return true;
    if (fabs((double)x) < 0x1p-14) { /* subnormal halves */
        *order = (int64_t)scaled;
        return scaled == floor(scaled);
    }
    *order = (int64_t)(bits >> 13) - ((127 - 15) << 10);
    return !(bits & 0x1fff) && fabs((double)x) <= 65504;
}

bool ls_gap_ulps(float x, float y, enum ls_fmt d, uint64_t *ulps)
{
    int64_t a, b;
    if (!order_of(x, d, &a) || !order_of(y, d, &b))
        return false;
    a = signbit(x) ? -a : a;
    b = signbit(y) ? -b : b;
    *ulps = a > b ? (uint64_t)(a - b) : (uint64_t)(b - a);
    return true;
}

/* --- rows ------------------------------------------------------------------------------------
 */

/* The pair in hand. */
struct pair {
    const struct ls_tensor *a, *b;
    uint64_t columns_a, columns_b;
    enum ls_fmt d;
    double squares_a, squares; /* of a's values, and of the differences */
};

static void take_first(struct ls_gap *gap, const struct pair *p, double a, double b)
{
    gap->a = a;
    gap->b = b;
    gap->ulp_of = p->d;
    gap->has_ulps = isfinite(a) && isfinite(b) && (float)a == a && (float)b == b;
    if (gap->has_ulps && !ls_gap_ulps((float)a, (float)b, p->d, &gap->ulps)) {
        gap->ulp_of = LS_FMT_F32;
        ls_gap_ulps((float)a, (float)b, LS_FMT_F32, &gap->ulps);
    }
}

static bool same(const struct pair *p, uint64_t i, uint64_t j, double a, double b)
{
    if (p->a->dtype == LS_DTYPE_F32 && p->b->dtype == LS_DTYPE_F32)
        return !memcmp(p->a->data + 4 * i, p->b->data + 4 * j, 4);
    return a == b || (isnan(a) && isnan(b));
}

static void measure(struct ls_gap *gap, struct pair *p, uint64_t row, uint64_t column)
{
    const uint64_t i = row * p->columns_a + column, j = row * p->columns_b + column;
    const double a = ls_element_value(p->a->data, p->a->dtype, i);
    const double b = ls_element_value(p->b->data, p->b->dtype, j);
    gap->n++;
    if (isfinite(a))
        p->squares_a += a * a;
    if (same(p, i, j, a, b))
        return;
    if (!gap->n_different++) {
        gap->row = row;
        gap->column = column;
        take_first(gap, p, a, b);
    }
    if (!isfinite(a) || !isfinite(b)) {
        gap->n_unmeasured++;
        return;
    }
    gap->max_abs = fmax(gap->max_abs, fabs(a - b));
    p->squares += (a - b) * (a - b);
}

void ls_gap_measure(struct ls_gap *gap, const struct ls_tensor *a, const struct ls_tensor *b,
                    uint64_t rows, enum ls_fmt d)
{
    struct pair p = {
        .a = a, .b = b, .columns_a = ls_gap_columns(a), .columns_b = ls_gap_columns(b), .d = d
    };
    const uint64_t columns = ls_min_u64(p.columns_a, p.columns_b);
    rows = ls_min_u64(rows, ls_min_u64(rows_of(a), rows_of(b)));
    *gap = (struct ls_gap){ .n = 0 };
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            measure(gap, &p, r, c);
    if (!gap->n)
        return;
    gap->rms = sqrt(p.squares / (double)gap->n);
    gap->relative = p.squares_a > 0 ? sqrt(p.squares / p.squares_a) : 0;
}
