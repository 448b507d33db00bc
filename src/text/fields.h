/* Reading typed fields out of parsed JSON, with an error that names the place.
 *
 * Layer: text. Local; wraps jansson. Views point into the JSON tree and live as long as it.
 * `where` names the object in messages ("pre_tokenizer.Split"). Failures are LS_E_FORMAT. */
#ifndef LS_TEXT_FIELDS_H
#define LS_TEXT_FIELDS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_view {
    const char *s; /* valid UTF-8, may hold U+0000 */
    size_t n;      /* bytes */
};

enum { LS_TEXT_NESTING = 16 }; /* Sequence inside Sequence: more is refused */

/* Parses a whole document; duplicate keys, invalid UTF-8 and trailing text are refused.
 * The caller releases *out with json_decref. */
ls_status ls_json_parse(json_t **out, const char *what, const char *json, size_t n,
                        struct ls_err *err);

/* The field as an object or array; NULL in *out where it is absent or null. */
ls_status ls_field_object(const json_t *in, const char *where, const char *name,
                          const json_t **out, struct ls_err *err);
ls_status ls_field_array(const json_t *in, const char *where, const char *name,
                         const json_t **out, struct ls_err *err);

/* Absent or null: *out is left as it is, so the caller's value is the default. */
ls_status ls_field_bool(const json_t *in, const char *where, const char *name, bool *out,
                        struct ls_err *err);
ls_status ls_field_text(const json_t *in, const char *where, const char *name,
                        struct ls_view *out, struct ls_err *err);
ls_status ls_field_count(const json_t *in, const char *where, const char *name, int64_t max,
                         int64_t *out, struct ls_err *err);

/* Exactly one character. Absent or null is refused. */
ls_status ls_field_char(const json_t *in, const char *where, const char *name, uint32_t *out,
                        struct ls_err *err);

/* The "type" of a component; refused when it is not a text. */
ls_status ls_field_type(const json_t *in, const char *where, const char **out,
                        struct ls_err *err);

static inline struct ls_view ls_view_of(const json_t *text)
{
    return (struct ls_view){ json_string_value(text), json_string_length(text) };
}

#endif
