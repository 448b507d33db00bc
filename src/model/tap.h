/* Looking into a forward: every value between two operations, handed out where it is made.
 *
 * Layer: model. A forward whose configuration names a tap calls it for the operations in the
 * tap's mask; without one nothing is called, computed or waited for, and with one no bit of a
 * result changes. Values of a step are handed out once each, whole or in parts, by the member
 * of the team that owns them: calls come from several threads at once (never two for the same
 * element), between the phases of a step, in the forward's floating-point state. The callee
 * copies what it needs and returns; it does not fail and does not wait for another member. */
#ifndef LS_MODEL_TAP_H
#define LS_MODEL_TAP_H

#include "tensor/dtype.h"

#include <stdint.h>

/* In the order in which a layer computes them: an operation reads results of earlier ones (and
 * earlier layers' and positions') only. */
enum ls_op {
    LS_OP_EMBEDDING,       /* [hidden] of the first layer, scaled */
    LS_OP_PER_LAYER_INPUT, /* [layers x per-layer width] */
    LS_OP_ATTN_NORM,       /* [hidden] */
    LS_OP_Q,               /* [heads x head_dim] projection with its bias */
    LS_OP_K,               /* [KV heads x head_dim] */
    LS_OP_V,               /* [KV heads x head_dim] */
    LS_OP_Q_NORM,
    LS_OP_Q_ROPE,
    LS_OP_Q_NORM_TURNED, /* a norm behind rope */
    LS_OP_Q_TEMPERED,    /* queries that grow with the position */
    LS_OP_V_NORM,
    LS_OP_K_NORM,
    LS_OP_K_ROPE,
    LS_OP_K_NORM_TURNED,
    LS_OP_SCORES,    /* [heads x (pos + 1)] scaled and capped, -infinity where a key is hidden;
                        made from q and the cache for the tap, since attention keeps none */
    LS_OP_ATTENTION, /* [heads x head_dim] */
    LS_OP_ATTN_OUT,  /* [hidden] projection; binary32 where nothing rounds it before the sum */
    LS_OP_ATTN_POST_NORM,
    LS_OP_ATTN_RESIDUAL,
    LS_OP_FFN_NORM,
    LS_OP_ROUTER_NORM,   /* [hidden] input of a router that has its own norm */
    LS_OP_ROUTER,        /* [experts] logits, binary32 */
    LS_OP_EXPERT_CHOICE, /* [chosen] ids, ascending; int32 */
    LS_OP_EXPERT_WEIGHT, /* [chosen] binary32 */
    LS_OP_EXPERT_NORM,   /* [hidden] the experts' input beside a dense block */
    LS_OP_GATE,          /* [intermediate] binary32 */
    LS_OP_UP,            /* [intermediate] binary32 */
    LS_OP_ACTIVATION,    /* [intermediate] act(gate) * up */
    LS_OP_EXPERT_GATED,  /* [chosen x expert width] the same of each expert */
    LS_OP_SHARED_OUT,    /* [hidden] of a shared expert, or of the dense block beside experts */
    LS_OP_EXPERT_OUT,    /* [chosen x hidden] */
    LS_OP_FFN_OUT,       /* [hidden] projection, or the experts' sum */
    LS_OP_FFN_POST_NORM,
    LS_OP_FFN_RESIDUAL,
    LS_OP_PER_LAYER_GATED, /* [per-layer width] */
    LS_OP_PER_LAYER_OUT,   /* [hidden] */
    LS_OP_PER_LAYER_NORM,
    LS_OP_PER_LAYER_RESIDUAL,
    LS_OP_HIDDEN,     /* [hidden] the layer's output */
    LS_OP_FINAL_NORM, /* [hidden] of rows whose logits are wanted */
    LS_OP_HEAD,       /* [vocab] projection, binary32 */
    LS_OP_LOGITS,     /* [vocab] scaled, capped, NaNs canonical; binary32 */
    LS_N_OPS
};

struct ls_tap_value {
    enum ls_op op;
    int layer;           /* global; 0 for what is in front of it, n_layers behind the last */
    uint32_t span;       /* of the step */
    int32_t pos;         /* absolute */
    int width;           /* elements of the whole value */
    int first, count;    /* this part: elements [first, first + count) */
    enum ls_dtype dtype; /* F32, the values rounded to D but where said above; or I32 */
    const void *at;      /* [count] */
};

/* The caller's, and unchanged while a step runs. */
struct ls_tap {
    uint64_t ops; /* bit 1 << op for each that is wanted */
    void (*take)(void *arg, const struct ls_tap_value *value);
    void *arg;
};

/* Short name, as in files ("ffn_norm"), and in words ("norm before the feed-forward"). */
const char *ls_op_name(enum ls_op op);
const char *ls_op_words(enum ls_op op);

#endif
