/* Cards: what ranks say to each other before there are keys.
 *
 * Layer: wire. Bytes only, fixed size, nothing secret. Every rank sends one to rank 0: what it
 * was told and what it can do; rank 0 answers with one that names the run. Nothing in a card is
 * authentic: the level is compared, never adopted, what follows from a card is bound into the
 * hellos (keys.h), and a text is only ever shown. Decoding leaves nothing in a text that a
 * terminal could take for a command.
 *
 *   0 4 magic "LKC1"   4 2 version    6 1 phase    7 1 level     8 1 origin   9 3 zero
 *  12 4 suites        16 4 status    20 16 run id 36 16 name   52 64 host   116 .. text */
#ifndef LS_WIRE_CARD_H
#define LS_WIRE_CARD_H

#include "wire/seal.h"

enum {
    LS_CARD_BYTES = 1024,
    LS_CARD_HOST = 64,
    LS_CARD_TEXT = LS_CARD_BYTES - 116,
    LS_SECRET_NAME = 16,
};

/* Where a rank has the job secret from. The numbers travel: append only. */
enum ls_secret_origin {
    LS_SECRET_NONE = 0, /* none was given */
    LS_SECRET_FILE = 1,
    LS_SECRET_FD = 2,
    LS_SECRET_EPHEMERAL = 3, /* made by rank 0 for this run, on one host */
    LS_N_SECRET_ORIGINS
};

enum ls_card_phase { LS_CARD_OFFER = 0, LS_CARD_READY = 1, LS_N_CARD_PHASES };

struct ls_card {
    enum ls_card_phase phase;
    enum ls_level level;
    enum ls_secret_origin origin;
    uint32_t suites;  /* mask of 1 << suite; of rank 0: the one to use */
    ls_status status; /* not LS_OK: this rank refuses, or ends the job; text says why */
    uint8_t run_id[LS_RUN_ID];    /* of rank 0 */
    uint8_t name[LS_SECRET_NAME]; /* of rank 0: where an ephemeral secret is to be had */
    char host[LS_CARD_HOST];
    char text[LS_CARD_TEXT];
};

const char *ls_secret_origin_name(enum ls_secret_origin origin);

void ls_card_encode(const struct ls_card *card, unsigned char out[LS_CARD_BYTES]);
/* n untrusted bytes of rank `from`; LS_E_VERSION for another program's, LS_E_SHAPE for one that
 * makes no sense. */
ls_status ls_card_decode(struct ls_card *card, const unsigned char *bytes, uint64_t n,
                         uint32_t from, struct ls_err *err);

#endif
