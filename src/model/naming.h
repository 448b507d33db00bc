/* Finding an architecture's tensors in a checkpoint, whatever prefix the exporter gave them.
 *
 * Layer: model. A family names its tensors in one way (ls_family.place); files differ: a text
 * model inside a larger one, old and new exports of those, a body saved without its head. The
 * prefix is settled once, by where the embedding lies. Local, cannot fail. */
#ifndef LS_MODEL_NAMING_H
#define LS_MODEL_NAMING_H

#include "model/arch.h"
#include "tensor/checkpoint.h"

struct ls_naming {
    const char *body; /* in front of "layers.N.", "norm.", "embed_tokens." */
    const char *head; /* in front of "weight" of the head */
};

struct ls_naming ls_naming_of(const struct ls_arch *arch, const struct ls_checkpoint *ckpt);

/* Fills *place with this checkpoint's name for the weight and returns the tensor, or NULL when
 * the checkpoint lacks it. A tied head is looked for where the embedding lies. */
const struct ls_tensor *ls_naming_find(const struct ls_naming *naming,
                                       const struct ls_arch *arch,
                                       const struct ls_checkpoint *ckpt,
                                       const struct ls_weight_id *id,
                                       struct ls_tensor_place *place);

/* Place of the scales that belong to a place with mxfp4. */
void ls_naming_scales(const struct ls_tensor_place *blocks, struct ls_tensor_place *scales);

/* Number of the layer that a tensor name lies in; -1: in none. Numbers that no model reaches
 * give LS_MAX_LAYERS. */
int ls_naming_layer(const struct ls_naming *naming, const char *name);

/* True for a name beside a tensor that the ends of the model use: an unknown one of those would
 * change the result (a head's bias, say). */
bool ls_naming_is_end(const struct ls_naming *naming, const char *name);

#endif
