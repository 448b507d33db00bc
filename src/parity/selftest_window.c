#include "parity/selftest_window.h"

#include "base/philox.h"

#include <stdio.h>
#include <string.h>

enum { BEHIND = 8 /* tokens behind the last one that sees the changed one */, SEED = 0x31d0 };

/* One layer alone. */
struct probe {
    struct ls_arch arch;        /* of the model, with layers of its own */
    struct ls_layer *layers;    /* [n_layers] copies */
    int layer;                  /* global */
    int declared;               /* its window or chunk, as the model has it */
    uint32_t size;              /* as it is tried */
    uint32_t n;                 /* tokens */
    size_t in_bytes, out_bytes; /* of a token's hidden state */
    int32_t *tokens;            /* [n] of layer 0 */
    unsigned char *in;          /* [n][in_bytes] of the others */
    unsigned char *out[2];      /* [n][out_bytes] before and after the change */
};

static int edge_of(const struct ls_layer *l)
{
    return l->window ? l->window : l->chunk;
}

/* The next layer from `at` on that has an edge, can be run alone, and is the first of its kind;
 * n_layers: none. */
static int next_layer(const struct ls_arch *arch, int at)
{
    for (; at < arch->n_layers; at++) {
        const struct ls_layer *const l = &arch->layers[at];
        bool fresh = edge_of(l) > 0 && ls_cut_allowed(arch, at, NULL) &&
                     ls_cut_allowed(arch, at + 1, NULL);
        for (int k = 0; fresh && k < at; k++)
            fresh = arch->layers[k].window != l->window || arch->layers[k].chunk != l->chunk ||
                    !ls_cut_allowed(arch, k, NULL) || !ls_cut_allowed(arch, k + 1, NULL);
        if (fresh)
            return at;
    }
    return at;
}

static void finish(struct probe *p)
{
    ls_free(p->layers);
    ls_free(p->tokens);
    ls_free(p->in);
    ls_free(p->out[0]);
    ls_free(p->out[1]);
}

static ls_status take(void *at, uint64_t bytes, struct ls_err *err)
{
    void *memory;
    const ls_status s = ls_alloc(&memory, bytes, "a layer's test", err);
    memcpy(at, &memory, sizeof memory);
    return s;
}

/* Numbers of both signs up to 1, as D's bytes. */
static void fill(unsigned char *at, uint64_t n, enum ls_fmt fmt, uint64_t first)
{
    for (uint64_t i = 0; i < n; i++) {
        const float x = (float)(2 * ls_philox_uniform(SEED, first + i) - 1);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (fmt == LS_FMT_F32)
            memcpy(at + 4 * i, &bits, 4);
        else if (fmt == LS_FMT_BF16)
            memcpy(at + 2 * i, (unsigned char *)&bits + 2, 2);
        else /* sign, then an exponent below 1, then noise */
            memcpy(at + 2 * i, &(uint16_t){ (uint16_t)((bits >> 16 & 0x83ff) | 0x3800) }, 2);
    }
}

static ls_status make(struct probe *p, const struct ls_arch *arch, int layer,
                      struct ls_err *err)
{
    const uint64_t bytes = (uint64_t)arch->n_layers * sizeof *p->layers;
    const size_t element = ls_fmt_bytes(arch->dtype);
    p->layer = layer;
    ls_status s = take(&p->layers, bytes, err);
    if (s)
        return s;
    memcpy(p->layers, arch->layers, bytes);
    p->arch = *arch;
    p->arch.layers = p->layers;
    struct ls_layer *const l = &p->layers[layer];
    p->declared = edge_of(l);
    p->size =
        p->declared > LS_SELFTEST_MAX_WINDOW ? LS_SELFTEST_MAX_WINDOW : (uint32_t)p->declared;
    *(l->window ? &l->window : &l->chunk) = (int)p->size;
    p->n = p->size + BEHIND;
    if (p->n > (uint32_t)arch->context)
        p->n = (uint32_t)arch->context;
    p->in_bytes = (size_t)ls_inbound_width(arch, layer) * element;
    p->out_bytes = (size_t)ls_inbound_width(arch, layer + 1) * element;
    s = take(&p->tokens, p->n * sizeof *p->tokens, err);
    if (!s)
        s = take(&p->in, p->n * p->in_bytes, err);
    for (int i = 0; !s && i < 2; i++)
        s = take(&p->out[i], p->n * p->out_bytes, err);
    return s;
}

