/* Where the tensors of a dense family lie; see dense.h. */
#include "model/families/dense.h"

#include "model/shape.h"

#include <stdio.h>
#include <string.h>

static bool same_tensor(const struct ls_dense *d, enum ls_role a, enum ls_role b)
{
    return d->names[a] && d->names[b] && !strcmp(d->names[a], d->names[b]);
}

void ls_dense_place(const struct ls_arch *arch, enum ls_role role, int layer, bool bias,
                    struct ls_tensor_place *place)
{
    const struct ls_dense *d = arch->fam->dense;
    const char *suffix = d->names[role] ? d->names[role] : "", *kind = bias ? "bias" : "weight";
    const char *outer = arch->nested ? "language_model." : "";
    *place = (struct ls_tensor_place){ 0 };
    for (int r = 0; r < LS_N_ROLES; r++) {
        if (!same_tensor(d, role, (enum ls_role)r))
            continue;
        const uint64_t rows = ls_role_shape(arch, (enum ls_role)r, layer).rows;
        place->rows += rows;
        place->row0 += r < (int)role ? rows : 0;
    }
    if (role == LS_ROLE_HEAD)
        snprintf(place->name, sizeof place->name, "%s%s.%s", outer, suffix, kind);
    else if (role < LS_ROLE_ATTN_NORM)
        snprintf(place->name, sizeof place->name, "%smodel.%s.%s", outer, suffix, kind);
    else
        snprintf(place->name, sizeof place->name, "%smodel.layers.%d.%s.%s", outer, layer,
                 suffix, kind);
}

/* Old exports carry the rope's frequencies as a buffer in every layer. */
bool ls_dense_ignores(const struct ls_arch *arch, const char *name)
{
    static const char buffer[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name), k = sizeof buffer - 1;
    (void)arch;
    return n > k && !strcmp(name + n - k, buffer);
}
