#include "parity/quirk_parts.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OP(name) ((uint64_t)1 << LS_OP_##name)

#define NORMS                                                                                  \
    (OP(ATTN_NORM) | OP(Q_NORM) | OP(K_NORM) | OP(V_NORM) | OP(Q_NORM_TURNED) |                \
     OP(K_NORM_TURNED) | OP(ATTN_POST_NORM) | OP(FFN_NORM) | OP(ROUTER_NORM) |                 \
     OP(EXPERT_NORM) | OP(FFN_POST_NORM) | OP(PER_LAYER_NORM) | OP(FINAL_NORM))
#define ROPES (OP(Q_ROPE) | OP(K_ROPE))
#define SEEN  (OP(SCORES) | OP(ATTENTION))

enum { MAX_VALUES = 5 };

enum kind { REAL, NUMBER, FLAG, FUNCTION };

/* One setting: where it lies, the operations that it shows in, and what it is elsewhere. The
 * second arm's own setting is tried first. */
struct field {
    const char *name, *words;
    uint64_t ops;
    enum kind kind;
    bool of_layers; /* offset is in struct ls_layer, of all layers that have the setting */
    bool steps;     /* values are added to the setting */
    size_t offset;
    int n_values;
    double values[MAX_VALUES];
    /* FUNCTION: applies variant i; false: there is none such. *changed as for the others */
    bool (*apply)(struct ls_arch *arch, const struct ls_quirk_case *c, int variant,
                  bool *changed, char *text, size_t size);
};

/* --- functions -------------------------------------------------------------------------------
 */

/* Frequencies of an unscaled rope of base theta over as many pairs. */
static void plain_rope(struct ls_rope *rope, double theta)
{
    for (int i = 0; i < rope->n_pairs; i++)
        rope->freq[i] = (float)(1.0 / pow(theta, (double)i / rope->n_pairs));
    rope->attention_factor = 1;
}

static bool same_rope(const struct ls_rope *a, const struct ls_rope *b)
{
    return a->n_pairs == b->n_pairs && a->attention_factor == b->attention_factor &&
           a->pairs == b->pairs &&
           !memcmp(a->freq, b->freq, (size_t)a->n_pairs * sizeof *a->freq);
}

static bool other_rope(struct ls_arch *arch, const struct ls_quirk_case *c, char *text,
                       size_t size)
{
    bool changed = false;
    for (int r = 0; r < arch->n_ropes && r < c->other->n_ropes; r++) {
        const struct ls_rope *const b = &c->other->ropes[r];
        struct ls_rope *const a = &arch->ropes[r];
        if (a->n_pairs != b->n_pairs || same_rope(a, b))
            continue;
        snprintf(text, size,
                 "rope is of type %s with second frequency %.6g, %s with %.6g there", a->kind,
                 a->n_pairs > 1 ? (double)a->freq[1] : 0, b->kind,
                 b->n_pairs > 1 ? (double)b->freq[1] : 0);
        memcpy(a->freq, b->freq, (size_t)a->n_pairs * sizeof *a->freq);
        a->attention_factor = b->attention_factor;
        a->pairs = b->pairs;
        changed = true;
    }
    return changed;
}

/* The base that the highest two frequencies of a scaled rope were made from. */
static double base_of(const struct ls_rope *rope)
{
    if (rope->n_pairs < 2 || !(rope->freq[1] > 0))
        return 1e4;
    const double theta =
        pow((double)rope->freq[0] / (double)rope->freq[1], (double)rope->n_pairs);
    const double unit = pow(10, floor(log10(theta)) - 3);
    return round(theta / unit) * unit; /* four digits are as many as bases have */
}

