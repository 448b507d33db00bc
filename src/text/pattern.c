#include "text/pattern.h"

#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GROUPS = 64 };

struct group {
    size_t out_at; /* where its '(' stands in the output */
    int extra;     /* "(?flags:" opened inside it, to be closed with it */
    bool extended; /* the last of them lets white space and comments be skipped */
};

struct state {
    struct ls_rewrite rx;
    struct ls_bytes *out;
    size_t atom_at; /* where the last atom begins in the output */
    struct group groups[MAX_GROUPS + 1];
    int depth; /* open groups; groups[0] is the whole pattern */
};

static ls_status put(struct state *st, const char *text)
{
    return ls_bytes_text(st->out, text, st->rx.err);
}

ls_status ls_pattern_refuse(struct ls_rewrite *rx, const char *why)
{
    return ls_fail(rx->err, LS_E_FORMAT, "tokenizer: pattern at byte %zu: %s: %.*s", rx->at,
                   why, (int)(rx->whole.n > 200 ? 200 : rx->whole.n), rx->whole.s);
}

static uint8_t peek(const struct state *st, size_t ahead)
{
    size_t at = st->rx.at + ahead;
    return at < st->rx.n ? st->rx.p[at] : 0;
}

/* The word characters of \w and \b outside of a class: there the superscript digits and the
 * fractions of Latin-1 count, in a class they do not. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

static const char *fixed_escape(uint8_t letter)
{
    switch (letter) {
    case 'w':
        return "[" WORD "]";
    case 'W':
        return "[^" WORD "]";
    case 'b':
        return "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))";
    case 'B':
        return "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))";
    case 's':
        return "\\p{White_Space}";
    case 'S':
        return "\\P{White_Space}";
    case 'd':
        return "\\p{Nd}";
    case 'D':
        return "\\P{Nd}";
    case 'h':
        return "[0-9A-Fa-f]";
    case 'H':
        return "[^0-9A-Fa-f]";
    case 'O':
        return "(?s:.)";
    default:
        return NULL;
    }
}

/* \k<name> and back references are copied whole. */
static ls_status copy_reference(struct state *st)
{
    size_t from = st->rx.at;
    if (st->rx.p[from] == 'k') {
        const uint8_t *end = memchr(st->rx.p + from, '>', st->rx.n - from);
        if (peek(st, 1) != '<' || !end)
            return ls_pattern_refuse(&st->rx, "\\k needs <name>");
        st->rx.at = (size_t)(end - st->rx.p) + 1;
    } else {
        while (peek(st, 0) >= '0' && peek(st, 0) <= '9')
            st->rx.at++;
    }
    ls_status s = put(st, "\\");
    return s ? s : ls_bytes_append(st->out, st->rx.p + from, st->rx.at - from, st->rx.err);
}

/* Escapes that are spelled alike on both sides; *done tells whether the letter is one. */
static ls_status shared_escape(struct state *st, uint8_t c, bool *done)
{
    char text[3] = { '\\', (char)c, 0 };
    *done = strchr("AzZGKRXN", c) != NULL;
    if (*done) {
        st->rx.at++;
        return put(st, text);
    }
    *done = c == 'k' || (c >= '1' && c <= '9');
    return *done ? copy_reference(st) : LS_OK;
}

static ls_status escape(struct state *st)
{
    st->atom_at = st->out->n;
    st->rx.at++;
    if (st->rx.at == st->rx.n)
        return ls_pattern_refuse(&st->rx, "ends in a backslash");
    uint8_t c = st->rx.p[st->rx.at];
    bool done = false;
    ls_status s = LS_OK;
    if (fixed_escape(c)) {
        st->rx.at++;
        return put(st, fixed_escape(c));
    }
    if ((c == 'p' || c == 'P') && peek(st, 1) == '{') {
        st->rx.at++;
        return ls_pattern_property(&st->rx, c == 'P', st->out);
    }
    if (strchr("gyY", c))
        return ls_pattern_refuse(&st->rx, "escape not supported");
    s = shared_escape(st, c, &done);
    if (!s && !done)
        s = ls_pattern_char_escape(&st->rx, st->out, &done);
    if (!s && !done)
        s = ls_pattern_literal(&st->rx, st->out);
    return s;
}

static ls_status push_group(struct state *st)
{
    if (st->depth == MAX_GROUPS)
        return ls_pattern_refuse(&st->rx, "groups nested too deeply");
    st->groups[++st->depth] = (struct group){ .out_at = st->out->n };
    return LS_OK;
}

/* "(?imx-imx)" reaches to the end of its group, "(?imx-imx:" opens one. at: behind "(?". */
static ls_status flags(struct state *st)
{
    char text[24] = "(?";
    size_t k = 2;
    uint8_t c;
    while ((c = peek(st, 0)) != ')' && c != ':') {
        if (!c || !strchr("imx-", c) || k > sizeof text - 3)
            return ls_pattern_refuse(&st->rx, "group not supported");
        text[k++] = (char)(c == 'm' ? 's' : c);
        st->rx.at++;
    }
    text[k++] = ':';
    st->rx.at++;
    ls_status s = LS_OK;
    if (c == ')') {
        const char *minus = strchr(text, '-'), *x = strchr(text, 'x');
        st->groups[st->depth].extra++;
        st->groups[st->depth].extended = x && (!minus || x < minus);
    } else {
        s = push_group(st);
    }
    return s ? s : put(st, text);
}

