#include "wire/card.h"

#include "base/guard.h"
#include "base/le.h"

#include <inttypes.h>
#include <string.h>

enum {
    AT_VERSION = 4,
    AT_PHASE = 6,
    AT_LEVEL = 7,
    AT_ORIGIN = 8,
    AT_ZERO = 9,
    AT_SUITES = 12,
    AT_STATUS = 16,
    AT_RUN_ID = 20,
    AT_NAME = 36,
    AT_HOST = 52,
    AT_TEXT = 116,
    CARD_VERSION = 1,
};

_Static_assert((int)AT_TEXT == (int)AT_HOST + (int)LS_CARD_HOST, "host ends where text begins");

const char *ls_secret_origin_name(enum ls_secret_origin origin)
{
    static const char *const names[LS_N_SECRET_ORIGINS] = { "none", "file", "fd", "ephemeral" };
    return (unsigned)origin < LS_N_SECRET_ORIGINS ? names[origin] : "unknown";
}

/* Cut to the room less one, so that the other end always finds a zero. */
static void put_text(unsigned char *p, const char *text, size_t room)
{
    memcpy(p, text, strnlen(text, room - 1));
}

/* Whatever a terminal might obey, or take for the end of the line, becomes a question mark. */
static void get_text(char *text, const unsigned char *p, size_t room)
{
    size_t n = strnlen((const char *)p, room - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (p[i] >= 0x20 && p[i] < 0x7f) || !LS_GUARD("card-text") ? (char)p[i] : '?';
    text[n] = '\0';
}

void ls_card_encode(const struct ls_card *card, unsigned char out[LS_CARD_BYTES])
{
    memset(out, 0, LS_CARD_BYTES);
    memcpy(out, "LKC1", 4);
    out[AT_VERSION] = CARD_VERSION;
    out[AT_PHASE] = (unsigned char)card->phase;
    out[AT_LEVEL] = (unsigned char)card->level;
    out[AT_ORIGIN] = (unsigned char)card->origin;
    ls_le_put(out + AT_SUITES, card->suites, 4);
    ls_le_put(out + AT_STATUS, card->status, 4);
    memcpy(out + AT_RUN_ID, card->run_id, LS_RUN_ID);
    memcpy(out + AT_NAME, card->name, LS_SECRET_NAME);
    put_text(out + AT_HOST, card->host, LS_CARD_HOST);
    put_text(out + AT_TEXT, card->text, LS_CARD_TEXT);
}

ls_status ls_card_decode(struct ls_card *card, const unsigned char *bytes, uint64_t n,
                         uint32_t from, struct ls_err *err)
{
    if (!LS_GUARD("card-kind"))
        n = LS_CARD_BYTES;
    else if (n != LS_CARD_BYTES || memcmp(bytes, "LKC1", 4) != 0 ||
             bytes[AT_VERSION] != CARD_VERSION || bytes[AT_VERSION + 1] != 0)
        return ls_fail(err, LS_E_VERSION,
                       "rank %" PRIu32 ": the first message, of %" PRIu64
                       " bytes, is not one of this program",
                       from, n);
    uint32_t status = ls_le_get32(bytes + AT_STATUS);
    bool zero = !bytes[AT_ZERO] && !bytes[AT_ZERO + 1] && !bytes[AT_ZERO + 2];
    if (!LS_GUARD("card-fields"))
        status %= LS_N_STATUS;
    else if (bytes[AT_PHASE] >= LS_N_CARD_PHASES || bytes[AT_LEVEL] >= LS_N_LEVELS ||
             bytes[AT_ORIGIN] >= LS_N_SECRET_ORIGINS || status >= LS_N_STATUS || !zero)
        return ls_fail(err, LS_E_SHAPE, "rank %" PRIu32 ": a card that makes no sense", from);
    struct ls_card got = { .phase = (enum ls_card_phase)bytes[AT_PHASE],
                           .level = (enum ls_level)bytes[AT_LEVEL],
                           .origin = (enum ls_secret_origin)bytes[AT_ORIGIN],
                           .suites = ls_le_get32(bytes + AT_SUITES),
                           .status = (ls_status)status };
    memcpy(got.run_id, bytes + AT_RUN_ID, LS_RUN_ID);
    memcpy(got.name, bytes + AT_NAME, LS_SECRET_NAME);
    get_text(got.host, bytes + AT_HOST, LS_CARD_HOST);
    get_text(got.text, bytes + AT_TEXT, LS_CARD_TEXT);
    *card = got;
    return LS_OK;
}
