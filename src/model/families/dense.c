#include "model/families/dense.h"

#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NO_ROPE_INTERVAL = 4, MAX_WINDOW_LAYERS = 28 };

static const double LOCAL_THETA =
    10000; /* of windowed layers, where they have their own base */

static bool is_on(struct ls_config *c, enum ls_flag flag, const char *key)
{
    if (flag == LS_NEVER || flag == LS_ALWAYS)
        return flag == LS_ALWAYS;
    return ls_config_bool(c, key, flag == LS_BY_KEY_ON);
}

static bool act_of(const char *name, bool gelu_is_tanh, enum ls_act *act)
{
    if (!strcmp(name, "silu") || !strcmp(name, "swish"))
        *act = LS_ACT_SILU;
    else if (!strcmp(name, "gelu_pytorch_tanh") || !strcmp(name, "gelu_new") ||
             (gelu_is_tanh && !strcmp(name, "gelu")))
        *act = LS_ACT_GELU_TANH;
    else
        return false;
    return true;
}

/* Two keys name the activation, and a family listens to one. Published Gemma configs have
 * both, with "gelu" for the tanh form in the one that does not count. */
static void check_other_act(struct ls_config *c, const struct ls_dense *d, enum ls_act own)
{
    const bool is_old = !strcmp(d->act_key, "hidden_act");
    const char *other = is_old ? "hidden_activation" : "hidden_act";
    const char *name = ls_config_text(c, other, NULL);
    enum ls_act act;
    if (name && (!act_of(name, true, &act) || act != own))
        ls_config_fail(c, LS_E_REFUSED, other, "contradicts %s, which decides here",
                       d->act_key);
}

static void read_act(struct ls_arch *arch, struct ls_config *c, const struct ls_dense *d)
{
    const char *name = ls_config_text(c, d->act_key, d->act);
    if (act_of(name, d->gelu_is_tanh, &arch->act))
        check_other_act(c, d, arch->act);
    else
        ls_config_fail(c, LS_E_REFUSED, d->act_key,
                       "supported activations are silu, gelu_pytorch_tanh%s",
                       d->gelu_is_tanh ? ", gelu" : "");
}

static void read_sizes(struct ls_arch *arch, struct ls_config *c, const struct ls_dense *d)
{
    arch->vocab = ls_config_int(c, "vocab_size", d->vocab, 1, LS_MAX_VOCAB);
    arch->hidden = ls_config_int(c, "hidden_size", d->hidden, 1, LS_MAX_WIDTH);
    arch->n_layers = ls_config_int(c, "num_hidden_layers", d->n_layers, 1, LS_MAX_LAYERS);
    arch->max_positions =
        ls_config_int(c, "max_position_embeddings", d->max_positions, 1, LS_MAX_CONTEXT);
    arch->context = arch->context ? arch->context : arch->max_positions;
    arch->tied = ls_config_bool(c, "tie_word_embeddings", arch->tied);
    arch->norm_eps = (float)ls_config_number(c, d->eps_key, d->eps, 0, 1);
    arch->qkv_bias = is_on(c, d->qkv_bias, "attention_bias");
    arch->o_bias = is_on(c, d->o_bias, "attention_bias");
    arch->mlp_bias = is_on(c, d->mlp_bias, "mlp_bias");
    read_act(arch, c, d);
}

/* Heads and feed-forward, the same in every layer of these families. */
static void read_layer(struct ls_arch *arch, struct ls_config *c, const struct ls_dense *d,
                       struct ls_layer *layer)
{
    const int heads = ls_config_int(c, "num_attention_heads", d->n_heads, 1, LS_MAX_WIDTH);
    int kv = ls_config_int_or_none(c, "num_key_value_heads", d->n_kv_heads, 1, LS_MAX_WIDTH);
    int dim = ls_config_int_or_none(c, "head_dim", d->head_dim, 1, LS_MAX_WIDTH);
    const int ffn = ls_config_int(c, "intermediate_size", d->intermediate, 1, LS_MAX_WIDTH);
    if (c->status)
        return;
    kv = kv ? kv : heads;
    if (heads % kv)
        ls_config_fail(c, LS_E_FORMAT, "num_key_value_heads",
                       "does not divide num_attention_heads %d", heads);
    if (!dim && arch->hidden % heads)
        ls_config_fail(c, LS_E_FORMAT, "num_attention_heads",
                       "does not divide hidden_size %d, and there is no head_dim",
                       arch->hidden);
    dim = dim ? dim : arch->hidden / heads;
    if (dim < 1 || dim % 2 || (int64_t)heads * dim > LS_MAX_WIDTH)
        ls_config_fail(c, LS_E_FORMAT, "head_dim",
                       "%d heads of %d elements: expected an even size, %d in all at most",
                       heads, dim, LS_MAX_WIDTH);
    *layer = (struct ls_layer){
        .n_heads = heads,
        .n_kv_heads = kv,
        .head_dim = dim,
        .intermediate = ffn,
        .attn_scale = (float)(1.0 / sqrt(dim)),
    };
}

