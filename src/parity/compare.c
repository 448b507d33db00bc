#include "parity/compare.h"

#include "base/size.h"
#include "parity/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_ELEMENTS = 4096, RELEASE_BYTES = 8 << 20 };

struct pair {
    const struct ls_dump_entry *entry; /* of A */
    struct ls_tensor a, b;
    uint64_t columns; /* elements of a row */
    bool different;
    bool raw; /* bytes, not numbers */
};

struct sums {
    double squares;
    uint64_t n_ulp; /* elements measured in units in the last place */
    bool no_ulp;    /* a pair of tensors that has none */
};

static void say_mismatch(struct ls_comparison *out, const char *name, const char *what)
{
    if (!out->first_mismatch[0])
        snprintf(out->first_mismatch, sizeof out->first_mismatch, "'%.255s' %s", name, what);
}

static void take_first(struct ls_comparison *out, const struct pair *p, uint64_t i)
{
    if (out->has_first)
        return;
    out->has_first = true;
    snprintf(out->first_name, sizeof out->first_name, "%s", p->entry->name);
    out->first_position = p->entry->first_position + i / p->columns;
    out->first_element = i % p->columns;
    out->first_a = ls_element_value(p->a.data, p->a.dtype, i);
    out->first_b = ls_element_value(p->b.data, p->b.dtype, i);
}

static void measure(struct ls_comparison *out, const struct pair *p, uint64_t i, double a,
                    double b, struct sums *sums)
{
    const double d = fabs(a - b);
    out->n_measured++;
    out->max_abs = fmax(out->max_abs, d);
    sums->squares += d * d;
    if (p->a.dtype != p->b.dtype)
        return;
    const uint64_t ulps = ls_element_ulps(p->a.data, p->b.data, p->a.dtype, i);
    sums->n_ulp += ulps > 0;
    out->max_ulp = ls_max_u64(out->max_ulp, ulps);
}

static void compare_element(struct ls_comparison *out, struct pair *p, uint64_t i,
                            struct sums *sums)
{
    const size_t size = ls_dtype_bytes(p->a.dtype);
    const bool same_type = p->a.dtype == p->b.dtype;
    if (same_type && !memcmp(p->a.data + i * size, p->b.data + i * size, size))
        return;
    const double a = ls_element_value(p->a.data, p->a.dtype, i);
    const double b = ls_element_value(p->b.data, p->b.dtype, i);
    if (!same_type && (a == b || (isnan(a) && isnan(b))))
        return;
    take_first(out, p, i);
    p->different = true;
    out->n_different++;
    if (isnan(a) || isnan(b))
        ++*(isnan(a) && isnan(b) ? &out->n_nan_bits : &out->n_nan);
    else if (a == 0 && b == 0)
        out->n_zero++;
    else if (!p->raw)
        measure(out, p, i, a, b, sums);
}

static uint64_t n_elements(const struct ls_tensor *t)
{
    return t->bytes / ls_dtype_bytes(t->dtype);
}

static void compare_values(struct ls_comparison *out, struct pair *p, struct ls_dump *a,
                           struct ls_dump *b, struct sums *sums)
{
    const uint64_t n = n_elements(&p->a), size = ls_dtype_bytes(p->a.dtype);
    uint64_t released = 0;
    for (uint64_t i = 0; i < n; i += BLOCK_ELEMENTS) {
        const uint64_t end = ls_min_u64(i + BLOCK_ELEMENTS, n);
        const bool equal =
            p->a.dtype == p->b.dtype &&
            !memcmp(p->a.data + i * size, p->b.data + i * size, (size_t)((end - i) * size));
        for (uint64_t e = equal ? end : i; e < end; e++)
            compare_element(out, p, e, sums);
        if ((end - released) * size < RELEASE_BYTES)
            continue;
        const uint64_t size_b = ls_dtype_bytes(p->b.dtype);
        ls_dump_release(a, p->a.data + released * size, (end - released) * size);
        ls_dump_release(b, p->b.data + released * size_b, (end - released) * size_b);
        released = end;
    }
    out->n_elements += n;
}

static bool same_shape(const struct ls_tensor *a, const struct ls_tensor *b)
{
    return a->n_dims == b->n_dims &&
           !memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof a->dims[0]);
}

/* What keeps two tensors of one name from being compared, or NULL. */
static const char *mismatch(const struct pair *p, const struct ls_dump_entry *other)
{
    const struct ls_dump_entry *const e = p->entry;
    if (!same_shape(&p->a, &p->b))
        return "has another shape in B";
    if (e->first_position != other->first_position)
        return "begins at another position in B";
    if (!ls_element_is_known(p->a.dtype) || !ls_element_is_known(p->b.dtype))
        return p->a.dtype == p->b.dtype ? NULL : "has another type in B";
    return NULL;
}

