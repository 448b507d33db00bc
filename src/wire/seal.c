#include "wire/seal.h"

#include "base/guard.h"
#include "base/le.h"

#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum { NONCE_BYTES = 12 };

_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == NONCE_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE_BYTES,
               "both suites have 96-bit nonces");
_Static_assert(crypto_aead_aes256gcm_ABYTES == LS_FRAME_TAG &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == LS_FRAME_TAG,
               "both suites have 16-byte tags");
_Static_assert(crypto_aead_aes256gcm_KEYBYTES == LS_KEY_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_KEYBYTES == LS_KEY_BYTES,
               "both suites have 32-byte keys");

/* One epoch's key, ready for use. */
struct epoch_key {
    crypto_aead_aes256gcm_state aes; /* expanded; unused by the other suite */
    unsigned char key[LS_KEY_BYTES];
};

struct ls_seal {
    struct epoch_key now, next;
    enum ls_level level;
    enum ls_suite suite;
    uint64_t max_frames, max_bytes;     /* of an epoch */
    uint64_t epoch_frames, epoch_bytes; /* sealed in this epoch; sender only */
};

const char *ls_level_name(enum ls_level level)
{
    static const char *const names[LS_N_LEVELS] = { "plain", "signed", "sealed" };
    return (unsigned)level < LS_N_LEVELS ? names[level] : "unknown";
}

const char *ls_suite_name(enum ls_suite suite)
{
    static const char *const names[LS_N_SUITES] = { "none", "aes-256-gcm",
                                                    "chacha20-poly1305-ietf" };
    return (unsigned)suite < LS_N_SUITES ? names[suite] : "unknown";
}

uint32_t ls_suites_here(void)
{
    uint32_t mask = 0;
    if (sodium_init() < 0)
        return mask;
    mask |= 1u << LS_SUITE_CHACHA20;
    if (crypto_aead_aes256gcm_is_available())
        mask |= 1u << LS_SUITE_AES256GCM;
    return mask;
}

enum ls_suite ls_suite_choose(uint32_t mask)
{
    if (mask >> LS_SUITE_AES256GCM & 1)
        return LS_SUITE_AES256GCM;
    return mask >> LS_SUITE_CHACHA20 & 1 ? LS_SUITE_CHACHA20 : LS_SUITE_NONE;
}

static void expand(const struct ls_seal *seal, struct epoch_key *k)
{
    if (seal->suite == LS_SUITE_AES256GCM)
        crypto_aead_aes256gcm_beforenm(&k->aes, k->key);
}

/* The next epoch's key comes from this one's and cannot be turned back. */
static void prepare_next(struct ls_seal *seal)
{
    ls_secret_derive(seal->next.key, seal->now.key, "lockstep next epoch", NULL, 0);
    expand(seal, &seal->next);
}

static void enter_next_epoch(struct ls_seal *seal)
{
    seal->now = seal->next;
    seal->epoch_frames = 0;
    seal->epoch_bytes = 0;
    prepare_next(seal);
}

ls_status ls_seal_create(struct ls_seal **out, enum ls_level level, enum ls_suite suite,
                         const unsigned char key[LS_KEY_BYTES], struct ls_err *err)
{
    uint32_t possible = level == LS_LEVEL_PLAIN ? 1u << LS_SUITE_NONE : ls_suites_here();
    bool possible_here =
        (unsigned)level < LS_N_LEVELS && (unsigned)suite < LS_N_SUITES && possible >> suite & 1;
    if (LS_GUARD("suite") && !possible_here)
        return ls_fail(err, LS_E_REFUSED, "link level %s with suite %s cannot run here",
                       ls_level_name(level), ls_suite_name(suite));
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_REFUSED, "libsodium does not start");
    struct ls_seal *seal = sodium_malloc(sizeof *seal);
    if (!seal)
        return ls_fail(err, LS_E_MEMORY, "no guarded memory for the keys of a link");
    memset(seal, 0, sizeof *seal);
    seal->level = level;
    seal->suite = suite;
    ls_seal_set_epoch_limits(seal, (uint64_t)1 << 30, (uint64_t)1 << 36);
    if (level != LS_LEVEL_PLAIN) {
        memcpy(seal->now.key, key, LS_KEY_BYTES);
        expand(seal, &seal->now);
        prepare_next(seal);
    }
    *out = seal;
    return LS_OK;
}

