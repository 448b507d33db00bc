/* Which tensors an architecture has, and their shapes: one table for checking, sizing and
 * loading. Layer: model. Local, cannot fail. */
#ifndef LS_MODEL_SHAPE_H
#define LS_MODEL_SHAPE_H

#include "model/arch.h"

struct ls_role_shape {
    uint64_t rows; /* outputs of a matrix, length of a vector */
    uint64_t cols; /* inputs of a matrix; 0: a vector */
};

/* Shape of `role` in global layer `layer` (ignored for the ends). */
struct ls_role_shape ls_role_shape(const struct ls_arch *arch, enum ls_role role, int layer);

/* True when the layer (ignored for the ends) has this weight at all. */
bool ls_role_present(const struct ls_arch *arch, enum ls_role role, int layer);

/* True when the role is present and has a bias beside its weight. */
bool ls_role_has_bias(const struct ls_arch *arch, enum ls_role role, int layer);

/* Weights of this role in one layer: one, or one for each expert. */
int ls_role_count(const struct ls_arch *arch, enum ls_role role);

#endif
