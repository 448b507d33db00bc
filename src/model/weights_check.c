/* Checking and sizing weights from the headers alone; see weights.h. */
#include "model/weights.h"

#include "model/naming.h"
#include "model/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 200 };

static bool usable(enum ls_dtype dtype, enum ls_fmt *fmt)
{
    switch (dtype) {
    case LS_DTYPE_F32:
        *fmt = LS_FMT_F32;
        return true;
    case LS_DTYPE_F16:
        *fmt = LS_FMT_F16;
        return true;
    case LS_DTYPE_BF16:
        *fmt = LS_FMT_BF16;
        return true;
    default:
        return false;
    }
}

static void show_shape(char text[SHOWN], const struct ls_tensor *t)
{
    size_t n = (size_t)snprintf(text, SHOWN, "[");
    for (int d = 0; d < t->n_dims && n < SHOWN; d++)
        n += (size_t)snprintf(text + n, SHOWN - n, "%s%" PRIu64, d ? ", " : "", t->dims[d]);
    if (n < SHOWN)
        snprintf(text + n, SHOWN - n, "]");
}

ls_status ls_weights_check_tensor(const struct ls_checkpoint *ckpt, const struct ls_tensor *t,
                                  const struct ls_tensor_place *place,
                                  const struct ls_role_shape *shape, enum ls_fmt *fmt,
                                  struct ls_err *err)
{
    char actual[SHOWN], expected[SHOWN];
    struct ls_tensor want = { .n_dims = shape->cols ? 2 : 1,
                              .dims = { place->rows, shape->cols } };
    if (!t)
        return ls_fail(err, LS_E_FORMAT, "%s: tensor '%s' is missing", ls_checkpoint_list(ckpt),
                       place->name);
    if (!usable(t->dtype, fmt))
        return ls_fail(err, LS_E_FORMAT,
                       "%s: tensor '%s' has dtype %s, supported are F32, F16 and BF16",
                       ls_checkpoint_file_of(ckpt, t), t->name, ls_dtype_name(t->dtype));
    if (t->n_dims == want.n_dims && t->dims[0] == want.dims[0] &&
        (t->n_dims == 1 || t->dims[1] == want.dims[1]))
        return LS_OK;
    show_shape(actual, t);
    show_shape(expected, &want);
    return ls_fail(err, LS_E_FORMAT, "%s: tensor '%s' has shape %s, config.json asks for %s",
                   ls_checkpoint_file_of(ckpt, t), t->name, actual, expected);
}

/* What a walk over all weights of some layers does with each. */
struct walk {
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    struct ls_naming naming;
    bool *used;     /* [n_tensors] or NULL */
    uint64_t bytes; /* of what loading will take; tensors that fail the check count nothing */
    struct ls_err *err;
};

static ls_status visit(struct walk *w, enum ls_role role, int layer, bool bias)
{
    struct ls_tensor_place place;
    struct ls_role_shape shape = ls_role_shape(w->arch, role, layer);
    enum ls_fmt fmt;
    const struct ls_tensor *t =
        ls_naming_find(&w->naming, w->arch, w->ckpt, role, layer, bias, &place);
    if (bias)
        shape.cols = 0;
    ls_status s = ls_weights_check_tensor(w->ckpt, t, &place, &shape, &fmt, w->err);
    if (s)
        return s;
    if (w->used)
        w->used[t - ls_checkpoint_tensor(w->ckpt, 0)] = true;
    if (shape.cols)
        w->bytes += ls_packed_bytes(fmt, shape.rows, shape.cols);
    else
        w->bytes += (bias ? ls_tiles(shape.rows) * LS_TILE : shape.rows) * sizeof(float);
    return LS_OK;
}

static ls_status visit_layer(struct walk *w, int layer)
{
    ls_status s = LS_OK;
    for (int r = LS_ROLE_ATTN_NORM; r < LS_N_ROLES && !s; r++) {
        const enum ls_role role = (enum ls_role)r;
        if (ls_role_present(w->arch, role))
            s = visit(w, role, layer, false);
        if (!s && ls_role_has_bias(w->arch, role))
            s = visit(w, role, layer, true);
    }
    return s;
}

/* A tied checkpoint may carry the head's own copy; the embedding is the head. */
static bool is_tied_head(const struct walk *w, const char *name)
{
    const size_t n = strlen(w->naming.head);
    return w->arch->tied && !strncmp(name, w->naming.head, n) && !strcmp(name + n, "weight");
}

/* Refuses what stands where it would take part; counts what lies elsewhere. */
static ls_status check_rest(const struct walk *w, size_t *n_ignored, const char **first_ignored)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < ls_checkpoint_n_tensors(w->ckpt); i++) {
        const struct ls_tensor *t = ls_checkpoint_tensor(w->ckpt, i);
        const int layer = ls_naming_layer(&w->naming, t->name);
        if (w->used[i])
            continue;
        const bool inside = layer >= 0 && layer < w->arch->n_layers;
        const bool counts = inside || ls_naming_is_end(&w->naming, t->name);
        if (counts && !is_tied_head(w, t->name) && !w->arch->fam->ignores(w->arch, t->name))
            return ls_fail(
                w->err, LS_E_FORMAT,
                "%s: tensor '%.200s' is not part of a %s model with this config.json",
                ls_checkpoint_file_of(w->ckpt, t), t->name, w->arch->family);
        first = first ? first : t->name;
        n++;
    }
    *n_ignored = n;
    if (first_ignored)
        *first_ignored = first;
    return LS_OK;
}

ls_status ls_weights_check(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                           size_t *n_ignored, const char **first_ignored, struct ls_err *err)
{
    void *used;
    ls_status s = ls_alloc(&used, ls_checkpoint_n_tensors(ckpt), "the check of tensors", err);
    if (s)
        return s;
    struct walk w = { arch, ckpt, ls_naming_of(arch, ckpt), used, 0, err };
    s = visit(&w, LS_ROLE_EMBED, 0, false);
    for (int layer = 0; layer < arch->n_layers && !s; layer++)
        s = visit_layer(&w, layer);
    if (!s)
        s = visit(&w, LS_ROLE_FINAL_NORM, 0, false);
    if (!s)
        s = visit(&w, LS_ROLE_HEAD, 0, false);
    if (!s)
        s = check_rest(&w, n_ignored, first_ignored);
    ls_free(used);
    return s;
}

uint64_t ls_weights_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                          int first, int last)
{
    struct walk w = { arch, ckpt, ls_naming_of(arch, ckpt), NULL, 0, NULL };
    for (int layer = first; layer < last; layer++)
        visit_layer(&w, layer);
    if (last == arch->n_layers) {
        visit(&w, LS_ROLE_FINAL_NORM, 0, false);
        visit(&w, LS_ROLE_HEAD, 0, false);
    }
    return w.bytes;
}