/* Types without a value here, such as 8-bit floats, are compared as bytes. */
static void as_bytes(struct ls_tensor *t, uint64_t *columns)
{
    *columns *= ls_dtype_bytes(t->dtype);
    t->dtype = LS_DTYPE_U8;
}

static ls_status check_rows(const struct ls_dump_entry *e, const struct ls_tensor *t,
                            struct ls_err *err)
{
    const uint64_t rows = t->n_dims ? t->dims[0] : 1;
    if (e->rows == UINT64_MAX || e->rows == rows)
        return LS_OK;
    return ls_fail(err, LS_E_FORMAT, "%s: '%s' has %" PRIu64 " rows, index.json says %" PRIu64,
                   e->file, e->name, rows, e->rows);
}

static ls_status view_both(struct pair *p, struct ls_dump *a, size_t i, struct ls_dump *b,
                           size_t j, struct ls_err *err)
{
    const struct ls_dump_entry *const other = ls_dump_entry(b, j);
    p->entry = ls_dump_entry(a, i);
    ls_status s = ls_dump_view(a, i, &p->a, err);
    if (!s)
        s = check_rows(p->entry, &p->a, err);
    if (!s)
        s = ls_dump_view(b, j, &p->b, err);
    return s ? s : check_rows(other, &p->b, err);
}

static ls_status compare_pair(struct ls_comparison *out, struct ls_dump *a, size_t i,
                              struct ls_dump *b, size_t j, struct sums *sums,
                              struct ls_err *err)
{
    struct pair p = { .different = false };
    const ls_status s = view_both(&p, a, i, b, j, err);
    if (s)
        return s;
    const char *const wrong = mismatch(&p, ls_dump_entry(b, j));
    if (wrong) {
        out->n_mismatched++;
        say_mismatch(out, p.entry->name, wrong);
        return LS_OK;
    }
    p.columns = 1;
    for (int d = 1; d < p.a.n_dims; d++)
        p.columns *= p.a.dims[d] ? p.a.dims[d] : 1;
    if (!ls_element_is_known(p.a.dtype)) {
        p.raw = true;
        as_bytes(&p.a, &p.columns);
        as_bytes(&p.b, &(uint64_t){ 0 });
    }
    compare_values(out, &p, a, b, sums);
    sums->no_ulp = sums->no_ulp || p.a.dtype != p.b.dtype;
    out->n_tensors++;
    if (p.a.dtype != p.b.dtype) {
        out->n_mismatched++;
        say_mismatch(out, p.entry->name, "has another type in B");
    }
    out->n_different_tensors += p.different;
    return LS_OK;
}

/* Single npy files have no names: they are each other's partner. */
static int64_t partner_of(const struct ls_dump *a, size_t i, const struct ls_dump *b)
{
    const char *const name = ls_dump_entry(a, i)->name;
    if (ls_dump_n(a) == 1 && ls_dump_n(b) == 1 && (!*name || !*ls_dump_entry(b, 0)->name))
        return 0;
    return ls_dump_find(b, name);
}

ls_status ls_compare(struct ls_comparison *out, struct ls_dump *a, struct ls_dump *b,
                     struct ls_err *err)
{
    struct ls_comparison c = { .equal = false };
    struct sums sums = { 0 };
    for (size_t i = 0; i < ls_dump_n(a); i++) {
        const int64_t j = partner_of(a, i, b);
        if (j < 0) {
            c.n_only_a++;
            say_mismatch(&c, ls_dump_entry(a, i)->name, "is only in A");
            continue;
        }
        const ls_status s = compare_pair(&c, a, i, b, (size_t)j, &sums, err);
        if (s)
            return s;
    }
    for (size_t j = 0; j < ls_dump_n(b); j++)
        if (partner_of(b, j, a) < 0) {
            c.n_only_b++;
            say_mismatch(&c, ls_dump_entry(b, j)->name, "is only in B");
        }
    c.rms = c.n_elements ? sqrt(sums.squares / (double)c.n_elements) : 0;
    c.has_distance = c.n_measured > 0 || (c.n_elements > 0 && c.n_different == 0);
    c.has_ulp = sums.n_ulp > 0 || (c.has_distance && c.n_different == 0 && !sums.no_ulp);
    c.equal = !c.n_different && !c.n_only_a && !c.n_only_b && !c.n_mismatched;
    *out = c;
    return LS_OK;
}
