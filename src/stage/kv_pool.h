/* The memory of one stage's KV blocks: one contiguous array a layer.
 *
 * Layer: stage. Geometry comes from the architecture, never from a peer. Block x of a layer:
 *
 *   | head 0: K tiles | V [32][dim] | head 1: K | V | ...      K and V 64-byte aligned
 *
 * Pages are untouched until a block is first written. Who owns a block is tables.h's matter. */
#ifndef LS_STAGE_KV_POOL_H
#define LS_STAGE_KV_POOL_H

#include "model/arch.h"
#include "model/forward.h"

struct ls_kv_pool {
    struct ls_kv_layer *layers; /* [n_layers], index 0 is the stage's first layer */
    int n_layers;
    uint64_t bytes; /* of all blocks */
};

/* LS_E_MEMORY when it does not fit; nothing is kept then. Local. */
ls_status ls_kv_pool_init(struct ls_kv_pool *pool, const struct ls_arch *arch, int first_layer,
                          int last_layer, uint32_t n_blocks, struct ls_err *err);
void ls_kv_pool_finish(struct ls_kv_pool *pool);

#endif
