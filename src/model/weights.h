/* The weights of a range of layers, repacked for the kernels.
 *
 * Layer: model. Loading reads only the tensors of [first_layer, last_layer), of the embedding
 * when the range begins at 0, and of final norm and head when it ends at n_layers; each is
 * checked against the architecture's shape and dtype, packed, and its file pages let go. The
 * embedding stays in the mapping: only the rows of tokens that occur are ever touched. */
#ifndef LS_MODEL_WEIGHTS_H
#define LS_MODEL_WEIGHTS_H

#include "base/shared.h"
#include "base/team.h"
#include "model/arch.h"
#include "model/shape.h"
#include "tensor/checkpoint.h"

struct ls_matrix {
    enum ls_fmt fmt;
    int n, k;     /* outputs, inputs */
    void *packed; /* see ls_packed_bytes */
    float *bias;  /* [ls_tiles(n) * 16], binary32, or NULL */
};

struct ls_expert_weights {
    struct ls_matrix gate, up, down;
};

/* What a layer lacks is NULL, or a matrix without rows. */
struct ls_layer_weights {
    float *attn_norm, *post_attn_norm, *ffn_norm, *post_ffn_norm; /* [hidden] */
    float *q_norm, *k_norm;
    float *sinks; /* [n_heads] */
    struct ls_matrix q, k, v, o;
    struct ls_matrix gate, up, down; /* the dense block's, or the shared expert's */

    struct ls_expert_weights *experts; /* [arch->experts.n] */
    struct ls_matrix router, shared_weight;
    float *select_bias, *expert_scale;                         /* [arch->experts.n] */
    float *router_scale;                                       /* [hidden] */
    float *post_dense_norm, *experts_norm, *post_experts_norm; /* [hidden] */

    struct ls_matrix per_layer_gate, per_layer_out;
    float *post_per_layer_norm; /* [hidden] */
    float *layer_scalar;        /* [1] */
};

struct ls_weights {
    int first_layer, last_layer;     /* global, half-open */
    struct ls_layer_weights *layers; /* [last_layer - first_layer], index 0 is first_layer */
    const struct ls_tensor *embed; /* [vocab][hidden] in the mapping; NULL unless first stage */
    const struct ls_tensor *per_layer_embed; /* as embed, where the architecture has it */
    struct ls_matrix per_layer_model;        /* first stage only, as the next */
    float *per_layer_norm;
    float *final_norm;     /* last stage only */
    struct ls_matrix head; /* last stage only; packed is NULL elsewhere */
    uint64_t bytes;        /* packed bytes plus norms and biases of this rank */
    struct ls_arena arena; /* owns the structs above */
    /* what they point to, but the embedding, is in one of these */
    void *own;
    struct ls_shared shared;
};

/* Where packed weights lie. */
enum { LS_WEIGHTS_TAG = 32 };
struct ls_weights_home {
    enum {
        LS_WEIGHTS_OWN,     /* in this process's own memory */
        LS_WEIGHTS_OFFERED, /* in memory that others may use, too */
        LS_WEIGHTS_ADOPTED  /* in that of another process, which has loaded the same layers */
    } kind;
    uint32_t pid; /* adopted: that process, and its descriptor: shared.fd there */
    int fd;
    unsigned char tag[LS_WEIGHTS_TAG]; /* what is there; those who adopt expect the same */
};

/* Checks, without reading a weight, that the checkpoint has every tensor of `arch` in the right
 * shape and a usable dtype, and no unknown tensor inside a layer. All ranks check all layers.
 * *n_ignored counts tensors outside the layers that nothing uses; the first is named in
 * first_ignored (may be NULL). */
ls_status ls_weights_check(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                           size_t *n_ignored, const char **first_ignored, struct ls_err *err);

/* One tensor against its place; t may be NULL, which is the missing tensor. *fmt is how its
 * elements are stored, bf16 for blocks of MXFP4, which are expanded at load; *scales is then
 * the tensor of their scales, checked too, and NULL otherwise. */
ls_status ls_weights_check_tensor(const struct ls_checkpoint *ckpt, const struct ls_tensor *t,
                                  const struct ls_tensor_place *place, enum ls_fmt *fmt,
                                  const struct ls_tensor **scales, struct ls_err *err);

/* Packed bytes that layers [first, last) and their ends will take, from the headers alone. */
uint64_t ls_weights_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                          int first, int last);

/* The most that these and the file's pages they are repacked from take together while they are
 * loaded. */
uint64_t ls_weights_load_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                               int first, int last);
/* LS_ROLE_EMBED or LS_ROLE_PER_LAYER_EMBED, of whose rows those of tokens that occur are read
 * where they lie; NULL: the architecture has none. */
const struct ls_tensor *ls_weights_table(const struct ls_arch *arch,
                                         const struct ls_checkpoint *ckpt, enum ls_role role);

/* Those of them that only rows with logits need: final norm and head. */
uint64_t ls_weights_head_bytes(const struct ls_arch *arch, const struct ls_checkpoint *ckpt);

/* Loads; the team packs in parallel. The checkpoint must outlive the weights. Adopted weights
 * are not read from the checkpoint. home NULL: its own memory. */
ls_status ls_weights_load(struct ls_weights *w, const struct ls_arch *arch,
                          const struct ls_checkpoint *ckpt, int first, int last,
                          const struct ls_weights_home *home, struct ls_team *team,
                          struct ls_err *err);
void ls_weights_finish(struct ls_weights *w);

#endif