void ls_seal_destroy(struct ls_seal *seal)
{
    sodium_free(seal);
}

void ls_seal_set_epoch_limits(struct ls_seal *seal, uint64_t max_frames, uint64_t max_bytes)
{
    seal->max_frames = max_frames;
    seal->max_bytes = max_bytes;
}

static void make_nonce(unsigned char nonce[NONCE_BYTES], const struct ls_frame *frame)
{
    ls_le_put(nonce, frame->epoch, 4);
    ls_le_put(nonce + 4, frame->sequence, 8);
}

/* The parts of a frame that are encrypted and that are only authenticated. Level signed has an
 * empty message, and header and payload, which are neighbours, as associated data. */
struct parts {
    unsigned char *message;
    uint64_t message_bytes, ad_bytes; /* associated data begins at the header */
    unsigned char *tag;
};

static struct parts parts_of(const struct ls_seal *seal, unsigned char *bytes,
                             uint64_t payload_bytes)
{
    bool sealed = seal->level == LS_LEVEL_SEALED;
    unsigned char *payload = bytes + LS_FRAME_HEADER;
    return (struct parts){ .message = payload,
                           .message_bytes = sealed ? payload_bytes : 0,
                           .ad_bytes = LS_FRAME_HEADER + (sealed ? 0 : payload_bytes),
                           .tag = payload + payload_bytes };
}

static uint64_t size_of(const struct ls_frame *frame)
{
    return LS_FRAME_HEADER + frame->payload_bytes + LS_FRAME_TAG;
}

bool ls_seal_is_due(const struct ls_seal *seal, const struct ls_frame *frame)
{
    return LS_GUARD("rekey") && seal->level != LS_LEVEL_PLAIN && seal->epoch_frames > 0 &&
           (seal->epoch_frames >= seal->max_frames ||
            seal->epoch_bytes + size_of(frame) > seal->max_bytes);
}

static void begin_epoch_if_due(struct ls_seal *seal, const struct ls_frame *frame,
                               struct ls_frame_link *link)
{
    if (ls_seal_is_due(seal, frame)) {
        assert(link->epoch < UINT32_MAX);
        enter_next_epoch(seal);
        link->epoch++;
    }
    seal->epoch_frames++;
    seal->epoch_bytes += size_of(frame);
}

