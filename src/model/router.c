#include "model/pass.h"

#include "base/mutant.h"

#include <math.h>
#include <string.h>

/* Keys of the choice are integers in the order of the values. No value's key is one of these:
 * a NaN's is the greatest, as the reference's choice has it. */
#define TAKEN    INT32_MIN
#define EXCLUDED (INT32_MIN + 1)

static int32_t key_of(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    if (x != x)
        return INT32_MAX;
    if (i == INT32_MIN)
        return 0; /* -0 ties with +0 */
    return i < 0 ? i ^ 0x7fffffff : i;
}

/* Index of the greatest key, the lower one of equals; n >= 1. */
static int best_of(const int32_t *key, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (key[i] > key[best])
            best = i;
    return best;
}

/* What one row of logits is turned into, and what it takes. */
struct row {
    const struct ls_kernels *kernels;
    const struct ls_experts *e;
    const struct ls_layer_weights *w;
    float *logits;   /* [n]; scores afterwards */
    int32_t *keys;   /* [n + n_groups] */
    int32_t *chosen; /* [n_chosen] */
    float *weight;   /* [n_chosen] */
};

/* --- the choice ----------------------------------------------------------------------------*/

static float judged(const struct row *r, int i)
{
    return r->w->select_bias ? r->logits[i] + r->w->select_bias[i] : r->logits[i];
}

/* A group's value is the sum of its two best. */
static float group_value(const struct row *r, int group, int size)
{
    int32_t *key = r->keys + group * size;
    const int first = best_of(key, size);
    const int32_t kept = key[first];
    key[first] = TAKEN;
    const int second = best_of(key, size);
    key[first] = kept;
    return judged(r, group * size + first) + judged(r, group * size + second);
}

/* Leaves only the experts of the best groups. */
static void limit_groups(const struct row *r)
{
    const int n = r->e->n_groups, size = r->e->n / n;
    int32_t *group = r->keys + r->e->n;
    for (int g = 0; g < n; g++)
        group[g] = key_of(group_value(r, g, size));
    for (int i = 0; i < r->e->n_groups_chosen; i++)
        group[best_of(group, n)] = TAKEN;
    for (int i = 0; i < r->e->n; i++)
        if (group[i / size] != TAKEN)
            r->keys[i] = EXCLUDED;
}

/* Fills chosen, ascending; returns the best of them. */
static int choose(const struct row *r)
{
    int best = 0, n = 0;
    for (int i = 0; i < r->e->n; i++)
        r->keys[i] = key_of(judged(r, i));
    if (r->e->n_groups > 1)
        limit_groups(r);
    for (int i = 0; i < r->e->n_chosen; i++) {
        if (LS_MUTANT(NEXT_EXPERT) && i == r->e->n_chosen - 1)
            r->keys[best_of(r->keys, r->e->n)] = EXCLUDED;
        const int next = best_of(r->keys, r->e->n);
        r->keys[next] = TAKEN;
        best = i ? best : next;
    }
    for (int i = 0; i < r->e->n; i++)
        if (r->keys[i] == TAKEN)
            r->chosen[n++] = i;
    return best;
}

/* --- the weights ---------------------------------------------------------------------------*/

/* Ascending, one after the other: the ids' order is the sum's. */
static float sum_of(const float *x, int n)
{
    float sum = x[0];
    for (int i = 1; i < n; i++)
        sum = sum + x[i];
    return sum;
}

static void divide(float *x, int n, float by)
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] / by;
}

static void take_scores(const struct row *r)
{
    for (int i = 0; i < r->e->n_chosen; i++)
        r->weight[i] = r->logits[r->chosen[i]];
}

