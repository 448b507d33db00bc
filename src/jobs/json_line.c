#include "jobs/json_line.h"

#include "jobs/out.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

/* What stands around the digits, and the key among them, which no request has. */
#define BEFORE "{\"\x7f\":\""
#define AFTER  "\"}"

static size_t n_digits(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* Length of the number at the front, by JSON's grammar; 0: it is none. */
static size_t number_length(const char *s, size_t n, bool *integer)
{
    size_t at = n && s[0] == '-', digits = n_digits(s + at, n - at);
    if (!digits || (digits > 1 && s[at] == '0'))
        return 0;
    at += digits;
    *integer = true;
    if (at < n && s[at] == '.') {
        digits = n_digits(s + at + 1, n - at - 1);
        *integer = false;
        if (!digits)
            return 0;
        at += 1 + digits;
    }
    if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        const bool sign = at + 1 < n && (s[at + 1] == '+' || s[at + 1] == '-');
        digits = n_digits(s + at + 1 + sign, n - at - 1 - sign);
        *integer = false;
        return digits ? at + 1 + sign + digits : 0;
    }
    return at;
}

/* The text ends in something that is no part of a number. */
static bool is_large(const char *number, bool integer)
{
    errno = 0;
    if (integer)
        return strtoll(number, NULL, 10) && errno == ERANGE;
    return isinf(strtod(number, NULL));
}

static size_t text_length(const char *s, size_t n)
{
    size_t i = 1;
    while (i < n && s[i] != '"')
        i += s[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

/* text [n] and a zero behind it. */
static void wrap_large(struct ls_out *out, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        bool integer;
        size_t length = text[at] == '"' ? text_length(text + at, n - at) : 0;
        const size_t number = length ? 0 : number_length(text + at, n - at, &integer);
        const bool large = number && is_large(text + at, integer);
        length = length ? length : number ? number : 1;
        if (large)
            ls_out_text(out, BEFORE);
        ls_out_add(out, text + at, length);
        if (large)
            ls_out_text(out, AFTER);
        at += length;
    }
}

/* The parser's position in the line as it was. */
static void set_back(json_error_t *why, const char *wrapped)
{
    const int extra = (int)(strlen(BEFORE) + strlen(AFTER)), end = why->position;
    for (const char *p = wrapped; (p = strstr(p, BEFORE)) && p - wrapped < end; p++)
        why->position -= extra;
}

json_t *ls_json_line(const char *data, size_t n, json_error_t *why)
{
    json_error_t own, second;
    struct ls_out out = { 0 };
    json_t *value = json_loadb(data, n, FLAGS, why ? why : &own);
    if (value || json_error_code(why ? why : &own) != json_error_numeric_overflow)
        return value;
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, data, n);
        copy[n] = 0;
        wrap_large(&out, copy, n);
        ls_out_add(&out, "", 1);
    }
    if (copy && !out.failed) {
        value = json_loadb(out.data, out.n - 1, FLAGS, &second);
        if (!value && why) {
            *why = second;
            set_back(why, out.data);
        }
    }
    free(copy);
    ls_out_finish(&out);
    return value;
}

const char *ls_json_large(const json_t *value)
{
    return json_object_size(value) == 1 ? json_string_value(json_object_get(value, "\x7f"))
                                        : NULL;
}
