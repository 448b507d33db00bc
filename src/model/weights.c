#include "model/weights.h"

#include "base/mutant.h"
#include "model/naming.h"
#include "model/shape.h"

#include <immintrin.h>
#include <string.h>

/* What loading carries along. */
struct loader {
    struct ls_weights *w;
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    struct ls_naming naming;
    struct ls_team *team;
    struct ls_err *err;
};

/* A role's bytes in the mapping. */
struct source {
    const struct ls_tensor *tensor;
    const unsigned char *data; /* first row of the role */
    enum ls_fmt fmt;
    struct ls_role_shape shape;
};

static uint64_t bias_bytes(uint64_t rows)
{
    return ls_tiles(rows) * LS_TILE * sizeof(float);
}

static ls_status take(struct loader *l, void **out, uint64_t bytes, const char *what)
{
    *out = ls_arena_take(&l->w->arena, bytes);
    if (!*out)
        return ls_fail(l->err, LS_E_MEMORY, "out of memory: %llu bytes for %s",
                       (unsigned long long)bytes, what);
    l->w->bytes += bytes;
    return LS_OK;
}

static ls_status find(struct loader *l, enum ls_role role, int layer, bool bias,
                      struct source *src)
{
    struct ls_tensor_place place;
    src->tensor = ls_naming_find(&l->naming, l->arch, l->ckpt, role, layer, bias, &place);
    src->shape = ls_role_shape(l->arch, role, layer);
    if (bias)
        src->shape.cols = 0;
    ls_status s =
        ls_weights_check_tensor(l->ckpt, src->tensor, &place, &src->shape, &src->fmt, l->err);
    if (s)
        return s;
    const uint64_t row = (src->shape.cols ? src->shape.cols : 1) * ls_fmt_bytes(src->fmt);
    src->data = src->tensor->data + place.row0 * row;
    return LS_OK;
}

/* Exact: every bf16 and f16 number is a binary32 number. */
static void widen(float *to, const unsigned char *from, uint64_t n, enum ls_fmt fmt)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        uint32_t bits;
        memcpy(&half, from + i * 2 * (fmt != LS_FMT_F32), sizeof half);
        bits = (uint32_t)half << 16;
        if (fmt == LS_FMT_F32)
            memcpy(to + i, from + i * sizeof *to, sizeof *to);
        else if (fmt == LS_FMT_BF16)
            memcpy(to + i, &bits, sizeof *to);
        else
            to[i] = _cvtsh_ss(half);
    }
}

static ls_status load_vector(struct loader *l, enum ls_role role, int layer, bool bias,
                             float **out)
{
    struct source src;
    void *p;
    ls_status s = find(l, role, layer, bias, &src);
    if (s)
        return s;
    const uint64_t bytes = bias ? bias_bytes(src.shape.rows) : src.shape.rows * sizeof(float);
    s = take(l, &p, bytes, src.tensor->name);
    if (s)
        return s;
    *out = p;
    widen(*out, src.data, src.shape.rows, src.fmt);
    ls_checkpoint_release(l->ckpt, src.tensor);
    return LS_OK;
}

struct pack_job {
    const struct source *src;
    const struct ls_matrix *m;
};

static void pack_share(void *arg, int member, int n_members)
{
    const struct pack_job *job = arg;
    uint64_t begin, end;
    ls_team_share(ls_tiles((size_t)job->m->n), member, n_members, &begin, &end);
    ls_pack(job->m->fmt, job->m->packed, job->src->data, (size_t)job->m->k, (size_t)job->m->n,
            (size_t)job->m->k, begin, end);
}

static ls_status load_matrix(struct loader *l, enum ls_role role, int layer,
                             struct ls_matrix *m)
{
    struct source src;
    ls_status s = find(l, role, layer, false, &src);
    if (s)
        return s;
    m->fmt = src.fmt;
    m->n = (int)src.shape.rows;
    m->k = (int)src.shape.cols;
    s = take(l, &m->packed, ls_packed_bytes(m->fmt, (size_t)m->n, (size_t)m->k),
             src.tensor->name);
    if (s)
        return s;
    if (role == LS_ROLE_HEAD && l->arch->tied && LS_MUTANT(TIE_IGNORED))
        return LS_OK;
    ls_team_run(l->team, pack_share, &(struct pack_job){ &src, m });
    ls_checkpoint_release(l->ckpt, src.tensor);
    return LS_OK;
}

