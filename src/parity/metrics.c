#include "parity/metrics.h"

#include "parity/element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- sums ------------------------------------------------------------------------------------
 */

static void add(struct ls_sum *s, double x)
{
    const double sum = s->sum + x;
    s->lost += fabs(s->sum) >= fabs(x) ? (s->sum - sum) + x : (x - sum) + s->sum;
    s->sum = sum;
}

double ls_sum_value(const struct ls_sum *s)
{
    return s->sum + s->lost;
}

static void add_pair(struct ls_pairs *p, double x, double y)
{
    const double n = (double)++p->n, d = y - x;
    const double off_x = x - p->mean_x, off_y = y - p->mean_y, off_d = d - p->mean_d;
    p->mean_x += off_x / n;
    p->mean_y += off_y / n;
    p->mean_d += off_d / n;
    p->yy += off_y * (y - p->mean_y);
    p->dd += off_d * (d - p->mean_d);
    p->dy += off_d * (y - p->mean_y);
}

/* --- elements --------------------------------------------------------------------------------
 */

static int ulp_bin(uint64_t ulps)
{
    int bin = 0;
    while (bin + 1 < LS_ULP_BINS && ulps > (bin ? (uint64_t)1 << (bin - 1) : 0))
        bin++;
    return bin;
}

static void take_first(struct ls_metrics *m, const struct ls_row_pair *row, size_t i)
{
    if (m->has_first)
        return;
    m->has_first = true;
    m->first_entry = row->entry;
    m->first_position = row->position;
    m->first_element = i;
    m->first_reference = row->reference[i];
    m->first_arm = row->arm[i];
}

static void measure_element(struct ls_metrics *m, const struct ls_row_pair *row, size_t i)
{
    const float x = row->reference[i], y = row->arm[i];
    if (memcmp(&x, &y, sizeof x) != 0) {
        m->n_different++;
        take_first(m, row, i);
    }
    if (!isfinite(x) || !isfinite(y))
        return;
    const double d = (double)y - (double)x;
    const uint64_t ulps = ls_element_ulps(&x, &y, LS_DTYPE_F32, 0);
    m->n_measured++;
    m->max_abs = fmax(m->max_abs, fabs(d));
    add(&m->squares, d * d);
    m->ulps[ulp_bin(ulps)]++;
    if (ulps > m->max_ulp)
        m->max_ulp = ulps;
}

static void measure_equal(struct ls_metrics *m, const struct ls_row_pair *row)
{
    uint64_t finite = 0;
    for (size_t i = 0; i < row->n; i++)
        finite += isfinite(row->reference[i]) != 0;
    m->n_measured += finite;
    m->ulps[0] += finite;
}

/* --- distributions ---------------------------------------------------------------------------
 */

/* False for a row that is no distribution: NaN, +inf, or nothing but -inf. */
static bool log_sum_exp(double *out, const float *z, size_t n)
{
    double max = -(double)INFINITY;
    struct ls_sum sum = { 0 };
    for (size_t i = 0; i < n; i++) {
        if (isnan(z[i]))
            return false;
        max = fmax(max, (double)z[i]);
    }
    if (!isfinite(max))
        return false;
    for (size_t i = 0; i < n; i++)
        add(&sum, exp((double)z[i] - max));
    *out = max + log(ls_sum_value(&sum));
    return true;
}

static double divergence(const struct ls_row_pair *row, double lse_x, double lse_y)
{
    struct ls_sum sum = { 0 };
    for (size_t i = 0; i < row->n; i++) {
        const double log_p = (double)row->reference[i] - lse_x;
        const double log_q = (double)row->arm[i] - lse_y;
        const double p = exp(log_p);
        if (p > 0 && isinf(log_q))
            return (double)INFINITY;
        if (p > 0)
            add(&sum, p * (log_p - log_q));
    }
    return ls_sum_value(&sum);
}

/* Ids of the largest logits, largest first, the lower id first of equal ones. */
static int top_of(int32_t ids[LS_TOP], const float *z, size_t n)
{
    int k = 0;
    for (size_t i = 0; i < n; i++) {
        int at = k;
        while (at > 0 && z[i] > z[ids[at - 1]])
            at--;
        if (at == LS_TOP)
            continue;
        if (k < LS_TOP)
            k++;
        for (int j = k - 1; j > at; j--)
            ids[j] = ids[j - 1];
        ids[at] = (int32_t)i;
    }
    return k;
}

static void keep_flip(struct ls_metrics *m, const struct ls_flip *flip)
{
    size_t n = m->n_flips < LS_FLIPS_KEPT ? m->n_flips : LS_FLIPS_KEPT, at = n;
    m->n_flips++;
    while (at > 0 && flip->reference_margin > m->flips[at - 1].reference_margin)
        at--;
    if (at == LS_FLIPS_KEPT)
        return;
    if (n < LS_FLIPS_KEPT)
        n++;
    memmove(&m->flips[at + 1], &m->flips[at], (n - 1 - at) * sizeof *flip);
    m->flips[at] = *flip;
}

static void rank(struct ls_metrics *m, const struct ls_row_pair *row)
{
    int32_t x[LS_TOP], y[LS_TOP];
    const int k = top_of(x, row->reference, row->n);
    top_of(y, row->arm, row->n);
    m->n_ranked++;
    m->n_top5_of += (uint64_t)k;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            m->n_top5 += x[i] == y[j];
    if (x[0] == y[0]) {
        m->n_top1++;
        return;
    }
    const float *const r = row->reference, *const a = row->arm;
    keep_flip(m, &(struct ls_flip){ .entry = row->entry,
                                    .position = row->position,
                                    .reference = x[0],
                                    .arm = y[0],
                                    .reference_margin = (double)r[x[0]] - (double)r[y[0]],
                                    .arm_margin = (double)a[y[0]] - (double)a[x[0]] });
}

