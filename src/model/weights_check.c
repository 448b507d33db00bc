/* Checking and sizing weights from the headers alone; see weights.h. */
#include "model/weights.h"

#include "base/size.h"
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

static ls_status check_shape(const struct ls_checkpoint *ckpt, const struct ls_tensor *t,
                             const struct ls_tensor_place *place, struct ls_err *err)
{
    char actual[SHOWN], expected[SHOWN];
    struct ls_tensor want = { .n_dims = place->n_dims };
    bool same = t->n_dims == place->n_dims;
    for (int d = 0; d < place->n_dims; d++) {
        want.dims[d] = place->dims[d];
        same = same && t->dims[d] == place->dims[d];
    }
    if (same)
        return LS_OK;
    show_shape(actual, t);
    show_shape(expected, &want);
    return ls_fail(err, LS_E_FORMAT, "%s: tensor '%s' has shape %s, config.json asks for %s",
                   ls_checkpoint_file_of(ckpt, t), t->name, actual, expected);
}

static ls_status check_one(const struct ls_checkpoint *ckpt, const struct ls_tensor *t,
                           const struct ls_tensor_place *place, enum ls_fmt *fmt,
                           struct ls_err *err)
{
    if (!t)
        return ls_fail(err, LS_E_FORMAT, "%s: tensor '%s' is missing", ls_checkpoint_list(ckpt),
                       place->name);
    if (place->mxfp4 ? t->dtype != LS_DTYPE_U8 : !usable(t->dtype, fmt))
        return ls_fail(err, LS_E_FORMAT, "%s: tensor '%s' has dtype %s, supported %s",
                       ls_checkpoint_file_of(ckpt, t), t->name, ls_dtype_name(t->dtype),
                       place->mxfp4 ? "is U8" : "are F32, F16 and BF16");
    return check_shape(ckpt, t, place, err);
}

ls_status ls_weights_check_tensor(const struct ls_checkpoint *ckpt, const struct ls_tensor *t,
                                  const struct ls_tensor_place *place, enum ls_fmt *fmt,
                                  const struct ls_tensor **scales, struct ls_err *err)
{
    struct ls_tensor_place beside;
    ls_status s = check_one(ckpt, t, place, fmt, err);
    *scales = NULL;
    if (s || !place->mxfp4)
        return s;
    *fmt = LS_FMT_BF16;
    ls_naming_scales(place, &beside);
    *scales = ls_checkpoint_find(ckpt, beside.name);
    return check_one(ckpt, *scales, &beside, fmt, err);
}

/* What a walk over all weights of some layers does with each. */
struct walk {
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    struct ls_naming naming;
    bool *used;     /* [n_tensors] or NULL */
    uint64_t bytes; /* of what loading will take; tensors that fail the check count nothing */
    struct ls_err *err;
    uint64_t most_bytes; /* of that and of a matrix's source */
};

static void note_used(struct walk *w, const struct ls_tensor *t)
{
    if (w->used && t)
        w->used[t - ls_checkpoint_tensor(w->ckpt, 0)] = true;
}

static ls_status visit(struct walk *w, const struct ls_weight_id *id)
{
    struct ls_tensor_place place;
    const struct ls_role_shape shape = ls_role_shape(w->arch, id->role, id->layer);
    const struct ls_tensor *scales;
    enum ls_fmt fmt;
    const struct ls_tensor *t = ls_naming_find(&w->naming, w->arch, w->ckpt, id, &place);
    ls_status s = ls_weights_check_tensor(w->ckpt, t, &place, &fmt, &scales, w->err);
    if (s)
        return s;
    note_used(w, t);
    note_used(w, scales);
    const bool matrix = shape.cols && !id->bias;
    if (matrix)
        w->bytes += ls_packed_bytes(fmt, shape.rows, shape.cols);
    else
        w->bytes += (id->bias ? ls_tiles(shape.rows) * LS_TILE : shape.rows) * sizeof(float);
    w->most_bytes = ls_max_u64(w->most_bytes, w->bytes + (matrix ? t->bytes : 0));
    return LS_OK;
}

/* Every weight of the role in this layer, and their biases. */
static ls_status visit_role(struct walk *w, enum ls_role role, int layer)
{
    ls_status s = LS_OK;
    struct ls_weight_id id = { .role = role, .layer = layer };
    if (!ls_role_present(w->arch, role, layer))
        return LS_OK;
    for (; id.expert < ls_role_count(w->arch, role) && !s; id.expert++) {
        id.bias = false;
        s = visit(w, &id);
        id.bias = true;
        if (!s && ls_role_has_bias(w->arch, role, layer))
            s = visit(w, &id);
    }
    return s;
}

static ls_status visit_layer(struct walk *w, int layer)
{
    ls_status s = LS_OK;
    for (int r = LS_ROLE_ATTN_NORM; r < LS_N_ROLES && !s; r++)
        s = visit_role(w, (enum ls_role)r, layer);
    return s;
}

/* What the first stage has packed beside its layers; its tables stay in the mapping. */
static ls_status visit_front(struct walk *w)
{
    ls_status s = visit_role(w, LS_ROLE_PER_LAYER_MODEL, 0);
    return s ? s : visit_role(w, LS_ROLE_PER_LAYER_NORM, 0);
}

static ls_status visit_back(struct walk *w)
{
    const struct ls_weight_id head = { .role = LS_ROLE_HEAD };
    ls_status s = visit_role(w, LS_ROLE_FINAL_NORM, 0);
    return s ? s : visit(w, &head);
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
    struct walk w = {
        .arch = arch, .ckpt = ckpt, .naming = ls_naming_of(arch, ckpt), .used = used, .err = err
    };
    s = visit_role(&w, LS_ROLE_EMBED, 0);
    if (!s)
        s = visit_role(&w, LS_ROLE_PER_LAYER_EMBED, 0);
    if (!s)
        s = visit_front(&w);
    for (int layer = 0; layer < arch->n_layers && !s; layer++)
        s = visit_layer(&w, layer);
    if (!s)
        s = visit_back(&w);
    if (!s)
        s = check_rest(&w, n_ignored, first_ignored);
    ls_free(used);
    return s;
}

static struct walk walk_range(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                              int first, int last)
{
    struct walk w = { .arch = arch, .ckpt = ckpt, .naming = ls_naming_of(arch, ckpt) };
    if (first == 0)
        visit_front(&w);
    for (int layer = first; layer < last; layer++)
        visit_layer(&w, layer);
    if (last == arch->n_layers)
        visit_back(&w);
    return w;
}

uint64_t ls_weights_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                          int first, int last)
{
    return walk_range(arch, ckpt, first, last).bytes;
}

uint64_t ls_weights_load_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                               int first, int last)
{
    return walk_range(arch, ckpt, first, last).most_bytes;
}

const struct ls_tensor *ls_weights_table(const struct ls_arch *arch,
                                         const struct ls_checkpoint *ckpt, enum ls_role role)
{
    const struct ls_weight_id id = { .role = role };
    const struct ls_naming naming = ls_naming_of(arch, ckpt);
    struct ls_tensor_place place;
    if (!ls_role_present(arch, role, 0))
        return NULL;
    return ls_naming_find(&naming, arch, ckpt, &id, &place);
}

uint64_t ls_weights_head_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt)
{
    struct walk w = { .arch = arch, .ckpt = ckpt, .naming = ls_naming_of(arch, ckpt) };
    visit_back(&w);
    return w.bytes;
}
