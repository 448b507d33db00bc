#include "parity/quirk_parts.h"

#include "base/size.h"
#include "kernels/math64.h"
#include "model/naming.h"
#include "parity/element.h"

#include <stdio.h>
#include <string.h>

/* One operation over the rows of its input; the result is compared with the second arm's. */
struct again {
    const struct ls_quirk_view *v;
    const struct ls_tensor *input;
    uint64_t rows, width;
    float *row;     /* [width + 1] */
    float *weights; /* [width], 1 + w rounded to D */
    int shift;      /* of positions */
};

/* --- inputs ----------------------------------------------------------------------------------
 */

static const struct ls_tensor *first_of(const struct ls_probe_file *f, enum ls_op op,
                                        enum ls_op or_else)
{
    const struct ls_tensor *const t = ls_probe_file_find(f, ls_op_name(op));
    return t ? t : ls_probe_file_find(f, ls_op_name(or_else));
}

/* What the operation read, from the probes of the first arm. */
static const struct ls_tensor *input_of(const struct ls_quirk_view *v,
                                        const struct ls_probe_file *layers)
{
    char name[LS_PROBE_NAME];
    const struct ls_probe_file *const ops = &v->arm[0];
    switch (v->c->where->op) {
    case LS_OP_ATTN_NORM:
    case LS_OP_FINAL_NORM:
        snprintf(name, sizeof name, "hidden_states.%d", v->c->where->layer);
        return ls_probe_file_find(layers, name);
    case LS_OP_FFN_NORM:
        return ls_probe_file_find(ops, ls_op_name(LS_OP_ATTN_RESIDUAL));
    case LS_OP_ATTN_POST_NORM:
        return ls_probe_file_find(ops, ls_op_name(LS_OP_ATTN_OUT));
    case LS_OP_FFN_POST_NORM:
        return ls_probe_file_find(ops, ls_op_name(LS_OP_FFN_OUT));
    case LS_OP_Q_ROPE:
        return first_of(ops, LS_OP_Q_NORM, LS_OP_Q);
    case LS_OP_K_ROPE:
        return first_of(ops, LS_OP_K_NORM, LS_OP_K);
    default:
        return NULL;
    }
}

static enum ls_role norm_of(enum ls_op op)
{
    switch (op) {
    case LS_OP_ATTN_NORM:
        return LS_ROLE_ATTN_NORM;
    case LS_OP_FFN_NORM:
        return LS_ROLE_FFN_NORM;
    case LS_OP_ATTN_POST_NORM:
        return LS_ROLE_POST_ATTN_NORM;
    case LS_OP_FFN_POST_NORM:
        return LS_ROLE_POST_FFN_NORM;
    case LS_OP_FINAL_NORM:
        return LS_ROLE_FINAL_NORM;
    default:
        return LS_N_ROLES;
    }
}

/* --- the operations --------------------------------------------------------------------------
 */

static bool read_weights(struct again *a, enum ls_role role)
{
    struct ls_tensor_place place;
    const struct ls_probe_config *const cfg = &a->v->c->config;
    const struct ls_naming naming = ls_naming_of(cfg->arch, cfg->ckpt);
    const int layer = a->v->c->where->layer;
    const struct ls_weight_id id = { .role = role,
                                     .layer = layer < cfg->arch->n_layers ? layer : 0 };
    const struct ls_tensor *const t =
        ls_naming_find(&naming, cfg->arch, cfg->ckpt, &id, &place);
    if (!t || !ls_dtype_bytes(t->dtype) || t->bytes / ls_dtype_bytes(t->dtype) != a->width)
        return false;
    for (uint64_t i = 0; i < a->width; i++)
        a->weights[i] = (float)ls_element_value(t->data, t->dtype, i) + 1.0f;
    cfg->kernels->round(a->weights, a->weights, (int)a->width, cfg->arch->dtype);
    return true;
}

