/* The keys of a session's links, and how ranks agree on them.
 *
 * Layer: pipeline. Every rank brings its own wish, from its own command line: what another rank
 * says is compared with it, never adopted. In order: each rank sends rank 0 a card; rank 0
 * names the run and the suite; every pair of ranks that will talk (rank 0 with all, neighbours)
 * exchanges hellos under the job secret; each rank says that it is ready; rank 0 lets them go.
 * Whoever refuses says why, and rank 0 ends the job on all ranks with that reason. Every wait
 * has a deadline. Used by the rank's one communicating thread. */
#ifndef LS_PIPELINE_KEYRING_H
#define LS_PIPELINE_KEYRING_H

#include "comm/comm.h"
#include "wire/card.h"

/* What this rank was told. Zeroed: level plain. */
struct ls_link_wish {
    enum ls_level level;
    enum ls_secret_origin origin;   /* of secret: NONE, FILE or FD */
    const struct ls_secret *secret; /* borrowed; NULL: none was given */
    bool plain_across_hosts;        /* allow level plain between hosts */
    uint64_t rekey_frames;          /* frames of an epoch, for tests; 0: the seal's own limit */
    ls_status status;               /* not LS_OK: this rank cannot take part, text says why */
    char text[LS_ERR_TEXT];
};

/* What was agreed. */
struct ls_link_terms {
    uint8_t run_id[LS_RUN_ID];
    enum ls_level level;
    enum ls_suite suite;
    enum ls_secret_origin origin;
    bool one_host; /* all ranks */
};

struct ls_keyring;

/* Collective. wish NULL: level sealed, no secret given. On failure rank 0 has the reason of the
 * rank that refused, and every other rank its own reason or rank 0's. */
ls_status ls_keyring_create(struct ls_keyring **out, struct ls_comm *comm,
                            const struct ls_link_wish *wish, struct ls_err *err);
/* Takes NULL. Seals that were made live on. */
void ls_keyring_destroy(struct ls_keyring *k);

struct ls_comm *ls_keyring_comm(const struct ls_keyring *k);
const struct ls_link_terms *ls_keyring_terms(const struct ls_keyring *k);

/* The seal of one end of a link, to be destroyed by the caller; NULL at level plain and for a
 * link within this process. Once for each peer, tag and direction. */
ls_status ls_keyring_seal(struct ls_keyring *k, int peer, enum ls_tag tag,
                          enum ls_direction direction, struct ls_seal **out,
                          struct ls_err *err);
/* No more seals: wipes what they were made from. */
void ls_keyring_close(struct ls_keyring *k);

/* Rank 0, instead of create: ends the others, who fail with this status and text. */
void ls_keyring_refuse(struct ls_comm *comm, ls_status status, const char *text);

#endif
