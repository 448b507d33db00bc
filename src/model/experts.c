#include "model/pass.h"

#include "base/size.h"

#include <string.h>

/* Rows that reading a tile of weights costs as much as, when tiles are shared out. */
enum { READ_COST = 4 };

static uint32_t n_pairs(const struct ls_forward *f)
{
    return f->io.n_tokens * (uint32_t)f->cfg.arch->experts.n_chosen;
}

/* --- pairs -----------------------------------------------------------------------------------
 */

/* Orders the pairs by expert, then by token: one member's work, a few operations a pair. */
static void sort_pairs(struct ls_forward *f)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    const uint32_t k = (uint32_t)f->cfg.arch->experts.n_chosen, pairs = n_pairs(f);
    const int n = f->cfg.arch->experts.n;
    memset(e->first, 0, ((size_t)n + 1) * sizeof *e->first);
    for (uint32_t i = 0; i < pairs; i++)
        e->first[e->chosen[i] + 1]++;
    for (int x = 0; x < n; x++)
        e->first[x + 1] += e->first[x];
    for (uint32_t i = 0; i < pairs; i++) {
        const uint32_t at = e->first[e->chosen[i]]++; /* each ends where the next began */
        e->pair[i] = at;
        e->token[at] = i / k;
    }
    memmove(e->first + 1, e->first, (size_t)n * sizeof *e->first);
    e->first[0] = 0;
}

/* Own pairs' inputs: consecutive rows, weighed where the weight is on the input. */
static void gather(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_expert_scratch *e = &f->s.experts;
    const bool weighed = arch->experts.router == LS_ROUTER_INPUT;
    const uint32_t k = (uint32_t)arch->experts.n_chosen;
    const float *from = arch->experts.beside_dense ? f->s.acc
                        : pass->w->ffn_norm        ? f->s.x
                                                   : f->s.h;
    for (uint32_t i = p.row0 * k; i < p.row1 * k; i++) {
        const float *x = from + i / k * f->s.ld_hidden;
        float *to = e->x + e->pair[i] * f->s.ld_hidden;
        if (weighed)
            f->cfg.kernels->scale(to, x, e->weight[i], arch->hidden, arch->dtype);
        else
            memcpy(to, x, (size_t)arch->hidden * sizeof *to);
        if (arch->hidden % 2)
            to[arch->hidden] = 0;
    }
}

/* --- the experts ---------------------------------------------------------------------------*/

/* One expert's rows and the own tiles of one of its matrices. */
struct job {
    const struct ls_expert_weights *w;
    struct ls_own own;
    uint32_t first, n_rows;
};

static struct ls_grid rows_of(float *base, size_t ld, const struct job *job)
{
    return (struct ls_grid){ base + job->first * ld, ld };
}

static void job_in(struct ls_forward *f, const struct job *job)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    const struct ls_grid x = rows_of(e->x, f->s.ld_hidden, job);
    const struct ls_grid gate = rows_of(e->gate, f->s.ld_expert, job);
    const struct ls_grid up = rows_of(e->up, f->s.ld_expert, job);
    ls_product(f, gate, x, &job->w->gate, job->own, job->n_rows);
    ls_product(f, up, x, &job->w->up, job->own, job->n_rows);
    ls_gate_own(f, gate, up, job->w->gate.n, job->own, job->n_rows);
}

static void job_out(struct ls_forward *f, const struct job *job)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    const struct ls_grid gate = rows_of(e->gate, f->s.ld_expert, job);
    const struct ls_grid y = rows_of(e->x, f->s.ld_hidden, job);
    ls_product(f, y, gate, &job->w->down, job->own, job->n_rows);
    ls_round_own(f, y, job->own, job->n_rows);
}

/* Every member walks the same experts, those that have rows, and takes the tiles that fall into
 * its share of the total cost. `n` outputs of each expert. */
static void share_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass, int n,
                      void (*run)(struct ls_forward *f, const struct job *job))
{
    const struct ls_experts *arch = &f->cfg.arch->experts;
    const uint32_t *first = f->s.experts.first;
    const uint64_t tiles = ls_tiles((size_t)n);
    uint64_t total = 0, before = 0, begin, end;
    for (int x = 0; x < arch->n; x++)
        if (first[x + 1] > first[x])
            total += (first[x + 1] - first[x] + READ_COST) * tiles;
    ls_team_share(total, p.member, p.n_members, &begin, &end);
    for (int x = 0; x < arch->n && before < end; x++) {
        struct job job = { .w = &pass->w->experts[x], .first = first[x] };
        const uint64_t cost = first[x + 1] - first[x] + READ_COST;
        job.n_rows = first[x + 1] - first[x];
        if (!job.n_rows)
            continue;
        const uint64_t low = ls_ceil_div(ls_max_u64(begin, before) - before, cost);
        const uint64_t high = ls_ceil_div(end - before, cost);
        before += cost * tiles;
        if (low >= ls_min_u64(high, tiles))
            continue;
        const struct ls_matrix shape = { .n = n };
        job.own = ls_own_tiles(&shape, low, ls_min_u64(high, tiles));
        run(f, &job);
    }
}

