/* Where the tensors of a family lie; see dense.h. */
#include "model/families/dense.h"

#include "model/shape.h"

#include <stdio.h>
#include <string.h>

enum { MXFP4_BLOCK = 32, MXFP4_BYTES = 16 };

static bool same_tensor(const struct ls_dense *d, enum ls_role a, enum ls_role b)
{
    return d->names[a] && d->names[b] && !strcmp(d->names[a], d->names[b]);
}

static bool is_expert(enum ls_role role)
{
    return role == LS_ROLE_EXPERT_GATE || role == LS_ROLE_EXPERT_UP ||
           role == LS_ROLE_EXPERT_DOWN;
}

/* Parameters of modules that are no layers of their own have no ".weight". */
static bool is_bare(enum ls_role role)
{
    return role == LS_ROLE_SINKS || role == LS_ROLE_SELECT_BIAS ||
           role == LS_ROLE_ROUTER_SCALE || role == LS_ROLE_EXPERT_SCALE ||
           role == LS_ROLE_LAYER_SCALAR;
}

/* The role's rows among those of all roles that share its tensor. */
static void place_rows(const struct ls_arch *arch, const struct ls_weight_id *id,
                       struct ls_tensor_place *place)
{
    const struct ls_role_shape shape = ls_role_shape(arch, id->role, id->layer);
    const uint64_t cols = id->bias || !shape.cols ? 1 : shape.cols;
    for (int r = 0; r < LS_N_ROLES; r++) {
        if (!same_tensor(arch->fam->dense, id->role, (enum ls_role)r))
            continue;
        const uint64_t rows = ls_role_shape(arch, (enum ls_role)r, id->layer).rows;
        place->dims[0] += rows;
        place->first += r < (int)id->role ? rows * cols : 0;
    }
    place->n_dims = shape.cols && !id->bias ? 2 : 1;
    place->dims[1] = shape.cols;
    place->row_step = cols;
    place->col_step = 1;
}

/* One expert's matrix in a tensor of all experts; rows: outputs of gate and up together. */
static void place_fused(const struct ls_arch *arch, const struct ls_weight_id *id,
                        struct ls_tensor_place *place)
{
    const struct ls_role_shape shape = ls_role_shape(arch, id->role, id->layer);
    const enum ls_expert_storage storage = arch->experts.storage;
    const bool down = id->role == LS_ROLE_EXPERT_DOWN, up = id->role == LS_ROLE_EXPERT_UP;
    const bool alternate =
        !down && (storage == LS_EXPERTS_ALTERNATE || storage == LS_EXPERTS_MXFP4);
    const bool turned = storage == LS_EXPERTS_TURNED || storage == LS_EXPERTS_ALTERNATE;
    const uint64_t rows = down ? shape.rows : 2 * shape.rows, cols = shape.cols;
    const uint64_t expert = (uint64_t)id->expert;
    /* in rows of the expert's matrix, then in elements */
    const uint64_t row = !up ? 0 : alternate ? 1 : shape.rows, step = alternate ? 2 : 1;
    const uint64_t across = id->bias || turned ? 1 : cols;
    place->dims[0] = (uint64_t)arch->experts.n;
    place->n_dims = id->bias ? 2 : 3;
    place->dims[1] = turned && !id->bias ? cols : rows;
    place->dims[2] = turned ? rows : cols;
    place->first = expert * rows * (id->bias ? 1 : cols) + row * across;
    place->row_step = step * across;
    place->col_step = turned ? rows : 1;
    if (storage == LS_EXPERTS_MXFP4 && !id->bias) {
        place->mxfp4 = true;
        place->n_dims = 4;
        place->dims[2] = cols / MXFP4_BLOCK;
        place->dims[3] = MXFP4_BYTES;
    }
}

/* Writes the name behind "layers.N." or "model.": '#' stands for the expert. */
static void finish_name(const struct ls_arch *arch, const struct ls_weight_id *id, char *name,
                        size_t size)
{
    const char *base = arch->fam->dense->names[id->role];
    const enum ls_expert_storage storage = arch->experts.storage;
    const bool fused = is_expert(id->role) && storage != LS_EXPERTS_EACH;
    const char *end = id->bias ? ".bias" : ".weight";
    base = base ? base : "";
    if (fused)
        end = id->bias ? "_bias" : storage == LS_EXPERTS_MXFP4 ? "_blocks" : "";
    if (is_bare(id->role))
        end = "";
    const char *number = strchr(base, '#');
    if (number)
        snprintf(name, size, "%.*s%d%s%s", (int)(number - base), base, id->expert, number + 1,
                 end);
    else
        snprintf(name, size, "%s%s", base, end);
}

void ls_dense_place(const struct ls_arch *arch, const struct ls_weight_id *id,
                    struct ls_tensor_place *place)
{
    const char *outer = arch->nested ? "language_model." : "";
    char name[128];
    *place = (struct ls_tensor_place){ 0 };
    if (is_expert(id->role) && arch->experts.storage != LS_EXPERTS_EACH)
        place_fused(arch, id, place);
    else
        place_rows(arch, id, place);
    finish_name(arch, id, name, sizeof name);
    if (id->role == LS_ROLE_HEAD)
        snprintf(place->name, sizeof place->name, "%s%s", outer, name);
    else if (id->role < LS_ROLE_ATTN_NORM)
        snprintf(place->name, sizeof place->name, "%smodel.%s", outer, name);
    else
        snprintf(place->name, sizeof place->name, "%smodel.layers.%d.%s", outer, id->layer,
                 name);
}

/* Old exports carry the rope's frequencies as a buffer in every layer. */
bool ls_dense_ignores(const struct ls_arch *arch, const char *name)
{
    static const char buffer[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name), k = sizeof buffer - 1;
    (void)arch;
    return n > k && !strcmp(name + n - k, buffer);
}
