#include "parity/quirk_parts.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OP(name) ((uint64_t)1 << LS_OP_##name)

enum { MAX_HEADS = 4096, FEW_ULPS = 16 };

static bool is_of(const struct ls_quirk_view *v, uint64_t ops)
{
    return ops >> v->c->where->op & 1;
}

static float at(const struct ls_tensor *t, uint64_t i)
{
    float x;
    memcpy(&x, t->data + 4 * i, sizeof x);
    return x;
}

/* --- heads that changed places ---------------------------------------------------------------
 */

static bool head_is(const struct ls_quirk_view *v, uint64_t b, uint64_t a, uint64_t dim)
{
    const uint64_t columns = ls_gap_columns(v->a);
    for (uint64_t r = 0; r < v->a->dims[0]; r++)
        if (memcmp(v->b->data + 4 * (r * columns + b * dim),
                   v->a->data + 4 * (r * columns + a * dim), (size_t)(4 * dim)))
            return false;
    return true;
}

/* Every head of b is some head of a, and not all are their own. */
static void find_swap(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    const uint64_t heads_ops = OP(Q) | OP(K) | OP(V) | OP(Q_NORM) | OP(K_NORM) | OP(ATTENTION);
    const struct ls_arch *const arch = v->c->config.arch;
    if (!is_of(v, heads_ops) || v->a->dims[0] < 1)
        return;
    const uint64_t dim = (uint64_t)arch->layers[v->c->where->layer].head_dim;
    const uint64_t n = ls_gap_columns(v->a) / dim;
    uint64_t first = n, from = n;
    for (uint64_t h = 0; h < n && n <= MAX_HEADS; h++) {
        uint64_t k = h;
        if (!head_is(v, h, h, dim))
            for (k = 0; k < n && !head_is(v, h, k, dim);)
                k++;
        if (k == n)
            return;
        if (k != h && first == n) {
            first = h;
            from = k;
        }
    }
    if (first < n)
        ls_quirk_add(out, true, "heads-swapped",
                     "heads changed places: head %" PRIu64 " there is head %" PRIu64 " here",
                     first, from);
}

/* --- rounding --------------------------------------------------------------------------------
 */

/* Whether rounding x to d gives y everywhere, and x is not so already. */
static bool rounds_to(const struct ls_quirk_view *v, const struct ls_tensor *x,
                      const struct ls_tensor *y, enum ls_fmt d)
{
    const uint64_t n = x->bytes / 4;
    bool same = true, was = true;
    const unsigned saved = ls_fp_enter();
    for (uint64_t i = 0; same && i < n; i++) {
        const float value = at(x, i), expected = at(y, i);
        float rounded;
        v->c->config.kernels->round(&rounded, &value, 1, d);
        same = !memcmp(&rounded, &expected, sizeof rounded);
        was = was && !memcmp(&rounded, &value, sizeof value);
    }
    ls_fp_leave(saved);
    return same && !was;
}

static void find_rounding(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    static const char *const names[] = { "f32", "f16", "bf16" };
    const enum ls_fmt d[2] = { v->c->locate->dtype[0], v->c->locate->dtype[1] };
    if (d[0] != LS_FMT_F32 && rounds_to(v, v->b, v->a, d[0]))
        ls_quirk_add(out, true, "not-rounded",
                     "the values here are the ones there rounded to %s: wider there, or "
                     "rounded later",
                     names[d[0]]);
    else if (d[1] != LS_FMT_F32 && rounds_to(v, v->a, v->b, d[1]))
        ls_quirk_add(out, true, "rounded",
                     "the values there are the ones here rounded to %s: narrower there, or "
                     "rounded earlier",
                     names[d[1]]);
    else if (d[0] == LS_FMT_F32 && d[1] == LS_FMT_F32)
        for (int f = LS_FMT_F16; f <= LS_FMT_BF16; f++)
            if (rounds_to(v, v->a, v->b, (enum ls_fmt)f))
                ls_quirk_add(out, true, "rounded",
                             "the values there are the ones here rounded to %s", names[f]);
}

/* --- others ----------------------------------------------------------------------------------
 */

static void find_zeros(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    const uint64_t n = v->b->bytes / 4;
    uint64_t i = 0;
    while (i < n && at(v->b, i) == 0)
        i++;
    if (i < n || !n)
        return;
    if (v->c->where->op == LS_OP_HEAD && v->c->config.arch->tied)
        ls_quirk_add(out, false, "tie-ignored",
                     "all values are 0 there: a head that is the embedding was not loaded");
    else
        ls_quirk_add(out, false, "not-loaded",
                     "all values are 0 there: weights were not "
                     "loaded, or the operation was left out");
}

/* The router's logits are equal, or they would be named. */
static void find_misrouting(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    int32_t a, b;
    const uint64_t columns = ls_gap_columns(v->a), row = v->c->where->gap.row;
    const uint64_t i = row * columns + v->c->where->gap.column;
    if (v->c->where->op != LS_OP_EXPERT_CHOICE || 4 * i + 4 > v->a->bytes)
        return;
    memcpy(&a, v->a->data + 4 * i, sizeof a);
    memcpy(&b, v->b->data + 4 * i, sizeof b);
    ls_quirk_add(out, true, "expert-misrouted",
                 "equal router logits, another choice: expert %d here, %d there", a, b);
}

static void find_window(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    uint64_t more = 0, fewer = 0;
    for (uint64_t i = 0; v->c->where->op == LS_OP_SCORES && i < v->a->bytes / 4; i++) {
        const bool hidden_a = at(v->a, i) == -__builtin_inff();
        const bool hidden_b = at(v->b, i) == -__builtin_inff();
        more += hidden_a && !hidden_b;
        fewer += hidden_b && !hidden_a;
    }
    if (more || fewer)
        ls_quirk_add(out, true, "visibility",
                     "%" PRIu64 " keys are seen there and not here, %" PRIu64
                     " here and not there: window, chunk or mask",
                     more, fewer);
}

/* Sums in another order move last places, and nothing more. */
static void find_order(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    const uint64_t sums = OP(ATTN_NORM) | OP(Q) | OP(K) | OP(V) | OP(SCORES) | OP(ATTENTION) |
                          OP(ATTN_OUT) | OP(FFN_NORM) | OP(ROUTER) | OP(GATE) | OP(UP) |
                          OP(EXPERT_GATED) | OP(EXPERT_OUT) | OP(FFN_OUT) | OP(FINAL_NORM) |
                          OP(HEAD) | OP(SHARED_OUT);
    const struct ls_gap *const gap = &v->c->where->gap;
    if (out->n || !is_of(v, sums) || !gap->has_ulps || gap->ulps > FEW_ULPS ||
        gap->n_unmeasured || gap->relative > 1e-2)
        return;
    ls_quirk_add(out, false, "order-of-sums",
                 "last places only: products added in another order or precision");
}

void ls_quirk_values(struct ls_proposals *out, const struct ls_quirk_view *v)
{
    if (!ls_gap_same_shape(v->a, v->b) || v->a->dtype != v->b->dtype || v->a->n_dims != 2)
        return;
    find_misrouting(out, v);
    if (v->a->dtype != LS_DTYPE_F32)
        return;
    find_swap(out, v);
    find_rounding(out, v);
    find_zeros(out, v);
    find_window(out, v);
    find_order(out, v);
}
