/* config.json, and behind a zero byte generation_config.json: whatever the text is, the reader
 * refuses it in one line, or gives an architecture that the forward can trust. */
#include "model/arch.h"
#include "model/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void check_experts(const struct ls_arch *a)
{
    const struct ls_experts *e = &a->experts;
    must(e->n > 0 && e->n <= LS_MAX_EXPERTS && e->n_chosen > 0 && e->n_chosen <= e->n);
    must(e->intermediate > 0 && e->intermediate <= LS_MAX_WIDTH);
    must(e->n_groups > 0 && e->n % e->n_groups == 0 && e->n_groups_chosen <= e->n_groups);
    must(e->n_groups == 1 || e->n / e->n_groups >= 2);
    must(e->n_chosen <= e->n / e->n_groups * e->n_groups_chosen);
    must(isfinite(e->routed_scale) && isfinite(e->swiglu_alpha) && e->swiglu_limit >= 0);
}

static void check_layer(const struct ls_arch *a, int i)
{
    const struct ls_layer *l = &a->layers[i];
    must(l->n_heads > 0 && l->n_kv_heads > 0 && l->n_heads % l->n_kv_heads == 0);
    must(l->head_dim > 0 && l->head_dim % 2 == 0);
    must((int64_t)l->n_heads * l->head_dim <= LS_MAX_WIDTH);
    must(l->intermediate >= 0 && l->intermediate <= LS_MAX_WIDTH);
    must(l->intermediate > 0 || l->ffn == LS_FFN_EXPERTS);
    if (l->ffn == LS_FFN_EXPERTS)
        check_experts(a);
    must(l->chunk >= 0 && l->chunk <= LS_MAX_CONTEXT && l->temperature_floor >= 0);
    must(l->kv_source >= 0 && l->kv_source <= i);
    must(a->layers[l->kv_source].kv_source == l->kv_source);
    must(a->layers[l->kv_source].head_dim == l->head_dim);
    must(a->layers[l->kv_source].n_kv_heads == l->n_kv_heads);
    must(l->window >= 0 && l->window <= LS_MAX_CONTEXT);
    must(l->rope >= -1 && l->rope < a->n_ropes);
    must(isfinite(l->attn_scale) && l->attn_scale > 0);
    must(l->rope < 0 || 2 * a->ropes[l->rope].n_pairs <= l->head_dim);
}

static uint64_t elements(const struct ls_tensor_place *p)
{
    uint64_t n = p->mxfp4 ? 2 : 1;
    for (int d = 0; d < p->n_dims; d++)
        n *= p->dims[d];
    return n;
}

static uint64_t last_element(const struct ls_tensor_place *p, const struct ls_role_shape *shape)
{
    const uint64_t cols = shape->cols ? shape->cols : 1;
    must(shape->rows > 0 && p->n_dims >= 1 && p->n_dims <= 4);
    return p->first + (shape->rows - 1) * p->row_step + (cols - 1) * p->col_step;
}

static void check_places(const struct ls_arch *a, int layer)
{
    struct ls_tensor_place p;
    for (int r = 0; r < LS_N_ROLES; r++) {
        const enum ls_role role = (enum ls_role)r;
        if (!ls_role_present(a, role, layer))
            continue;
        const struct ls_weight_id id = { role, layer, ls_role_count(a, role) - 1, false };
        const struct ls_role_shape shape = ls_role_shape(a, role, layer);
        a->fam->place(a, &id, &p);
        must(*p.name && strlen(p.name) < sizeof p.name - 1);
        must(last_element(&p, &shape) < elements(&p));
    }
}

static void check(const struct ls_arch *a)
{
    must(a->vocab > 0 && a->vocab <= LS_MAX_VOCAB && a->hidden > 0 &&
         a->hidden <= LS_MAX_WIDTH);
    must(a->n_layers > 0 && a->n_layers <= LS_MAX_LAYERS && a->fam && *a->family);
    must(a->context > 0 && a->context <= LS_MAX_CONTEXT && a->dtype < LS_N_FMT);
    must(isfinite(a->norm_eps) && a->norm_eps >= 0 && a->n_eos >= 0 && a->n_eos <= LS_MAX_EOS);
    must(isfinite(a->embed_scale) && isfinite(a->logit_scale) && isfinite(a->residual_scale));
    must(a->n_ropes > 0 && a->n_ropes <= LS_MAX_ROPES);
    for (int r = 0; r < a->n_ropes; r++)
        for (int i = 0; i < a->ropes[r].n_pairs; i++)
            must(isfinite(a->ropes[r].freq[i]) && a->ropes[r].freq[i] >= 0);
    for (int i = 0; i < a->n_layers; i++)
        check_layer(a, i);
    check_places(a, 0);
    check_places(a, a->n_layers - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    const size_t n = zero ? (size_t)(zero - data) : size;
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_err err;
    ls_arena_init(&arena);
    ls_status s =
        ls_arch_parse(&arch, (const char *)data, n, zero ? (const char *)zero + 1 : NULL,
                      zero ? size - n - 1 : 0, &(struct ls_arch_wish){ 0 }, &arena, &err);
    if (!s)
        check(&arch);
    else
        must(err.status == s && *err.text && !strchr(err.text, '\n'));
    ls_arena_finish(&arena);
    return 0;
}