static void norm_row(const struct again *a, uint64_t row)
{
    const struct ls_probe_config *const cfg = &a->v->c->config;
    (void)row;
    cfg->kernels->rmsnorm(a->row, a->row, a->weights, (int)a->width, cfg->arch->norm_eps,
                          LS_NORM_W_ONCE, cfg->arch->dtype);
}

static void turn_row(const struct again *a, uint64_t row)
{
    const struct ls_probe_config *const cfg = &a->v->c->config;
    const struct ls_layer *const layer = &cfg->arch->layers[a->v->c->where->layer];
    const struct ls_rope *const rope = &cfg->arch->ropes[layer->rope];
    float *const cosines = a->weights, *const sines = cosines + rope->n_pairs;
    for (int i = 0; i < rope->n_pairs; i++) {
        double sine, cosine;
        ls_sincos64((float)((int64_t)row + a->shift) * rope->freq[i], &sine, &cosine);
        cosines[i] = (float)cosine * rope->attention_factor;
        sines[i] = (float)sine * rope->attention_factor;
    }
    for (uint64_t h = 0; h < a->width; h += (uint64_t)layer->head_dim)
        cfg->kernels->rope(a->row + h, cosines, sines, rope->n_pairs, rope->pairs,
                           cfg->arch->dtype);
}

/* True when every row, computed again, is the second arm's. */
static bool all_rows(struct again *a, void (*compute)(const struct again *a, uint64_t row))
{
    const struct ls_tensor *const b = a->v->b;
    const uint64_t bytes = a->width * sizeof *a->row;
    bool same = b->dtype == LS_DTYPE_F32 && b->bytes >= a->rows * bytes;
    const unsigned saved = ls_fp_enter();
    for (uint64_t r = 0; same && r < a->rows; r++) {
        memcpy(a->row, a->input->data + r * bytes, (size_t)bytes);
        compute(a, r);
        same = !memcmp(a->row, b->data + r * bytes, (size_t)bytes);
    }
    ls_fp_leave(saved);
    return same;
}

static void try_op(struct ls_proposals *out, struct again *a)
{
    const struct ls_arch *const arch = a->v->c->config.arch;
    const enum ls_op op = a->v->c->where->op;
    if (op == LS_OP_Q_ROPE || op == LS_OP_K_ROPE) {
        for (a->shift = -1; a->shift <= 1; a->shift += 2)
            if (all_rows(a, turn_row))
                ls_quirk_add(out, true, "position",
                             "positions are %s by one there when rope turns",
                             a->shift > 0 ? "late" : "early");
        return;
    }
    if (arch->norm_weight == LS_NORM_ONE_PLUS_W && arch->norm == LS_NORM_RMS &&
        read_weights(a, norm_of(op)) && all_rows(a, norm_row))
        ls_quirk_add(out, true, "one-plus-rounded",
                     "1 + w is rounded to the weights' dtype there before it multiplies");
}

ls_status ls_quirk_again(struct ls_proposals *out, const struct ls_quirk_view *v,
                         struct ls_err *err)
{
    char path[LS_LOCATE_PATH];
    struct ls_probe_file layers;
    void *memory = NULL;
    struct again a = { .v = v };
    ls_locate_path(path, v->c->locate, "layers", 1);
    ls_status s = ls_probe_file_open(&layers, path, err);
    if (!s)
        a.input = input_of(v, &layers);
    if (a.input && a.input->dtype == LS_DTYPE_F32 && a.input->n_dims == 2 &&
        ls_gap_columns(a.input) == ls_gap_columns(v->b)) {
        a.width = a.input->dims[1];
        a.rows = ls_min_u64(a.input->dims[0], v->b->n_dims ? v->b->dims[0] : 0);
        s = ls_alloc(&memory, 2 * (a.width + LS_TILE) * sizeof *a.row, "an operation", err);
        a.row = memory;
        a.weights = a.row ? a.row + a.width + LS_TILE : NULL;
        if (!s)
            try_op(out, &a);
    }
    ls_free(memory);
    ls_probe_file_finish(&layers);
    return s;
}
