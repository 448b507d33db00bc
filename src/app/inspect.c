#include "app/inspect.h"

#include "app/model_folder.h"
#include "app/plan_view.h"
#include "model/weights.h"

#include <inttypes.h>
#include <string.h>

void ls_inspect(struct ls_inspection *in, const char *folder, const struct ls_arch_wish *wish)
{
    *in = (struct ls_inspection){ .folder = folder };
    ls_arena_init(&in->arena);
    in->has_arch = !ls_arch_load(&in->arch, folder, wish, &in->arena, &in->arch_err);
    ls_checkpoint_open(&in->ckpt, folder, &in->ckpt_err);
    if (in->has_arch && in->ckpt)
        in->has_weights = !ls_weights_check(&in->arch, in->ckpt, &in->n_unused,
                                            &in->first_unused, &in->weights_err);
    ls_model_tokenizer(&in->tokenizer, folder, &in->tokenizer_err);
}

void ls_inspect_finish(struct ls_inspection *in)
{
    ls_tokenizer_destroy(in->tokenizer);
    ls_checkpoint_close(in->ckpt);
    ls_arena_finish(&in->arena);
}

const char *ls_inspect_reason(const struct ls_inspection *in)
{
    const struct ls_err *const errs[] = { &in->arch_err, &in->ckpt_err, &in->weights_err,
                                          &in->tokenizer_err };
    for (int i = 0; i < 4; i++)
        if (errs[i]->status)
            return errs[i]->text;
    return NULL;
}

/* --- for reading -----------------------------------------------------------------------------
 */

enum { LAYER_TEXT = 320 };

static void ffn_text(const struct ls_arch *a, const struct ls_layer *x, char text[128])
{
    const struct ls_experts *const e = &a->experts;
    if (x->ffn != LS_FFN_EXPERTS) {
        snprintf(text, 128, "feed-forward %d", x->intermediate);
        return;
    }
    const int n =
        snprintf(text, 128, "%d of %d experts of %d", e->n_chosen, e->n, e->intermediate);
    if (x->intermediate)
        snprintf(text + n, 128 - (size_t)n, " and %s of %d",
                 e->beside_dense ? "a dense block" : "a shared one", x->intermediate);
}

/* All that decides a layer, without its number. */
static void layer_text(const struct ls_arch *a, int l, char text[LAYER_TEXT])
{
    const struct ls_layer *const x = &a->layers[l];
    char span[40] = "everything", ffn[128], source[48] = "";
    if (x->window)
        snprintf(span, sizeof span, "a window of %d", x->window);
    if (x->chunk)
        snprintf(span, sizeof span, "blocks of %d", x->chunk);
    if (x->kv_source != l)
        snprintf(source, sizeof source, ", keys and values of layer %d", x->kv_source);
    ffn_text(a, x, ffn);
    snprintf(text, LAYER_TEXT,
             "attention over %s, %d heads on %d KV heads of %d%s, rope %s%s, %s", span,
             x->n_heads, x->n_kv_heads, x->head_dim, source,
             x->rope < 0 ? "none" : a->ropes[x->rope].kind,
             x->temperature_floor ? " with growing queries" : "", ffn);
}

static void print_layers(const struct ls_arch *a, FILE *out)
{
    char first_text[LAYER_TEXT], text[LAYER_TEXT];
    layer_text(a, 0, first_text);
    for (int first = 0, l = 1; l <= a->n_layers; l++) {
        if (l < a->n_layers)
            layer_text(a, l, text);
        if (l < a->n_layers && !strcmp(text, first_text))
            continue;
        fprintf(out, "layers %3d-%-3d %s\n", first, l - 1, first_text);
        memcpy(first_text, text, sizeof text);
        first = l;
    }
}

static void print_arch(const struct ls_arch *a, FILE *out)
{
    fprintf(out, "family         %s\n", a->family);
    fprintf(out, "size           %d layers, hidden %d, vocabulary %d, head %s\n", a->n_layers,
            a->hidden, a->vocab, a->tied ? "tied to the embedding" : "of its own");
    fprintf(out, "activations    %s\n", ls_fmt_text(a->dtype));
    fprintf(out, "context        %d%s\n", a->context,
            a->rope_needs_context ? " (rope depends on it)" : "");
    for (int i = 0; i < a->n_ropes; i++)
        fprintf(out, "rope           %s, %d pairs, attention factor %g\n", a->ropes[i].kind,
                a->ropes[i].n_pairs, (double)a->ropes[i].attention_factor);
    if (a->per_layer_width)
        fprintf(out, "inputs         %d for each layer, carried behind the hidden state\n",
                a->per_layer_width);
    fprintf(out, "end of text   ");
    for (int i = 0; i < a->n_eos; i++)
        fprintf(out, " %d", a->eos[i]);
    fprintf(out, "%s\n", a->n_eos ? "" : " none");
    print_layers(a, out);
}

static void print_tensors(const struct ls_inspection *in, FILE *out)
{
    uint64_t bytes[LS_N_DTYPES] = { 0 }, total = 0;
    size_t n[LS_N_DTYPES] = { 0 };
    for (size_t i = 0; i < ls_checkpoint_n_tensors(in->ckpt); i++) {
        const struct ls_tensor *const t = ls_checkpoint_tensor(in->ckpt, i);
        n[t->dtype]++;
        bytes[t->dtype] += t->bytes;
        total += t->bytes;
    }
    fprintf(out, "tensors        %zu, %s (%" PRIu64 " bytes)\n",
            ls_checkpoint_n_tensors(in->ckpt), ls_size_text(total), total);
    for (int d = 0; d < LS_N_DTYPES; d++)
        if (n[d])
            fprintf(out, "  %-12s %zu, %s\n", ls_dtype_name((enum ls_dtype)d), n[d],
                    ls_size_text(bytes[d]));
    if (in->n_unused)
        fprintf(out, "  not used     %zu, the first is %s\n", in->n_unused,
                in->first_unused ? in->first_unused : "?");
}

