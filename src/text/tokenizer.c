#include "text/tokenizer.h"

#include "base/alloc.h"
#include "text/parts.h"

/* Every id that the post-processor puts must be one that the model can be asked for. */
static ls_status check_template(const struct ls_tokenizer *tok, struct ls_err *err)
{
    const struct ls_ids *items = &tok->post.items;
    for (size_t k = 0; k < items->n; k++)
        if (items->data[k] != LS_POST_TEXT && !ls_tokenizer_has_id(tok, items->data[k]))
            return ls_fail(err, LS_E_FORMAT,
                           "tokenizer: post_processor puts id %d, which has no token",
                           items->data[k]);
    return LS_OK;
}

static ls_status load(struct ls_tokenizer *tok, const json_t *root, const json_t *config,
                      struct ls_err *err)
{
    ls_status s = ls_bpe_load(&tok->model, json_object_get(root, "model"), err);
    if (!s)
        s = ls_normalizer_load(&tok->normalizer, json_object_get(root, "normalizer"), err);
    if (!s)
        s = ls_pretokenizer_load(&tok->pretokenizer, json_object_get(root, "pre_tokenizer"),
                                 err);
    if (!s)
        s = ls_postprocess_load(&tok->post, json_object_get(root, "post_processor"), err);
    if (!s)
        s = ls_decoder_load(&tok->decoder, json_object_get(root, "decoder"), err);
    if (!s)
        s = ls_added_load(&tok->added, json_object_get(root, "added_tokens"), &tok->model, err);
    if (!s)
        s = ls_config_tokens(tok, config, err);
    if (!s)
        s = ls_added_seal(&tok->added, &tok->model, &tok->normalizer, err);
    if (!s)
        s = ls_config_template(tok, config, err);
    return s ? s : check_template(tok, err);
}

ls_status ls_tokenizer_create(struct ls_tokenizer **out, const char *json, size_t n,
                              const char *config, size_t n_config, struct ls_err *err)
{
    json_t *root = NULL, *settings = NULL;
    struct ls_tokenizer *tok = NULL;
    void *p;
    ls_status s = ls_json_parse(&root, "tokenizer.json", json, n, err);
    if (!s && config)
        s = ls_json_parse(&settings, "tokenizer_config.json", config, n_config, err);
    if (!s)
        s = ls_alloc(&p, sizeof *tok, "tokenizer", err);
    if (s)
        goto out;
    tok = p;
    pthread_mutex_init(&tok->lock, NULL);
    s = load(tok, root, settings, err);
    if (!s) {
        *out = tok;
        tok = NULL;
    }
out:
    json_decref(root);
    json_decref(settings);
    ls_tokenizer_destroy(tok);
    return s;
}

void ls_tokenizer_destroy(struct ls_tokenizer *tok)
{
    if (!tok)
        return;
    ls_normalizer_finish(&tok->normalizer);
    ls_pretokenizer_finish(&tok->pretokenizer);
    ls_bpe_finish(&tok->model);
    ls_added_finish(&tok->added);
    ls_postprocess_finish(&tok->post);
    ls_decoder_finish(&tok->decoder);
    ls_scratch_free_all(tok);
    pthread_mutex_destroy(&tok->lock);
    ls_free(tok);
}

int32_t ls_tokenizer_vocab_size(const struct ls_tokenizer *tok)
{
    return (int32_t)tok->added.n_ids;
}

struct ls_view ls_token_shown(const struct ls_tokenizer *tok, int32_t id)
{
    const struct ls_added_token *t = ls_added_of_id(&tok->added, id);
    if (!t)
        return ls_vocab_text(&tok->model.vocab, id);
    const struct ls_bytes *b = t->normalized ? &t->shown : &t->text;
    return (struct ls_view){ b->n ? (const char *)b->data : "", b->n };
}

bool ls_tokenizer_has_id(const struct ls_tokenizer *tok, int32_t id)
{
    return ls_token_shown(tok, id).s != NULL;
}

int32_t ls_tokenizer_id_of(const struct ls_tokenizer *tok, const char *text, size_t n)
{
    const struct ls_added_token *t = ls_added_of_text(&tok->added, (struct ls_view){ text, n });
    return t ? t->id : ls_vocab_find(&tok->model.vocab, (const uint8_t *)text, n);
}

bool ls_tokenizer_is_special(const struct ls_tokenizer *tok, int32_t id)
{
    const struct ls_added_token *t = ls_added_of_id(&tok->added, id);
    return t && t->special;
}

int32_t ls_tokenizer_bos(const struct ls_tokenizer *tok)
{
    return tok->bos;
}

int32_t ls_tokenizer_eos(const struct ls_tokenizer *tok)
{
    return tok->eos;
}