/* Heads that open a group and are spelled alike on both sides; longer ones first. */
static const char *known_head(const struct state *st)
{
    static const char *const heads[] = { "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!" };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t n = strlen(heads[i]);
        if (n <= st->rx.n - st->rx.at && !memcmp(st->rx.p + st->rx.at, heads[i], n))
            return heads[i];
    }
    return NULL;
}

static ls_status open_group(struct state *st)
{
    const char *head = known_head(st);
    if (peek(st, 1) == '*')
        return ls_pattern_refuse(&st->rx, "callout not supported");
    if (!head && peek(st, 1) == '?' && peek(st, 2) == '#') {
        const uint8_t *end = memchr(st->rx.p + st->rx.at, ')', st->rx.n - st->rx.at);
        if (!end)
            return ls_pattern_refuse(&st->rx, "comment without end");
        st->rx.at = (size_t)(end - st->rx.p) + 1;
        return LS_OK;
    }
    if (!head && peek(st, 1) == '?' && peek(st, 2) != '<') {
        st->rx.at += 2;
        return flags(st);
    }
    if (!head)
        head = peek(st, 1) == '?' ? "(?<" : "(";
    ls_status s = push_group(st);
    st->rx.at += strlen(head);
    return s ? s : put(st, head);
}

static ls_status close_extra(struct state *st)
{
    ls_status s = LS_OK;
    for (int i = 0; !s && i < st->groups[st->depth].extra; i++)
        s = put(st, st->groups[st->depth].extended ? "\n)" : ")"); /* ends a comment */
    return s;
}

static ls_status close_group(struct state *st)
{
    if (!st->depth)
        return ls_pattern_refuse(&st->rx, "unmatched )");
    ls_status s = close_extra(st);
    st->atom_at = st->groups[st->depth--].out_at;
    st->rx.at++;
    return s ? s : put(st, ")");
}

/* Length of "{n}", "{n,}", "{,m}" or "{n,m}" at rx.at; 0 when it is only a brace. */
static size_t interval_length(const struct state *st)
{
    size_t k = 1, digits = 0, commas = 0;
    for (uint8_t c; (c = peek(st, k)) == ',' || (c >= '0' && c <= '9'); k++) {
        digits += c != ',';
        commas += c == ',';
    }
    return peek(st, k) == '}' && digits && commas <= 1 ? k + 1 : 0;
}

static ls_status interval(struct state *st, size_t len)
{
    bool repeats = peek(st, len) == '+';
    const uint8_t *from = st->rx.p + st->rx.at;
    ls_status s = LS_OK;
    if (repeats)
        s = ls_bytes_insert(st->out, st->atom_at, "(?:", 3, st->rx.err);
    if (!s)
        s = put(st, from[1] == ',' ? "{0" : "{");
    if (!s)
        s = ls_bytes_append(st->out, from + 1, len - 1, st->rx.err);
    if (!s && repeats)
        s = put(st, ")+");
    st->rx.at += len + (repeats ? 1 : 0);
    return s;
}

static ls_status step(struct state *st)
{
    uint8_t c = st->rx.p[st->rx.at];
    size_t len;
    if (c == '\\')
        return escape(st);
    if (c == '(')
        return open_group(st);
    if (c == ')')
        return close_group(st);
    if (c == '{' && (len = interval_length(st)) != 0)
        return interval(st, len);
    if (c == '[') {
        st->atom_at = st->out->n;
        st->rx.at++;
        return ls_pattern_class(&st->rx, st->out, 0);
    }
    if (strchr("*+?|^$.", c) && c) {
        if (!strchr("*+?", c))
            st->atom_at = st->out->n;
        st->rx.at++;
        return ls_bytes_append(st->out, &c, 1, st->rx.err);
    }
    st->atom_at = st->out->n;
    return c == '{' || c == '}' || c == ']' ? ls_pattern_literal(&st->rx, st->out) : LS_OK;
}

/* Characters without a meaning, and those that (?x) would skip, are copied as they stand. */
static ls_status copy_plain(struct state *st)
{
    size_t len = ls_utf8_len(st->rx.p[st->rx.at]);
    ls_status s = ls_bytes_append(st->out, st->rx.p + st->rx.at, len, st->rx.err);
    st->rx.at += len;
    return s;
}

ls_status ls_pattern_rewrite(struct ls_view pattern, struct ls_bytes *out, struct ls_err *err)
{
    struct state st = {
        .rx = { .p = (const uint8_t *)pattern.s, .n = pattern.n, .whole = pattern, .err = err },
        .out = out
    };
    ls_status s = LS_OK;
    while (!s && st.rx.at < st.rx.n) {
        size_t before = st.rx.at;
        s = step(&st);
        if (!s && st.rx.at == before)
            s = copy_plain(&st);
    }
    if (!s && st.depth)
        s = ls_pattern_refuse(&st.rx, "group without end");
    return s ? s : close_extra(&st);
}
