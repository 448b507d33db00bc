#include "model/weights.h"

#include "base/carve.h"
#include "base/mutant.h"
#include "model/naming.h"
#include "model/pack.h"
#include "model/shape.h"

#include <stddef.h>
#include <string.h>

/* What loading carries along. */
struct loader {
    struct ls_weights *w;
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    struct ls_naming naming;
    struct ls_team *team;
    struct ls_err *err;
    struct ls_carve places; /* without a base in the first pass, which counts */
    bool fills;             /* the places, from the checkpoint */
};

/* A weight's bytes in the mapping. */
struct source {
    const struct ls_tensor *tensor, *scales; /* scales: of MXFP4, or NULL */
    struct ls_role_shape shape;
    struct ls_pack_source from;
};

/* Where a role's weight goes in struct ls_layer_weights, or in struct ls_expert_weights. */
struct slot {
    enum { NOWHERE, VECTOR, MATRIX, EXPERT } kind;
    size_t at;
};

#define VECTOR_AT(field)                                                                       \
    {                                                                                          \
        VECTOR, offsetof(struct ls_layer_weights, field)                                       \
    }
#define MATRIX_AT(field)                                                                       \
    {                                                                                          \
        MATRIX, offsetof(struct ls_layer_weights, field)                                       \
    }
#define EXPERT_AT(field)                                                                       \
    {                                                                                          \
        EXPERT, offsetof(struct ls_expert_weights, field)                                      \
    }
static const struct slot slots[LS_N_ROLES] = {
    [LS_ROLE_ATTN_NORM] = VECTOR_AT(attn_norm),
    [LS_ROLE_Q] = MATRIX_AT(q),
    [LS_ROLE_K] = MATRIX_AT(k),
    [LS_ROLE_V] = MATRIX_AT(v),
    [LS_ROLE_O] = MATRIX_AT(o),
    [LS_ROLE_Q_NORM] = VECTOR_AT(q_norm),
    [LS_ROLE_K_NORM] = VECTOR_AT(k_norm),
    [LS_ROLE_POST_ATTN_NORM] = VECTOR_AT(post_attn_norm),
    [LS_ROLE_FFN_NORM] = VECTOR_AT(ffn_norm),
    [LS_ROLE_GATE] = MATRIX_AT(gate),
    [LS_ROLE_UP] = MATRIX_AT(up),
    [LS_ROLE_DOWN] = MATRIX_AT(down),
    [LS_ROLE_POST_FFN_NORM] = VECTOR_AT(post_ffn_norm),
    [LS_ROLE_SINKS] = VECTOR_AT(sinks),
    [LS_ROLE_ROUTER] = MATRIX_AT(router),
    [LS_ROLE_SELECT_BIAS] = VECTOR_AT(select_bias),
    [LS_ROLE_ROUTER_SCALE] = VECTOR_AT(router_scale),
    [LS_ROLE_EXPERT_SCALE] = VECTOR_AT(expert_scale),
    [LS_ROLE_SHARED_GATE] = MATRIX_AT(gate),
    [LS_ROLE_SHARED_UP] = MATRIX_AT(up),
    [LS_ROLE_SHARED_DOWN] = MATRIX_AT(down),
    [LS_ROLE_SHARED_WEIGHT] = MATRIX_AT(shared_weight),
    [LS_ROLE_EXPERT_GATE] = EXPERT_AT(gate),
    [LS_ROLE_EXPERT_UP] = EXPERT_AT(up),
    [LS_ROLE_EXPERT_DOWN] = EXPERT_AT(down),
    [LS_ROLE_POST_DENSE_NORM] = VECTOR_AT(post_dense_norm),
    [LS_ROLE_EXPERTS_NORM] = VECTOR_AT(experts_norm),
    [LS_ROLE_POST_EXPERTS_NORM] = VECTOR_AT(post_experts_norm),
    [LS_ROLE_PER_LAYER_GATE] = MATRIX_AT(per_layer_gate),
    [LS_ROLE_PER_LAYER_OUT] = MATRIX_AT(per_layer_out),
    [LS_ROLE_POST_PER_LAYER_NORM] = VECTOR_AT(post_per_layer_norm),
    [LS_ROLE_LAYER_SCALAR] = VECTOR_AT(layer_scalar),
};

