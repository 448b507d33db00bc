#include "wire/keys.h"

#include "base/guard.h"
#include "base/le.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_LEVEL = 6,
    AT_SUITE = 7,
    AT_RUN_ID = 8,
    AT_FROM = 24,
    AT_TO = 28,
    AT_PUBLIC = 32,
    AT_PROOF = 64,
    PROOF_BYTES = LS_SECRET_BYTES,
    HELLO_VERSION = 1,
};

_Static_assert(crypto_kx_PUBLICKEYBYTES == AT_PROOF - AT_PUBLIC, "room of the public key");
_Static_assert(crypto_kx_SESSIONKEYBYTES == LS_KEY_BYTES, "one key per direction");

struct ls_handshake {
    struct ls_pair pair;
    bool finished;
    unsigned char hello[LS_HELLO_BYTES]; /* ours */
    unsigned char private_key[crypto_kx_SECRETKEYBYTES];
    unsigned char proof_key[LS_KEY_BYTES];
    unsigned char secret[LS_SECRET_BYTES];
    unsigned char transcript[LS_KEY_BYTES];
    unsigned char receiving[LS_KEY_BYTES], sending[LS_KEY_BYTES]; /* shared halves */
};

static void prove(const struct ls_handshake *x, const unsigned char *hello,
                  unsigned char proof[PROOF_BYTES])
{
    const struct ls_secret_part part = { hello, AT_PROOF };
    ls_secret_derive(proof, x->proof_key, "lockstep proof", &part, 1);
}

static void write_hello(struct ls_handshake *x, const unsigned char *public_key)
{
    unsigned char *h = x->hello;
    memcpy(h + AT_MAGIC, "LKH1", 4);
    h[AT_VERSION] = HELLO_VERSION;
    h[AT_LEVEL] = (unsigned char)x->pair.level;
    h[AT_SUITE] = (unsigned char)x->pair.suite;
    memcpy(h + AT_RUN_ID, x->pair.run_id, LS_RUN_ID);
    ls_le_put(h + AT_FROM, x->pair.self, 4);
    ls_le_put(h + AT_TO, x->pair.peer, 4);
    memcpy(h + AT_PUBLIC, public_key, crypto_kx_PUBLICKEYBYTES);
    prove(x, h, h + AT_PROOF);
}

ls_status ls_handshake_create(struct ls_handshake **out, const struct ls_secret *secret,
                              const struct ls_pair *pair, struct ls_err *err)
{
    unsigned char public_key[crypto_kx_PUBLICKEYBYTES];
    if (pair->self == pair->peer || pair->level == LS_LEVEL_PLAIN)
        return ls_fail(err, LS_E_INTERNAL,
                       "no keys are made for level %s from rank %" PRIu32 " to rank %" PRIu32,
                       ls_level_name(pair->level), pair->self, pair->peer);
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_REFUSED, "libsodium does not start");
    struct ls_handshake *x = sodium_malloc(sizeof *x);
    if (!x)
        return ls_fail(err, LS_E_MEMORY, "no guarded memory for the key exchange");
    memset(x, 0, sizeof *x);
    x->pair = *pair;
    memcpy(x->secret, ls_secret_bytes(secret), sizeof x->secret);
    ls_secret_derive(x->proof_key, x->secret, "lockstep hello", NULL, 0);
    crypto_kx_keypair(public_key, x->private_key);
    write_hello(x, public_key);
    *out = x;
    return LS_OK;
}

void ls_handshake_destroy(struct ls_handshake *exchange)
{
    sodium_free(exchange);
}

const unsigned char *ls_handshake_hello(const struct ls_handshake *exchange)
{
    return exchange->hello;
}

/* The peer's hello, which has proved to come from a holder of the secret, against ours. */
static ls_status check_hello(const struct ls_pair *pair, const unsigned char *h,
                             struct ls_err *err)
{
    unsigned version = h[AT_VERSION] | (unsigned)h[AT_VERSION + 1] << 8;
    if (memcmp(h + AT_MAGIC, "LKH1", 4) != 0 || version != HELLO_VERSION)
        return ls_fail(err, LS_E_VERSION,
                       "hello from rank %" PRIu32 ": version %u, this program speaks %d",
                       pair->peer, version, HELLO_VERSION);
    if (LS_GUARD("hello-run") && memcmp(h + AT_RUN_ID, pair->run_id, LS_RUN_ID) != 0)
        return ls_fail(err, LS_E_WRONG_LINK, "hello from rank %" PRIu32 ": of another run",
                       pair->peer);
    if (LS_GUARD("hello-ranks") &&
        (ls_le_get32(h + AT_FROM) != pair->peer || ls_le_get32(h + AT_TO) != pair->self))
        return ls_fail(err, LS_E_WRONG_LINK,
                       "hello from rank %" PRIu32 " to rank %" PRIu32 ": names ranks %" PRIu32
                       " and %" PRIu32,
                       pair->peer, pair->self, ls_le_get32(h + AT_FROM),
                       ls_le_get32(h + AT_TO));
    if (LS_GUARD("hello-level") && (h[AT_LEVEL] != pair->level || h[AT_SUITE] != pair->suite))
        return ls_fail(err, LS_E_REFUSED,
                       "rank %" PRIu32 " has link level %s with %s, rank %" PRIu32
                       " has %s with %s",
                       pair->peer, ls_level_name(h[AT_LEVEL]), ls_suite_name(h[AT_SUITE]),
                       pair->self, ls_level_name(pair->level), ls_suite_name(pair->suite));
    return LS_OK;
}

