/* What families with experts read alike. Layer: model. Failures are recorded in the reader. */
#ifndef LS_MODEL_FAMILIES_EXPERTS_H
#define LS_MODEL_FAMILIES_EXPERTS_H

#include "model/arch.h"
#include "model/config.h"

/* Keys and what counts when they are absent; 0: they must be there. */
struct ls_expert_keys {
    const char *n, *chosen, *width;
    int n_absent, chosen_absent, width_absent;
};

/* Fills n, n_chosen and intermediate of arch->experts, and what is neutral in the rest. */
void ls_experts_read(struct ls_arch *arch, struct ls_config *c,
                     const struct ls_expert_keys *keys);

/* Makes a layer one of experts; shared: width of its shared expert, 0: none. */
void ls_experts_place(struct ls_arch *arch, int layer, int shared);

/* True when the list `key` of layer numbers names the layer; a list of anything else fails. */
bool ls_experts_listed(const struct ls_arch *arch, struct ls_config *c, const char *key,
                       int layer);

#endif
