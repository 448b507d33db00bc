#include "model/pass.h"

#include "base/mutant.h"

#include <math.h>
#include <string.h>

static float *row(float *base, size_t ld, uint32_t t)
{
    return base ? base + (size_t)t * ld : NULL; /* absent arrays stay so */
}

static enum ls_fmt format_of(enum ls_dtype dtype)
{
    return dtype == LS_DTYPE_F32   ? LS_FMT_F32
           : dtype == LS_DTYPE_F16 ? LS_FMT_F16
                                   : LS_FMT_BF16;
}

void ls_table_row(const struct ls_forward *f, float *y, const struct ls_tensor *table,
                  uint64_t first, int n, float scale)
{
    const struct ls_kernels *kernels = f->cfg.kernels;
    enum ls_fmt fmt = format_of(table->dtype), d = f->cfg.arch->dtype;
    kernels->widen(y, table->data + first * ls_fmt_bytes(fmt), n, fmt);
    kernels->round(y, y, n, d);
    if (scale != 0)
        kernels->scale(y, y, scale, n, d);
}

static void embed_row(const struct ls_forward *f, float *h, int32_t id)
{
    const struct ls_arch *arch = f->cfg.arch;
    const float scale = LS_MUTANT(EMBED_SCALE) ? (float)sqrt(arch->hidden) : arch->embed_scale;
    ls_table_row(f, h, f->weights->embed, (uint64_t)id * (uint64_t)arch->hidden, arch->hidden,
                 scale);
}

/* The residual stream, and behind it the inputs of the layers from here on. */
static void load_row(const struct ls_forward *f, float *h, float *per_layer, const char *in)
{
    const struct ls_arch *arch = f->cfg.arch;
    int rest = ls_inbound_width(arch, f->cfg.first_layer) - arch->hidden;
    f->cfg.kernels->widen(h, in, arch->hidden, arch->dtype);
    if (rest)
        f->cfg.kernels->widen(per_layer, in + (size_t)arch->hidden * ls_fmt_bytes(arch->dtype),
                              rest, arch->dtype);
}

static void store_row(const struct ls_forward *f, char *out, const float *h,
                      const float *per_layer)
{
    const struct ls_arch *arch = f->cfg.arch;
    int rest = ls_inbound_width(arch, f->cfg.last_layer) - arch->hidden;
    int passed = (f->cfg.last_layer - f->cfg.first_layer) * arch->per_layer_width;
    f->cfg.kernels->narrow(out, h, arch->hidden, arch->dtype);
    if (rest)
        f->cfg.kernels->narrow(out + (size_t)arch->hidden * ls_fmt_bytes(arch->dtype),
                               per_layer + passed, rest, arch->dtype);
}

void ls_rows_load(struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    int width = ls_inbound_width(arch, f->cfg.first_layer);
    size_t bytes = (size_t)width * ls_fmt_bytes(arch->dtype);
    const char *in = f->io.hidden_in;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *h = row(f->s.h, f->s.ld_hidden, t);
        f->s.nan_layer[t] = -1;
        if (f->cfg.first_layer == 0)
            embed_row(f, h, f->io.tokens[t]);
        else
            load_row(f, h, row(f->s.per_layer, f->s.ld_per_layer, t), in + t * bytes);
        if (f->cfg.first_layer == 0)
            ls_tap_row(f, LS_OP_EMBEDDING, 0, t, h, arch->hidden);
    }
}

void ls_rows_store(const struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    if (!f->io.hidden_out)
        return;
    int width = ls_inbound_width(arch, f->cfg.last_layer);
    size_t bytes = (size_t)width * ls_fmt_bytes(arch->dtype);
    char *out = f->io.hidden_out;
    for (uint32_t t = p.row0; t < p.row1; t++)
        store_row(f, out + t * bytes, row(f->s.h, f->s.ld_hidden, t),
                  row(f->s.per_layer, f->s.ld_per_layer, t));
}

void ls_norm_row(const struct ls_forward *f, float *y, const float *x, const float *w)
{
    const struct ls_arch *arch = f->cfg.arch;
    if (arch->norm == LS_NORM_LAYER)
        f->cfg.kernels->layernorm(y, x, w, NULL, arch->hidden, arch->norm_eps, arch->dtype);
    else
        f->cfg.kernels->rmsnorm(y, x, w, arch->hidden, arch->norm_eps, arch->norm_weight,
                                arch->dtype);
}

void ls_rows_norm(struct ls_forward *f, struct ls_part p, const float *w)
{
    if (!w)
        return;
    for (uint32_t t = p.row0; t < p.row1; t++)
        ls_norm_row(f, row(f->s.x, f->s.ld_hidden, t), row(f->s.h, f->s.ld_hidden, t), w);
}

void ls_rows_join(struct ls_forward *f, struct ls_part p, const float *w)
{
    const struct ls_arch *arch = f->cfg.arch;
    const float *m = arch->residual_scale != 0 ? &arch->residual_scale : NULL;
    if (!w)
        return;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *acc = row(f->s.acc, f->s.ld_hidden, t);
        ls_norm_row(f, acc, acc, w);
        f->cfg.kernels->residual(row(f->s.h, f->s.ld_hidden, t), acc, m, arch->hidden,
                                 arch->dtype);
    }
}

void ls_rows_scale(struct ls_forward *f, struct ls_part p, const float *scalar)
{
    const struct ls_arch *arch = f->cfg.arch;
    if (!scalar)
        return;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        float *h = row(f->s.h, f->s.ld_hidden, t);
        f->cfg.kernels->scale(h, h, *scalar, arch->hidden, arch->dtype);
    }
}

/* Integers, so that it vectorises and no compiler reasons about NaN. */
static int has_nan(const float *x, int n)
{
    uint32_t found = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        found |= (bits & 0x7fffffff) > 0x7f800000;
    }
    return found != 0;
}

void ls_rows_find_nan(struct ls_forward *f, struct ls_part p, int global)
{
    for (uint32_t t = p.row0; t < p.row1; t++)
        if (f->s.nan_layer[t] < 0 &&
            has_nan(row(f->s.h, f->s.ld_hidden, t), f->cfg.arch->hidden))
            f->s.nan_layer[t] = global;
}

void ls_rows_final_norm(struct ls_forward *f, struct ls_part p)
{
    const int n = f->cfg.arch->hidden;
    const struct ls_own all = { .c1 = n };
    for (uint32_t i = p.row0; i < p.row1; i++) {
        float *x = row(f->s.x, f->s.ld_hidden, i);
        ls_norm_row(f, x, row(f->s.h, f->s.ld_hidden, f->wanted.tokens[i]),
                    f->weights->final_norm);
        ls_tap_wanted(f, LS_OP_FINAL_NORM, i, x, all, n);
    }
}
