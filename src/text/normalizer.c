#include "text/normalizer.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static ls_status new_step(struct ls_normalizer *nz, struct ls_norm_step **out,
                          struct ls_err *err)
{
    void *data = nz->steps;
    ls_status s = ls_grow(&data, nz->n, &nz->cap, nz->n + 1, sizeof *nz->steps, err);
    nz->steps = data;
    if (s)
        return s;
    *out = &nz->steps[nz->n++];
    **out = (struct ls_norm_step){ 0 };
    return LS_OK;
}

static ls_status load_content(struct ls_norm_step *step, const json_t *in, const char *where,
                              const char *name, struct ls_err *err)
{
    struct ls_view v = { 0 };
    ls_status s = ls_field_text(in, where, name, &v, err);
    if (!s && !v.s)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no %s", where, name);
    return s ? s : ls_bytes_append(&step->content, v.s, v.n, err);
}

static ls_status load_fields(struct ls_norm_step *step, const json_t *in, struct ls_err *err)
{
    ls_status s;
    switch (step->kind) {
    case LS_NORM_STRIP:
        step->left = step->right = true;
        s = ls_field_bool(in, "normalizer.Strip", "strip_left", &step->left, err);
        return s ? s : ls_field_bool(in, "normalizer.Strip", "strip_right", &step->right, err);
    case LS_NORM_PREPEND:
        return load_content(step, in, "normalizer.Prepend", "prepend", err);
    case LS_NORM_REPLACE:
        s = ls_regex_load(&step->re, in, "normalizer.Replace", err);
        return s ? s : load_content(step, in, "normalizer.Replace", "content", err);
    default:
        return LS_OK;
    }
}

static ls_status load_one(struct ls_normalizer *nz, const json_t *in, int depth,
                          struct ls_err *err);

static ls_status load_sequence(struct ls_normalizer *nz, const json_t *in, int depth,
                               struct ls_err *err)
{
    const json_t *list, *one;
    size_t i;
    ls_status s = ls_field_array(in, "normalizer.Sequence", "normalizers", &list, err);
    if (!s && depth == LS_TEXT_NESTING)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: normalizer: nested too deeply");
    if (s)
        return s;
    json_array_foreach(list, i, one) if ((s = load_one(nz, one, depth + 1, err))) return s;
    return LS_OK;
}

static ls_status load_one(struct ls_normalizer *nz, const json_t *in, int depth,
                          struct ls_err *err)
{
    static const char *const names[] = {
        [LS_NORM_NFC] = "NFC",
        [LS_NORM_NFD] = "NFD",
        [LS_NORM_NFKC] = "NFKC",
        [LS_NORM_NFKD] = "NFKD",
        [LS_NORM_LOWERCASE] = "Lowercase",
        [LS_NORM_STRIP] = "Strip",
        [LS_NORM_STRIP_ACCENTS] = "StripAccents",
        [LS_NORM_PREPEND] = "Prepend",
        [LS_NORM_REPLACE] = "Replace",
    };
    const char *type;
    ls_status s = ls_field_type(in, "normalizer", &type, err);
    if (s)
        return s;
    if (!strcmp(type, "Sequence"))
        return load_sequence(nz, in, depth, err);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(type, names[k]))
            continue;
        struct ls_norm_step *step;
        s = new_step(nz, &step, err);
        if (s)
            return s;
        step->kind = (enum ls_norm_kind)k;
        return load_fields(step, in, err);
    }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: normalizer %s is not supported", type);
}

ls_status ls_normalizer_load(struct ls_normalizer *out, const json_t *in, struct ls_err *err)
{
    return !in || json_is_null(in) ? LS_OK : load_one(out, in, 0, err);
}

void ls_normalizer_finish(struct ls_normalizer *nz)
{
    for (size_t i = 0; i < nz->n; i++) {
        ls_regex_destroy(nz->steps[i].re);
        ls_bytes_finish(&nz->steps[i].content);
    }
    ls_free(nz->steps);
    *nz = (struct ls_normalizer){ 0 };
}

/* Below these bytes every form leaves a text as it is: ASCII always, and up to U+02FF for NFC,
 * where nothing composes or decomposes. */
static bool is_quick(enum ls_norm_kind kind, const uint8_t *s, size_t n)
{
    uint8_t limit = kind == LS_NORM_NFC ? 0xcc : 0x80;
    for (size_t i = 0; i < n; i++)
        if (s[i] >= limit)
            return false;
    return true;
}