static float **vector_of(struct ls_layer_weights *w, enum ls_role role)
{
    switch (role) {
    case LS_ROLE_ATTN_NORM:
        return &w->attn_norm;
    case LS_ROLE_Q_NORM:
        return &w->q_norm;
    case LS_ROLE_K_NORM:
        return &w->k_norm;
    case LS_ROLE_POST_ATTN_NORM:
        return &w->post_attn_norm;
    case LS_ROLE_FFN_NORM:
        return &w->ffn_norm;
    case LS_ROLE_POST_FFN_NORM:
        return &w->post_ffn_norm;
    default:
        return NULL;
    }
}

static struct ls_matrix *matrix_of(struct ls_layer_weights *w, enum ls_role role)
{
    switch (role) {
    case LS_ROLE_Q:
        return &w->q;
    case LS_ROLE_K:
        return &w->k;
    case LS_ROLE_V:
        return &w->v;
    case LS_ROLE_O:
        return &w->o;
    case LS_ROLE_GATE:
        return &w->gate;
    case LS_ROLE_UP:
        return &w->up;
    case LS_ROLE_DOWN:
        return &w->down;
    default:
        return NULL;
    }
}

/* Small things first: they share arena blocks, matrices have their own. */
static ls_status load_vectors(struct loader *l, int layer, struct ls_layer_weights *w)
{
    ls_status s = LS_OK;
    for (int r = LS_ROLE_ATTN_NORM; r < LS_N_ROLES && !s; r++) {
        const enum ls_role role = (enum ls_role)r;
        float **vector = vector_of(w, role);
        if (!ls_role_present(l->arch, role))
            continue;
        if (vector)
            s = load_vector(l, role, layer, false, vector);
        else if (ls_role_has_bias(l->arch, role))
            s = load_vector(l, role, layer, true, &matrix_of(w, role)->bias);
    }
    return s;
}

static ls_status load_matrices(struct loader *l, int layer, struct ls_layer_weights *w)
{
    ls_status s = LS_OK;
    for (int r = LS_ROLE_ATTN_NORM; r < LS_N_ROLES && !s; r++) {
        struct ls_matrix *m = matrix_of(w, (enum ls_role)r);
        if (m && ls_role_present(l->arch, (enum ls_role)r))
            s = load_matrix(l, (enum ls_role)r, layer, m);
    }
    return s;
}

static ls_status load_all(struct loader *l)
{
    struct ls_weights *w = l->w;
    struct source src;
    ls_status s = LS_OK;
    if (w->first_layer == 0) {
        s = find(l, LS_ROLE_EMBED, 0, false, &src);
        w->embed = s ? NULL : src.tensor;
    }
    if (!s && w->last_layer == l->arch->n_layers)
        s = load_vector(l, LS_ROLE_FINAL_NORM, 0, false, &w->final_norm);
    for (int i = w->first_layer; i < w->last_layer && !s; i++)
        s = load_vectors(l, i, &w->layers[i - w->first_layer]);
    for (int i = w->first_layer; i < w->last_layer && !s; i++)
        s = load_matrices(l, i, &w->layers[i - w->first_layer]);
    if (!s && w->last_layer == l->arch->n_layers)
        s = load_matrix(l, LS_ROLE_HEAD, 0, &w->head);
    return s;
}

ls_status ls_weights_load(struct ls_weights *w, const struct ls_arch *arch,
                          const struct ls_checkpoint *ckpt, int first, int last,
                          struct ls_team *team, struct ls_err *err)
{
    struct ls_weights loaded = { .first_layer = first, .last_layer = last };
    if (first < 0 || first >= last || last > arch->n_layers)
        return ls_fail(err, LS_E_INTERNAL, "layers [%d, %d) of %d", first, last,
                       arch->n_layers);
    ls_arena_init(&loaded.arena);
    struct loader l = { &loaded, arch, ckpt, ls_naming_of(arch, ckpt), team, err };
    const uint64_t n = (uint64_t)(last - first);
    ls_status s = LS_OK;
    loaded.layers = ls_arena_take(&loaded.arena, n * sizeof *loaded.layers);
    if (!loaded.layers)
        s = ls_fail(err, LS_E_MEMORY, "out of memory for %d layers", last - first);
    if (!s)
        s = load_all(&l);
    if (s)
        ls_arena_finish(&loaded.arena);
    else
        *w = loaded;
    return s;
}

void ls_weights_finish(struct ls_weights *w)
{
    ls_arena_finish(&w->arena);
    *w = (struct ls_weights){ 0 };
}
