#include "model/pass.h"

#include <math.h>

/* One layer's inputs of one token: D((norm(D(projection)) + scaled row of the table) / sqrt 2).
 * `table` holds the latter. */
static void finish_inputs(struct ls_forward *f, float *y, const float *table)
{
    const struct ls_arch *arch = f->cfg.arch;
    const struct ls_kernels *kernels = f->cfg.kernels;
    const int n = arch->per_layer_width;
    kernels->scale(y, y, (float)(1.0 / sqrt(arch->hidden)), n, arch->dtype);
    kernels->rmsnorm(y, y, f->weights->per_layer_norm, n, arch->norm_eps, arch->norm_weight,
                     arch->dtype);
    kernels->residual(y, table, NULL, n, LS_FMT_F32);
    kernels->scale(y, y, (float)sqrt(0.5), n, arch->dtype);
}

void ls_per_layer_make(struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    const uint64_t width = (uint64_t)arch->per_layer_width;
    const uint64_t all = width * (uint64_t)arch->n_layers;
    const struct ls_grid h = { f->s.h, f->s.ld_hidden };
    const struct ls_grid y = { f->s.per_layer, f->s.ld_per_layer };
    const struct ls_matrix *m = &f->weights->per_layer_model;
    ls_team_barrier(f->team);
    ls_product(f, y, h, m, ls_own_share(m, p), f->io.n_tokens);
    ls_team_barrier(f->team);
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *table = f->s.gate + t * f->s.ld_ffn;
        for (uint64_t l = 0; l < (uint64_t)arch->n_layers; l++) {
            ls_table_row(f, table, f->weights->per_layer_embed,
                         (uint64_t)f->io.tokens[t] * all + l * width, arch->per_layer_width,
                         arch->per_layer_embed_scale);
            finish_inputs(f, y.at + t * y.ld + l * width, table);
        }
        ls_tap_row(f, LS_OP_PER_LAYER_INPUT, 0, t, y.at + t * y.ld, (int)all);
    }
}

void ls_per_layer_run(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const size_t at =
        (size_t)(pass->global - f->cfg.first_layer) * (size_t)f->cfg.arch->per_layer_width;
    const struct ls_grid h = { f->s.h, f->s.ld_hidden }, acc = { f->s.acc, f->s.ld_hidden };
    const struct ls_grid gate = { f->s.gate, f->s.ld_ffn };
    const struct ls_grid inputs = { f->s.per_layer + at, f->s.ld_per_layer };
    const struct ls_matrix *in = &pass->w->per_layer_gate, *out = &pass->w->per_layer_out;
    struct ls_own own = ls_own_share(in, p);
    ls_team_barrier(f->team);
    ls_product(f, gate, h, in, own, f->io.n_tokens);
    ls_gate_own(f, gate, inputs, in->n, own, f->io.n_tokens);
    ls_tap_own(f, LS_OP_PER_LAYER_GATED, pass->global, gate, in->n, own);
    ls_team_barrier(f->team);
    own = ls_own_share(out, p);
    ls_product(f, acc, gate, out, own, f->io.n_tokens);
    ls_round_own(f, acc, own, f->io.n_tokens);
    ls_team_barrier(f->team);
}