/* Inputs of the tokens; `changed` gets others. */
static void fill_inputs(struct probe *p, uint32_t changed, bool change)
{
    const uint64_t width = (uint64_t)ls_inbound_width(&p->arch, p->layer);
    for (uint32_t t = 0; t < p->n; t++) {
        const uint32_t id = change && t == changed ? p->n : t;
        fill(p->in + t * p->in_bytes, width, p->arch.dtype, id * width);
        p->tokens[t] = (int32_t)(ls_philox_uniform(SEED, t) * p->arch.vocab);
        if (id != t)
            p->tokens[t] = (p->tokens[t] + 1) % p->arch.vocab;
    }
}

/* Token `changed` is changed: the tokens that are other behind the layer must be those from
 * itself to `last`. */
static ls_status look(struct probe *p, struct ls_replay *replay, uint32_t changed,
                      uint32_t last, struct ls_selftest_verdict *v, struct ls_err *err)
{
    const struct ls_replay_row row = { .count = p->n, .tokens = p->tokens };
    ls_status s = LS_OK;
    for (int i = 0; !s && i < 2; i++) {
        fill_inputs(p, changed, i == 1);
        ls_replay_restart(replay);
        s = ls_replay_run(replay, &row, 1, p->in, p->out[i], err);
    }
    for (uint32_t t = 0; !s && v->good && t < p->n; t++) {
        const size_t at = t * p->out_bytes;
        const bool same = !memcmp(p->out[0] + at, p->out[1] + at, p->out_bytes);
        if (t >= changed && t <= last ? !same : same)
            continue;
        if (t >= changed && t < last) /* seen, and rounded away; its end decides */
            continue;
        v->good = false;
        snprintf(v->text, sizeof v->text,
                 "layer %d with a %s of %u: the token at position %u is %sseen at position %u",
                 p->layer, p->layers[p->layer].window ? "window" : "chunk", p->size, changed,
                 same ? "not " : "", t);
    }
    return s;
}

static ls_status try_layer(struct probe *p, const struct ls_replay_model *model,
                           const struct ls_kernels *kernels, int n_threads,
                           struct ls_selftest_verdict *v, struct ls_err *err)
{
    const struct ls_layer *const l = &p->layers[p->layer];
    const struct ls_replay_config config = { .arch = &p->arch,
                                             .ckpt = model->ckpt,
                                             .kernels = kernels,
                                             .first_layer = p->layer,
                                             .last_layer = p->layer + 1,
                                             .n_threads = n_threads,
                                             .n_sequences = 1,
                                             .positions = p->n,
                                             .max_tokens = p->n };
    struct ls_replay *replay = NULL;
    ls_status s = ls_replay_create(&replay, &config, err);
    for (uint32_t at = 0; !s && at < 3 && at < p->n; at += 2) {
        uint32_t last = l->window ? at + p->size - 1 : p->size - 1;
        last = last < p->n ? last : p->n - 1;
        s = last < at ? LS_OK : look(p, replay, at, last, v, err);
    }
    ls_replay_destroy(replay);
    return s;
}

/* "window 512 of layer 0 (tried as 64)" */
static void say(struct ls_selftest_verdict *v, const struct probe *p)
{
    const size_t n = strlen(v->text);
    char tried[32] = "";
    if (p->size != (uint32_t)p->declared)
        snprintf(tried, sizeof tried, " (tried as %u)", p->size);
    snprintf(v->text + n, sizeof v->text - n, "%s%s %d of layer %d%s", n ? ", " : "",
             p->layers[p->layer].window ? "window" : "chunk", p->declared, p->layer, tried);
}

ls_status ls_selftest_window(const struct ls_replay_model *model,
                             const struct ls_kernels *kernels, int n_threads,
                             struct ls_selftest_verdict *v, struct ls_err *err)
{
    const struct ls_arch *const arch = &model->arch;
    ls_status s = LS_OK;
    bool any = false;
    for (int l = 0; l < arch->n_layers; l++)
        any = any || edge_of(&arch->layers[l]) > 0;
    for (int l = next_layer(arch, 0); !s && v->good && l < arch->n_layers;
         l = next_layer(arch, l + 1)) {
        struct probe p = { .layer = l };
        s = make(&p, arch, l, err);
        if (!s)
            s = try_layer(&p, model, kernels, n_threads, v, err);
        if (!s && v->good)
            say(v, &p);
        finish(&p);
    }
    if (!s && v->good && !v->text[0])
        snprintf(v->text, sizeof v->text, "%s",
                 any ? "no layer with a window can be run alone" : "no layer has a window");
    return s;
}