static ls_status keep_kl(struct ls_metrics *m, const struct ls_row_pair *row, double kl,
                         struct ls_err *err)
{
    if (isinf(kl)) {
        m->n_infinite++;
        return LS_OK;
    }
    if (m->n_kl == m->kl_capacity) {
        const size_t capacity = m->kl_capacity ? 2 * m->kl_capacity : 256;
        void *const more = realloc(m->kl, capacity * sizeof *m->kl);
        if (!more)
            return ls_fail(err, LS_E_MEMORY, "no memory for the figures of %zu rows", capacity);
        m->kl = more;
        m->kl_capacity = capacity;
    }
    m->kl[m->n_kl++] =
        (struct ls_kl_row){ .entry = row->entry, .position = row->position, .kl = kl };
    return LS_OK;
}

ls_status ls_metrics_row(struct ls_metrics *m, const struct ls_row_pair *row,
                         struct ls_err *err)
{
    const bool equal = !memcmp(row->reference, row->arm, row->n * sizeof(float));
    double lse_x, lse_y;
    m->n_rows++;
    m->n_rows_different += !equal;
    m->n_elements += row->n;
    if (equal)
        measure_equal(m, row);
    for (size_t i = 0; !equal && i < row->n; i++)
        measure_element(m, row, i);
    if (!log_sum_exp(&lse_x, row->reference, row->n) ||
        !(equal ? (lse_y = lse_x, true) : log_sum_exp(&lse_y, row->arm, row->n))) {
        m->n_undefined++;
        return LS_OK;
    }
    rank(m, row);
    if (row->target >= 0)
        add_pair(&m->nll, lse_x - (double)row->reference[row->target],
                 lse_y - (double)row->arm[row->target]);
    return keep_kl(m, row, equal ? 0 : divergence(row, lse_x, lse_y), err);
}

void ls_metrics_finish(struct ls_metrics *m)
{
    free(m->kl);
    *m = (struct ls_metrics){ 0 };
}

/* --- figures ---------------------------------------------------------------------------------
 */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_status ls_metrics_kl(const struct ls_metrics *m, struct ls_kl_figures *out,
                        struct ls_err *err)
{
    struct ls_kl_figures f = { .max = -(double)INFINITY };
    struct ls_sum sum = { 0 };
    double *const sorted = malloc((m->n_kl ? m->n_kl : 1) * sizeof *sorted);
    if (!sorted)
        return ls_fail(err, LS_E_MEMORY, "no memory for the figures of %zu rows", m->n_kl);
    for (size_t i = 0; i < m->n_kl; i++) {
        sorted[i] = m->kl[i].kl;
        add(&sum, sorted[i]);
        if (sorted[i] > f.max) {
            f.max = sorted[i];
            f.max_entry = m->kl[i].entry;
            f.max_position = m->kl[i].position;
        }
    }
    qsort(sorted, m->n_kl, sizeof *sorted, compare_doubles);
    if (m->n_kl) {
        const double h = 0.99 * (double)(m->n_kl - 1);
        const size_t low = (size_t)h, high = low + 1 < m->n_kl ? low + 1 : low;
        f.mean = ls_sum_value(&sum) / (double)m->n_kl;
        f.p99 = sorted[low] + (h - (double)low) * (sorted[high] - sorted[low]);
        *out = f;
    }
    free(sorted);
    return LS_OK;
}

void ls_metrics_kl_bins(const struct ls_metrics *m, struct ls_kl_bins *out)
{
    uint64_t last = 0;
    *out = (struct ls_kl_bins){ .width = 1 };
    for (size_t i = 0; i < m->n_kl; i++)
        last = m->kl[i].position > last ? m->kl[i].position : last;
    while (last / out->width >= LS_KL_BINS)
        out->width *= 2;
    out->n = m->n_kl ? (size_t)(last / out->width) + 1 : 0;
    for (size_t i = 0; i < m->n_kl; i++) {
        struct ls_kl_bin *const bin = &out->bins[m->kl[i].position / out->width];
        bin->max = bin->rows ? fmax(bin->max, m->kl[i].kl) : m->kl[i].kl;
        bin->rows++;
        bin->mean += (m->kl[i].kl - bin->mean) / (double)bin->rows;
    }
}

void ls_metrics_perplexity(const struct ls_metrics *m, struct ls_perplexity *out)
{
    const struct ls_pairs *const p = &m->nll;
    const double n = (double)p->n, x = exp(p->mean_x), y = exp(p->mean_y);
    const double delta = x * expm1(p->mean_d);
    const double squares = x * x * p->dd + 2 * x * delta * p->dy + delta * delta * p->yy;
    *out = (struct ls_perplexity){
        .n = p->n,
        .nll_reference = p->mean_x,
        .nll_arm = p->mean_y,
        .nll_delta = p->mean_d,
        .nll_delta_se = p->n > 1 ? sqrt(p->dd / (n - 1) / n) : (double)NAN,
        .reference = x,
        .arm = y,
        .delta = delta,
        .delta_se = p->n > 1 ? sqrt(fmax(squares, 0) / (n - 1) / n) : (double)NAN,
    };
}