static ls_status unicode_form(enum ls_norm_kind kind, const uint8_t *s, size_t n,
                              struct ls_bytes *out, struct ls_err *err)
{
    static const utf8proc_option_t options[] = {
        [LS_NORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [LS_NORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [LS_NORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [LS_NORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *mapped = NULL;
    if (is_quick(kind, s, n))
        return ls_bytes_append(out, s, n, err);
    utf8proc_ssize_t got = utf8proc_map(s, (utf8proc_ssize_t)n, &mapped, options[kind]);
    if (got < 0)
        return ls_fail(err, got == UTF8PROC_ERROR_NOMEM ? LS_E_MEMORY : LS_E_REQUEST,
                       "normalising the text: %s", utf8proc_errmsg(got));
    ls_status st = ls_bytes_append(out, mapped, (size_t)got, err);
    free(mapped);
    return st;
}

static ls_status lowercase(const uint8_t *s, size_t n, struct ls_bytes *out, struct ls_err *err)
{
    static const uint8_t dotted_i[] = { 'i', 0xcc, 0x87 }; /* U+0130 becomes two characters */
    uint8_t text[4];
    ls_status st = ls_bytes_reserve(out, n, err);
    for (size_t at = 0; !st && at < n;) {
        uint32_t c = ls_utf8_next(s, &at);
        if (c == 0x130)
            st = ls_bytes_append(out, dotted_i, sizeof dotted_i, err);
        else
            st = ls_bytes_append(
                out, text, ls_utf8_put(text, (uint32_t)utf8proc_tolower((int32_t)c)), err);
    }
    return st;
}

static ls_status strip(const struct ls_norm_step *step, const uint8_t *s, size_t n,
                       struct ls_bytes *out, bool *lost_head, struct ls_err *err)
{
    size_t begin = 0, end = n;
    while (step->left && begin < n) {
        size_t at = begin;
        if (!ls_is_space(ls_utf8_next(s, &at)))
            break;
        begin = at;
    }
    while (step->right && end > begin) {
        size_t before = ls_utf8_before(s, end), at = before;
        if (!ls_is_space(ls_utf8_next(s, &at)))
            break;
        end = before;
    }
    *lost_head |= begin > 0;
    return ls_bytes_append(out, s + begin, end - begin, err);
}

static ls_status strip_accents(const uint8_t *s, size_t n, struct ls_bytes *out,
                               bool *lost_head, struct ls_err *err)
{
    ls_status st = LS_OK;
    for (size_t at = 0, begin = 0; !st && at < n; begin = at) {
        if (ls_is_mark(ls_utf8_next(s, &at)))
            *lost_head |= begin == 0;
        else
            st = ls_bytes_append(out, s + begin, at - begin, err);
    }
    return st;
}

static ls_status replace(const struct ls_norm_step *step, struct ls_matcher *m,
                         const uint8_t *s, size_t n, struct ls_bytes *out, bool *lost_head,
                         struct ls_err *err)
{
    struct ls_search it = ls_search_start(step->re, m, s, n);
    bool found = false;
    ls_status st = n ? ls_search_next(&it, &found, err) : LS_OK;
    if (st)
        return st;
    *lost_head |= found && !step->content.n && it.begin == 0 && it.end > 0;
    struct ls_view content = { (const char *)step->content.data, step->content.n };
    return ls_regex_replace(step->re, m, s, n, content, out, err);
}

static ls_status apply_step(const struct ls_norm_step *step, struct ls_matcher *m,
                            const uint8_t *s, size_t n, struct ls_bytes *out, bool *lost_head,
                            struct ls_err *err)
{
    ls_status st;
    switch (step->kind) {
    case LS_NORM_LOWERCASE:
        return lowercase(s, n, out, err);
    case LS_NORM_STRIP:
        return strip(step, s, n, out, lost_head, err);
    case LS_NORM_STRIP_ACCENTS:
        return strip_accents(s, n, out, lost_head, err);
    case LS_NORM_PREPEND:
        st = n ? ls_bytes_append(out, step->content.data, step->content.n, err) : LS_OK;
        return st ? st : ls_bytes_append(out, s, n, err);
    case LS_NORM_REPLACE:
        return replace(step, m, s, n, out, lost_head, err);
    default:
        return unicode_form(step->kind, s, n, out, err);
    }
}

ls_status ls_normalizer_apply(const struct ls_normalizer *nz, struct ls_norm_work *work,
                              struct ls_matcher *m, const uint8_t *s, size_t n,
                              struct ls_bytes *out, bool *lost_head, struct ls_err *err)
{
    *lost_head = false;
    if (!nz->n)
        return ls_bytes_append(out, s, n, err);
    static const uint8_t nothing;
    for (size_t i = 0; i < nz->n; i++) {
        bool last = i + 1 == nz->n;
        struct ls_bytes *to = last ? out : i % 2 ? &work->b : &work->a;
        if (!last)
            to->n = 0;
        ls_status st = apply_step(&nz->steps[i], m, n ? s : &nothing, n, to, lost_head, err);
        if (st)
            return st;
        s = to->data;
        n = to->n;
    }
    return LS_OK;
}
