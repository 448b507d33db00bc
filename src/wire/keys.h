/* Keys of a pair of ranks: an ephemeral exchange, bound to the job secret.
 *
 * Layer: wire. Bytes only. Each of the two sends the other one hello; both then derive, for
 * each direction and channel (a link's tag), a key of its own:
 *
 *   proof      BLAKE2b(BLAKE2b(secret); the hello's first 64 bytes)
 *   shared     crypto_kx between the two ephemeral keys, one half per direction
 *   transcript BLAKE2b(secret; both hellos, lower rank first)
 *   key        BLAKE2b(transcript; shared half, sender, receiver, channel)
 *
 * (keyed, 256 bits, each with a label of its own: ls_secret_derive).
 * So every run has other keys, even under the same secret, and a recorded run cannot be opened
 * with a secret that leaks later. Secret parts lie in guarded memory and are wiped.
 *
 * A hello: 0 4 magic "LKH1", 4 2 version, 6 1 level, 7 1 suite, 8 16 run id, 24 4 sender's
 * rank, 28 4 receiver's rank, 32 32 ephemeral public key, 64 32 proof; little-endian. */
#ifndef LS_WIRE_KEYS_H
#define LS_WIRE_KEYS_H

#include "wire/seal.h"

enum { LS_HELLO_BYTES = 96 };

/* What both must agree on before there are keys. */
struct ls_pair {
    uint8_t run_id[LS_RUN_ID];
    uint32_t self, peer; /* ranks, different */
    enum ls_level level; /* signed or sealed */
    enum ls_suite suite;
};

struct ls_handshake;

/* Makes an ephemeral key pair and our hello. Heap; keeps its own copy of the secret. */
ls_status ls_handshake_create(struct ls_handshake **out, const struct ls_secret *secret,
                              const struct ls_pair *pair, struct ls_err *err);
/* Takes NULL. Seals that were made live on. */
void ls_handshake_destroy(struct ls_handshake *handshake);

/* What to send to the peer. Borrowed. */
const unsigned char *ls_handshake_hello(const struct ls_handshake *handshake);

/* Takes the peer's hello. A proof that does not verify is LS_E_AUTH, before anything else is
 * read; then LS_E_VERSION, LS_E_WRONG_LINK (other run or ranks), LS_E_REFUSED (other level or
 * suite). May be tried again after a failure; a second one after success is LS_E_SEQUENCE. */
ls_status ls_handshake_finish(struct ls_handshake *handshake, const unsigned char *hello,
                              uint64_t n, struct ls_err *err);

/* The seal of one link of a finished exchange: the sending or the receiving end. Every channel
 * and direction may be made once per run at each end, or nonces would repeat. */
ls_status ls_handshake_seal(const struct ls_handshake *handshake, struct ls_seal **out,
                            uint32_t channel, bool sending, struct ls_err *err);

/* Fresh random bytes for rank 0 to name the run with. */
ls_status ls_run_id_create(uint8_t run_id[LS_RUN_ID], struct ls_err *err);

#endif
