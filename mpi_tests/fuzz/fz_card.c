/* Fuzz target: the first message of a rank, before there are keys. What is accepted keeps its
 * fields within their tables and its texts printable, and is written again as it was read. */
#include "wire/card.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

static void require_text(const char *text, size_t room)
{
    require(strnlen(text, room) < room);
    for (const char *p = text; *p; p++)
        require(*p >= 0x20 && *p < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_card card, again;
    unsigned char bytes[LS_CARD_BYTES];
    struct ls_err err = { .status = LS_OK };
    ls_status s = ls_card_decode(&card, data, size, 5, &err);
    require(s == LS_OK || s == LS_E_VERSION || s == LS_E_SHAPE);
    if (s)
        return 0;
    require(card.phase < LS_N_CARD_PHASES && card.level < LS_N_LEVELS &&
            card.origin < LS_N_SECRET_ORIGINS && card.status < LS_N_STATUS);
    require_text(card.host, sizeof card.host);
    require_text(card.text, sizeof card.text);
    ls_card_encode(&card, bytes);
    require(ls_card_decode(&again, bytes, sizeof bytes, 5, &err) == LS_OK);
    require(!strcmp(again.text, card.text) && !strcmp(again.host, card.host));
    return 0;
}
