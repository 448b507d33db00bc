/* What a model is, as data: one description for all families.
 *
 * Layer: model. src/model/families/<name>.c turns a config.json into this, and names its
 * tensors; weight binding and the forward read only this and never the family. Every per-layer
 * decision is an entry of `layers`, indexed by the GLOBAL layer number. Keys of a config that
 * would change the arithmetic and are not understood are refused, never ignored. */
#ifndef LS_MODEL_ARCH_H
#define LS_MODEL_ARCH_H

#include "base/alloc.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_MAX_LAYERS = 4096,
    LS_MAX_ROPES = 4,
    LS_MAX_EOS = 32,
    LS_MAX_VOCAB = 1 << 24,
    LS_MAX_WIDTH = 1 << 20, /* hidden, intermediate, heads x head_dim */
    LS_MAX_CONTEXT = 1 << 26,
    LS_MAX_EXPERTS = 4096,
};

enum ls_mixer { LS_MIXER_ATTENTION };
enum ls_ffn {
    LS_FFN_GATED,  /* one block of `intermediate` */
    LS_FFN_EXPERTS /* chosen ones of arch->experts; `intermediate` is the shared expert's width,
                      or the dense block's beside them; 0: none */
};
enum ls_norm { LS_NORM_RMS, LS_NORM_LAYER };

/* Where a block's norms stand. `a` is the attention branch, `f` the feed-forward branch. */
enum ls_residual {
    LS_RES_PRE,     /* h = D(h + a(norm(h))); h = D(h + f(norm(h)))            Llama, Qwen */
    LS_RES_POST,    /* h = D(h + norm(D(a(h)))); the same for f                OLMo 2 */
    LS_RES_BOTH,    /* h = D(h + norm2(D(a(norm1(h))))); the same for f        Gemma 2, GLM-4 */
    LS_RES_PARALLEL /* n = norm(h); h = D((h + a(n)) + f(n))                   Cohere 2 */
};

enum ls_qk_norm {
    LS_QK_NONE,
    LS_QK_PER_HEAD,  /* RMSNorm over head_dim, weight [head_dim]                Qwen 3, Gemma 3
                      */
    LS_QK_ALL_HEADS, /* RMSNorm over all heads at once, weight [heads x dim]    OLMo 2 */
    LS_QK_AFTER_ROPE /* per head, no weight, behind rope, where there is rope   Llama 4 */
};

/* How a router's logits become weights. Experts are ordered by (value, lower id first). */
enum ls_router {
    LS_ROUTER_SOFTMAX, /* highest logits; softmax over all experts      Mixtral, Qwen, Gemma 4
                        */
    LS_ROUTER_CHOSEN, /* highest logits; softmax over the chosen                      GPT-OSS */
    LS_ROUTER_SIGMOID, /* highest sigmoid + selection bias; the sigmoid                  GLM-4
                        */
    LS_ROUTER_INPUT /* highest logits; the sigmoid, on the expert's input           Llama 4 */
};

/* How the file holds the experts of a layer. */
enum ls_expert_storage {
    LS_EXPERTS_EACH,   /* one tensor per expert and matrix */
    LS_EXPERTS_FUSED,  /* [E][out][in], gate above up in one tensor                 Gemma 4 */
    LS_EXPERTS_TURNED, /* [E][in][out], gate left of up                             Llama 4 */
    LS_EXPERTS_ALTERNATE, /* [E][in][out], columns gate, up, gate, up ..               GPT-OSS
                           */
    LS_EXPERTS_MXFP4 /* [E][out][in] in blocks of 32 with a scale, rows alternate GPT-OSS */
};

/* The mixture of experts of every LS_FFN_EXPERTS layer. */
struct ls_experts {
    int n;            /* experts of a layer, 0: the model has none */
    int n_chosen;     /* experts of a token, 1..n */
    int intermediate; /* width of one */
    enum ls_router router;
    enum ls_expert_storage storage;
    int n_groups, n_groups_chosen; /* choice limited to the best groups; 1: not limited */
    bool renormalise;              /* weights divided by their sum */
    float routed_scale;            /* on every weight; 0: none */
    bool router_bias;              /* on the logits */
    bool expert_bias;              /* on gate, up and down of each */
    bool shared_gate;              /* sigmoid of a projection weighs the shared expert */
    bool beside_dense; /* a dense block, each branch with norms of its own: Gemma 4 */
    float swiglu_alpha, swiglu_limit; /* GPT-OSS's clamped gate; limit 0: arch->act */
};

