#include "text/regex.h"

#include "base/alloc.h"
#include "text/pattern.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { STACK_LEAST_BYTES = 32 << 10, STACK_MOST_BYTES = 8 << 20 };

struct ls_regex {
    pcre2_code *code; /* owned; NULL for a literal */
    bool jit;         /* machine code is there for this pattern */
    uint8_t *literal; /* owned */
    size_t n_literal; /* bytes */
};

static ls_status prepare(struct ls_matcher *m, struct ls_err *err)
{
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(STACK_LEAST_BYTES, STACK_MOST_BYTES, NULL);
    m->match_data = pcre2_match_data_create(1, NULL);
    if (!m->context || !m->match_data) {
        ls_matcher_finish(m);
        return ls_fail(err, LS_E_MEMORY, "out of memory for pattern matching");
    }
    if (m->stack)
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return LS_OK;
}

void ls_matcher_finish(struct ls_matcher *m)
{
    pcre2_match_data_free(m->match_data);
    pcre2_match_context_free(m->context);
    if (m->stack)
        pcre2_jit_stack_free(m->stack);
    *m = (struct ls_matcher){ 0 };
}

static ls_status compile(struct ls_regex *re, struct ls_view pattern, struct ls_err *err)
{
    struct ls_bytes text = { 0 };
    ls_status s = ls_pattern_rewrite(pattern, &text, err);
    pcre2_compile_context *cc = NULL;
    if (s)
        goto out;
    cc = pcre2_compile_context_create(NULL);
    if (!cc || pcre2_set_newline(cc, PCRE2_NEWLINE_LF)) {
        s = ls_fail(err, LS_E_MEMORY, "out of memory for a pattern");
        goto out;
    }
    int code;
    PCRE2_SIZE where;
    PCRE2_SPTR from = text.n ? text.data : (PCRE2_SPTR) "";
    re->code = pcre2_compile(from, text.n,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &where, cc);
    if (!re->code) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: pattern: %s: %.*s", (const char *)why,
                    (int)(pattern.n > 200 ? 200 : pattern.n), pattern.s);
        goto out;
    }
    size_t jit_bytes = 0;
    if (!pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) &&
        !pcre2_pattern_info(re->code, PCRE2_INFO_JITSIZE, &jit_bytes))
        re->jit = jit_bytes > 0;
out:
    pcre2_compile_context_free(cc);
    ls_bytes_finish(&text);
    return s;
}

ls_status ls_regex_create(struct ls_regex **out, struct ls_view pattern, bool literal,
                          struct ls_err *err)
{
    void *p;
    ls_status s = ls_alloc(&p, sizeof **out, "tokenizer pattern", err);
    if (s)
        return s;
    struct ls_regex *re = p;
    if (literal) {
        s = ls_alloc(&p, pattern.n, "tokenizer pattern", err);
        if (!s) {
            re->literal = p;
            re->n_literal = pattern.n;
            if (pattern.n)
                memcpy(re->literal, pattern.s, pattern.n);
        }
    } else {
        s = compile(re, pattern, err);
    }
    if (s)
        ls_regex_destroy(re);
    else
        *out = re;
    return s;
}

void ls_regex_destroy(struct ls_regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    ls_free(re->literal);
    ls_free(re);
}

ls_status ls_regex_load(struct ls_regex **out, const json_t *in, const char *where,
                        struct ls_err *err)
{
    const json_t *pattern;
    struct ls_view text = { 0 };
    ls_status s = ls_field_object(in, where, "pattern", &pattern, err);
    if (s)
        return s;
    if (!pattern)
        return ls_fail(err, LS_E_FORMAT, "tokenizer: %s: no pattern", where);
    bool literal = json_object_get(pattern, "String") != NULL;
    s = ls_field_text(pattern, where, literal ? "String" : "Regex", &text, err);
    if (!s && !text.s)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: %s: pattern is neither String nor Regex",
                    where);
    return s ? s : ls_regex_create(out, text, literal, err);
}

bool ls_regex_is_one_char(const struct ls_regex *re)
{
    return !re->code && re->n_literal && re->n_literal == ls_utf8_len(re->literal[0]);
}

static ls_status find_code(struct ls_search *it, bool *found, struct ls_err *err)
{
    ls_status s = it->m->match_data ? LS_OK : prepare(it->m, err);
    if (s)
        return s;
    pcre2_match_data *md = it->m->match_data;
    int rc = it->re->jit ? pcre2_jit_match(it->re->code, it->s, it->n, it->from,
                                           PCRE2_NO_UTF_CHECK, md, it->m->context)
                         : pcre2_match(it->re->code, it->s, it->n, it->from, PCRE2_NO_UTF_CHECK,
                                       md, it->m->context);
    *found = rc >= 0;
    if (*found) {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(md);
        it->begin = at[0];
        it->end = at[1];
        return LS_OK;
    }
    if (rc == PCRE2_ERROR_NOMATCH)
        return LS_OK;
    return ls_fail(err, LS_E_REQUEST,
                   "the tokenizer's pattern gave up at byte %zu of the text (pcre2 error %d)",
                   it->from, rc);
}

static void find_literal(struct ls_search *it, bool *found)
{
    const struct ls_regex *re = it->re;
    const uint8_t *hit = it->s + it->from;
    if (re->n_literal == 1)
        hit = memchr(hit, re->literal[0], it->n - it->from);
    else if (re->n_literal)
        hit = memmem(hit, it->n - it->from, re->literal, re->n_literal);
    *found = hit != NULL;
    if (hit) {
        it->begin = (size_t)(hit - it->s);
        it->end = it->begin + re->n_literal;
    }
}

ls_status ls_search_next(struct ls_search *it, bool *found, struct ls_err *err)
{
    *found = false;
    while (it->from <= it->n) {
        ls_status s = LS_OK;
        if (it->re->code)
            s = find_code(it, found, err);
        else
            find_literal(it, found);
        if (s || !*found)
            return s;
        /* \K or a look-behind may not move a match to before the last one. */
        if (it->begin < it->from || it->end < it->begin)
            return ls_fail(err, LS_E_REQUEST, "the tokenizer's pattern matches backwards");
        if (it->begin != it->end || it->end != it->last_end) {
            it->from = it->last_end = it->end;
            return LS_OK;
        }
        it->last_end = it->end;
        it->from = it->end + (it->end < it->n ? ls_utf8_len(it->s[it->end]) : 1);
        *found = false;
    }
    return LS_OK;
}

ls_status ls_regex_replace(const struct ls_regex *re, struct ls_matcher *m, const uint8_t *s,
                           size_t n, struct ls_view content, struct ls_bytes *out,
                           struct ls_err *err)
{
    if (!n)
        return LS_OK; /* an empty text is never matched, as there */
    struct ls_search it = ls_search_start(re, m, s, n);
    size_t done = 0;
    bool found;
    ls_status st;
    while (!(st = ls_search_next(&it, &found, err)) && found) {
        st = ls_bytes_append(out, it.s + done, it.begin - done, err);
        if (!st)
            st = ls_bytes_append(out, content.s, content.n, err);
        if (st)
            return st;
        done = it.end;
    }
    return st ? st : ls_bytes_append(out, it.s + done, n - done, err);
}
