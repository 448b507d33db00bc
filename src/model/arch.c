#include "model/arch.h"

#include "base/mutant.h"
#include "model/config.h"
#include "model/families/dense.h"
#include "model/families/families.h"
#include "model/naming.h"
#include "tensor/checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_PATH = 4096 };

/* Keys that change what some family computes. Where a family did not ask for one, only its
 * neutral value may stand there. */
enum neutral { MUST_BE_OFF, MUST_BE_ONE, MUST_BE_FULL };
static const struct {
    const char *key;
    enum neutral neutral;
} arithmetic_keys[] = {
    { "quantization_config", MUST_BE_OFF },
    { "compression_config", MUST_BE_OFF },
    { "is_encoder_decoder", MUST_BE_OFF },
    { "add_cross_attention", MUST_BE_OFF },
    { "use_bidirectional_attention", MUST_BE_OFF },
    { "num_experts", MUST_BE_OFF },
    { "num_local_experts", MUST_BE_OFF },
    { "n_routed_experts", MUST_BE_OFF },
    { "n_shared_experts", MUST_BE_OFF },
    { "enable_moe_block", MUST_BE_OFF },
    { "attention_bias", MUST_BE_OFF },
    { "mlp_bias", MUST_BE_OFF },
    { "use_sliding_window", MUST_BE_OFF },
    { "sliding_window", MUST_BE_OFF },
    { "sliding_window_pattern", MUST_BE_OFF },
    { "attention_chunk_size", MUST_BE_OFF },
    { "layer_types", MUST_BE_FULL },
    { "no_rope_layers", MUST_BE_ONE },
    { "attn_logit_softcapping", MUST_BE_OFF },
    { "final_logit_softcapping", MUST_BE_OFF },
    { "query_pre_attn_scalar", MUST_BE_OFF },
    { "embedding_multiplier", MUST_BE_ONE },
    { "residual_multiplier", MUST_BE_ONE },
    { "attention_multiplier", MUST_BE_OFF },
    { "logits_scaling", MUST_BE_ONE },
    { "logit_scale", MUST_BE_ONE },
    { "partial_rotary_factor", MUST_BE_ONE },
    { "rotary_pct", MUST_BE_ONE },
    { "rope_parameters", MUST_BE_OFF },
    { "rope_scaling", MUST_BE_OFF },
    { "rope_local_base_freq", MUST_BE_OFF },
    { "use_qk_norm", MUST_BE_OFF },
    { "qk_layernorm", MUST_BE_OFF },
    { "clip_qkv", MUST_BE_OFF },
    { "q_lora_rank", MUST_BE_OFF },
    { "kv_lora_rank", MUST_BE_OFF },
    { "num_kv_shared_layers", MUST_BE_OFF },
    { "hidden_size_per_layer_input", MUST_BE_OFF },
    { "attention_k_eq_v", MUST_BE_OFF },
    { "per_layer_config", MUST_BE_OFF },
    { "attn_temperature_tuning", MUST_BE_OFF },
    { "moe_layers", MUST_BE_OFF },
    { "interleave_moe_layer_step", MUST_BE_ONE },
    { "decoder_sparse_step", MUST_BE_ONE },
    { "mlp_only_layers", MUST_BE_OFF },
    { "first_k_dense_replace", MUST_BE_OFF },
    { "shared_expert_intermediate_size", MUST_BE_OFF },
    { "scoring_func", MUST_BE_OFF },
    { "topk_method", MUST_BE_OFF },
    { "n_group", MUST_BE_ONE },
    { "topk_group", MUST_BE_ONE },
    { "routed_scaling_factor", MUST_BE_ONE },
    { "swiglu_alpha", MUST_BE_OFF },
    { "swiglu_limit", MUST_BE_OFF },
};

