#include "model/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 80, DIGITS = 15 }; /* digits: as many as any decimal text keeps */

void ls_config_init(struct ls_config *c, const json_t *obj, const char *where,
                    struct ls_err *err)
{
    *c = (struct ls_config){ .obj = obj, .where = where, .err = err };
}

/* A value as it stands in the file, cut for a message. */
static void show(char text[SHOWN], const json_t *value)
{
    const size_t how = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS);
    char *dump = value ? json_dumps(value, how) : NULL;
    const char *from = dump ? dump : value ? "?" : "absent";
    snprintf(text, SHOWN, "%s", from);
    if (strlen(from) >= SHOWN)
        memcpy(text + SHOWN - 4, "...", 4);
    free(dump);
}

void ls_config_fail(struct ls_config *c, ls_status status, const char *key, const char *why,
                    ...)
{
    char text[SHOWN], reason[512];
    va_list ap;
    if (c->status)
        return;
    show(text, json_object_get(c->obj, key));
    va_start(ap, why);
    vsnprintf(reason, sizeof reason, why, ap);
    va_end(ap);
    c->status = ls_fail(c->err, status, "%s%.100s = %s: %s", c->where, key, text, reason);
}

bool ls_config_was_asked(const struct ls_config *c, const char *key)
{
    for (int i = 0; i < c->n_asked; i++)
        if (!strcmp(c->asked[i], key))
            return true;
    return false;
}

const json_t *ls_config_get(struct ls_config *c, const char *key)
{
    if (!ls_config_was_asked(c, key) && c->n_asked < LS_CONFIG_MAX_ASKED)
        c->asked[c->n_asked++] = key;
    return json_object_get(c->obj, key);
}

bool ls_config_has(struct ls_config *c, const char *key)
{
    const json_t *v = ls_config_get(c, key);
    return v && !json_is_null(v);
}

int ls_config_int(struct ls_config *c, const char *key, int absent, int min, int max)
{
    const json_t *v = ls_config_get(c, key);
    if (c->status)
        return absent;
    if (!v || json_is_null(v)) {
        if (absent < min)
            ls_config_fail(c, LS_E_FORMAT, key, "expected a whole number in %d..%d", min, max);
        return absent;
    }
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < min || n > max) {
        ls_config_fail(c, LS_E_FORMAT, key, "expected a whole number in %d..%d", min, max);
        return absent;
    }
    return (int)n;
}

double ls_config_number(struct ls_config *c, const char *key, double absent, double min,
                        double max)
{
    const json_t *v = ls_config_get(c, key);
    if (c->status)
        return absent;
    if (!v || json_is_null(v)) {
        if (absent < min)
            ls_config_fail(c, LS_E_FORMAT, key, "expected a number in %g..%g", min, max);
        return absent;
    }
    const double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= min && x <= max)) {
        ls_config_fail(c, LS_E_FORMAT, key, "expected a number in %g..%g", min, max);
        return absent;
    }
    return x;
}

int ls_config_int_or_none(struct ls_config *c, const char *key, int absent, int min, int max)
{
    if (json_is_null(ls_config_get(c, key)))
        return 0;
    return json_object_get(c->obj, key) ? ls_config_int(c, key, min, min, max) : absent;
}

double ls_config_number_or_none(struct ls_config *c, const char *key, double absent, double min,
                                double max)
{
    if (json_is_null(ls_config_get(c, key)))
        return 0;
    return json_object_get(c->obj, key) ? ls_config_number(c, key, min, min, max) : absent;
}

bool ls_config_bool(struct ls_config *c, const char *key, bool absent)
{
    const json_t *v = ls_config_get(c, key);
    if (c->status || !v || json_is_null(v))
        return absent;
    if (!json_is_boolean(v)) {
        ls_config_fail(c, LS_E_FORMAT, key, "expected true or false");
        return absent;
    }
    return json_is_true(v);
}

const char *ls_config_text(struct ls_config *c, const char *key, const char *absent)
{
    const json_t *v = ls_config_get(c, key);
    if (c->status || !v || json_is_null(v))
        return absent;
    if (!json_is_string(v)) {
        ls_config_fail(c, LS_E_FORMAT, key, "expected a text");
        return absent;
    }
    return json_string_value(v);
}

void ls_config_refuse_rest(struct ls_config *c, const char *why)
{
    const char *key;
    json_t *value;
    /* jansson's iterator takes a mutable object and changes nothing. */
    json_t *obj = (json_t *)(uintptr_t)c->obj;
    json_object_foreach(obj, key, value)
    {
        if (!json_is_null(value) && !ls_config_was_asked(c, key))
            ls_config_fail(c, LS_E_REFUSED, key, "%s", why);
    }
}
