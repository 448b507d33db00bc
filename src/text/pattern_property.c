#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

struct property {
    const char *name;  /* lower case, without spaces, '_' and '-' */
    const char *items; /* inside of a class */
};

static const struct property properties[] = {
    { "alpha", "\\p{Alphabetic}" },
    { "alnum", "\\p{Alphabetic}\\p{Nd}" },
    { "digit", "\\p{Nd}" },
    { "lower", "\\p{Lowercase}" },
    { "upper", "\\p{Uppercase}" },
    { "space", "\\p{White_Space}" },
    { "word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}" },
    { "xdigit", "0-9A-Fa-f" },
    { "cntrl", "\\p{Cc}" },
    { "blank", "\\p{Zs}\\t" },
    { "punct", "\\p{P}" },
    { "ascii", "\\x{0}-\\x{7f}" },
    { "any", "\\p{Any}" },
    { "letter", "\\p{L}" },
    { "casedletter", "\\p{L&}" },
    { "uppercaseletter", "\\p{Lu}" },
    { "lowercaseletter", "\\p{Ll}" },
    { "titlecaseletter", "\\p{Lt}" },
    { "modifierletter", "\\p{Lm}" },
    { "otherletter", "\\p{Lo}" },
    { "mark", "\\p{M}" },
    { "combiningmark", "\\p{M}" },
    { "nonspacingmark", "\\p{Mn}" },
    { "spacingmark", "\\p{Mc}" },
    { "enclosingmark", "\\p{Me}" },
    { "number", "\\p{N}" },
    { "decimalnumber", "\\p{Nd}" },
    { "letternumber", "\\p{Nl}" },
    { "othernumber", "\\p{No}" },
    { "punctuation", "\\p{P}" },
    { "connectorpunctuation", "\\p{Pc}" },
    { "dashpunctuation", "\\p{Pd}" },
    { "openpunctuation", "\\p{Ps}" },
    { "closepunctuation", "\\p{Pe}" },
    { "initialpunctuation", "\\p{Pi}" },
    { "finalpunctuation", "\\p{Pf}" },
    { "otherpunctuation", "\\p{Po}" },
    { "symbol", "\\p{S}" },
    { "mathsymbol", "\\p{Sm}" },
    { "currencysymbol", "\\p{Sc}" },
    { "modifiersymbol", "\\p{Sk}" },
    { "othersymbol", "\\p{So}" },
    { "separator", "\\p{Z}" },
    { "spaceseparator", "\\p{Zs}" },
    { "lineseparator", "\\p{Zl}" },
    { "paragraphseparator", "\\p{Zp}" },
    { "other", "\\p{C}" },
    { "control", "\\p{Cc}" },
    { "format", "\\p{Cf}" },
    { "surrogate", "\\p{Cs}" },
    { "privateuse", "\\p{Co}" },
    { "unassigned", "\\p{Cn}" },
};

const char *ls_pattern_named_set(const char *name)
{
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (!strcmp(properties[i].name, name))
            return properties[i].items;
    return NULL;
}

static bool compiles(const char *pattern)
{
    int code;
    PCRE2_SIZE where;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);
    pcre2_code_free(re);
    return re != NULL;
}

bool ls_pattern_plain_name(const uint8_t *from, size_t n, char out[40])
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = from[i];
        if (c == '_' || c == ' ' || c == '-')
            continue;
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!alnum || k == 39)
            return false;
        out[k++] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    out[k] = 0;
    return k > 0;
}

/* A general category, a script, or another property that PCRE2 knows, as \p{...}. */
static bool property_item(const char *name, char out[64])
{
    size_t n = strlen(name);
    if (n <= 2) {
        snprintf(out, 64, "\\p{%c%s}", name[0] & ~0x20, name + 1);
        return compiles(out);
    }
    snprintf(out, 64, "\\p{sc:%s}", name);
    if (compiles(out))
        return true;
    snprintf(out, 64, "\\p{%s}", name);
    return compiles(out);
}

static ls_status put_property(struct ls_rewrite *rx, const char *items, bool negated,
                              struct ls_bytes *out)
{
    bool one = !strncmp(items, "\\p{", 3) && !strchr(items + 3, '\\');
    if (one) { /* \p{X} or \P{X} stands inside a class as well */
        ls_status s = ls_bytes_text(out, negated ? "\\P" : "\\p", rx->err);
        return s ? s : ls_bytes_text(out, items + 2, rx->err);
    }
    ls_status s = ls_bytes_text(out, negated ? "[^" : "[", rx->err);
    if (!s)
        s = ls_bytes_text(out, items, rx->err);
    return s ? s : ls_bytes_text(out, "]", rx->err);
}

ls_status ls_pattern_property(struct ls_rewrite *rx, bool negated, struct ls_bytes *out)
{
    char name[40], item[64];
    const uint8_t *end = memchr(rx->p + rx->at, '}', rx->n - rx->at);
    if (!end)
        return ls_pattern_refuse(rx, "property without }");
    size_t from = rx->at + 1;
    if (rx->p[from] == '^') {
        negated = !negated;
        from++;
    }
    if (!ls_pattern_plain_name(rx->p + from, (size_t)(end - rx->p) - from, name))
        return ls_pattern_refuse(rx, "unknown property");
    const char *items = ls_pattern_named_set(name);
    if (!items && !property_item(name, item))
        return ls_pattern_refuse(rx, "unknown property");
    rx->at = (size_t)(end - rx->p) + 1;
    return put_property(rx, items ? items : item, negated, out);
}
