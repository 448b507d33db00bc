#include "text/decoder.h"

#include "text/pretokenizer.h"
#include "text/utf8.h"

#include <string.h>

static ls_status load_strip(struct ls_dec_stage *st, const json_t *in, struct ls_err *err)
{
    const char *where = "decoder.Strip";
    ls_status s = ls_field_char(in, where, "content", &st->mark, err);
    if (!s)
        s = ls_field_count(in, where, "start", INT32_MAX, &st->start, err);
    return s ? s : ls_field_count(in, where, "stop", INT32_MAX, &st->stop, err);
}

static ls_status load_fields(struct ls_dec_stage *st, const json_t *in, struct ls_err *err)
{
    struct ls_view content = { 0 };
    enum ls_prepend prepend;
    ls_status s;
    switch (st->kind) {
    case LS_DEC_METASPACE:
        s = ls_metaspace_load(in, "decoder.Metaspace", &st->mark, &prepend, err);
        st->drop_first = !s && prepend != LS_PREPEND_NEVER;
        return s;
    case LS_DEC_REPLACE:
        s = ls_regex_load(&st->re, in, "decoder.Replace", err);
        if (!s)
            s = ls_field_text(in, "decoder.Replace", "content", &content, err);
        return s ? s : ls_bytes_append(&st->content, content.s, content.n, err);
    case LS_DEC_STRIP:
        return load_strip(st, in, err);
    default:
        return LS_OK;
    }
}

static ls_status load_one(struct ls_decoder *d, const json_t *in, int depth,
                          struct ls_err *err);

static ls_status load_sequence(struct ls_decoder *d, const json_t *in, int depth,
                               struct ls_err *err)
{
    const json_t *list, *one;
    size_t i;
    ls_status s = ls_field_array(in, "decoder.Sequence", "decoders", &list, err);
    if (!s && depth == LS_TEXT_NESTING)
        s = ls_fail(err, LS_E_FORMAT, "tokenizer: decoder: nested too deeply");
    if (s)
        return s;
    json_array_foreach(list, i, one) if ((s = load_one(d, one, depth + 1, err))) return s;
    return LS_OK;
}

static ls_status load_one(struct ls_decoder *d, const json_t *in, int depth, struct ls_err *err)
{
    static const char *const names[] = {
        [LS_DEC_BYTE_LEVEL] = "ByteLevel",
        [LS_DEC_BYTE_FALLBACK] = "ByteFallback",
        [LS_DEC_METASPACE] = "Metaspace",
        [LS_DEC_REPLACE] = "Replace",
        [LS_DEC_FUSE] = "Fuse",
        [LS_DEC_STRIP] = "Strip",
    };
    const char *type;
    ls_status s = ls_field_type(in, "decoder", &type, err);
    if (s)
        return s;
    if (!strcmp(type, "Sequence"))
        return load_sequence(d, in, depth, err);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(type, names[k]))
            continue;
        if (d->n == LS_MAX_DEC_STAGES)
            return ls_fail(err, LS_E_FORMAT, "tokenizer: decoder: more than %d stages",
                           LS_MAX_DEC_STAGES);
        struct ls_dec_stage *st = &d->stages[d->n++];
        st->kind = (enum ls_dec_kind)k;
        return load_fields(st, in, err);
    }
    return ls_fail(err, LS_E_FORMAT, "tokenizer: decoder %s is not supported", type);
}

ls_status ls_decoder_load(struct ls_decoder *out, const json_t *in, struct ls_err *err)
{
    ls_byte_letters_init(&out->letters);
    if (in && !json_is_null(in))
        return load_one(out, in, 0, err);
    out->stages[out->n++] = (struct ls_dec_stage){ .kind = LS_DEC_JOIN };
    return LS_OK;
}

void ls_decoder_finish(struct ls_decoder *d)
{
    for (int i = 0; i < d->n; i++) {
        ls_regex_destroy(d->stages[i].re);
        ls_bytes_finish(&d->stages[i].content);
    }
    *d = (struct ls_decoder){ 0 };
}

ls_status ls_byte_level_undo(const struct ls_byte_letters *t, const uint8_t *s, size_t n,
                             struct ls_bytes *out, struct ls_err *err)
{
    size_t before = out->n;
    ls_status st = ls_bytes_reserve(out, n, err);
    for (size_t at = 0; !st && at < n;) {
        uint32_t c = ls_utf8_next(s, &at);
        if (c >= LS_BYTE_LETTERS_END || t->byte[c] < 0) {
            out->n = before;
            return ls_bytes_append(out, s, n, err);
        }
        out->data[out->n++] = (uint8_t)t->byte[c];
    }
    return st;
}

static int hex_value(uint8_t c)
{
    uint8_t low = (uint8_t)(c | 0x20);
    if (c >= '0' && c <= '9')
        return c - '0';
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

int ls_byte_token(const uint8_t *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>')
        return -1;
    int high = s[3] == '+' ? 0 : hex_value(s[3]); /* the reference's parser takes a sign */
    int low = hex_value(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The mark of a Metaspace stage as a space, wherever it stands. */
static ls_status marks_to_spaces(const struct ls_dec_stage *st, const uint8_t *s, size_t n,
                                 struct ls_bytes *out, struct ls_err *err)
{
    ls_status status = LS_OK;
    for (size_t at = 0, begin = 0; !status && at < n; begin = at)
        status = ls_utf8_next(s, &at) == st->mark
                     ? ls_bytes_append(out, " ", 1, err)
                     : ls_bytes_append(out, s + begin, at - begin, err);
    return status;
}

/* One stage on one token by itself; *raw is set when what comes out are bytes, not text. */
static ls_status token_stage(const struct ls_decoder *d, const struct ls_dec_stage *st,
                             struct ls_matcher *m, const struct ls_bytes *in,
                             struct ls_bytes *out, bool *raw, struct ls_err *err)
{
    struct ls_view content = { (const char *)st->content.data, st->content.n };
    int b;
    switch (st->kind) {
    case LS_DEC_BYTE_LEVEL:
        *raw = true;
        return ls_byte_level_undo(&d->letters, in->data, in->n, out, err);
    case LS_DEC_BYTE_FALLBACK:
        b = ls_byte_token(in->data, in->n);
        if (b < 0)
            return ls_bytes_append(out, in->data, in->n, err);
        *raw = true;
        return ls_bytes_append(out, &(uint8_t){ (uint8_t)b }, 1, err);
    case LS_DEC_METASPACE:
        return marks_to_spaces(st, in->data, in->n, out, err);
    case LS_DEC_REPLACE:
        return ls_regex_replace(st->re, m, in->data, in->n, content, out, err);
    default:
        return ls_bytes_append(out, in->data, in->n, err);
    }
}

ls_status ls_decoder_token_bytes(const struct ls_decoder *d, struct ls_matcher *m,
                                 struct ls_view token, struct ls_bytes work[2],
                                 struct ls_bytes *out, struct ls_err *err)
{
    bool raw = false;
    int from = 0;
    work[0].n = 0;
    ls_status s = ls_bytes_append(&work[0], token.s, token.n, err);
    for (int i = 0; !s && !raw && i < d->n; i++, from = 1 - from) {
        work[1 - from].n = 0;
        s = token_stage(d, &d->stages[i], m, &work[from], &work[1 - from], &raw, err);
    }
    return s ? s : ls_bytes_append(out, work[from].data, work[from].n, err);
}