static bool rope_frequencies(struct ls_arch *arch, const struct ls_quirk_case *c, int variant,
                             bool *changed, char *text, size_t size)
{
    static const double thetas[] = { 0, 1e4, 1e5, 5e5, 1e6, 1e3 };
    enum { N = sizeof thetas / sizeof *thetas };
    if (variant == 0) {
        *changed = other_rope(arch, c, text, size);
        return true;
    }
    if (variant > N)
        return false;
    *changed = arch->n_ropes > 0;
    for (int r = 0; r < arch->n_ropes; r++) {
        const double own = base_of(&arch->ropes[r]), theta = thetas[variant - 1];
        plain_rope(&arch->ropes[r], theta > 0 ? theta : own);
        if (theta > 0)
            snprintf(text, size, "a plain rope of base %g there (about %g here)", theta, own);
        else
            snprintf(text, size, "rope type %s ignored: a plain rope of base %g there",
                     arch->ropes[r].kind, own);
    }
    return true;
}

static bool rope_pairs(struct ls_arch *arch, const struct ls_quirk_case *c, int variant,
                       bool *changed, char *text, size_t size)
{
    (void)c;
    for (int r = 0; r < arch->n_ropes; r++) {
        const bool halves = arch->ropes[r].pairs == LS_ROPE_HALVES;
        arch->ropes[r].pairs = halves ? LS_ROPE_NEIGHBOURS : LS_ROPE_HALVES;
        snprintf(text, size, "rope turns %s there",
                 halves ? "neighbours (2i, 2i + 1)" : "halves (i, i + n)");
        *changed = true;
    }
    return variant == 0;
}

static bool score_scale(struct ls_arch *arch, const struct ls_quirk_case *c, int variant,
                        bool *changed, char *text, size_t size)
{
    for (int l = 0; l < arch->n_layers; l++) {
        struct ls_layer *const layer = &arch->layers[l];
        const double dim = layer->head_dim;
        const double scales[] = { l < c->other->n_layers
                                      ? (double)c->other->layers[l].attn_scale
                                      : (double)layer->attn_scale,
                                  1 / sqrt(dim), sqrt((double)layer->n_heads / arch->hidden),
                                  1 / dim, 1 };
        if (variant >= (int)(sizeof scales / sizeof *scales))
            return false;
        const float scale = (float)scales[variant];
        if (l == c->where->layer)
            snprintf(text, size, "scores are scaled by %.9g, by %.9g there",
                     (double)layer->attn_scale, (double)scale);
        *changed = *changed || scale != layer->attn_scale;
        layer->attn_scale = scale;
    }
    return true;
}

static float to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool embedding_scale(struct ls_arch *arch, const struct ls_quirk_case *c, int variant,
                            bool *changed, char *text, size_t size)
{
    const float root = (float)sqrt(arch->hidden);
    const float scales[] = { c->other->embed_scale, root, to_bf16(root), 0 };
    static const char *const how[] = { "", ", not rounded to bf16", ", rounded to bf16",
                                       ", which is none" };
    if (variant >= (int)(sizeof scales / sizeof *scales))
        return false;
    snprintf(text, size, "the embedding is scaled by %.9g, by %.9g there%s",
             (double)arch->embed_scale, (double)scales[variant], how[variant]);
    *changed = scales[variant] != arch->embed_scale;
    arch->embed_scale = scales[variant];
    return true;
}

/* --- the table -------------------------------------------------------------------------------
 */

#define OF_ARCH(field)  .offset = offsetof(struct ls_arch, field)
#define OF_LAYER(field) .of_layers = true, .offset = offsetof(struct ls_layer, field)