/* Size of a head in the first layer with a window, or without one. */
static int head_dim_of(const struct ls_arch *arch, bool windowed)
{
    for (int l = 0; l < arch->n_layers; l++)
        if ((arch->layers[l].window > 0) == windowed)
            return arch->layers[l].head_dim;
    return arch->layers[0].head_dim;
}

/* Resolves settings into arch->ropes and returns the index there. */
static int add_rope(struct ls_arch *arch, struct ls_config *c, int head_dim,
                    const struct ls_rope_settings *settings, struct ls_arena *arena)
{
    const int dim = c->status ? 0 : ls_rope_dim(c, settings, head_dim);
    if (c->status)
        return 0;
    struct ls_rope *r = &arch->ropes[arch->n_ropes];
    r->n_pairs = dim / 2;
    r->pairs = arch->fam->dense->pairs;
    r->freq = ls_arena_take(arena, (uint64_t)r->n_pairs * sizeof *r->freq);
    snprintf(r->kind, sizeof r->kind, "%s", ls_rope_kind_name(settings->kind));
    arch->rope_needs_context |=
        settings->kind == LS_ROPE_DYNAMIC || settings->kind == LS_ROPE_LONGROPE;
    if (!r->freq)
        c->status = ls_fail(c->err, LS_E_MEMORY, "out of memory for rope frequencies");
    else
        c->status = ls_rope_frequencies(settings, dim, arch->max_positions, arch->context,
                                        r->freq, &r->attention_factor, c->err);
    return arch->n_ropes++;
}

static void read_ropes(struct ls_arch *arch, struct ls_config *c, const struct ls_dense *d,
                       struct ls_arena *arena)
{
    struct ls_rope_settings full, local;
    struct ls_rope_family family = d->rope;
    family.max_positions = arch->max_positions;
    if (d->rope_rule != LS_ROPE_TWO_BASES) {
        ls_rope_read(c, &family, &full);
        add_rope(arch, c, arch->layers[0].head_dim, &full, arena);
        return;
    }
    ls_rope_read_two(c, &family, LOCAL_THETA, &full, &local);
    add_rope(arch, c, head_dim_of(arch, false), &full, arena);
    add_rope(arch, c, head_dim_of(arch, true), &local, arena);
}

/* no_rope_layers, or every no_rope_layer_interval-th layer; a 1 in the list means rope is on.
 */
static void read_rope_list(struct ls_arch *arch, struct ls_config *c)
{
    const json_t *list = ls_config_get(c, "no_rope_layers");
    const int interval =
        ls_config_int(c, "no_rope_layer_interval", NO_ROPE_INTERVAL, 1, LS_MAX_LAYERS);
    /* Published Llama 4 configs have an empty list, which its reference takes as absent. */
    const bool empty = json_is_array(list) && !json_array_size(list) &&
                       arch->fam->dense->window_rule == LS_WINDOW_OWN;
    const bool given = list && !json_is_null(list) && !empty;
    if (given && json_array_size(list) != (size_t)arch->n_layers)
        ls_config_fail(c, LS_E_FORMAT, "no_rope_layers",
                       "expected a list of num_hidden_layers = %d numbers", arch->n_layers);
    for (int l = 0; l < arch->n_layers && !c->status; l++) {
        const json_t *on = json_array_get(list, (size_t)l);
        if (given && (!json_is_integer(on) || (uint64_t)json_integer_value(on) > 1))
            ls_config_fail(c, LS_E_FORMAT, "no_rope_layers", "entry %d is neither 0 nor 1", l);
        const bool has = given ? json_integer_value(on) : (l + 1) % interval != 0;
        arch->layers[l].rope = has ? 0 : -1;
    }
}

static void place_ropes(struct ls_arch *arch, struct ls_config *c, enum ls_rope_rule rule)
{
    if (rule == LS_ROPE_BY_LIST)
        read_rope_list(arch, c);
    for (int l = 0; l < arch->n_layers; l++) {
        const bool windowed = arch->layers[l].window > 0;
        if (rule == LS_ROPE_WINDOWED)
            arch->layers[l].rope = windowed ? 0 : -1;
        if (rule == LS_ROPE_TWO_BASES)
            arch->layers[l].rope = windowed ? 1 : 0;
    }
}

/* What the rule says of a layer that layer_types does not speak of. */
static bool rule_says_window(const struct ls_dense *d, const struct ls_layer *layer, int l,
                             int n)
{
    switch (d->window_rule) {
    case LS_WINDOW_ALL:
    case LS_WINDOW_SWITCHED:
        return true;
    case LS_WINDOW_QWEN:
        return l >= n;
    case LS_WINDOW_QWEN_MOE:
        return l < n && l % 2 == 0;
    case LS_WINDOW_SMOLLM3:
        return layer->rope < 0;
    case LS_WINDOW_PATTERN:
        return (l + 1) % n != 0;
    default:
        return false;
    }
}