/* Rope frequencies, resolved from the config and the declared context when it is parsed. */
struct ls_rope {
    int n_pairs; /* rotated pairs: 2 n_pairs <= head_dim */
    enum ls_rope_pairs pairs;
    float *freq;            /* [n_pairs], radians a position, rounded to binary32 */
    float attention_factor; /* on cosine and sine after rounding; 1 means none */
    char kind[16];          /* "default", "linear", "dynamic", "llama3", "yarn", "longrope" */
};

struct ls_layer {
    enum ls_mixer mixer;
    enum ls_ffn ffn;
    int window;       /* keys visible, the own one included; 0: all */
    int chunk;        /* keys visible of the own block of so many positions; 0: all   Llama 4 */
    int rope;         /* index into ropes; -1: no rope in this layer */
    int n_heads;      /* query heads */
    int n_kv_heads;   /* divides n_heads */
    int head_dim;     /* of q, k and v */
    int intermediate; /* width of the feed-forward */
    float attn_scale; /* on q.k */
    int kv_source; /* global layer whose keys and values are read: the own, or an earlier one */
    bool v_is_k;   /* v is the key projection, before its norm                     Gemma 4 */
    int temperature_floor;   /* queries grow with position / this; 0: they do not     Llama 4 */
    float temperature_scale; /* ... by log(1 + that) x this */
};

struct ls_arch {
    char family[24]; /* model_type of the text model */
    int vocab, hidden, n_layers;
    int context;       /* declared: --context or max_position_embeddings */
    int max_positions; /* max_position_embeddings */
    enum ls_fmt dtype; /* D, the dtype of activations and of the KV cache */
    bool dtype_stated; /* the config names D; else it is the wish's absent_dtype */
    bool nested;       /* a text_config inside a larger model: tensors have a longer prefix */
    bool tied;         /* the head is the embedding */

    enum ls_residual residual;
    enum ls_norm norm;
    enum ls_norm_weight norm_weight;
    float norm_eps;
    enum ls_qk_norm qk_norm;
    enum ls_act act;
    bool qkv_bias, o_bias, mlp_bias;
    bool v_norm;       /* RMSNorm without weight on each head of v                    Gemma 4 */
    bool sinks;        /* a learned score per head in the softmax                     GPT-OSS */
    bool layer_scalar; /* h = D(h x s) behind each layer                              Gemma 4 */
    struct ls_experts experts;

    /* Inputs of each layer beside the residual stream, made from the token and carried behind
     * it; 0: none                                                                    Gemma 4 */
    int per_layer_width;
    int per_layer_vocab;         /* rows of their table, >= vocab */
    float per_layer_embed_scale; /* on a row of their table, rounded to D */

    float embed_scale;    /* rounded to D where the reference rounds it; 0: none */
    float residual_scale; /* on each branch before the add; 0: none            Granite */
    float logit_scale; /* on the logits; 0: none                            Cohere, Granite */
    float attn_softcap, logit_softcap; /* 0: none                              Gemma 2 */

    int n_ropes;
    struct ls_rope ropes[LS_MAX_ROPES];
    bool rope_needs_context; /* a rope kind whose frequencies depend on `context` */
    struct ls_layer *layers; /* [n_layers] */

    int bos; /* token id or -1 */
    int n_eos;
    int eos[LS_MAX_EOS]; /* of generation_config.json where present, else config.json */

    const struct ls_family *fam; /* names of tensors */
};

/* Which tensor of a layer (or of the ends) is meant. */
enum ls_role {
    LS_ROLE_EMBED, /* [vocab][hidden] */
    LS_ROLE_FINAL_NORM,
    LS_ROLE_HEAD,            /* [vocab][hidden] */
    LS_ROLE_PER_LAYER_EMBED, /* [per_layer_vocab][n_layers x per_layer_width] */
    LS_ROLE_PER_LAYER_MODEL, /* [n_layers x per_layer_width][hidden] */
    LS_ROLE_PER_LAYER_NORM,  /* [per_layer_width] */
    /* per layer; matrices are [outputs][inputs] */
    LS_ROLE_ATTN_NORM,
    LS_ROLE_Q,
    LS_ROLE_K,
    LS_ROLE_V,
    LS_ROLE_O,
    LS_ROLE_Q_NORM,
    LS_ROLE_K_NORM,
    LS_ROLE_POST_ATTN_NORM, /* on the attention branch's output */
    LS_ROLE_FFN_NORM,
    LS_ROLE_GATE,
    LS_ROLE_UP,
    LS_ROLE_DOWN,
    LS_ROLE_POST_FFN_NORM, /* on the feed-forward branch's output */
    LS_ROLE_SINKS,         /* [n_heads] */
    LS_ROLE_ROUTER,        /* [experts][hidden] */
    LS_ROLE_SELECT_BIAS,   /* [experts], counts for the choice only */
    LS_ROLE_ROUTER_SCALE,  /* [hidden], on the router's input */
    LS_ROLE_EXPERT_SCALE,  /* [experts], on the weights */
    LS_ROLE_SHARED_GATE,   /* gate, up and down of the shared expert */
    LS_ROLE_SHARED_UP,
    LS_ROLE_SHARED_DOWN,
    LS_ROLE_SHARED_WEIGHT, /* [1][hidden] */
    LS_ROLE_EXPERT_GATE,   /* of one expert */
    LS_ROLE_EXPERT_UP,
    LS_ROLE_EXPERT_DOWN,
    LS_ROLE_POST_DENSE_NORM, /* on the dense block's output, beside experts */
    LS_ROLE_EXPERTS_NORM,    /* on the experts' input, beside a dense block */
    LS_ROLE_POST_EXPERTS_NORM,
    LS_ROLE_PER_LAYER_GATE, /* [per_layer_width][hidden] */
    LS_ROLE_PER_LAYER_OUT,  /* [hidden][per_layer_width] */
    LS_ROLE_POST_PER_LAYER_NORM,
    LS_ROLE_LAYER_SCALAR, /* [1] */
    LS_N_ROLES
};

