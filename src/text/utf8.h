/* UTF-8 and the few Unicode character classes that tokenizers ask for.
 *
 * Layer: text. Local, cannot fail, never allocates. Text is (pointer, bytes) and may hold
 * U+0000. "Valid" is well-formed UTF-8: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef LS_TEXT_UTF8_H
#define LS_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ls_utf8_state { LS_UTF8_WHOLE, LS_UTF8_CUT, LS_UTF8_BAD };

/* Looks at the first character of n >= 1 bytes. WHOLE: *len bytes make a character. CUT: all n
 * bytes are the beginning of one. BAD: *len bytes (1..3, the longest beginning of a character,
 * or one byte) are to be replaced by one U+FFFD. */
enum ls_utf8_state ls_utf8_scan(const uint8_t *s, size_t n, size_t *len);

/* Offset of the first byte that makes the text invalid; n when it is valid. */
size_t ls_utf8_check(const uint8_t *s, size_t n);

/* Writes c, which must be a scalar value; returns the bytes written, 1..4. */
size_t ls_utf8_put(uint8_t out[4], uint32_t c);

/* Bytes of the character that starts with lead byte b of valid text, 1..4. */
static inline size_t ls_utf8_len(uint8_t b)
{
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/* The character at s[*at] of valid text; moves *at behind it. */
static inline uint32_t ls_utf8_next(const uint8_t *s, size_t *at)
{
    const uint8_t *p = s + *at;
    size_t len = ls_utf8_len(p[0]);
    *at += len;
    if (len == 1)
        return p[0];
    if (len == 2)
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    if (len == 3)
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
           (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* Offset of the character that ends at s[at], at > 0, valid text. */
static inline size_t ls_utf8_before(const uint8_t *s, size_t at)
{
    do
        at--;
    while (at && (s[at] & 0xc0) == 0x80);
    return at;
}

bool ls_is_space(uint32_t c);   /* White_Space */
bool ls_is_numeric(uint32_t c); /* Nd, Nl, No */
bool ls_is_punct(uint32_t c);   /* P*, and all ASCII punctuation and symbols */
bool ls_is_mark(uint32_t c);    /* Mn, Mc, Me */
bool ls_is_word(uint32_t c);    /* Alphabetic, M*, Nd, Pc, Join_Control */

#endif
