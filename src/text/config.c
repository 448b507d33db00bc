#include "text/parts.h"

#include "base/alloc.h"

#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* A token is a text or {"content": text, ...}; absent or null leaves *out empty. */
static ls_status read_token(const json_t *config, const char *name, struct ls_view *out,
                            struct ls_err *err)
{
    const json_t *v = json_object_get(config, name);
    if (json_is_object(v))
        return ls_field_text(v, name, "content", out, err);
    return ls_field_text(config, "tokenizer_config.json", name, out, err);
}

/* "0" to "16777215", no sign and no leading zero, or -1. */
static int32_t id_of_key(const char *key)
{
    char *end;
    if (key[0] < '0' || key[0] > '9' || (key[0] == '0' && key[1]))
        return -1;
    unsigned long long id = strtoull(key, &end, 10);
    return *end || id > LS_MAX_TOKEN_ID ? -1 : (int32_t)id;
}

struct listed {
    int32_t id;
    const json_t *token;
};

static int by_id(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* In order of their ids, since a new token's id depends on those before it. */
static ls_status add_listed(struct ls_tokenizer *tok, const json_t *map, struct ls_err *err)
{
    size_t n = json_object_size(map), k = 0;
    void *p;
    ls_status s = ls_alloc(&p, n * sizeof(struct listed), "added tokens", err);
    if (s)
        return s;
    struct listed *list = p;
    const char *key;
    json_t *token, *object = (json_t *)(uintptr_t)map; /* jansson iterates mutable objects */
    json_object_foreach(object, key, token)
    {
        list[k] = (struct listed){ id_of_key(key), token };
        if (list[k++].id < 0) {
            s = ls_fail(err, LS_E_FORMAT,
                        "tokenizer_config.json: added_tokens_decoder: %.80s is not an id", key);
            goto out;
        }
    }
    qsort(list, n, sizeof *list, by_id);
    for (k = 0; !s && k < n; k++)
        s = ls_added_extend(&tok->added, list[k].token, list[k].id, &tok->model, err);
out:
    ls_free(p);
    return s;
}

static int32_t find(const struct ls_tokenizer *tok, struct ls_view text)
{
    const struct ls_added_token *t = ls_added_of_text(&tok->added, text);
    return t ? t->id : ls_vocab_find(&tok->model.vocab, (const uint8_t *)text.s, text.n);
}

static ls_status named_token(struct ls_tokenizer *tok, const json_t *config, const char *name,
                             int32_t *id, struct ls_err *err)
{
    struct ls_view text = { 0 };
    ls_status s = read_token(config, name, &text, err);
    if (s || !text.n)
        return s;
    s = ls_added_special(&tok->added, text, &tok->model, err);
    *id = find(tok, text);
    return s;
}

ls_status ls_config_tokens(struct ls_tokenizer *tok, const json_t *config, struct ls_err *err)
{
    const json_t *map;
    tok->bos = tok->eos = -1;
    if (!config)
        return LS_OK;
    ls_status s =
        ls_field_object(config, "tokenizer_config.json", "added_tokens_decoder", &map, err);
    if (!s && map)
        s = add_listed(tok, map, err);
    if (!s)
        s = named_token(tok, config, "bos_token", &tok->bos, err);
    return s ? s : named_token(tok, config, "eos_token", &tok->eos, err);
}

/* A token that is to be put must be named and known; without a name nothing is put. */
static ls_status check_put(const json_t *config, const char *name, int32_t id, bool *put,
                           struct ls_err *err)
{
    struct ls_view text = { 0 };
    ls_status s = read_token(config, name, &text, err);
    if (s || !*put)
        return s;
    *put = text.n > 0;
    if (*put && id < 0)
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer_config.json: %s %.*s is to be added, but has no id", name,
                       (int)(text.n > 200 ? 200 : text.n), text.s);
    return LS_OK;
}

/* Classes that put BOS and EOS by their settings, for files without a template. */
static bool puts_by_settings(const json_t *config)
{
    static const char *const names[] = { "LlamaTokenizer", "CodeLlamaTokenizer",
                                         "GemmaTokenizer", "CohereTokenizer" };
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    for (size_t i = 0; class && i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(class, names[i], n) && (!class[n] || !strcmp(class + n, "Fast")))
            return true;
    }
    return false;
}

ls_status ls_config_template(struct ls_tokenizer *tok, const json_t *config, struct ls_err *err)
{
    bool bos = false, eos = false;
    const char *where = "tokenizer_config.json";
    if (tok->post.items.n || !puts_by_settings(config))
        return LS_OK;
    ls_status s = ls_field_bool(config, where, "add_bos_token", &bos, err);
    if (!s)
        s = ls_field_bool(config, where, "add_eos_token", &eos, err);
    if (!s)
        s = check_put(config, "bos_token", tok->bos, &bos, err);
    if (!s)
        s = check_put(config, "eos_token", tok->eos, &eos, err);
    return s ? s
             : ls_postprocess_set(&tok->post, bos ? tok->bos : -1, eos ? tok->eos : -1, err);
}
