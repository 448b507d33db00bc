#include "text/utf8.h"

#include <utf8proc.h>

/* Least and greatest second byte after each lead byte of a longer form. */
static void second_range(uint8_t lead, uint8_t *lo, uint8_t *hi)
{
    *lo = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *hi = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
}

enum ls_utf8_state ls_utf8_scan(const uint8_t *s, size_t n, size_t *len)
{
    *len = 1;
    if (s[0] < 0x80)
        return LS_UTF8_WHOLE;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return LS_UTF8_BAD;
    size_t want = ls_utf8_len(s[0]);
    uint8_t lo, hi;
    second_range(s[0], &lo, &hi);
    for (size_t i = 1; i < want; i++) {
        *len = i;
        if (i == n)
            return LS_UTF8_CUT;
        if (s[i] < lo || s[i] > hi)
            return LS_UTF8_BAD;
        lo = 0x80;
        hi = 0xbf;
    }
    *len = want;
    return LS_UTF8_WHOLE;
}

size_t ls_utf8_check(const uint8_t *s, size_t n)
{
    size_t at = 0, len;
    while (at < n) {
        if (s[at] < 0x80) {
            at++;
            continue;
        }
        if (ls_utf8_scan(s + at, n - at, &len) != LS_UTF8_WHOLE)
            return at;
        at += len;
    }
    return n;
}

size_t ls_utf8_put(uint8_t out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

bool ls_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == 0x20 || (c >= 0x09 && c <= 0x0d);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool ls_is_numeric(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9';
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool ls_is_punct(uint32_t c)
{
    if (c < 0x80)
        return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) ||
               (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool ls_is_mark(uint32_t c)
{
    if (c < 0x300)
        return false;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

/* Alphabetic symbols that are neither letters, letter numbers nor marks. */
static bool is_circled_letter(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool ls_is_word(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    if (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL)
        return true; /* the order is Lu Ll Lt Lm Lo Mn Mc Me Nd Nl */
    return k == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || is_circled_letter(c);
}