static void *slot_of(struct ls_layer_weights *w, const struct ls_weight_id *id)
{
    const struct slot *slot = &slots[id->role];
    char *base = slot->kind == EXPERT ? (char *)&w->experts[id->expert] : (char *)w;
    return base + slot->at;
}

static uint64_t bias_bytes(uint64_t rows)
{
    return ls_tiles(rows) * LS_TILE * sizeof(float);
}

static void take(struct loader *l, void **out, uint64_t bytes)
{
    *out = ls_carve_take(&l->places, 1, 1, bytes);
    if (!l->places.overflow)
        l->w->bytes += bytes;
}

static ls_status find(struct loader *l, const struct ls_weight_id *id, struct source *src)
{
    struct ls_tensor_place place;
    src->tensor = ls_naming_find(&l->naming, l->arch, l->ckpt, id, &place);
    src->shape = ls_role_shape(l->arch, id->role, id->layer);
    ls_status s = ls_weights_check_tensor(l->ckpt, src->tensor, &place, &src->from.fmt,
                                          &src->scales, l->err);
    if (s)
        return s;
    src->from.data = src->tensor->data;
    src->from.scales = src->scales ? src->scales->data : NULL;
    src->from.first = place.first;
    src->from.row_step = place.row_step;
    src->from.col_step = place.col_step;
    return LS_OK;
}

/* The last expert's is the last use of a tensor that holds all of them. */
static void release(const struct loader *l, const struct ls_weight_id *id,
                    const struct source *src)
{
    if (id->expert + 1 < ls_role_count(l->arch, id->role) &&
        l->arch->experts.storage != LS_EXPERTS_EACH)
        return;
    ls_checkpoint_release(l->ckpt, src->tensor);
    if (src->scales)
        ls_checkpoint_release(l->ckpt, src->scales);
}

/* A fault of the test build: 1 + w rounded before it multiplies. */
static void round_one_plus(const struct loader *l, float *w, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        w[i] += 1;
    ls_kernels_of(LS_CPU_REF)->round(w, w, (int)n, l->arch->dtype);
    for (uint64_t i = 0; i < n; i++)
        w[i] -= 1;
}

static ls_status load_vector(struct loader *l, const struct ls_weight_id *id, float **out)
{
    struct source src;
    void *p;
    ls_status s = find(l, id, &src);
    if (s)
        return s;
    const uint64_t rows = src.shape.rows;
    take(l, &p, id->bias ? bias_bytes(rows) : rows * sizeof(float));
    *out = p;
    if (!l->fills)
        return LS_OK;
    ls_pack_vector(&src.from, *out, rows);
    if (LS_MUTANT(PLUS_ONE) && l->arch->norm_weight == LS_NORM_ONE_PLUS_W && !id->bias)
        round_one_plus(l, *out, rows);
    release(l, id, &src);
    return LS_OK;
}

struct pack_job {
    const struct ls_pack_source *src;
    const struct ls_matrix *m;
    char *scratch; /* [n_members][scratch_bytes] */
    uint64_t scratch_bytes;
};

static void pack_share(void *arg, int member, int n_members)
{
    const struct pack_job *job = arg;
    uint64_t begin, end;
    ls_team_share(ls_tiles((size_t)job->m->n), member, n_members, &begin, &end);
    ls_pack_tiles(job->src, job->m, begin, end,
                  job->scratch + (uint64_t)member * job->scratch_bytes);
}

static ls_status pack(struct loader *l, const struct source *src, const struct ls_matrix *m)
{
    struct pack_job job = { .src = &src->from, .m = m };
    void *scratch;
    job.scratch_bytes = ls_round_up(ls_pack_scratch(job.src, m), LS_ALIGN);
    ls_status s = ls_alloc(&scratch, job.scratch_bytes * (uint64_t)ls_team_size(l->team),
                           src->tensor->name, l->err);
    if (s)
        return s;
    job.scratch = scratch;
    ls_team_run(l->team, pack_share, &job);
    ls_free(scratch);
    return LS_OK;
}

