#include "model/families/experts.h"

void ls_experts_read(struct ls_arch *arch, struct ls_config *c,
                     const struct ls_expert_keys *keys)
{
    struct ls_experts *e = &arch->experts;
    e->n = ls_config_int(c, keys->n, keys->n_absent, 1, LS_MAX_EXPERTS);
    e->n_chosen = ls_config_int(c, keys->chosen, keys->chosen_absent, 1, LS_MAX_EXPERTS);
    e->intermediate = ls_config_int(c, keys->width, keys->width_absent, 1, LS_MAX_WIDTH);
    e->n_groups = e->n_groups_chosen = 1;
    if (e->n_chosen > e->n)
        ls_config_fail(c, LS_E_FORMAT, keys->chosen, "more than there are experts, %d", e->n);
}

void ls_experts_place(struct ls_arch *arch, int layer, int shared)
{
    arch->layers[layer].ffn = LS_FFN_EXPERTS;
    arch->layers[layer].intermediate = shared;
}

bool ls_experts_listed(const struct ls_arch *arch, struct ls_config *c, const char *key,
                       int layer)
{
    const json_t *list = ls_config_get(c, key);
    bool found = false;
    if (list && !json_is_null(list) && !json_is_array(list))
        ls_config_fail(c, LS_E_FORMAT, key, "expected a list of layer numbers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *l = json_array_get(list, i);
        const json_int_t n = json_integer_value(l);
        if (!json_is_integer(l) || n < 0 || n >= arch->n_layers)
            ls_config_fail(c, LS_E_FORMAT, key, "entry %zu is no layer number in 0..%d", i,
                           arch->n_layers - 1);
        found = found || n == layer;
    }
    return found;
}