/* Where a weight lies in the file: a tensor or a part of a fused one. Element (r, c) of the
 * weight is element first + r row_step + c col_step of the tensor; a vector has no columns. */
struct ls_tensor_place {
    char name[192];
    int n_dims;
    uint64_t dims[4]; /* of the whole tensor, as the file must have them */
    uint64_t first, row_step, col_step;
    bool mxfp4; /* the tensor's bytes hold two elements each, scales lie in "..._scales" */
};

/* Which weight is meant: role, global layer (ignored for the ends), expert (ignored but for
 * LS_ROLE_EXPERT_*), and whether the bias beside it. */
struct ls_weight_id {
    enum ls_role role;
    int layer, expert;
    bool bias;
};

struct ls_dense;

/* One family: parse and names. The table of all families is in families/families.h. */
struct ls_family {
    const char *model_type;       /* as in config.json */
    const struct ls_dense *dense; /* description of a plain decoder, families/dense.h */
    /* Fills everything but dtype, bos/eos from `config` (a struct ls_config reader of the text
     * config). Called with arch->fam and arch->dtype set, and with arch->context the wished one
     * or 0. */
    ls_status (*parse)(struct ls_arch *arch, void *config, struct ls_arena *arena,
                       struct ls_err *err);
    void (*place)(const struct ls_arch *arch, const struct ls_weight_id *id,
                  struct ls_tensor_place *place);
    /* True for a tensor name that the family knows and does not use (said once). */
    bool (*ignores)(const struct ls_arch *arch, const char *name);
};

/* What the caller wants instead of the config's own values. */
struct ls_arch_wish {
    bool f32_activations;     /* --dtype f32 */
    int context;              /* --context; 0: max_position_embeddings */
    enum ls_fmt absent_dtype; /* D when the config names none; see ls_arch_load */
};

/* Parses config.json (n bytes) and, when not NULL, generation_config.json. Allocates in
 * `arena`. LS_E_FORMAT: not a config, or out of range; LS_E_REFUSED: a family, rope, activation
 * or other setting that is not supported, named. Local. */
ls_status ls_arch_parse(struct ls_arch *arch, const char *config, size_t n,
                        const char *generation, size_t n_generation,
                        const struct ls_arch_wish *wish, struct ls_arena *arena,
                        struct ls_err *err);

/* Reads dir/config.json and dir/generation_config.json (if there) and parses them. When the
 * config names no dtype, D is that of the stored embedding, as the reference decides: then the
 * checkpoint in dir is opened for a moment (headers only). */
ls_status ls_arch_load(struct ls_arch *arch, const char *dir, const struct ls_arch_wish *wish,
                       struct ls_arena *arena, struct ls_err *err);

/* First key position that the query at `pos` sees in this layer: the one definition of
 * visibility. live_first is the first position still held by the cache. */
int32_t ls_first_visible(const struct ls_layer *layer, int32_t pos, int32_t live_first);

/* Elements of D per token that cross a cut in front of global layer first_layer: the residual
 * stream, and behind it the per-layer inputs of the layers that are still to come. */
int ls_inbound_width(const struct ls_arch *arch, int first_layer);

/* False when a stage must not begin at first_layer, since it or a later layer reads the keys
 * and values of a layer in front of it; *reader is the first such layer then (may be NULL). 0
 * and n_layers are always allowed. */
bool ls_cut_allowed(const struct ls_arch *arch, int first_layer, int *reader);

/* Bytes of KV cache for one block of 32 positions in one layer; 0 where it keeps none of its
 * own. */
uint64_t ls_kv_block_bytes(const struct ls_arch *arch, int layer);

#endif
