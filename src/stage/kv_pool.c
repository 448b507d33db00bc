#include "stage/kv_pool.h"

#include "base/size.h"

#include <inttypes.h>

/* A layer that reads another's cache has no bytes of its own. */
static struct ls_kv_layer geometry(const struct ls_arch *arch, int l)
{
    const struct ls_layer *layer = &arch->layers[l];
    enum ls_fmt d = arch->dtype;
    if (layer->kv_source != l)
        return (struct ls_kv_layer){ .block_bytes = 0 };
    size_t k = ls_round_up(ls_kv_k_bytes(d, layer->head_dim), LS_ALIGN);
    size_t v = ls_round_up(ls_kv_v_bytes(d, layer->head_dim), LS_ALIGN);
    return (struct ls_kv_layer){ .k_bytes = k,
                                 .head_bytes = k + v,
                                 .block_bytes = (k + v) * (size_t)layer->n_kv_heads };
}

ls_status ls_kv_pool_init(struct ls_kv_pool *pool, const struct ls_arch *arch, int first_layer,
                          int last_layer, uint32_t n_blocks, struct ls_err *err)
{
    struct ls_kv_pool made = { .n_layers = last_layer - first_layer };
    void *p;
    ls_status s = ls_alloc(&p, (uint64_t)made.n_layers * sizeof *made.layers, "KV layers", err);
    if (s)
        return s;
    made.layers = p;
    for (int i = 0; !s && i < made.n_layers; i++) {
        struct ls_kv_layer layer = geometry(arch, first_layer + i);
        uint64_t bytes = 0;
        if (ls_mul_u64(layer.block_bytes, n_blocks, &bytes))
            s = ls_alloc(&p, bytes, "KV blocks", err);
        else
            s = ls_fail(err, LS_E_MEMORY, "KV blocks: %" PRIu32 " of %zu bytes do not fit",
                        n_blocks, layer.block_bytes);
        layer.base = s ? NULL : p;
        made.layers[i] = layer;
        made.bytes += bytes;
    }
    if (s) {
        ls_kv_pool_finish(&made);
        return s;
    }
    *pool = made;
    return LS_OK;
}

void ls_kv_pool_finish(struct ls_kv_pool *pool)
{
    for (int i = 0; pool->layers && i < pool->n_layers; i++)
        ls_free(pool->layers[i].base);
    ls_free(pool->layers);
    *pool = (struct ls_kv_pool){ .layers = NULL };
}