static ls_status load_matrix(struct loader *l, const struct ls_weight_id *id,
                             struct ls_matrix *m)
{
    struct source src;
    ls_status s = find(l, id, &src);
    if (s)
        return s;
    m->fmt = src.from.fmt;
    m->n = (int)src.shape.rows;
    m->k = (int)src.shape.cols;
    take(l, &m->packed, ls_packed_bytes(m->fmt, (size_t)m->n, (size_t)m->k));
    if (!l->fills)
        return LS_OK;
    if (id->role == LS_ROLE_HEAD && l->arch->tied && LS_MUTANT(TIE_IGNORED))
        return LS_OK;
    s = pack(l, &src, m);
    if (!s)
        release(l, id, &src);
    return s;
}

/* One role of one layer; matrices and vectors in passes of their own. */
static ls_status load_role(struct loader *l, struct ls_weight_id id, bool matrices,
                           struct ls_layer_weights *w)
{
    const bool is_matrix = slots[id.role].kind != VECTOR;
    ls_status s = LS_OK;
    if (slots[id.role].kind == NOWHERE || !ls_role_present(l->arch, id.role, id.layer))
        return LS_OK;
    for (; id.expert < ls_role_count(l->arch, id.role) && !s; id.expert++) {
        void *slot = slot_of(w, &id);
        if (is_matrix && matrices)
            s = load_matrix(l, &id, slot);
        else if (!is_matrix && !matrices)
            s = load_vector(l, &id, slot);
        id.bias = true;
        if (!s && !matrices && ls_role_has_bias(l->arch, id.role, id.layer))
            s = load_vector(l, &id, &((struct ls_matrix *)slot)->bias);
        id.bias = false;
    }
    return s;
}

/* Small things first: they share pages. */
static ls_status load_layers(struct loader *l, bool matrices)
{
    ls_status s = LS_OK;
    for (int i = l->w->first_layer; i < l->w->last_layer; i++)
        for (int r = LS_ROLE_ATTN_NORM; r < LS_N_ROLES && !s; r++) {
            const struct ls_weight_id id = { .role = (enum ls_role)r, .layer = i };
            s = load_role(l, id, matrices, &l->w->layers[i - l->w->first_layer]);
        }
    return s;
}

/* Tables of the first stage stay in the mapping. */
static ls_status map_table(struct loader *l, enum ls_role role, const struct ls_tensor **out)
{
    const struct ls_weight_id id = { .role = role };
    struct source src;
    if (!ls_role_present(l->arch, role, 0))
        return LS_OK;
    ls_status s = find(l, &id, &src);
    *out = s ? NULL : src.tensor;
    return s;
}

static ls_status load_front(struct loader *l)
{
    static const struct ls_weight_id model = { .role = LS_ROLE_PER_LAYER_MODEL };
    static const struct ls_weight_id norm = { .role = LS_ROLE_PER_LAYER_NORM };
    struct ls_weights *w = l->w;
    ls_status s = map_table(l, LS_ROLE_EMBED, &w->embed);
    if (!s)
        s = map_table(l, LS_ROLE_PER_LAYER_EMBED, &w->per_layer_embed);
    if (!s && l->arch->per_layer_width)
        s = load_vector(l, &norm, &w->per_layer_norm);
    if (!s && l->arch->per_layer_width)
        s = load_matrix(l, &model, &w->per_layer_model);
    return s;
}

static ls_status load_all(struct loader *l)
{
    static const struct ls_weight_id head = { .role = LS_ROLE_HEAD };
    static const struct ls_weight_id norm = { .role = LS_ROLE_FINAL_NORM };
    struct ls_weights *w = l->w;
    const bool last = w->last_layer == l->arch->n_layers;
    ls_status s = w->first_layer == 0 ? load_front(l) : LS_OK;
    if (!s && last)
        s = load_vector(l, &norm, &w->final_norm);
    if (!s)
        s = load_layers(l, false);
    if (!s)
        s = load_layers(l, true);
    if (!s && last)
        s = load_matrix(l, &head, &w->head);
    return s;
}

/* The layers' structs, and those of their experts. */
static ls_status take_layers(struct ls_weights *w, const struct ls_arch *arch,
                             struct ls_err *err)
{
    const uint64_t n = (uint64_t)(w->last_layer - w->first_layer);
    w->layers = ls_arena_take(&w->arena, n * sizeof *w->layers);
    bool good = w->layers != NULL;
    for (uint64_t i = 0; good && i < n; i++) {
        if (arch->layers[(uint64_t)w->first_layer + i].ffn != LS_FFN_EXPERTS)
            continue;
        w->layers[i].experts =
            ls_arena_take(&w->arena, (uint64_t)arch->experts.n * sizeof *w->layers[i].experts);
        good = w->layers[i].experts != NULL;
    }
    return good ? LS_OK
                : ls_fail(err, LS_E_MEMORY, "out of memory for %llu layers",
                          (unsigned long long)n);
}

