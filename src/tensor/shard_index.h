/* Reader of model.safetensors.index.json: which shard holds which tensor. Layer: tensor.
 *
 * A pure function over (bytes, size). Refused, naming tensor and shard: broken JSON, duplicate
 * keys, no weight_map or an empty one, a shard name that is not a plain `*.safetensors` file
 * name (a path could lead out of the checkpoint's folder). Local. */
#ifndef LS_TENSOR_SHARD_INDEX_H
#define LS_TENSOR_SHARD_INDEX_H

#include "base/alloc.h"
#include "base/status.h"

#include <stddef.h>

struct ls_index_entry {
    const char *tensor;
    int shard; /* index into shards */
};

struct ls_index {
    const char **shards; /* [n_shards], sorted, each once */
    int n_shards;
    struct ls_index_entry *entries; /* [n_entries], sorted by tensor */
    size_t n_entries;
};

/* Everything in *index lives in the arena. */
ls_status ls_index_parse(struct ls_index *index, const char *json, size_t n,
                         struct ls_arena *arena, struct ls_err *err);

/* NULL when the index does not name the tensor. */
const struct ls_index_entry *ls_index_find(const struct ls_index *index, const char *tensor);

#endif
