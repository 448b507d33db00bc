#include "parity/npy.h"

#include "base/size.h"

#include <stdbool.h>
#include <string.h>

enum { MAGIC = 6, MAX_HEADER = 1 << 16 };

int ls_npy_is(const void *image, uint64_t size)
{
    return size >= MAGIC && !memcmp(image, "\x93NUMPY", MAGIC);
}

/* The header is the text of a Python dictionary with three keys, in any order. */
struct text {
    const char *at, *end;
};

static void skip_spaces(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n'))
        t->at++;
}

static bool take(struct text *t, char c)
{
    skip_spaces(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n))
        return false;
    t->at += n;
    return true;
}

/* A quoted text without escapes. */
static bool take_quoted(struct text *t, char *out, size_t size)
{
    skip_spaces(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    const char *const begin = t->at + 1;
    const char *const end = memchr(begin, *t->at, (size_t)(t->end - begin));
    if (!end || (size_t)(end - begin) >= size)
        return false;
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = 0;
    t->at = end + 1;
    return true;
}

static bool take_number(struct text *t, uint64_t *out)
{
    uint64_t n = 0;
    skip_spaces(t);
    const char *const begin = t->at;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (!ls_mul_u64(n, 10, &n) || !ls_add_u64(n, (uint64_t)(*t->at - '0'), &n))
            return false;
    *out = n;
    return t->at > begin;
}

static bool take_shape(struct text *t, struct ls_tensor *tensor)
{
    tensor->n_dims = 0;
    if (!take(t, '('))
        return false;
    while (!take(t, ')')) {
        if (tensor->n_dims == LS_MAX_DIMS || !take_number(t, &tensor->dims[tensor->n_dims++]))
            return false;
        if (!take(t, ',')) /* only "(n,)" and "(n, m)" are written; a last one needs no comma */
            return take(t, ')');
    }
    return true;
}

static enum ls_dtype dtype_of(const char *descr)
{
    static const struct {
        char descr[4];
        enum ls_dtype dtype;
    } known[] = { { "<f4", LS_DTYPE_F32 }, { "<f2", LS_DTYPE_F16 }, { "<f8", LS_DTYPE_F64 },
                  { "<i4", LS_DTYPE_I32 }, { "<i8", LS_DTYPE_I64 }, { "<u4", LS_DTYPE_U32 },
                  { "<u8", LS_DTYPE_U64 }, { "<i2", LS_DTYPE_I16 }, { "<u2", LS_DTYPE_U16 },
                  { "|u1", LS_DTYPE_U8 },  { "|i1", LS_DTYPE_I8 },  { "|b1", LS_DTYPE_BOOL } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].descr, descr))
            return known[i].dtype;
    return LS_DTYPE_NONE;
}

/* One "key: value"; counts what was found in *found, one bit a key. */
static bool take_entry(struct text *t, struct ls_tensor *tensor, char descr[16],
                       unsigned *found)
{
    char key[16];
    if (!take_quoted(t, key, sizeof key) || !take(t, ':'))
        return false;
    if (!strcmp(key, "descr")) {
        *found |= 1;
        return take_quoted(t, descr, 16);
    }
    if (!strcmp(key, "fortran_order")) {
        *found |= 2;
        return take_word(t, "False");
    }
    *found |= 4;
    return !strcmp(key, "shape") && take_shape(t, tensor);
}

static ls_status parse_header(struct ls_tensor *tensor, struct text t, struct ls_err *err)
{
    char descr[16] = "";
    unsigned found = 0;
    bool good = take(&t, '{');
    while (good && !take(&t, '}')) {
        good = take_entry(&t, tensor, descr, &found);
        take(&t, ',');
    }
    if (!good || found != 7)
        return ls_fail(err, LS_E_FORMAT,
                       "npy header is not {'descr', 'fortran_order': False, 'shape'}");
    tensor->dtype = dtype_of(descr);
    if (tensor->dtype == LS_DTYPE_NONE)
        return ls_fail(err, LS_E_FORMAT, "npy type '%s' is not supported", descr);
    return LS_OK;
}

/* Where the header's text begins and how long it says it is; false when that is not there. */
static bool find_header(const unsigned char *p, uint64_t size, uint64_t *at, uint64_t *n)
{
    if (size < 12 || !ls_npy_is(p, size) || p[6] < 1 || p[6] > 3)
        return false;
    *at = p[6] == 1 ? 10 : 12;
    *n = (uint64_t)p[8] | (uint64_t)p[9] << 8;
    if (p[6] > 1)
        *n |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    return *n <= MAX_HEADER && *n <= size - *at;
}

ls_status ls_npy_parse(struct ls_tensor *tensor, const void *image, uint64_t size,
                       struct ls_err *err)
{
    const unsigned char *const p = image;
    struct ls_tensor t = *tensor;
    uint64_t at, n;
    if (!find_header(p, size, &at, &n))
        return ls_fail(err, LS_E_FORMAT, "not an npy file of version 1 to 3");
    const char *const text = (const char *)p + at;
    const ls_status s = parse_header(&t, (struct text){ text, text + n }, err);
    if (s)
        return s;
    uint64_t bytes = ls_dtype_bytes(t.dtype);
    for (int i = 0; i < t.n_dims; i++)
        if (!ls_mul_u64(bytes, t.dims[i], &bytes))
            return ls_fail(err, LS_E_FORMAT, "npy shape is too large");
    if (bytes != size - at - n)
        return ls_fail(err, LS_E_FORMAT, "npy data is %llu bytes, its header needs %llu",
                       (unsigned long long)(size - at - n), (unsigned long long)bytes);
    t.data = p + at + n;
    t.bytes = bytes;
    *tensor = t;
    return LS_OK;
}
