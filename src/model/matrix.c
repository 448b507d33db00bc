#include "model/pass.h"

#include "base/mutant.h"
#include "base/size.h"

struct ls_own ls_own_tiles(const struct ls_matrix *m, uint64_t tile0, uint64_t tile1)
{
    struct ls_own own = { .tile0 = (int)tile0, .tile1 = (int)tile1 };
    own.c0 = (int)ls_min_u64(tile0 * LS_TILE, (uint64_t)m->n);
    own.c1 = (int)ls_min_u64(tile1 * LS_TILE, (uint64_t)m->n);
    return own;
}

struct ls_own ls_own_share(const struct ls_matrix *m, struct ls_part p)
{
    uint64_t begin, end;
    ls_team_share(ls_tiles((size_t)m->n), p.member, p.n_members, &begin, &end);
    return ls_own_tiles(m, begin, end);
}

void ls_product(const struct ls_forward *f, struct ls_grid y, struct ls_grid x,
                const struct ls_matrix *m, struct ls_own own, uint32_t n_rows)
{
    const struct ls_kernels *kernels = f->cfg.kernels;
    if (own.tile0 >= own.tile1)
        return;
    kernels->matmul[f->cfg.arch->dtype][m->fmt](y.at, y.ld, x.at, x.ld, m->packed, (int)n_rows,
                                                m->k, own.tile0, own.tile1);
    for (uint32_t t = 0; m->bias && t < n_rows; t++)
        kernels->add_bias(y.at + t * y.ld + own.c0, m->bias + own.c0, own.c1 - own.c0);
}

void ls_round_own(const struct ls_forward *f, struct ls_grid y, struct ls_own own,
                  uint32_t n_rows)
{
    for (uint32_t t = 0; own.c0 < own.c1 && t < n_rows; t++) {
        float *at = y.at + t * y.ld + own.c0;
        f->cfg.kernels->round(at, at, own.c1 - own.c0, f->cfg.arch->dtype);
    }
}

void ls_gate_own(const struct ls_forward *f, struct ls_grid gate, struct ls_grid up, int n,
                 struct ls_own own, uint32_t n_rows)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_experts *e = &arch->experts;
    for (uint32_t t = 0; own.c0 < own.c1 && t < n_rows; t++) {
        float *row = gate.at + t * gate.ld, *g = row + own.c0;
        const float *u = up.at + t * up.ld + own.c0;
        if (LS_MUTANT(GATE_UP))
            f->cfg.kernels->gated(g, u, g, own.c1 - own.c0, arch->act, arch->dtype);
        else if (e->swiglu_limit != 0)
            f->cfg.kernels->gated_clamped(g, g, u, own.c1 - own.c0, e->swiglu_alpha,
                                          e->swiglu_limit, arch->dtype);
        else
            f->cfg.kernels->gated(g, g, u, own.c1 - own.c0, arch->act, arch->dtype);
        if (own.c1 == n && n % 2)
            row[n] = 0; /* the product left 0 x h there: NaN where h is not finite */
    }
}

void ls_phase_qkv(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_scratch *s = &f->s;
    const struct ls_matrix *matrices[3] = { &pass->w->q, &pass->w->k, &pass->w->v };
    const struct ls_grid targets[3] = { { s->q, s->ld_q },
                                        { s->k, s->ld_kv },
                                        { s->v, s->ld_kv } };
    const struct ls_grid x = { pass->w->attn_norm ? s->x : s->h, s->ld_hidden };
    uint64_t total = 0, begin, end, at = 0;
    for (int i = 0; i < 3; i++)
        total += ls_tiles((size_t)matrices[i]->n);
    ls_team_share(total, p.member, p.n_members, &begin, &end);
    for (int i = 0; i < 3; i++) {
        uint64_t tiles = ls_tiles((size_t)matrices[i]->n);
        uint64_t low = ls_max_u64(begin, at) - at;
        uint64_t high = ls_min_u64(ls_max_u64(end, at) - at, tiles);
        struct ls_own own = ls_own_tiles(matrices[i], low, high);
        ls_product(f, targets[i], x, matrices[i], own, f->io.n_tokens);
        ls_round_own(f, targets[i], own, f->io.n_tokens);
        at += tiles;
    }
}