static void hash_transcript(struct ls_handshake *x, const unsigned char *peer_hello)
{
    bool first = x->pair.self < x->pair.peer;
    const struct ls_secret_part parts[] = { { first ? x->hello : peer_hello, LS_HELLO_BYTES },
                                            { first ? peer_hello : x->hello, LS_HELLO_BYTES } };
    ls_secret_derive(x->transcript, x->secret, "lockstep transcript", parts, 2);
}

ls_status ls_handshake_finish(struct ls_handshake *x, const unsigned char *hello, uint64_t n,
                              struct ls_err *err)
{
    unsigned char proof[PROOF_BYTES];
    uint32_t peer = x->pair.peer;
    if (LS_GUARD("hello-once") && x->finished)
        return ls_fail(err, LS_E_SEQUENCE, "hello from rank %" PRIu32 ": a second one", peer);
    if (LS_GUARD("hello-size") && n != LS_HELLO_BYTES)
        return ls_fail(err, LS_E_AUTH,
                       "hello from rank %" PRIu32 ": %" PRIu64 " bytes, expected %d", peer, n,
                       LS_HELLO_BYTES);
    prove(x, hello, proof);
    if (LS_GUARD("proof") && sodium_memcmp(proof, hello + AT_PROOF, PROOF_BYTES) != 0)
        return ls_fail(err, LS_E_AUTH,
                       "hello from rank %" PRIu32
                       ": the proof does not verify (another secret, or changed on the way)",
                       peer);
    ls_status s = check_hello(&x->pair, hello, err);
    if (s)
        return s;
    const unsigned char *own = x->hello + AT_PUBLIC, *theirs = hello + AT_PUBLIC;
    int rc = x->pair.self < peer ? crypto_kx_client_session_keys(x->receiving, x->sending, own,
                                                                 x->private_key, theirs)
                                 : crypto_kx_server_session_keys(x->receiving, x->sending, own,
                                                                 x->private_key, theirs);
    if (rc != 0)
        return ls_fail(err, LS_E_AUTH, "hello from rank %" PRIu32 ": not a usable public key",
                       peer);
    hash_transcript(x, hello);
    sodium_memzero(x->private_key, sizeof x->private_key);
    x->finished = true;
    return LS_OK;
}

/* key = BLAKE2b(transcript; label, shared half, sender, receiver, channel) */
static void derive(const struct ls_handshake *x, uint32_t channel, bool sending,
                   unsigned char key[LS_KEY_BYTES])
{
    unsigned char place[12];
    ls_le_put(place, sending ? x->pair.self : x->pair.peer, 4);
    ls_le_put(place + 4, sending ? x->pair.peer : x->pair.self, 4);
    ls_le_put(place + 8, channel, 4);
    const struct ls_secret_part parts[] = {
        { sending ? x->sending : x->receiving, LS_KEY_BYTES }, { place, sizeof place }
    };
    ls_secret_derive(key, x->transcript, "lockstep link", parts, 2);
}

ls_status ls_handshake_seal(const struct ls_handshake *exchange, struct ls_seal **out,
                            uint32_t channel, bool sending, struct ls_err *err)
{
    unsigned char key[LS_KEY_BYTES];
    if (!exchange->finished)
        return ls_fail(err, LS_E_INTERNAL,
                       "the key exchange with rank %" PRIu32 " has not finished",
                       exchange->pair.peer);
    derive(exchange, channel, sending, key);
    ls_status s = ls_seal_create(out, exchange->pair.level, exchange->pair.suite, key, err);
    sodium_memzero(key, sizeof key);
    return s;
}

ls_status ls_run_id_create(uint8_t run_id[LS_RUN_ID], struct ls_err *err)
{
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_REFUSED, "libsodium does not start");
    randombytes_buf(run_id, LS_RUN_ID);
    return LS_OK;
}