static void encrypt(const struct ls_seal *seal, const struct ls_frame *frame,
                    unsigned char *buf)
{
    unsigned char nonce[NONCE_BYTES];
    make_nonce(nonce, frame);
    struct parts p = parts_of(seal, buf, frame->payload_bytes);
    if (seal->suite == LS_SUITE_AES256GCM)
        crypto_aead_aes256gcm_encrypt_detached_afternm(p.message, p.tag, NULL, p.message,
                                                       p.message_bytes, buf, p.ad_bytes, NULL,
                                                       nonce, &seal->now.aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(p.message, p.tag, NULL, p.message,
                                                           p.message_bytes, buf, p.ad_bytes,
                                                           NULL, nonce, seal->now.key);
}

uint64_t ls_seal_begin(struct ls_seal *seal, unsigned char *buf, struct ls_frame *frame,
                       struct ls_frame_link *link)
{
    if (seal->level == LS_LEVEL_PLAIN)
        return ls_frame_seal(buf, frame, link);
    begin_epoch_if_due(seal, frame, link);
    frame->flags &= (uint8_t)~LS_FLAG_SEALED;
    if (seal->level == LS_LEVEL_SEALED)
        frame->flags |= LS_FLAG_SEALED;
    ls_frame_write_header(buf, frame, link);
    return size_of(frame);
}

void ls_seal_finish(const struct ls_seal *seal, unsigned char *buf)
{
    struct ls_frame frame;
    if (seal->level == LS_LEVEL_PLAIN)
        return;
    ls_frame_read_header(&frame, buf);
    encrypt(seal, &frame, buf);
}

uint64_t ls_seal_apply(struct ls_seal *seal, unsigned char *buf, struct ls_frame *frame,
                       struct ls_frame_link *link)
{
    const uint64_t n = ls_seal_begin(seal, buf, frame, link);
    ls_seal_finish(seal, buf);
    return n;
}

static bool tag_verifies(const struct ls_seal *seal, const struct epoch_key *k,
                         const struct ls_frame *claimed, unsigned char *bytes, uint64_t n)
{
    unsigned char nonce[NONCE_BYTES];
    make_nonce(nonce, claimed);
    struct parts p = parts_of(seal, bytes, n - LS_FRAME_HEADER - LS_FRAME_TAG);
    if (seal->suite == LS_SUITE_AES256GCM)
        return crypto_aead_aes256gcm_decrypt_detached_afternm(p.message, NULL, p.message,
                                                              p.message_bytes, p.tag, bytes,
                                                              p.ad_bytes, nonce, &k->aes) == 0;
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(p.message, NULL, p.message,
                                                              p.message_bytes, p.tag, bytes,
                                                              p.ad_bytes, nonce, k->key) == 0;
}

static bool is_of_next_epoch(const struct ls_frame *claimed, const struct ls_frame_link *link)
{
    return claimed->epoch == link->epoch + 1 && link->epoch < UINT32_MAX;
}

bool ls_seal_unlock(const struct ls_seal *seal, unsigned char *bytes, uint64_t n,
                    const struct ls_frame_link *link)
{
    struct ls_frame claimed;
    if (seal->level == LS_LEVEL_PLAIN || ls_frame_check_size(n, link, NULL))
        return false;
    ls_frame_read_header(&claimed, bytes);
    const struct epoch_key *k = is_of_next_epoch(&claimed, link) ? &seal->next : &seal->now;
    return tag_verifies(seal, k, &claimed, bytes, n);
}

ls_status ls_seal_accept(struct ls_seal *seal, struct ls_frame *frame,
                         const unsigned char *bytes, uint64_t n, bool unlocked,
                         struct ls_frame_link *link, const struct ls_frame_expect *expect,
                         struct ls_err *err)
{
    if (seal->level == LS_LEVEL_PLAIN)
        return ls_frame_open(frame, bytes, n, link, expect, err);
    ls_status s = ls_frame_check_size(n, link, err);
    if (s)
        return s;
    if (LS_GUARD("tag") && !unlocked)
        return ls_fail(err, LS_E_AUTH,
                       "frame from rank %" PRIu32
                       ": the tag does not verify (changed on the way, or another secret)",
                       link->source);
    struct ls_frame authentic;
    ls_frame_read_header(&authentic, bytes);
    const bool next = is_of_next_epoch(&authentic, link);
    struct ls_frame_link after = *link;
    after.epoch += next;
    s = ls_frame_check_authentic(frame, bytes, n,
                                 seal->level == LS_LEVEL_SEALED ? LS_FLAG_SEALED : 0, &after,
                                 expect, err);
    if (s)
        return s;
    if (next)
        enter_next_epoch(seal);
    *link = after;
    return LS_OK;
}

ls_status ls_seal_open(struct ls_seal *seal, struct ls_frame *frame, unsigned char *bytes,
                       uint64_t n, struct ls_frame_link *link,
                       const struct ls_frame_expect *expect, struct ls_err *err)
{
    const bool unlocked = ls_seal_unlock(seal, bytes, n, link);
    return ls_seal_accept(seal, frame, bytes, n, unlocked, link, expect, err);
}
