#include "jobs/out.h"

#include "jobs/float_text.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_out_finish(struct ls_out *out)
{
    free(out->data);
    *out = (struct ls_out){ 0 };
}

char *ls_out_take(struct ls_out *out, size_t *n)
{
    char *data = out->failed ? NULL : realloc(out->data, out->n ? out->n : 1);
    if (data)
        out->data = NULL;
    *n = data ? out->n : 0;
    ls_out_finish(out);
    return data;
}

static bool reserve(struct ls_out *out, size_t more)
{
    if (out->failed)
        return false;
    if (more <= out->cap - out->n)
        return true;
    if (more > SIZE_MAX / 4 - out->n) {
        out->failed = true;
        return false;
    }
    size_t cap = out->cap ? out->cap : 256;
    while (cap - out->n < more)
        cap *= 2;
    char *data = realloc(out->data, cap);
    if (!data) {
        out->failed = true;
        return false;
    }
    out->data = data;
    out->cap = cap;
    return true;
}

bool ls_out_room(struct ls_out *out, size_t n)
{
    return n <= out->n || reserve(out, n - out->n);
}

void ls_out_add(struct ls_out *out, const void *data, size_t n)
{
    if (!n || !reserve(out, n))
        return;
    memcpy(out->data + out->n, data, n);
    out->n += n;
}

void ls_out_text(struct ls_out *out, const char *text)
{
    ls_out_add(out, text, strlen(text));
}

void ls_out_u64(struct ls_out *out, uint64_t v)
{
    char text[24];
    ls_out_add(out, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, v));
}

void ls_out_i64(struct ls_out *out, int64_t v)
{
    char text[24];
    ls_out_add(out, text, (size_t)snprintf(text, sizeof text, "%" PRId64, v));
}

void ls_out_f64(struct ls_out *out, double v)
{
    char text[LS_FLOAT_TEXT];
    if (isnan(v))
        ls_out_text(out, "null");
    else if (isinf(v))
        ls_out_text(out, v < 0 ? "-9999.0" : "9999.0");
    else
        ls_out_add(out, text, (size_t)ls_float_text(text, v));
}

void ls_out_hex(struct ls_out *out, const unsigned char *data, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = { digits[data[i] >> 4], digits[data[i] & 15] };
        ls_out_add(out, pair, 2);
    }
}

static void escape(struct ls_out *out, uint32_t c)
{
    static const char *const names[128] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"
    };
    char text[8];
    if (c < 128 && names[c])
        ls_out_text(out, names[c]);
    else
        ls_out_add(out, text, (size_t)snprintf(text, sizeof text, "\\u%04x", (unsigned)c));
}

static bool is_plain(uint32_t c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && c != 0x85 && c != 0x2028 &&
           c != 0x2029;
}

void ls_out_string(struct ls_out *out, const void *text, size_t n)
{
    const uint8_t *s = n ? text : (const void *)""; /* text may be NULL then */
    size_t plain = 0, at = 0;                       /* [plain, at) is to be copied as it is */
    ls_out_text(out, "\"");
    while (at < n) {
        size_t len = n - at, from = at;
        enum ls_utf8_state state = ls_utf8_scan(s + at, n - at, &len);
        if (state == LS_UTF8_CUT)
            len = n - at;
        uint32_t c = state == LS_UTF8_WHOLE ? ls_utf8_next(s, &from) : 0;
        if (state != LS_UTF8_WHOLE || !is_plain(c)) {
            ls_out_add(out, s + plain, at - plain);
            plain = at + len;
            if (state == LS_UTF8_WHOLE)
                escape(out, c);
            else
                ls_out_text(out, "\xef\xbf\xbd");
        }
        at += len;
    }
    ls_out_add(out, s + plain, n - plain);
    ls_out_text(out, "\"");
}

ls_status ls_out_check(const struct ls_out *out, const char *what, struct ls_err *err)
{
    return out->failed ? ls_fail(err, LS_E_MEMORY, "out of memory for %s", what) : LS_OK;
}
