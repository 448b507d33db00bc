#include "text/pretokenizer.h"

#include "base/alloc.h"

#include <string.h>

/* Contractions, then words, numbers and the rest with one leading space, then spaces. */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
                                   "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static ls_status new_step(struct ls_pretokenizer *pt, enum ls_pre_kind kind,
                          struct ls_pre_step **out, struct ls_err *err)
{
    void *data = pt->steps;
    ls_status s = ls_grow(&data, pt->n, &pt->cap, pt->n + 1, sizeof *pt->steps, err);
    pt->steps = data;
    if (s)
        return s;
    *out = &pt->steps[pt->n++];
    **out = (struct ls_pre_step){ .kind = kind };
    return LS_OK;
}

/* Leaves *how alone where the field is absent. */
static ls_status load_behavior(const json_t *in, const char *where, enum ls_split *how,
                               struct ls_err *err)
{
    static const char *const names[] = {
        [LS_SPLIT_ISOLATED] = "Isolated",
        [LS_SPLIT_REMOVED] = "Removed",
        [LS_SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
        [LS_SPLIT_MERGED_NEXT] = "MergedWithNext",
        [LS_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    struct ls_view v = { 0 };
    ls_status s = ls_field_text(in, where, "behavior", &v, err);
    if (s || !v.s)
        return s;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(names[k], v.s)) {
            *how = (enum ls_split)k;
            return LS_OK;
        }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: behavior %s is not supported", where, v.s);
}

static ls_status load_byte_level(struct ls_pre_step *step, const json_t *in, struct ls_err *err)
{
    const char *where = "pre_tokenizer.ByteLevel";
    bool use_regex = true;
    step->prefix_space = true;
    ls_status s = ls_field_bool(in, where, "add_prefix_space", &step->prefix_space, err);
    if (!s)
        s = ls_field_bool(in, where, "use_regex", &use_regex, err);
    if (s || !use_regex)
        return s;
    struct ls_view pattern = { gpt2_pattern, sizeof gpt2_pattern - 1 };
    return ls_regex_create(&step->re, pattern, false, err);
}

static ls_status load_split(struct ls_pre_step *step, const json_t *in, struct ls_err *err)
{
    const char *where = "pre_tokenizer.Split";
    step->how = LS_SPLIT_REMOVED;
    ls_status s = ls_regex_load(&step->re, in, where, err);
    if (!s && !json_is_string(json_object_get(in, "behavior")))
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no behavior", where);
    if (!s)
        s = load_behavior(in, where, &step->how, err);
    return s ? s : ls_field_bool(in, where, "invert", &step->invert, err);
}

static ls_status load_digits(struct ls_pre_step *step, const json_t *in, struct ls_err *err)
{
    bool single = false;
    ls_status s = ls_field_bool(in, "pre_tokenizer.Digits", "individual_digits", &single, err);
    step->how = single ? LS_SPLIT_ISOLATED : LS_SPLIT_CONTIGUOUS;
    return s;
}

ls_status ls_metaspace_load(const json_t *in, const char *where, uint32_t *mark,
                            enum ls_prepend *prepend, struct ls_err *err)
{
    static const char *const names[] = { "always", "first", "never" };
    struct ls_view scheme = { 0 };
    bool old_prefix = true;
    ls_status s = ls_field_char(in, where, "replacement", mark, err);
    if (!s)
        s = ls_field_text(in, where, "prepend_scheme", &scheme, err);
    if (!s)
        s = ls_field_bool(in, where, "add_prefix_space", &old_prefix, err);
    if (s)
        return s;
    *prepend = old_prefix ? LS_PREPEND_ALWAYS : LS_PREPEND_NEVER;
    if (!scheme.s)
        return LS_OK;
    for (int k = 0; k < 3; k++)
        if (!strcmp(names[k], scheme.s)) {
            *prepend = (enum ls_prepend)k;
            if (!old_prefix && *prepend != LS_PREPEND_NEVER)
                return ls_fail(err, LS_E_FORMAT,
                               "tokenizer: %s: add_prefix_space is false, prepend_scheme %s",
                               where, scheme.s);
            return LS_OK;
        }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: prepend_scheme %s is not supported", where,
                   scheme.s);
}

static ls_status load_metaspace(struct ls_pre_step *step, const json_t *in, struct ls_err *err)
{
    const char *where = "pre_tokenizer.Metaspace";
    step->split = true;
    ls_status s = ls_metaspace_load(in, where, &step->mark, &step->prepend, err);
    return s ? s : ls_field_bool(in, where, "split", &step->split, err);
}

static ls_status load_fields(struct ls_pre_step *step, const json_t *in, struct ls_err *err)
{
    switch (step->kind) {
    case LS_PRE_BYTE_LEVEL:
        return load_byte_level(step, in, err);
    case LS_PRE_SPLIT:
        return load_split(step, in, err);
    case LS_PRE_DIGITS:
        return load_digits(step, in, err);
    case LS_PRE_METASPACE:
        return load_metaspace(step, in, err);
    case LS_PRE_PUNCTUATION:
        step->how = LS_SPLIT_ISOLATED;
        return load_behavior(in, "pre_tokenizer.Punctuation", &step->how, err);
    default:
        return LS_OK;
    }
}

static ls_status load_one(struct ls_pretokenizer *pt, const json_t *in, int depth,
                          struct ls_err *err);

static ls_status load_sequence(struct ls_pretokenizer *pt, const json_t *in, int depth,
                               struct ls_err *err)
{
    const json_t *list, *one;
    size_t i;
    ls_status s = ls_field_array(in, "pre_tokenizer.Sequence", "pretokenizers", &list, err);
    if (!s && depth == LS_TEXT_NESTING)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: pre_tokenizer: nested too deeply");
    if (s)
        return s;
    json_array_foreach(list, i, one) if ((s = load_one(pt, one, depth + 1, err))) return s;
    return LS_OK;
}

static ls_status load_one(struct ls_pretokenizer *pt, const json_t *in, int depth,
                          struct ls_err *err)
{
    static const char *const names[] = {
        [LS_PRE_BYTE_LEVEL] = "ByteLevel",    [LS_PRE_SPLIT] = "Split",
        [LS_PRE_DIGITS] = "Digits",           [LS_PRE_METASPACE] = "Metaspace",
        [LS_PRE_WHITESPACE] = "Whitespace",   [LS_PRE_WHITESPACE_SPLIT] = "WhitespaceSplit",
        [LS_PRE_PUNCTUATION] = "Punctuation",
    };
    const char *type;
    ls_status s = ls_field_type(in, "pre_tokenizer", &type, err);
    if (s)
        return s;
    if (!strcmp(type, "Sequence"))
        return load_sequence(pt, in, depth, err);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct ls_pre_step *step;
        if (strcmp(type, names[k]))
            continue;
        s = new_step(pt, (enum ls_pre_kind)k, &step, err);
        return s ? s : load_fields(step, in, err);
    }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: pre_tokenizer %s is not supported", type);
}

ls_status ls_pretokenizer_load(struct ls_pretokenizer *out, const json_t *in,
                               struct ls_err *err)
{
    ls_byte_letters_init(&out->letters);
    return !in || json_is_null(in) ? LS_OK : load_one(out, in, 0, err);
}

void ls_pretokenizer_finish(struct ls_pretokenizer *pt)
{
    for (size_t i = 0; i < pt->n; i++)
        ls_regex_destroy(pt->steps[i].re);
    ls_free(pt->steps);
    pt->steps = NULL;
    pt->n = pt->cap = 0;
}