/* The sum of a parallel block stays binary32 until its second branch has joined. */
static void branch_out(struct ls_forward *f, struct ls_part p, const struct ls_matrix *m,
                       struct ls_grid x, enum ls_fmt joined)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_grid to = { f->s.acc, f->s.ld_hidden };
    const float *scale = arch->residual_scale != 0 ? &arch->residual_scale : NULL;
    struct ls_own own = ls_own_share(m, p);
    ls_product(f, to, x, m, own, f->io.n_tokens);
    if (arch->residual == LS_RES_POST || arch->residual == LS_RES_BOTH) {
        ls_round_own(f, to, own, f->io.n_tokens);
        return;
    }
    for (uint32_t t = 0; own.c0 < own.c1 && t < f->io.n_tokens; t++)
        f->cfg.kernels->residual(f->s.h + t * f->s.ld_hidden + own.c0,
                                 f->s.acc + t * f->s.ld_hidden + own.c0, scale, own.c1 - own.c0,
                                 joined);
}

void ls_phase_attn_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const bool wide = arch->residual == LS_RES_PARALLEL || LS_MUTANT(WIDE_RESIDUAL);
    enum ls_fmt joined = wide ? LS_FMT_F32 : arch->dtype;
    const struct ls_grid x = { f->s.o, f->s.ld_q };
    branch_out(f, p, &pass->w->o, x, joined);
}

void ls_phase_ffn_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_grid x = { f->s.gate, f->s.ld_ffn };
    branch_out(f, p, &pass->w->down, x, f->cfg.arch->dtype);
}

void ls_phase_shared_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_grid x = { f->s.gate, f->s.ld_ffn };
    const struct ls_grid y = { f->s.experts.shared, f->s.ld_hidden };
    struct ls_own own = ls_own_share(&pass->w->down, p);
    ls_product(f, y, x, &pass->w->down, own, f->io.n_tokens);
    ls_round_own(f, y, own, f->io.n_tokens);
}

void ls_phase_ffn_in(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_scratch *s = &f->s;
    const struct ls_matrix *m = &pass->w->gate;
    const struct ls_grid gate = { s->gate, s->ld_ffn }, up = { s->up, s->ld_ffn };
    bool normed = arch->residual == LS_RES_PARALLEL || pass->w->ffn_norm;
    const struct ls_grid x = { normed ? s->x : s->h, s->ld_hidden };
    struct ls_own own = ls_own_share(m, p);
    ls_product(f, gate, x, m, own, f->io.n_tokens);
    ls_product(f, up, x, &pass->w->up, own, f->io.n_tokens);
    ls_tap_own(f, LS_OP_GATE, pass->global, gate, m->n, own);
    ls_tap_own(f, LS_OP_UP, pass->global, up, m->n, own);
    ls_gate_own(f, gate, up, m->n, own, f->io.n_tokens);
    ls_tap_own(f, LS_OP_ACTIVATION, pass->global, gate, m->n, own);
}

void ls_phase_head(struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_kernels *kernels = f->cfg.kernels;
    const struct ls_matrix *m = &f->weights->head;
    const struct ls_grid to = { f->s.logits, f->s.ld_vocab };
    const struct ls_grid x = { f->s.x, f->s.ld_hidden };
    struct ls_own own = ls_own_share(m, p);
    int n = own.c1 - own.c0;
    ls_product(f, to, x, m, own, f->wanted.n_rows);
    for (uint32_t i = 0; n > 0 && i < f->wanted.n_rows; i++) {
        float *y = to.at + i * to.ld + own.c0;
        ls_tap_wanted(f, LS_OP_HEAD, i, y, own, m->n);
        if (arch->logit_scale != 0)
            kernels->scale(y, y, arch->logit_scale, n, LS_FMT_F32);
        if (arch->logit_softcap != 0)
            kernels->softcap(y, n, arch->logit_softcap);
        kernels->canonical_nan(y, n);
        ls_tap_wanted(f, LS_OP_LOGITS, i, y, own, m->n);
    }
}
