#include "model/pass.h"

#include "base/size.h"

/* A product's destination. */
struct target {
    float *y;
    size_t ldy;
};

/* Own tiles [tile0, tile1) of a matrix, and the outputs [c0, c1) that they hold. */
struct own {
    int tile0, tile1, c0, c1;
};

static struct own tiles_of(const struct ls_matrix *m, uint64_t tile0, uint64_t tile1)
{
    struct own own = { .tile0 = (int)tile0, .tile1 = (int)tile1 };
    own.c0 = (int)ls_min_u64(tile0 * LS_TILE, (uint64_t)m->n);
    own.c1 = (int)ls_min_u64(tile1 * LS_TILE, (uint64_t)m->n);
    return own;
}

static struct own share_of(const struct ls_matrix *m, struct ls_part p)
{
    uint64_t begin, end;
    ls_team_share(ls_tiles((size_t)m->n), p.member, p.n_members, &begin, &end);
    return tiles_of(m, begin, end);
}

/* y = W x, bias last, in binary32, for own outputs of rows [0, n_rows). */
static void product(const struct ls_forward *f, struct target to, const float *x, size_t ldx,
                    const struct ls_matrix *m, struct own own, uint32_t n_rows)
{
    const struct ls_kernels *kernels = f->cfg.kernels;
    if (own.tile0 >= own.tile1)
        return;
    kernels->matmul[f->cfg.arch->dtype][m->fmt](to.y, to.ldy, x, ldx, m->packed, (int)n_rows,
                                                m->k, own.tile0, own.tile1);
    for (uint32_t t = 0; m->bias && t < n_rows; t++)
        kernels->add_bias(to.y + t * to.ldy + own.c0, m->bias + own.c0, own.c1 - own.c0);
}

static void round_own(const struct ls_forward *f, struct target to, struct own own)
{
    for (uint32_t t = 0; own.c0 < own.c1 && t < f->io.n_tokens; t++) {
        float *y = to.y + t * to.ldy + own.c0;
        f->cfg.kernels->round(y, y, own.c1 - own.c0, f->cfg.arch->dtype);
    }
}

void ls_phase_qkv(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_scratch *s = &f->s;
    const struct ls_matrix *matrices[3] = { &pass->w->q, &pass->w->k, &pass->w->v };
    const struct target targets[3] = { { s->q, s->ld_q },
                                       { s->k, s->ld_kv },
                                       { s->v, s->ld_kv } };
    const float *x = pass->w->attn_norm ? s->x : s->h;
    uint64_t total = 0, begin, end, at = 0;
    for (int i = 0; i < 3; i++)
        total += ls_tiles((size_t)matrices[i]->n);
    ls_team_share(total, p.member, p.n_members, &begin, &end);
    for (int i = 0; i < 3; i++) {
        uint64_t tiles = ls_tiles((size_t)matrices[i]->n);
        uint64_t low = ls_max_u64(begin, at) - at;
        uint64_t high = ls_min_u64(ls_max_u64(end, at) - at, tiles);
        struct own own = tiles_of(matrices[i], low, high);
        product(f, targets[i], x, s->ld_hidden, matrices[i], own, f->io.n_tokens);
        round_own(f, targets[i], own);
        at += tiles;
    }
}

/* The sum of a parallel block stays binary32 until its second branch has joined. */
static void branch_out(struct ls_forward *f, struct ls_part p, const struct ls_matrix *m,
                       const float *x, size_t ldx, enum ls_fmt joined)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct target to = { f->s.acc, f->s.ld_hidden };
    const float *scale = arch->residual_scale != 0 ? &arch->residual_scale : NULL;
    struct own own = share_of(m, p);
    product(f, to, x, ldx, m, own, f->io.n_tokens);
    if (arch->residual == LS_RES_POST || arch->residual == LS_RES_BOTH) {
        round_own(f, to, own);
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
    enum ls_fmt joined = arch->residual == LS_RES_PARALLEL ? LS_FMT_F32 : arch->dtype;
    branch_out(f, p, &pass->w->o, f->s.o, f->s.ld_q, joined);
}

void ls_phase_ffn_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    branch_out(f, p, &pass->w->down, f->s.gate, f->s.ld_ffn, f->cfg.arch->dtype);
}

void ls_phase_ffn_in(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_scratch *s = &f->s;
    const struct ls_matrix *m = &pass->w->gate;
    const struct target gate = { s->gate, s->ld_ffn }, up = { s->up, s->ld_ffn };
    bool normed = arch->residual == LS_RES_PARALLEL || pass->w->ffn_norm;
    const float *x = normed ? s->x : s->h;
    struct own own = share_of(m, p);
    product(f, gate, x, s->ld_hidden, m, own, f->io.n_tokens);
    product(f, up, x, s->ld_hidden, &pass->w->up, own, f->io.n_tokens);
    for (uint32_t t = 0; own.c0 < own.c1 && t < f->io.n_tokens; t++) {
        float *g = s->gate + t * s->ld_ffn;
        f->cfg.kernels->gated(g + own.c0, g + own.c0, s->up + t * s->ld_ffn + own.c0,
                              own.c1 - own.c0, arch->act, arch->dtype);
        if (own.c1 == m->n && m->n % 2)
            g[m->n] = 0; /* the product left 0 x h there: NaN where h is not finite */
    }
}

void ls_phase_head(struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_kernels *kernels = f->cfg.kernels;
    const struct ls_matrix *m = &f->weights->head;
    const struct target to = { f->s.logits, f->s.ld_vocab };
    struct own own = share_of(m, p);
    int n = own.c1 - own.c0;
    product(f, to, f->s.x, f->s.ld_hidden, m, own, f->wanted.n_rows);
    for (uint32_t i = 0; n > 0 && i < f->wanted.n_rows; i++) {
        float *y = to.y + i * to.ldy + own.c0;
        if (arch->logit_scale != 0)
            kernels->scale(y, y, arch->logit_scale, n, LS_FMT_F32);
        if (arch->logit_softcap != 0)
            kernels->softcap(y, n, arch->logit_softcap);
        kernels->canonical_nan(y, n);
    }
}
