#include "text/fields.h"

#include "text/utf8.h"

#include <string.h>

ls_status ls_json_parse(json_t **out, const char *what, const char *json, size_t n,
                        struct ls_err *err)
{
    json_error_t e;
    json_t *tree = json_loadb(json, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!tree)
        return ls_fail(err, LS_E_FORMAT, "%s: line %d, column %d: %s", what, e.line, e.column,
                       e.text);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return ls_fail(err, LS_E_FORMAT, "%s: expected a JSON object", what);
    }
    *out = tree;
    return LS_OK;
}

static const json_t *present(const json_t *in, const char *name)
{
    const json_t *v = json_object_get(in, name);
    return json_is_null(v) ? NULL : v;
}

static ls_status wrong(const char *where, const char *name, const char *expected,
                       struct ls_err *err)
{
    return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: field %s is not %s", where, name,
                   expected);
}

ls_status ls_field_object(const json_t *in, const char *where, const char *name,
                          const json_t **out, struct ls_err *err)
{
    const json_t *v = present(in, name);
    if (v && !json_is_object(v))
        return wrong(where, name, "an object", err);
    *out = v;
    return LS_OK;
}

ls_status ls_field_array(const json_t *in, const char *where, const char *name,
                         const json_t **out, struct ls_err *err)
{
    const json_t *v = present(in, name);
    if (v && !json_is_array(v))
        return wrong(where, name, "an array", err);
    *out = v;
    return LS_OK;
}

ls_status ls_field_bool(const json_t *in, const char *where, const char *name, bool *out,
                        struct ls_err *err)
{
    const json_t *v = present(in, name);
    if (!v)
        return LS_OK;
    if (!json_is_boolean(v))
        return wrong(where, name, "true or false", err);
    *out = json_is_true(v);
    return LS_OK;
}

ls_status ls_field_text(const json_t *in, const char *where, const char *name,
                        struct ls_view *out, struct ls_err *err)
{
    const json_t *v = present(in, name);
    if (!v)
        return LS_OK;
    if (!json_is_string(v))
        return wrong(where, name, "a text", err);
    *out = ls_view_of(v);
    return LS_OK;
}

ls_status ls_field_count(const json_t *in, const char *where, const char *name, int64_t max,
                         int64_t *out, struct ls_err *err)
{
    const json_t *v = present(in, name);
    if (!v)
        return LS_OK;
    json_int_t x = json_integer_value(v);
    if (!json_is_integer(v) || x < 0 || x > max)
        return ls_fail(err, LS_E_FORMAT,
                       "tokenizer: %s: field %s is not a whole number 0..%lld", where, name,
                       (long long)max);
    *out = x;
    return LS_OK;
}

ls_status ls_field_char(const json_t *in, const char *where, const char *name, uint32_t *out,
                        struct ls_err *err)
{
    struct ls_view v = { 0 };
    ls_status s = ls_field_text(in, where, name, &v, err);
    if (s)
        return s;
    if (!v.n || ls_utf8_len((uint8_t)v.s[0]) != v.n)
        return wrong(where, name, "exactly one character", err);
    size_t at = 0;
    *out = ls_utf8_next((const uint8_t *)v.s, &at);
    return LS_OK;
}

ls_status ls_field_type(const json_t *in, const char *where, const char **out,
                        struct ls_err *err)
{
    const json_t *v = json_object_get(in, "type");
    if (!json_is_string(v))
        return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no type named", where);
    *out = json_string_value(v);
    return LS_OK;
}