/* sliding_window, as far as it counts; 0: none. *n is the rule's number of layers. */
static int read_window(struct ls_config *c, const struct ls_dense *d, int *n)
{
    const bool qwen = d->window_rule == LS_WINDOW_QWEN || d->window_rule == LS_WINDOW_QWEN_MOE;
    const bool switched =
        qwen || d->window_rule == LS_WINDOW_SMOLLM3 || d->window_rule == LS_WINDOW_SWITCHED;
    const bool on = !switched || ls_config_bool(c, "use_sliding_window", false);
    if (qwen)
        *n = ls_config_int(c, "max_window_layers", MAX_WINDOW_LAYERS, 0, LS_MAX_LAYERS);
    if (d->window_rule == LS_WINDOW_PATTERN)
        *n = ls_config_int(c, "sliding_window_pattern", d->window_pattern, 1, LS_MAX_LAYERS);
    const int w = ls_config_int_or_none(c, "sliding_window", d->window, 1, LS_MAX_CONTEXT);
    return on ? w : 0;
}

static bool type_is_window(struct ls_config *c, const json_t *types, int l)
{
    const char *type = json_string_value(json_array_get(types, (size_t)l));
    const bool window = type && !strcmp(type, "sliding_attention");
    if (!window && (!type || strcmp(type, "full_attention")))
        ls_config_fail(c, LS_E_REFUSED, "layer_types",
                       "entry %d is %s; supported are full_attention and sliding_attention", l,
                       type ? type : "no text");
    return window;
}

/* layer_types decides where the reference listens to it, and must agree where it does not. */
static void place_windows(struct ls_arch *arch, struct ls_config *c, const struct ls_dense *d)
{
    int n = 1;
    if (d->window_rule == LS_WINDOW_OWN)
        return;
    const int w = d->window_rule == LS_WINDOW_NONE ? 0 : read_window(c, d, &n);
    const json_t *types = ls_config_get(c, "layer_types");
    const bool given = types && !json_is_null(types);
    const bool decides = d->window_rule >= LS_WINDOW_QWEN;
    if (given && json_array_size(types) != (size_t)arch->n_layers)
        ls_config_fail(c, LS_E_FORMAT, "layer_types",
                       "expected a list of num_hidden_layers = %d texts", arch->n_layers);
    for (int l = 0; l < arch->n_layers && !c->status; l++) {
        bool windowed = w && rule_says_window(d, &arch->layers[l], l, n);
        const bool full = d->last_is_full && l + 1 == arch->n_layers;
        const bool type = !full && (given ? type_is_window(c, types, l) : windowed);
        if (type != windowed && !decides)
            ls_config_fail(c, LS_E_REFUSED, "layer_types",
                           "entry %d contradicts sliding_window %d of every layer", l, w);
        if (type && !w)
            ls_config_fail(c, LS_E_REFUSED, "layer_types",
                           "entry %d is windowed, but no sliding_window is in force", l);
        arch->layers[l].window = type ? w : 0;
    }
}

/* A pattern without a window leaves the reference without a mask for those layers. */
static void check_pattern_has_window(struct ls_config *c, const struct ls_dense *d)
{
    if (d->window_rule == LS_WINDOW_PATTERN && json_is_null(ls_config_get(c, "sliding_window")))
        ls_config_fail(c, LS_E_REFUSED, "sliding_window",
                       "layers of this family need a window");
}

ls_status ls_dense_parse(struct ls_arch *arch, void *config, struct ls_arena *arena,
                         struct ls_err *err)
{
    struct ls_config *c = config;
    const struct ls_dense *d = arch->fam->dense;
    struct ls_layer layer = { 0 };
    read_sizes(arch, c, d);
    read_layer(arch, c, d, &layer);
    check_pattern_has_window(c, d);
    if (c->status)
        return c->status;
    arch->residual = d->residual;
    arch->norm = d->norm;
    arch->norm_weight = d->norm_weight;
    arch->qk_norm = d->qk_norm;
    arch->layers = ls_arena_take(arena, (uint64_t)arch->n_layers * sizeof *arch->layers);
    if (!arch->layers)
        return c->status =
                   ls_fail(err, LS_E_MEMORY, "out of memory for %d layers", arch->n_layers);
    for (int l = 0; l < arch->n_layers; l++) {
        arch->layers[l] = layer;
        arch->layers[l].kv_source = l;
    }
    /* SmolLM 3's windows follow its ropes, the others' ropes follow the windows. */
    if (d->rope_rule == LS_ROPE_BY_LIST)
        place_ropes(arch, c, d->rope_rule);
    place_windows(arch, c, d);
    if (d->layers && !c->status)
        d->layers(arch, c);
    read_ropes(arch, c, d, arena);
    if (d->rope_rule != LS_ROPE_BY_LIST)
        place_ropes(arch, c, d->rope_rule);
    if (d->scales && !c->status)
        d->scales(arch, c);
    return c->status;
}

float ls_round_constant(float x, enum ls_fmt d)
{
    uint32_t u;
    if (d == LS_FMT_F16)
        return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
    if (d == LS_FMT_F32)
        return x;
    memcpy(&u, &x, sizeof u);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, sizeof x);
    return x;
}