void ls_inspect_print(const struct ls_inspection *in, FILE *out)
{
    const char *const reason = ls_inspect_reason(in);
    fprintf(out, "checkpoint     %s\n", in->folder);
    if (reason)
        fprintf(out, "supported      no: %s\n", reason);
    else
        fprintf(out, "supported      yes\n");
    if (in->has_arch)
        print_arch(&in->arch, out);
    if (in->ckpt)
        print_tensors(in, out);
    if (in->has_weights)
        fprintf(out, "repacked       %s for all layers\n",
                ls_size_text(ls_weights_bytes(&in->arch, in->ckpt, 0, in->arch.n_layers)));
    if (in->tokenizer)
        fprintf(out, "tokenizer      ids below %d, bos %d, eos %d (-1: none)\n",
                ls_tokenizer_vocab_size(in->tokenizer), ls_tokenizer_bos(in->tokenizer),
                ls_tokenizer_eos(in->tokenizer));
    else if (!in->tokenizer_err.status)
        fprintf(out, "tokenizer      none: only prompts of token ids can be run\n");
}

/* --- as JSON ---------------------------------------------------------------------------------
 */

static json_t *layer_to_json(const struct ls_arch *a, const struct ls_layer *x)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:f, s:s}", "mixer",
                     "attention", "window", x->window, "chunk", x->chunk, "n_heads", x->n_heads,
                     "n_kv_heads", x->n_kv_heads, "head_dim", x->head_dim, "kv_source",
                     x->kv_source, "feed_forward",
                     x->ffn == LS_FFN_EXPERTS ? "experts" : "gated", "intermediate",
                     x->intermediate, "attention_scale", (double)x->attn_scale, "rope",
                     x->rope < 0 ? "none" : a->ropes[x->rope].kind);
}

static json_t *experts_to_json(const struct ls_experts *e)
{
    static const char *const routers[] = {
        [LS_ROUTER_SOFTMAX] = "softmax",
        [LS_ROUTER_CHOSEN] = "softmax over the chosen",
        [LS_ROUTER_SIGMOID] = "sigmoid",
        [LS_ROUTER_INPUT] = "sigmoid on the input",
    };
    if (!e->n)
        return json_null();
    return json_pack("{s:i, s:i, s:i, s:s, s:i, s:i, s:b, s:b}", "n", e->n, "chosen",
                     e->n_chosen, "intermediate", e->intermediate, "router", routers[e->router],
                     "groups", e->n_groups, "groups_chosen", e->n_groups_chosen, "renormalised",
                     e->renormalise, "mxfp4", e->storage == LS_EXPERTS_MXFP4);
}

static json_t *arch_to_json(const struct ls_arch *a)
{
    json_t *const layers = json_array(), *const eos = json_array();
    int failed = 0;
    for (int l = 0; l < a->n_layers; l++)
        failed |= json_array_append_new(layers, layer_to_json(a, &a->layers[l]));
    for (int i = 0; i < a->n_eos; i++)
        failed |= json_array_append_new(eos, json_integer(a->eos[i]));
    json_t *const out =
        json_pack("{s:s, s:i, s:i, s:i, s:b, s:s, s:i, s:b, s:i, s:i, s:o, s:o, s:o}", "family",
                  a->family, "n_layers", a->n_layers, "hidden", a->hidden, "vocabulary",
                  a->vocab, "tied", a->tied, "activations", ls_fmt_text(a->dtype), "context",
                  a->context, "rope_needs_context", a->rope_needs_context, "bos", a->bos,
                  "per_layer_inputs", a->per_layer_width, "experts",
                  experts_to_json(&a->experts), "eos", eos, "layers", layers);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *tensor_to_json(const struct ls_inspection *in, const struct ls_tensor *t)
{
    json_t *const dims = json_array();
    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(dims, json_integer((json_int_t)t->dims[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:s}", "name", t->name, "dtype",
                     ls_dtype_name(t->dtype), "shape", dims, "bytes", (json_int_t)t->bytes,
                     "file", ls_checkpoint_file_of(in->ckpt, t));
}

static json_t *tensors_to_json(const struct ls_inspection *in)
{
    json_t *const out = json_array();
    int failed = 0;
    for (size_t i = 0; i < ls_checkpoint_n_tensors(in->ckpt); i++)
        failed |=
            json_array_append_new(out, tensor_to_json(in, ls_checkpoint_tensor(in->ckpt, i)));
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

json_t *ls_inspect_to_json(const struct ls_inspection *in)
{
    const char *const reason = ls_inspect_reason(in);
    json_t *const out = json_pack("{s:s, s:b, s:s?}", "checkpoint", in->folder, "supported",
                                  !reason, "reason", reason);
    int failed = !out;
    if (in->has_arch)
        failed |= json_object_set_new(out, "architecture", arch_to_json(&in->arch));
    if (in->ckpt)
        failed |= json_object_set_new(out, "tensors", tensors_to_json(in));
    if (in->has_weights)
        failed |= json_object_set_new(
            out, "unused_tensors",
            json_pack("{s:I, s:s?}", "n", (json_int_t)in->n_unused, "first", in->first_unused));
    if (in->tokenizer)
        failed |= json_object_set_new(out, "tokenizer",
                                      json_pack("{s:i, s:i, s:i}", "n_ids",
                                                (int)ls_tokenizer_vocab_size(in->tokenizer),
                                                "bos", (int)ls_tokenizer_bos(in->tokenizer),
                                                "eos", (int)ls_tokenizer_eos(in->tokenizer)));
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}