static bool is_neutral(const json_t *v, enum neutral neutral)
{
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            const json_t *e = json_array_get(v, i);
            const char *text = json_string_value(e);
            const bool full = text && !strcmp(text, "full_attention");
            if (neutral == MUST_BE_FULL ? !full : json_number_value(e) != 1)
                return false;
        }
        return neutral != MUST_BE_OFF || !json_array_size(v);
    }
    if (json_is_null(v) || json_is_false(v))
        return true;
    if (neutral == MUST_BE_ONE)
        return json_number_value(v) == 1;
    return json_is_object(v) ? !json_object_size(v)
                             : json_is_number(v) && json_number_value(v) == 0;
}

/* `asked` is the reader that the family used; obj may be the outer object. */
static void check_arithmetic_keys(struct ls_config *c, const struct ls_config *asked,
                                  const char *family)
{
    for (size_t i = 0; i < sizeof arithmetic_keys / sizeof *arithmetic_keys; i++) {
        const char *key = arithmetic_keys[i].key;
        const json_t *v = json_object_get(c->obj, key);
        if (v && !ls_config_was_asked(asked, key) && !is_neutral(v, arithmetic_keys[i].neutral))
            ls_config_fail(c, LS_E_REFUSED, key, "not supported for model_type \"%s\"", family);
    }
}

static const struct ls_family *find_family(struct ls_config *c)
{
    char list[512] = "";
    size_t n = 0;
    const char *type = ls_config_text(c, "model_type", NULL);
    const struct ls_family *f = type ? ls_family_find(type) : NULL;
    if (f || c->status)
        return f;
    for (int i = 0; ls_family_at(i) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              ls_family_at(i)->model_type);
    ls_config_fail(c, LS_E_REFUSED, "model_type", "supported are %s", list);
    return NULL;
}

/* One spelling of D. False when the key is absent. */
static bool read_dtype_key(struct ls_config *c, const char *key, enum ls_fmt *d)
{
    const char *name = ls_config_text(c, key, NULL);
    if (!name)
        return false;
    if (!strncmp(name, "torch.", 6))
        name += 6;
    if (!strcmp(name, "float32"))
        *d = LS_FMT_F32;
    else if (!strcmp(name, "float16"))
        *d = LS_FMT_F16;
    else if (!strcmp(name, "bfloat16"))
        *d = LS_FMT_BF16;
    else
        ls_config_fail(c, LS_E_REFUSED, key, "supported are float32, float16 and bfloat16");
    return true;
}

static bool read_dtype(struct ls_config *c, enum ls_fmt *d)
{
    enum ls_fmt old = *d;
    const bool has_new = read_dtype_key(c, "dtype", d);
    const bool has_old = read_dtype_key(c, "torch_dtype", &old);
    if (has_new && has_old && *d != old)
        ls_config_fail(c, LS_E_REFUSED, "torch_dtype", "contradicts dtype");
    if (!has_new)
        *d = old;
    return has_new || has_old;
}

static void add_eos(struct ls_arch *arch, struct ls_config *c, const json_t *id)
{
    const json_int_t v = json_integer_value(id);
    if (!json_is_integer(id) || v < 0 || v >= LS_MAX_VOCAB)
        ls_config_fail(c, LS_E_FORMAT, "eos_token_id",
                       "expected token ids in 0..%d, or a list of them", LS_MAX_VOCAB - 1);
    for (int i = 0; i < arch->n_eos; i++)
        if (arch->eos[i] == v)
            return;
    if (arch->n_eos == LS_MAX_EOS)
        ls_config_fail(c, LS_E_REFUSED, "eos_token_id", "more than %d ids", LS_MAX_EOS);
    if (!c->status)
        arch->eos[arch->n_eos++] = (int)v;
}

/* Takes what this file says, where nothing was said before. */
static void read_ends(struct ls_arch *arch, struct ls_config *c)
{
    const json_t *eos = ls_config_get(c, "eos_token_id");
    if (arch->bos < 0)
        arch->bos = ls_config_int(c, "bos_token_id", -1, -1, LS_MAX_VOCAB - 1);
    if (arch->n_eos || !eos || json_is_null(eos))
        return;
    if (!json_is_array(eos))
        add_eos(arch, c, eos);
    for (size_t i = 0; i < json_array_size(eos) && !c->status; i++)
        add_eos(arch, c, json_array_get(eos, i));
}

