/* The one-letter stand-in that byte-level tokenizers use for each byte: printable Latin-1
 * stands for itself, the other bytes take U+0100 upwards in order.
 *
 * Layer: text, private to it. Local, cannot fail. */
#ifndef LS_TEXT_BYTE_LETTERS_H
#define LS_TEXT_BYTE_LETTERS_H

#include <stdint.h>

enum { LS_BYTE_LETTERS_END = 0x144 }; /* every letter is below this code point */

struct ls_byte_letters {
    uint8_t text[256][2];              /* UTF-8 of the letter of each byte */
    uint8_t len[256];                  /* its bytes, 1 or 2 */
    int16_t byte[LS_BYTE_LETTERS_END]; /* byte of a code point, or -1 */
};

void ls_byte_letters_init(struct ls_byte_letters *t);

#endif
