#include "text/postprocess.h"

#include "text/vocab.h"

#include <string.h>

/* The one template, still empty. */
static ls_status new_template(struct ls_postprocess *p, struct ls_ids **out, struct ls_err *err)
{
    if (p->items.n)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: post_processor: more than one template");
    *out = &p->items;
    return LS_OK;
}

static ls_status push_json_id(struct ls_ids *t, const json_t *v, const char *where,
                              struct ls_err *err)
{
    json_int_t id = json_integer_value(v);
    if (!json_is_integer(v) || id < 0 || id > LS_MAX_TOKEN_ID)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: a special token's id is not 0..%d",
                       where, LS_MAX_TOKEN_ID);
    return ls_ids_push(t, (int32_t)id, err);
}

/* {"SpecialToken": {"id": name}}: the ids listed for the name. */
static ls_status put_special(struct ls_ids *t, const json_t *item, const json_t *tokens,
                             struct ls_err *err)
{
    const char *where = "post_processor.TemplateProcessing";
    struct ls_view name = { 0 };
    const json_t *list, *id;
    size_t i;
    ls_status s = ls_field_text(item, where, "id", &name, err);
    if (s)
        return s;
    const json_t *entry = name.s ? json_object_get(tokens, name.s) : NULL;
    if (!json_is_object(entry))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: special token %s is not listed", where,
                       name.s ? name.s : "without a name");
    s = ls_field_array(entry, where, "ids", &list, err);
    json_array_foreach(list, i, id)
    {
        if (!s)
            s = push_json_id(t, id, where, err);
    }
    return s;
}

static ls_status put_item(struct ls_ids *t, const json_t *item, const json_t *tokens,
                          struct ls_err *err)
{
    const char *where = "post_processor.TemplateProcessing";
    const json_t *special = json_object_get(item, "SpecialToken");
    const json_t *sequence = json_object_get(item, "Sequence");
    if (json_is_object(special))
        return put_special(t, special, tokens, err);
    if (json_is_object(sequence)) {
        struct ls_view id = { 0 };
        ls_status s = ls_field_text(sequence, where, "id", &id, err);
        if (!s && (!id.s || strcmp(id.s, "A")))
            s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: single uses a sequence other than A",
                        where);
        return s ? s : ls_ids_push(t, LS_POST_TEXT, err);
    }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: item is neither SpecialToken nor Sequence",
                   where);
}

static ls_status load_template(struct ls_postprocess *p, const json_t *in, struct ls_err *err)
{
    const char *where = "post_processor.TemplateProcessing";
    const json_t *items, *tokens, *item;
    struct ls_ids *t = NULL;
    size_t i;
    ls_status s = ls_field_array(in, where, "single", &items, err);
    if (!s && !items)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no single", where);
    if (!s)
        s = ls_field_object(in, where, "special_tokens", &tokens, err);
    if (!s)
        s = new_template(p, &t, err);
    if (s)
        return s;
    size_t n_texts = 0;
    json_array_foreach(items, i, item)
    {
        if ((s = put_item(t, item, tokens, err)))
            return s;
        n_texts += json_object_get(item, "Sequence") != NULL;
    }
    if (n_texts != 1)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: single has the text %zu times", where,
                       n_texts);
    return LS_OK;
}

/* ["text", id] */
static ls_status load_pair(struct ls_ids *t, const json_t *in, const char *name,
                           struct ls_err *err)
{
    const json_t *pair = json_object_get(in, name);
    if (!json_is_array(pair) || json_array_size(pair) != 2)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: post_processor: %s is not [text, id]",
                       name);
    return push_json_id(t, json_array_get(pair, 1), "post_processor", err);
}

static ls_status load_cls_sep(struct ls_postprocess *p, const json_t *in, struct ls_err *err)
{
    struct ls_ids *t = NULL;
    ls_status s = new_template(p, &t, err);
    if (!s)
        s = load_pair(t, in, "cls", err);
    if (!s)
        s = ls_ids_push(t, LS_POST_TEXT, err);
    return s ? s : load_pair(t, in, "sep", err);
}

static ls_status load_one(struct ls_postprocess *p, const json_t *in, int depth,
                          struct ls_err *err)
{
    const char *type;
    const json_t *list, *one;
    size_t i;
    ls_status s = ls_field_type(in, "post_processor", &type, err);
    if (s)
        return s;
    if (!strcmp(type, "ByteLevel"))
        return LS_OK;
    if (!strcmp(type, "TemplateProcessing"))
        return load_template(p, in, err);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        return load_cls_sep(p, in, err);
    if (strcmp(type, "Sequence"))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: post_processor %s is not supported", type);
    s = ls_field_array(in, "post_processor.Sequence", "processors", &list, err);
    if (!s && depth == LS_TEXT_NESTING)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: post_processor: nested too deeply");
    if (s)
        return s;
    json_array_foreach(list, i, one) if ((s = load_one(p, one, depth + 1, err))) return s;
    return LS_OK;
}

ls_status ls_postprocess_load(struct ls_postprocess *out, const json_t *in, struct ls_err *err)
{
    return !in || json_is_null(in) ? LS_OK : load_one(out, in, 0, err);
}

ls_status ls_postprocess_set(struct ls_postprocess *out, int32_t bos, int32_t eos,
                             struct ls_err *err)
{
    struct ls_ids *t = &out->items;
    ls_status s = LS_OK;
    t->n = 0;
    if (bos >= 0)
        s = ls_ids_push(t, bos, err);
    if (!s)
        s = ls_ids_push(t, LS_POST_TEXT, err);
    if (!s && eos >= 0)
        s = ls_ids_push(t, eos, err);
    return s;
}

void ls_postprocess_finish(struct ls_postprocess *p)
{
    ls_ids_finish(&p->items);
}

ls_status ls_postprocess_apply(const struct ls_postprocess *p, bool add_special,
                               const struct ls_ids *ids, struct ls_ids *out, struct ls_err *err)
{
    ls_status s = LS_OK;
    if (!p->items.n || !add_special)
        return ls_ids_append(out, ids->data, ids->n, err);
    for (size_t k = 0; !s && k < p->items.n; k++)
        s = p->items.data[k] == LS_POST_TEXT ? ls_ids_append(out, ids->data, ids->n, err)
                                             : ls_ids_push(out, p->items.data[k], err);
    return s;
}
