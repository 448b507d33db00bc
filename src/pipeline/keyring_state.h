/* What the files of the keyring share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_KEYRING_STATE_H
#define LS_PIPELINE_KEYRING_STATE_H

#include "pipeline/keyring.h"
#include "wire/keys.h"

enum {
    LS_KEYRING_WORD_S = 5, /* for any word: no rank has anything else to do meanwhile */
    LS_KEYRING_LEAD_S = 7, /* for what a rank says that itself waits for words of others */
    LS_KEYRING_GO_S = 9,   /* for rank 0, which waits for such ranks */
    LS_KEYRING_END_S = 5,  /* for rank 0's last word, after a refusal of one's own */
};

/* A rank that this one talks to. */
struct ls_key_peer {
    int rank;
    struct ls_link *in, *out;
    struct ls_handshake *handshake; /* NULL at level plain */
    char host[LS_CARD_HOST];
    bool done; /* has said what is being waited for */
};

struct ls_keyring {
    struct ls_comm *comm;
    struct ls_link_wish wish;
    struct ls_link_terms terms;
    struct ls_secret *own;     /* made or fetched here; else wish.secret is used */
    struct ls_key_peer *peers; /* [n_peers]; rank 0 first unless this is rank 0 */
    int rank, n_peers;
    uint32_t suites; /* that every rank heard so far has */
    bool ended;      /* rank 0 has ended the job */
};

ls_status ls_keyring_open_peer(struct ls_comm *comm, struct ls_key_peer *p, struct ls_err *err);

ls_status ls_keyring_say_card(struct ls_comm *comm, struct ls_link *out,
                              const struct ls_card *card, struct ls_err *err);
/* Makes this rank's hello to the peer and sends it. */
ls_status ls_keyring_say_hello(struct ls_keyring *k, struct ls_key_peer *p, struct ls_err *err);

/* Takes one message of a peer. */
typedef ls_status ls_keyring_take_fn(struct ls_keyring *k, struct ls_key_peer *p,
                                     const unsigned char *bytes, uint64_t n,
                                     struct ls_err *err);
ls_keyring_take_fn ls_keyring_take_hello;

/* Until each of the first n peers has said one thing. A rank that is silent for so long is
 * LS_E_LINK; an end that rank 0 declares meanwhile is this rank's failure. */
ls_status ls_keyring_gather(struct ls_keyring *k, int n, ls_keyring_take_fn *take,
                            uint64_t seconds, const char *what, struct ls_err *err);

/* Decodes a card; one that refuses, or ends the job, becomes this rank's failure. */
ls_status ls_keyring_read_card(struct ls_keyring *k, struct ls_card *card,
                               const struct ls_key_peer *p, const unsigned char *bytes,
                               uint64_t n, struct ls_err *err);

/* The agreement, on rank 0 and on the others. */
ls_status ls_keyring_lead(struct ls_keyring *k, struct ls_err *err);
ls_status ls_keyring_follow(struct ls_keyring *k, struct ls_err *err);

#endif