static const struct field fields[] = {
    { "dtype", "activations (0: f32, 1: f16, 2: bf16)", UINT64_MAX, NUMBER, OF_ARCH(dtype) },
    { "epsilon", "epsilon of norms", NORMS, REAL, OF_ARCH(norm_eps), .n_values = 4,
      .values = { 1e-5, 1e-6, 1e-8, 1e-12 } },
    { "norm-weight", "kind of norm weight (0: D(D(x r) w), 1: 1 + w, 2: D((x r) w))", NORMS,
      NUMBER, OF_ARCH(norm_weight), .n_values = 3, .values = { 0, 1, 2 } },
    { "window", "sliding window", SEEN, NUMBER, OF_LAYER(window), .steps = true, .n_values = 2,
      .values = { 1, -1 } },
    { "no-window", "sliding window (0: none)", SEEN, NUMBER, OF_LAYER(window), .n_values = 1,
      .values = { 0 } },
    { "chunk", "attention chunk", SEEN, NUMBER, OF_LAYER(chunk), .steps = true, .n_values = 2,
      .values = { 1, -1 } },
    { "rope", "rope", ROPES, FUNCTION, .apply = rope_frequencies },
    { "rope-pairs", "pairs that rope turns", ROPES, FUNCTION, .apply = rope_pairs },
    { "no-rope", "rope of the layers (-1: none)", ROPES, NUMBER, OF_LAYER(rope), .n_values = 1,
      .values = { -1 } },
    { "attention-scale", "scale of scores", OP(SCORES), FUNCTION, .apply = score_scale },
    { "attention-softcap", "softcap of scores (0: none)", OP(SCORES), REAL,
      OF_ARCH(attn_softcap), .n_values = 3, .values = { 0, 30, 50 } },
    { "logit-softcap", "softcap of logits (0: none)", OP(LOGITS), REAL, OF_ARCH(logit_softcap),
      .n_values = 3, .values = { 0, 30, 50 } },
    { "logit-scale", "scale of logits (0: none)", OP(LOGITS), REAL, OF_ARCH(logit_scale),
      .n_values = 1, .values = { 0 } },
    { "embedding-scale", "scale of the embedding", OP(EMBEDDING), FUNCTION,
      .apply = embedding_scale },
    { "residual-scale", "scale of branches (0: none)", OP(ATTN_RESIDUAL) | OP(FFN_RESIDUAL),
      REAL, OF_ARCH(residual_scale), .n_values = 1, .values = { 0 } },
    { "activation", "activation (0: SiLU, 1: GELU)", OP(ACTIVATION) | OP(EXPERT_GATED), NUMBER,
      OF_ARCH(act), .n_values = 2, .values = { 0, 1 } },
    { "bias-dropped", "bias of q, k and v", OP(Q) | OP(K) | OP(V), FLAG, OF_ARCH(qkv_bias) },
    { "bias-dropped", "bias behind attention", OP(ATTN_OUT), FLAG, OF_ARCH(o_bias) },
    { "bias-dropped", "bias of the feed-forward", OP(GATE) | OP(UP) | OP(FFN_OUT), FLAG,
      OF_ARCH(mlp_bias) },
    { "bias-dropped", "bias of the router", OP(ROUTER), FLAG, OF_ARCH(experts.router_bias) },
    { "bias-dropped", "bias of experts", OP(EXPERT_GATED) | OP(EXPERT_OUT), FLAG,
      OF_ARCH(experts.expert_bias) },
    { "sinks-ignored", "sinks of attention", OP(ATTENTION), FLAG, OF_ARCH(sinks) },
    { "value-norm", "norm of values", OP(V_NORM) | OP(SCORES), FLAG, OF_ARCH(v_norm) },
    { "layer-scalar", "scalar behind each layer", OP(HIDDEN), FLAG, OF_ARCH(layer_scalar) },
    { "experts-chosen", "experts of a token", OP(EXPERT_CHOICE), NUMBER,
      OF_ARCH(experts.n_chosen), .steps = true, .n_values = 2, .values = { 1, -1 } },
    { "expert-weights", "weights divided by their sum", OP(EXPERT_WEIGHT), FLAG,
      OF_ARCH(experts.renormalise) },
    { "expert-scale", "scale of weights (0: none)", OP(EXPERT_WEIGHT), REAL,
      OF_ARCH(experts.routed_scale), .n_values = 1, .values = { 0 } },
    { "router-kind", "router (0: softmax, 1: of the chosen, 2: sigmoid, 3: on the input)",
      OP(EXPERT_CHOICE) | OP(EXPERT_WEIGHT), NUMBER, OF_ARCH(experts.router), .n_values = 3,
      .values = { 0, 1, 2 } },
    { "swiglu-limit", "clamp of gates (0: none)", OP(ACTIVATION) | OP(EXPERT_GATED), REAL,
      OF_ARCH(experts.swiglu_limit), .n_values = 1, .values = { 7 } },
    { "temperature", "query temperature (0: none)", OP(Q_TEMPERED), NUMBER,
      OF_LAYER(temperature_floor), .n_values = 1, .values = { 0 } },
};