static ls_status load_object(json_t **out, const char *text, size_t n, const char *file,
                             struct ls_err *err)
{
    json_error_t at;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!root)
        return ls_fail(err, LS_E_FORMAT, "%s: not valid JSON at line %d: %s", file, at.line,
                       at.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return ls_fail(err, LS_E_FORMAT, "%s: not a JSON object", file);
    }
    *out = root;
    return LS_OK;
}

/* The head belongs to the outer model, the flag often stands in the text config: both must
 * agree. */
static void check_ties(const struct ls_arch *arch, struct ls_config *outer)
{
    if (arch->nested && ls_config_bool(outer, "tie_word_embeddings", arch->tied) != arch->tied)
        ls_config_fail(outer, LS_E_REFUSED, "tie_word_embeddings", "contradicts text_config");
}

/* bos and eos: generation_config.json, then the text config, then the object around it. */
static ls_status read_all_ends(struct ls_arch *arch, const json_t *generation,
                               struct ls_config *text, struct ls_config *outer)
{
    struct ls_config g;
    arch->bos = -1;
    ls_config_init(&g, generation, "generation_config.json: ", text->err);
    read_ends(arch, &g);
    if (!g.status)
        read_ends(arch, text);
    if (!g.status && !text->status && arch->nested)
        read_ends(arch, outer);
    return g.status ? g.status : text->status ? text->status : outer->status;
}

static ls_status parse_objects(struct ls_arch *arch, const json_t *config,
                               const json_t *generation, const struct ls_arch_wish *wish,
                               struct ls_arena *arena, struct ls_err *err)
{
    struct ls_config outer, text;
    const json_t *inner = json_object_get(config, "text_config");
    arch->nested = json_is_object(inner);
    ls_config_init(&outer, config, "config.json: ", err);
    ls_config_init(&text, arch->nested ? inner : config,
                   arch->nested ? "config.json: text_config." : "config.json: ", err);
    arch->fam = find_family(&text);
    if (!arch->fam)
        return text.status;
    snprintf(arch->family, sizeof arch->family, "%s", arch->fam->model_type);
    arch->dtype = wish->absent_dtype;
    arch->dtype_stated = read_dtype(&text, &arch->dtype);
    if (!arch->dtype_stated && arch->nested)
        arch->dtype_stated = read_dtype(&outer, &arch->dtype);
    if (wish->f32_activations)
        arch->dtype = LS_FMT_F32;
    arch->context = wish->context;
    arch->tied = ls_config_bool(&outer, "tie_word_embeddings", arch->fam->dense->tied);
    ls_status s = outer.status ? outer.status : text.status;
    if (!s)
        s = arch->fam->parse(arch, &text, arena, err);
    if (!s)
        s = read_all_ends(arch, generation, &text, &outer);
    if (!s)
        check_ties(arch, &outer);
    if (!s)
        check_arithmetic_keys(&text, &text, arch->family);
    if (!s && arch->nested)
        check_arithmetic_keys(&outer, &text, arch->family);
    return s ? s : text.status ? text.status : outer.status;
}

ls_status ls_arch_parse(struct ls_arch *arch, const char *config, size_t n,
                        const char *generation, size_t n_generation,
                        const struct ls_arch_wish *wish, struct ls_arena *arena,
                        struct ls_err *err)
{
    json_t *root = NULL, *gen = NULL;
    struct ls_err local;
    struct ls_arch parsed = { 0 };
    err = err ? err : &local;
    if (wish->context < 0 || wish->context > LS_MAX_CONTEXT)
        return ls_fail(err, LS_E_USAGE, "context: %d, expected 1..%d", wish->context,
                       LS_MAX_CONTEXT);
    ls_status s = load_object(&root, config, n, "config.json", err);
    if (!s && generation)
        s = load_object(&gen, generation, n_generation, "generation_config.json", err);
    if (!s)
        s = parse_objects(&parsed, root, gen, wish, arena, err);
    json_decref(root);
    json_decref(gen);
    if (!s)
        *arch = parsed;
    return s;
}

