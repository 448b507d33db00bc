#include "text/pattern.h"

#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CLASS_DEPTH = 16 };

/* One operand of &&: a union of a flat set and of expressions for one character each. */
struct operand {
    struct ls_bytes set;    /* items of a plain class */
    struct ls_bytes others; /* "|expression" for each nested class and negated set */
};

const char *ls_pattern_set(uint8_t letter)
{
    switch (letter) {
    case 's':
        return "\\p{White_Space}";
    case 'S':
        return "\\P{White_Space}";
    case 'd':
        return "\\p{Nd}";
    case 'D':
        return "\\P{Nd}";
    case 'w':
        return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    case 'h':
        return "0-9A-Fa-f";
    default:
        return NULL;
    }
}

ls_status ls_pattern_literal(struct ls_rewrite *rx, struct ls_bytes *out)
{
    size_t len = ls_utf8_len(rx->p[rx->at]);
    uint8_t c = rx->p[rx->at];
    uint8_t low = (uint8_t)(c | 0x20);
    bool letter = (c >= '0' && c <= '9') || (low >= 'a' && low <= 'z');
    char hex[8];
    rx->at += len;
    if (c <= ' ' || c == '#') { /* would vanish under (?x) */
        snprintf(hex, sizeof hex, "\\x{%x}", c);
        return ls_bytes_text(out, hex, rx->err);
    }
    ls_status s = len == 1 && !letter ? ls_bytes_text(out, "\\", rx->err) : LS_OK;
    return s ? s : ls_bytes_append(out, rx->p + rx->at - len, len, rx->err);
}