int ls_quirk_n_fields(void)
{
    return (int)(sizeof fields / sizeof *fields);
}

const char *ls_quirk_field_name(int field)
{
    return fields[field].name;
}

/* --- settings by their place -----------------------------------------------------------------
 */

static double get(const struct field *f, const void *base)
{
    const char *const at = (const char *)base + f->offset;
    float real;
    int number;
    if (f->kind == FLAG)
        return *(const bool *)at;
    memcpy(&real, at, sizeof real);
    memcpy(&number, at, sizeof number);
    return f->kind == REAL ? (double)real : number;
}

static void set(const struct field *f, void *base, double value)
{
    char *const at = (char *)base + f->offset;
    const float real = (float)value;
    const int number = (int)value;
    if (f->kind == FLAG)
        *(bool *)at = value != 0;
    else if (f->kind == REAL)
        memcpy(at, &real, sizeof real);
    else
        memcpy(at, &number, sizeof number);
}

/* What the setting becomes; variant 0 is the other arm's. */
static double changed_to(const struct field *f, const void *base, const void *other,
                         int variant)
{
    const double now = get(f, base);
    if (variant == 0)
        return get(f, other);
    if (f->kind == FLAG)
        return now == 0;
    return f->steps ? now + f->values[variant - 1] : f->values[variant - 1];
}

static bool change(const struct field *f, void *base, const void *other, int variant,
                   char *text, size_t size)
{
    const double now = get(f, base), then = changed_to(f, base, other, variant);
    if (then == now || (float)then == (float)now || (f->steps && then < 1))
        return false;
    if (f->kind == FLAG)
        snprintf(text, size, "%s: %s here, %s there", f->words, now ? "used" : "not used",
                 then ? "used" : "not used");
    else
        snprintf(text, size, "%s: %.9g here, %.9g there", f->words, now, then);
    set(f, base, then);
    return true;
}

/* A guess concerns the layers that have the setting; the other arm's counts everywhere. */
static bool change_layers(const struct field *f, struct ls_arch *arch,
                          const struct ls_arch *other, int variant, char *text, size_t size)
{
    bool changed = false;
    for (int l = 0; l < arch->n_layers && l < other->n_layers; l++) {
        if (variant > 0 && get(f, &arch->layers[l]) == 0 && !(f->ops & ROPES))
            continue;
        changed =
            change(f, &arch->layers[l], &other->layers[l], variant, text, size) || changed;
    }
    return changed;
}

bool ls_quirk_change(struct ls_arch *arch, const struct ls_quirk_case *c, int field,
                     int variant, bool *more, char *text, size_t size)
{
    const struct field *const f = &fields[field];
    bool changed = false;
    *more = false;
    if (!(f->ops >> c->where->op & 1))
        return false;
    if (f->kind == FUNCTION) {
        *more = f->apply(arch, c, variant, &changed, text, size);
        return *more && changed;
    }
    *more = variant <= (f->kind == FLAG ? 1 : f->n_values);
    if (!*more)
        return false;
    if (f->of_layers)
        return change_layers(f, arch, c->other, variant, text, size);
    changed = change(f, arch, c->other, variant, text, size);
    return changed && arch->experts.n_chosen <= arch->experts.n;
}