static ls_status read_file(const char *dir, const char *name, bool optional, char **text,
                           size_t *n, struct ls_err *err)
{
    char path[MAX_PATH];
    const int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (length < 0 || length >= MAX_PATH)
        return ls_fail(err, LS_E_IO, "%s: the path is longer than %d bytes", name,
                       MAX_PATH - 1);
    if (optional && access(path, F_OK))
        return LS_OK;
    return ls_file_read(path, MAX_CONFIG_BYTES, text, n, err);
}

/* D of a config that names none: that of the stored embedding. */
static ls_status stored_dtype(const struct ls_arch *arch, const char *dir, enum ls_fmt *d,
                              struct ls_err *err)
{
    struct ls_checkpoint *ckpt;
    ls_status s = ls_checkpoint_open(&ckpt, dir, err);
    if (s)
        return s;
    struct ls_tensor_place place;
    const struct ls_naming naming = ls_naming_of(arch, ckpt);
    const struct ls_weight_id embed = { .role = LS_ROLE_EMBED };
    const struct ls_tensor *t = ls_naming_find(&naming, arch, ckpt, &embed, &place);
    *d = t && t->dtype == LS_DTYPE_BF16  ? LS_FMT_BF16
         : t && t->dtype == LS_DTYPE_F16 ? LS_FMT_F16
                                         : LS_FMT_F32;
    ls_checkpoint_close(ckpt);
    return LS_OK;
}

ls_status ls_arch_load(struct ls_arch *arch, const char *dir, const struct ls_arch_wish *wish,
                       struct ls_arena *arena, struct ls_err *err)
{
    char *config = NULL, *generation = NULL;
    size_t n = 0, n_generation = 0;
    struct ls_arch_wish settled = *wish;
    struct ls_err local;
    err = err ? err : &local;
    ls_status s = read_file(dir, "config.json", false, &config, &n, err);
    if (!s)
        s = read_file(dir, "generation_config.json", true, &generation, &n_generation, err);
    if (!s)
        s = ls_arch_parse(arch, config, n, generation, n_generation, wish, arena, err);
    if (s) {
        ls_fail_prefix(err, "checkpoint %.300s", dir);
        goto out;
    }
    if (!arch->dtype_stated && !wish->f32_activations) {
        s = stored_dtype(arch, dir, &settled.absent_dtype, err);
        if (!s && settled.absent_dtype != wish->absent_dtype)
            s = ls_arch_parse(arch, config, n, generation, n_generation, &settled, arena, err);
    }
out:
    ls_free(config);
    ls_free(generation);
    return s;
}

int32_t ls_first_visible(const struct ls_layer *layer, int32_t pos, int32_t live_first)
{
    if (layer->chunk) {
        const int32_t begin = pos - pos % layer->chunk;
        return begin > live_first ? begin : live_first;
    }
    if (!layer->window)
        return live_first;
    const int32_t window = layer->window + (LS_MUTANT(WINDOW) ? 1 : 0);
    /* pos - (window - 1), without leaving int32 for windows near its limit */
    const int32_t first = pos >= window ? pos - window + 1 : 0;
    return first > live_first ? first : live_first;
}

int ls_inbound_width(const struct ls_arch *arch, int first_layer)
{
    return arch->hidden + (arch->n_layers - first_layer) * arch->per_layer_width;
}

bool ls_cut_allowed(const struct ls_arch *arch, int first_layer, int *reader)
{
    for (int l = first_layer; first_layer > 0 && l < arch->n_layers; l++)
        if (arch->layers[l].kv_source < first_layer) {
            if (reader)
                *reader = l;
            return false;
        }
    return true;
}

uint64_t ls_kv_block_bytes(const struct ls_arch *arch, int layer)
{
    const struct ls_layer *l = &arch->layers[layer];
    if (l->kv_source != layer)
        return 0;
    const uint64_t head = (uint64_t)ls_kv_k_bytes(arch->dtype, l->head_dim) +
                          ls_kv_v_bytes(arch->dtype, l->head_dim);
    return head * (uint64_t)l->n_kv_heads;
}
