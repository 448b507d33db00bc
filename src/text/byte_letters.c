#include "text/byte_letters.h"

#include "text/utf8.h"

static int stands_for_itself(int b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

void ls_byte_letters_init(struct ls_byte_letters *t)
{
    uint32_t extra = 0x100;
    for (int c = 0; c < LS_BYTE_LETTERS_END; c++)
        t->byte[c] = -1;
    for (int b = 0; b < 256; b++) {
        uint8_t text[4];
        uint32_t c = stands_for_itself(b) ? (uint32_t)b : extra++;
        t->len[b] = (uint8_t)ls_utf8_put(text, c);
        t->text[b][0] = text[0];
        t->text[b][1] = text[1];
        t->byte[c] = (int16_t)b;
    }
}
