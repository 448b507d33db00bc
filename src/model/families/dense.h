/* Families of decoders, as data: one struct says what a config of the family may leave out,
 * which keys it has, where its norms stand and what its tensors are called; what no key of the
 * struct says is a function of the family (`layers`, `scales`).
 *
 * Layer: model. The three functions are the ls_family entries of all of them. Adding a family
 * of this kind is one new file with one struct, and a line in families.c. Defaults are those of
 * the reference's config class. */
#ifndef LS_MODEL_FAMILIES_DENSE_H
#define LS_MODEL_FAMILIES_DENSE_H

#include "model/arch.h"
#include "model/config.h"
#include "model/rope.h"

enum ls_flag { LS_NEVER, LS_ALWAYS, LS_BY_KEY, LS_BY_KEY_ON }; /* ..._ON: true when absent */

/* Which layers have a window, and how wide it is. */
enum ls_window_rule {
    LS_WINDOW_NONE,
    LS_WINDOW_OWN,      /* the family's `layers` reads layer_types            Llama 4 */
    LS_WINDOW_ALL,      /* sliding_window, in every layer                     Mistral, Phi-3 */
    LS_WINDOW_SWITCHED, /* ... if use_sliding_window                         Qwen 3 MoE */
    /* layer_types decides from here on */
    LS_WINDOW_QWEN,     /* use_sliding_window, from max_window_layers on     Qwen 2, 3 */
    LS_WINDOW_QWEN_MOE, /* use_sliding_window, even layers before it         Qwen 2 MoE */
    LS_WINDOW_SMOLLM3,  /* use_sliding_window, in the layers without rope */
    LS_WINDOW_PATTERN   /* all but every n-th layer                  Gemma, Cohere 2, GPT-OSS */
};

enum ls_rope_rule {
    LS_ROPE_EVERYWHERE,
    LS_ROPE_BY_LIST,  /* no_rope_layers: 1 is on                   SmolLM 3, Llama 4 */
    LS_ROPE_WINDOWED, /* only in layers with a window                       Cohere 2 */
    LS_ROPE_TWO_BASES /* windowed layers have a base of their own        Gemma 3, 4 */
};

struct ls_dense {
    /* Values of keys that a config may leave out; 0: it must have them. */
    int vocab, hidden, intermediate, n_layers, n_heads;
    int n_kv_heads; /* 0: as many as query heads */
    int head_dim;   /* 0: hidden / heads */
    int max_positions;
    double eps;
    bool tied;

    const char *eps_key, *act_key;
    bool gelu_is_tanh; /* hidden_act "gelu" means the tanh form   Gemma 1 */
    const char *act;   /* when the key is absent */

    enum ls_residual residual;
    enum ls_norm norm;
    enum ls_norm_weight norm_weight;
    enum ls_qk_norm qk_norm;
    enum ls_flag qkv_bias, o_bias, mlp_bias; /* keys attention_bias, mlp_bias */

    struct ls_rope_family rope;
    enum ls_rope_pairs pairs;
    enum ls_rope_rule rope_rule;
    enum ls_window_rule window_rule;
    int window;         /* sliding_window when absent; 0: none */
    int window_pattern; /* sliding_window_pattern when absent */
    bool last_is_full;  /* whatever layer_types says of the last layer      Gemma 4 */

    /* Family's own settings of layers: experts, head sizes, shared caches. Runs when windows
     * are placed, before ropes. May be NULL. */
    void (*layers)(struct ls_arch *arch, struct ls_config *c);

    /* Family's own scales and caps; may be NULL. Runs when all else is filled. */
    void (*scales)(struct ls_arch *arch, struct ls_config *c);

    /* Tensor of each role without "model.layers.N." (layers) or "model." (ends) and without
     * ".weight"; roles of one name share a fused tensor, rows in the order of ls_role. '#' is
     * the number of an expert; how tensors of all experts are named, names.c says. */
    const char *const *names;
};

/* Names of Llama and of those that took them over. */
extern const char *const ls_names_llama[LS_N_ROLES];

ls_status ls_dense_parse(struct ls_arch *arch, void *config, struct ls_arena *arena,
                         struct ls_err *err);
void ls_dense_place(const struct ls_arch *arch, const struct ls_weight_id *id,
                    struct ls_tensor_place *place);
bool ls_dense_ignores(const struct ls_arch *arch, const char *name);

/* Nearest number of D, for constants that the reference keeps in D. */
float ls_round_constant(float x, enum ls_fmt d);

#endif