/* Up to `max` hex digits at rx->at; false when there are none. */
static bool hex_digits(struct ls_rewrite *rx, size_t max, uint32_t *value)
{
    size_t k = 0;
    *value = 0;
    for (; k < max && rx->at < rx->n; k++, rx->at++) {
        uint8_t c = rx->p[rx->at];
        uint8_t low = (uint8_t)(c | 0x20);
        if (c >= '0' && c <= '9')
            *value = *value << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            *value = *value << 4 | (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    return k > 0;
}

static ls_status hex_escape(struct ls_rewrite *rx, uint8_t kind, uint32_t *value)
{
    bool braces = kind == 'x' && rx->at < rx->n && rx->p[rx->at] == '{';
    if (braces)
        rx->at++;
    size_t from = rx->at;
    bool ok = hex_digits(rx, braces ? 8 : kind == 'u' ? 4 : 2, value);
    if (kind == 'u' && rx->at - from != 4)
        ok = false;
    if (braces && (rx->at == rx->n || rx->p[rx->at++] != '}'))
        ok = false;
    if (!ok || *value > 0x10ffff || (kind == 'x' && !braces && *value > 0x7f))
        return ls_pattern_refuse(rx, "bad code point");
    return LS_OK;
}

ls_status ls_pattern_char_escape(struct ls_rewrite *rx, struct ls_bytes *out, bool *done)
{
    static const char names[] = "ntrfvae";
    static const uint8_t values[] = { '\n', '\t', '\r', '\f', '\v', '\a', 0x1b };
    uint8_t c = rx->p[rx->at];
    const char *known = c ? strchr(names, c) : NULL;
    uint32_t value = 0;
    char text[16];
    ls_status s = LS_OK;
    *done = known || c == 'x' || c == 'u' || c == '0';
    if (!*done)
        return LS_OK;
    rx->at++;
    if (known)
        value = values[known - names];
    else if (c != '0')
        s = hex_escape(rx, c, &value);
    if (s)
        return s;
    snprintf(text, sizeof text, "\\x{%x}", value);
    return ls_bytes_text(out, text, rx->err);
}

/* An expression for one character: into the set when it is a bare \p item, else beside it. */
static ls_status add_expression(struct ls_rewrite *rx, struct operand *o,
                                const struct ls_bytes *e)
{
    if (e->data[0] == '\\')
        return ls_bytes_append(&o->set, e->data, e->n, rx->err);
    ls_status s = ls_bytes_text(&o->others, "|", rx->err);
    return s ? s : ls_bytes_append(&o->others, e->data, e->n, rx->err);
}

static ls_status class_escape(struct ls_rewrite *rx, struct operand *o, bool *is_set)
{
    uint8_t c = rx->at < rx->n ? rx->p[rx->at] : 0;
    bool done = false;
    ls_status s;
    *is_set = true;
    if (!c)
        return ls_pattern_refuse(rx, "class without ]");
    if (ls_pattern_set(c)) {
        rx->at++;
        return ls_bytes_text(&o->set, ls_pattern_set(c), rx->err);
    }
    if (c == 'W' || c == 'H') {
        rx->at++;
        s = ls_bytes_text(&o->others, "|[^", rx->err);
        if (!s)
            s = ls_bytes_text(&o->others, ls_pattern_set((uint8_t)(c | 0x20)), rx->err);
        return s ? s : ls_bytes_text(&o->others, "]", rx->err);
    }
    if ((c == 'p' || c == 'P') && rx->at + 1 < rx->n && rx->p[rx->at + 1] == '{') {
        struct ls_bytes e = { 0 };
        rx->at++;
        s = ls_pattern_property(rx, c == 'P', &e);
        if (!s)
            s = add_expression(rx, o, &e);
        ls_bytes_finish(&e);
        return s;
    }
    *is_set = false;
    if (c == 'b') {
        rx->at++;
        return ls_bytes_text(&o->set, "\\x{8}", rx->err);
    }
    s = ls_pattern_char_escape(rx, &o->set, &done);
    return s || done ? s : ls_pattern_literal(rx, &o->set);
}

/* [:name:] at rx->at (which points at the inner '['); *done false when it is not one. */
static ls_status posix_bracket(struct ls_rewrite *rx, struct operand *o, bool *done)
{
    char name[40];
    size_t from = rx->at + 2, end = from;
    *done = false;
    if (rx->n - rx->at < 4 || rx->p[rx->at + 1] != ':')
        return LS_OK;
    bool negated = rx->p[from] == '^';
    from += negated;
    for (end = from; end + 1 < rx->n && end - from < 10 && rx->p[end] != ':';)
        end++;
    if (end + 1 >= rx->n || rx->p[end] != ':' || rx->p[end + 1] != ']' ||
        !ls_pattern_plain_name(rx->p + from, end - from, name))
        return LS_OK;
    /* [:punct:] has the symbols too, \p{Punct} has not. */
    const char *items = strcmp(name, "punct") ? ls_pattern_named_set(name) : "\\p{P}\\p{S}";
    if (!items)
        return ls_pattern_refuse(rx, "unknown POSIX bracket");
    *done = true;
    rx->at = end + 2;
    if (!negated)
        return ls_bytes_text(&o->set, items, rx->err);
    ls_status s = ls_bytes_text(&o->others, "|[^", rx->err);
    if (!s)
        s = ls_bytes_text(&o->others, items, rx->err);
    return s ? s : ls_bytes_text(&o->others, "]", rx->err);
}

static ls_status nested_class(struct ls_rewrite *rx, struct operand *o, int depth)
{
    bool done;
    ls_status s = posix_bracket(rx, o, &done);
    if (s || done)
        return s;
    rx->at++;
    s = ls_bytes_text(&o->others, "|", rx->err);
    return s ? s : ls_pattern_class(rx, &o->others, depth + 1);
}

/* A '-' beside a set is a plain character, between two characters it makes a range. */
static bool is_plain_dash(const struct ls_rewrite *rx, bool after_set)
{
    const uint8_t *p = rx->p + rx->at;
    size_t left = rx->n - rx->at;
    if (after_set || left < 2 || p[1] == '[' || p[1] == ']')
        return true;
    return left > 2 && p[1] == '\\' && strchr("sSdDwWhHpP", p[2]);
}

static bool at_intersection(const struct ls_rewrite *rx)
{
    return rx->at + 1 < rx->n && rx->p[rx->at] == '&' && rx->p[rx->at + 1] == '&';
}

/* Items up to ']' or '&&', neither of which is read. first: a ']' here is a plain one. */
static ls_status class_operand(struct ls_rewrite *rx, struct operand *o, bool first, int depth)
{
    ls_status s = LS_OK;
    bool after_set = true; /* a leading '-' is plain */
    for (; !s && rx->at < rx->n; first = false) {
        uint8_t c = rx->p[rx->at];
        if ((c == ']' && !first) || at_intersection(rx))
            return LS_OK;
        bool is_set = false;
        if (c == '\\') {
            rx->at++;
            s = class_escape(rx, o, &is_set);
        } else if (c == '[') {
            is_set = true;
            s = nested_class(rx, o, depth);
        } else if (c == '-' && !is_plain_dash(rx, after_set)) {
            rx->at++;
            s = ls_bytes_text(&o->set, "-", rx->err);
            is_set = false;
        } else {
            s = ls_pattern_literal(rx, &o->set);
        }
        after_set = is_set;
    }
    return s ? s : ls_pattern_refuse(rx, "class without ]");
}

/* The operand as one expression; nothing at all matches no character. */
static ls_status put_operand(struct ls_rewrite *rx, const struct operand *o,
                             struct ls_bytes *out)
{
    if (!o->set.n && !o->others.n)
        return ls_bytes_text(out, "(?!)", rx->err);
    ls_status s = ls_bytes_text(out, "(?:", rx->err);
    if (!s && o->set.n) {
        s = ls_bytes_text(out, "[", rx->err);
        if (!s)
            s = ls_bytes_append(out, o->set.data, o->set.n, rx->err);
        if (!s)
            s = ls_bytes_text(out, "]", rx->err);
    }
    size_t skip = o->set.n ? 0 : 1; /* the leading '|' */
    if (!s && o->others.n)
        s = ls_bytes_append(out, o->others.data + skip, o->others.n - skip, rx->err);
    return s ? s : ls_bytes_text(out, ")", rx->err);
}

static ls_status put_simple(struct ls_rewrite *rx, const struct operand *o, bool negated,
                            struct ls_bytes *out)
{
    ls_status s = ls_bytes_text(out, negated ? "[^" : "[", rx->err);
    if (!s)
        s = ls_bytes_append(out, o->set.data, o->set.n, rx->err);
    return s ? s : ls_bytes_text(out, "]", rx->err);
}

/* Reads one operand and appends it; `more` tells that another follows, so that this one only
 * looks ahead. */
static ls_status one_operand(struct ls_rewrite *rx, struct ls_bytes *body, bool first,
                             int depth, bool *more, bool *simple, bool negated)
{
    struct operand o = { 0 };
    ls_status s = class_operand(rx, &o, first, depth);
    *more = !s && at_intersection(rx);
    *simple = !s && first && !*more && !o.others.n && o.set.n;
    if (!s)
        rx->at += *more ? 2 : 1;
    if (*simple)
        s = put_simple(rx, &o, negated, body);
    if (!s && !*simple && *more)
        s = ls_bytes_text(body, "(?=", rx->err);
    if (!s && !*simple)
        s = put_operand(rx, &o, body);
    if (!s && !*simple && *more)
        s = ls_bytes_text(body, ")", rx->err);
    ls_bytes_finish(&o.set);
    ls_bytes_finish(&o.others);
    return s;
}

ls_status ls_pattern_class(struct ls_rewrite *rx, struct ls_bytes *out, int depth)
{
    if (depth == MAX_CLASS_DEPTH)
        return ls_pattern_refuse(rx, "classes nested too deeply");
    bool negated = rx->at < rx->n && rx->p[rx->at] == '^';
    rx->at += negated;
    struct ls_bytes body = { 0 };
    bool more = true, simple = false, first = true;
    ls_status s = LS_OK;
    while (!s && more) {
        s = one_operand(rx, &body, first, depth, &more, &simple, negated);
        first = false;
    }
    if (!s && !simple)
        s = ls_bytes_text(out, negated ? "(?:(?!" : "(?:", rx->err);
    if (!s)
        s = ls_bytes_append(out, body.data, body.n, rx->err);
    if (!s && !simple)
        s = ls_bytes_text(out, negated ? ")(?s:.))" : ")", rx->err);
    ls_bytes_finish(&body);
    return s;
}