/* In front of weights that several processes use. */
struct head {
    unsigned char tag[LS_WEIGHTS_TAG];
    uint64_t bytes;
};

static ls_status adopt(struct ls_weights *w, const struct ls_weights_home *home, uint64_t bytes,
                       struct ls_err *err)
{
    ls_status s = ls_shared_adopt(&w->shared, home->pid, home->fd, bytes, err);
    if (s)
        return s;
    const struct head *const head = (const struct head *)(const void *)w->shared.bytes;
    if (head->bytes == bytes && !memcmp(head->tag, home->tag, sizeof head->tag))
        return LS_OK;
    ls_shared_finish(&w->shared);
    return ls_fail(err, LS_E_REFUSED, "process %u holds other weights under descriptor %d",
                   home->pid, home->fd);
}

/* One block for all: pages may be large then, and a matrix ends where the next one begins. */
static ls_status take_block(struct ls_weights *w, const struct ls_weights_home *home,
                            uint64_t bytes, char **base, struct ls_err *err)
{
    ls_status s;
    if (home->kind == LS_WEIGHTS_OWN)
        s = ls_alloc(&w->own, bytes, "the weights", err);
    else if (home->kind == LS_WEIGHTS_OFFERED)
        s = ls_shared_create(&w->shared, bytes, "the weights", err);
    else
        s = adopt(w, home, bytes, err);
    *base = w->own ? w->own : w->shared.bytes;
    return s;
}

static ls_status offer(struct ls_weights *w, const struct ls_weights_home *home,
                       struct ls_err *err)
{
    struct head *const head = (struct head *)(void *)w->shared.bytes;
    memcpy(head->tag, home->tag, sizeof head->tag);
    head->bytes = w->shared.n;
    return ls_shared_freeze(&w->shared, err);
}

/* Twice over the same tensors: to count, and to place and fill. */
static ls_status load(struct loader *l, const struct ls_weights_home *home)
{
    ls_carve_take(&l->places, 1, 1, sizeof(struct head));
    ls_status s = load_all(l);
    char *base = NULL;
    if (!s)
        s = take_block(l->w, home, ls_carve_bytes(&l->places), &base, l->err);
    if (s)
        return s;
    l->places = (struct ls_carve){ .base = base };
    l->fills = home->kind != LS_WEIGHTS_ADOPTED;
    l->w->bytes = 0;
    ls_carve_take(&l->places, 1, 1, sizeof(struct head));
    s = load_all(l);
    return !s && home->kind == LS_WEIGHTS_OFFERED ? offer(l->w, home, l->err) : s;
}

ls_status ls_weights_load(struct ls_weights *w, const struct ls_arch *arch,
                          const struct ls_checkpoint *ckpt, int first, int last,
                          const struct ls_weights_home *home, struct ls_team *team,
                          struct ls_err *err)
{
    struct ls_weights loaded = { .first_layer = first,
                                 .last_layer = last,
                                 .shared = { .fd = -1 } };
    static const struct ls_weights_home own = { .kind = LS_WEIGHTS_OWN };
    if (first < 0 || first >= last || last > arch->n_layers)
        return ls_fail(err, LS_E_INTERNAL, "layers [%d, %d) of %d", first, last,
                       arch->n_layers);
    ls_arena_init(&loaded.arena);
    struct loader l = { .w = &loaded,
                        .arch = arch,
                        .ckpt = ckpt,
                        .naming = ls_naming_of(arch, ckpt),
                        .team = team,
                        .err = err };
    ls_status s = take_layers(&loaded, arch, err);
    if (!s)
        s = load(&l, home ? home : &own);
    if (s)
        ls_weights_finish(&loaded);
    else
        *w = loaded;
    return s;
}

void ls_weights_finish(struct ls_weights *w)
{
    ls_arena_finish(&w->arena);
    ls_free(w->own);
    ls_shared_finish(&w->shared);
    *w = (struct ls_weights){ .shared = { .fd = -1 } };
}
