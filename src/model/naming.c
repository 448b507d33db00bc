#include "model/naming.h"

#include <stdio.h>
#include <string.h>

enum { N_PREFIXES = 2 };

/* The first of each kind is what ls_family.place writes. */
static const struct ls_naming flat[N_PREFIXES] = {
    { "model.", "lm_head." },
    { "", "lm_head." },
};
static const struct ls_naming nested[N_PREFIXES] = {
    { "language_model.model.", "language_model.lm_head." },
    { "model.language_model.", "lm_head." },
};

static bool starts_with(const char *name, const char *prefix)
{
    return !strncmp(name, prefix, strlen(prefix));
}

static const struct ls_naming *prefixes(const struct ls_arch *arch)
{
    return arch->nested ? nested : flat;
}

static void replace(char *name, size_t size, const char *from, const char *to)
{
    char rest[sizeof((struct ls_tensor_place *)0)->name];
    snprintf(rest, sizeof rest, "%s", name + strlen(from));
    snprintf(name, size, "%s%s", to, rest);
}

const struct ls_tensor *ls_naming_find(const struct ls_naming *naming,
                                       const struct ls_arch *arch,
                                       const struct ls_checkpoint *ckpt,
                                       const struct ls_weight_id *id,
                                       struct ls_tensor_place *place)
{
    const struct ls_naming *canonical = prefixes(arch);
    struct ls_weight_id which = *id;
    if (which.role == LS_ROLE_HEAD && arch->tied)
        which.role = LS_ROLE_EMBED;
    arch->fam->place(arch, &which, place);
    if (starts_with(place->name, canonical->head))
        replace(place->name, sizeof place->name, canonical->head, naming->head);
    else if (starts_with(place->name, canonical->body))
        replace(place->name, sizeof place->name, canonical->body, naming->body);
    return ls_checkpoint_find(ckpt, place->name);
}

void ls_naming_scales(const struct ls_tensor_place *blocks, struct ls_tensor_place *scales)
{
    static const char from[] = "_blocks", to[] = "_scales";
    *scales = *blocks;
    memcpy(scales->name + strlen(scales->name) - (sizeof from - 1), to, sizeof to);
    scales->n_dims = 3;
}

struct ls_naming ls_naming_of(const struct ls_arch *arch, const struct ls_checkpoint *ckpt)
{
    static const struct ls_weight_id embed = { .role = LS_ROLE_EMBED };
    struct ls_tensor_place place;
    for (int i = 0; i < N_PREFIXES; i++)
        if (ls_naming_find(&prefixes(arch)[i], arch, ckpt, &embed, &place))
            return prefixes(arch)[i];
    return prefixes(arch)[0];
}

int ls_naming_layer(const struct ls_naming *naming, const char *name)
{
    static const char layers[] = "layers.";
    int n = 0;
    if (!starts_with(name, naming->body))
        return -1;
    name += strlen(naming->body);
    if (!starts_with(name, layers))
        return -1;
    name += sizeof layers - 1;
    if (*name < '0' || *name > '9')
        return -1;
    for (; *name >= '0' && *name <= '9'; name++)
        n = n >= LS_MAX_LAYERS ? LS_MAX_LAYERS : n * 10 + (*name - '0');
    return n < LS_MAX_LAYERS ? n : LS_MAX_LAYERS;
}

bool ls_naming_is_end(const struct ls_naming *naming, const char *name)
{
    if (starts_with(name, naming->head))
        return true;
    if (!starts_with(name, naming->body))
        return false;
    name += strlen(naming->body);
    return starts_with(name, "norm.") || starts_with(name, "embed_tokens") ||
           starts_with(name, "per_layer_");
}