static void weigh_row(const struct row *r)
{
    const int n = r->e->n, k = r->e->n_chosen;
    int best;
    switch (r->e->router) {
    case LS_ROUTER_SOFTMAX:
        best = choose(r);
        r->kernels->exp_below(r->logits, r->logits, r->logits[best], n);
        take_scores(r);
        divide(r->weight, k, sum_of(r->logits, n));
        if (r->e->renormalise)
            divide(r->weight, k, sum_of(r->weight, k));
        break;
    case LS_ROUTER_CHOSEN:
        best = choose(r);
        take_scores(r);
        r->kernels->exp_below(r->weight, r->weight, r->logits[best], k);
        divide(r->weight, k, sum_of(r->weight, k));
        break;
    case LS_ROUTER_SIGMOID:
        r->kernels->sigmoid(r->logits, r->logits, n);
        choose(r);
        take_scores(r);
        if (r->e->renormalise)
            divide(r->weight, k, sum_of(r->weight, k) + 1e-20f);
        break;
    case LS_ROUTER_INPUT:
        choose(r);
        take_scores(r);
        r->kernels->sigmoid(r->weight, r->weight, k);
    }
    for (int i = 0; i < k && r->e->routed_scale != 0; i++)
        r->weight[i] = r->weight[i] * r->e->routed_scale;
    for (int i = 0; i < k && r->w->expert_scale; i++)
        r->weight[i] = r->weight[i] * r->w->expert_scale[r->chosen[i]];
}

/* --- rows ----------------------------------------------------------------------------------*/

/* Beside a dense block the router has a norm and a scale of its own. */
static void norm_for_router(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const float root = (float)(1.0 / sqrt(arch->hidden));
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *y = f->s.acc + t * f->s.ld_hidden;
        f->cfg.kernels->rmsnorm(y, f->s.h + t * f->s.ld_hidden, pass->w->router_scale,
                                arch->hidden, arch->norm_eps, LS_NORM_W, arch->dtype);
        f->cfg.kernels->scale(y, y, root, arch->hidden, arch->dtype);
        if (arch->hidden % 2)
            y[arch->hidden] = 0;
        ls_tap_row(f, LS_OP_ROUTER_NORM, pass->global, t, y, arch->hidden);
    }
}

/* A projection of own rows to few outputs, bias last. */
static void project(struct ls_forward *f, struct ls_part p, struct ls_grid y, const float *x,
                    const struct ls_matrix *m)
{
    const struct ls_own all = ls_own_tiles(m, 0, ls_tiles((size_t)m->n));
    const struct ls_grid own = { y.at + p.row0 * y.ld, y.ld };
    const struct ls_grid from = { (float *)(uintptr_t)x + p.row0 * f->s.ld_hidden,
                                  f->s.ld_hidden };
    ls_product(f, own, from, m, all, p.row1 - p.row0);
}

static void weigh_shared(struct ls_forward *f, struct ls_part p, const float *x,
                         const struct ls_matrix *m)
{
    const struct ls_grid y = { f->s.experts.shared_weight, LS_TILE };
    project(f, p, y, x, m);
    for (uint32_t t = p.row0; t < p.row1; t++)
        f->cfg.kernels->sigmoid(y.at + t * y.ld, y.at + t * y.ld, 1);
}

void ls_rows_route(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_experts *arch = &f->cfg.arch->experts;
    const struct ls_expert_scratch *s = &f->s.experts;
    const struct ls_grid logits = { s->logits, f->s.ld_router };
    const size_t k = (size_t)arch->n_chosen, n_keys = (size_t)(arch->n + arch->n_groups);
    const float *x = pass->w->ffn_norm ? f->s.x : f->s.h;
    if (p.row0 == p.row1)
        return;
    if (arch->beside_dense) {
        norm_for_router(f, p, pass);
        x = f->s.acc;
    }
    project(f, p, logits, x, &pass->w->router);
    ls_tap_rows(f, p, LS_OP_ROUTER, pass->global, logits, arch->n);
    for (uint32_t t = p.row0; t < p.row1; t++) {
        const struct row row = { .kernels = f->cfg.kernels,
                                 .e = arch,
                                 .w = pass->w,
                                 .logits = logits.at + t * logits.ld,
                                 .keys = s->keys + t * n_keys,
                                 .chosen = s->chosen + t * k,
                                 .weight = s->weight + t * k };
        weigh_row(&row);
    }
    if (pass->w->shared_weight.n)
        weigh_shared(f, p, x, &pass->w->shared_weight);
    for (uint32_t t = p.row0; t < p.row1 && arch->beside_dense; t++)
        ls_norm_row(f, f->s.acc + t * f->s.ld_hidden, f->s.h + t * f->s.ld_hidden,
                    pass->w->experts_norm);
}