/* --- the sum -------------------------------------------------------------------------------*/

/* acc = the token's experts in ascending id, from +0. */
static void add_experts(struct ls_forward *f, uint32_t t, float *acc)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_expert_scratch *e = &f->s.experts;
    const uint32_t k = (uint32_t)arch->experts.n_chosen;
    memset(acc, 0, (size_t)arch->hidden * sizeof *acc);
    for (uint32_t i = t * k; i < (t + 1) * k; i++) {
        const float *y = e->x + e->pair[i] * f->s.ld_hidden;
        if (arch->experts.router == LS_ROUTER_INPUT)
            f->cfg.kernels->residual(acc, y, NULL, arch->hidden, LS_FMT_F32);
        else
            f->cfg.kernels->accumulate(acc, y, e->weight[i], arch->hidden);
    }
}

static void add_shared(struct ls_forward *f, uint32_t t, float *acc)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_expert_scratch *e = &f->s.experts;
    const float *y = e->shared + t * f->s.ld_hidden;
    if (arch->experts.shared_gate)
        f->cfg.kernels->accumulate(acc, y, e->shared_weight[t * LS_TILE], arch->hidden);
    else
        f->cfg.kernels->residual(acc, y, NULL, arch->hidden, LS_FMT_F32);
}

/* acc = D(norm(dense) + norm(D(experts))): what the layer's own norm then takes. */
static void add_dense(struct ls_forward *f, const struct ls_pass *pass, uint32_t t, float *acc)
{
    const struct ls_arch *arch = f->cfg.arch;
    float *dense = f->s.experts.shared + t * f->s.ld_hidden;
    f->cfg.kernels->round(acc, acc, arch->hidden, arch->dtype);
    ls_norm_row(f, acc, acc, pass->w->post_experts_norm);
    ls_norm_row(f, dense, dense, pass->w->post_dense_norm);
    f->cfg.kernels->residual(acc, dense, NULL, arch->hidden, arch->dtype);
}

static void combine(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const float *scale = arch->residual_scale != 0 ? &arch->residual_scale : NULL;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *acc = f->s.acc + t * f->s.ld_hidden;
        add_experts(f, t, acc);
        if (arch->experts.beside_dense)
            add_dense(f, pass, t, acc);
        else if (pass->layer->intermediate)
            add_shared(f, t, acc);
        if (!pass->w->post_ffn_norm)
            f->cfg.kernels->residual(f->s.h + t * f->s.ld_hidden, acc, scale, arch->hidden,
                                     arch->dtype);
    }
}

/* What the experts' last matrices read, and what stands beside them. */
static void tap_gated(const struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_expert_scratch *e = &f->s.experts;
    ls_tap_pairs(f, p, LS_OP_EXPERT_GATED, pass->global,
                 (struct ls_grid){ e->gate, f->s.ld_expert },
                 f->cfg.arch->experts.intermediate);
    if (pass->layer->intermediate)
        ls_tap_rows(f, p, LS_OP_SHARED_OUT, pass->global,
                    (struct ls_grid){ e->shared, f->s.ld_hidden }, f->cfg.arch->hidden);
}

void ls_experts_run(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const bool dense = pass->layer->intermediate > 0;
    const struct ls_grid acc = { f->s.acc, f->s.ld_hidden };
    ls_rows_route(f, p, pass);
    ls_tap_route(f, p, pass->global);
    if (arch->experts.beside_dense)
        ls_tap_rows(f, p, LS_OP_EXPERT_NORM, pass->global, acc, arch->hidden);
    ls_team_barrier(f->team);
    if (p.member == 0)
        sort_pairs(f);
    ls_team_barrier(f->team);
    gather(f, p, pass);
    if (dense)
        ls_phase_ffn_in(f, p, pass);
    ls_team_barrier(f->team);
    share_out(f, p, pass, arch->experts.intermediate, job_in);
    if (dense)
        ls_phase_shared_out(f, p, pass);
    ls_team_barrier(f->team);
    tap_gated(f, p, pass);
    share_out(f, p, pass, arch->hidden, job_out);
    ls_team_barrier(f->team);
    ls_tap_pairs(f, p, LS_OP_EXPERT_OUT, pass->global,
                 (struct ls_grid){ f->s.experts.x, f->s.ld_hidden }, arch->hidden);
    combine(f, p, pass);
}
