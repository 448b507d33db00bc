/* Fuzz target: the frame reader behind a seal. Byte 0: bit 0 the suite, bit 1 the level, bit 7
 * that a hostile holder of the key has sealed the frame (else the bytes are as they arrived);
 * the rest is the frame. Nothing that was not sealed under the key may be accepted. */
#include "wire/seal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FRAME = 8192, HOSTILE = 0x80 };

static const unsigned char key[LS_KEY_BYTES] = { 1, 2, 3, 4, 5 };
static const struct ls_frame_link link_state = { .run_id = { 0xf0, 1, 2, 3, 4, 5, 6, 7 },
                                                 .source = 1,
                                                 .destination = 2,
                                                 .next_sequence = 3,
                                                 .max_frame_bytes = MAX_FRAME };
static const struct ls_frame_expect anything = { .kinds = ~0u,
                                                 .any_content = true,
                                                 .more_allowed = true };

static void require(int truth)
{
    if (!truth)
        abort();
}

static enum ls_suite suite_of(uint8_t choice)
{
    bool aes = choice & 1 && ls_suites_here() >> LS_SUITE_AES256GCM & 1;
    return aes ? LS_SUITE_AES256GCM : LS_SUITE_CHACHA20;
}

static bool is_sealed(uint8_t choice)
{
    return choice & 2;
}

static void seal_by_hand(uint8_t choice, unsigned char *bytes, size_t n)
{
    unsigned char nonce[12], *payload = bytes + LS_FRAME_HEADER;
    size_t n_payload = n - LS_FRAME_HEADER - LS_FRAME_TAG;
    size_t n_message = is_sealed(choice) ? n_payload : 0, n_ad = n - LS_FRAME_TAG - n_message;
    memset(bytes + 104, 0, 4); /* the first epoch: the key above */
    memcpy(nonce, bytes + 104, 4);
    memcpy(nonce + 4, bytes + 32, 8);
    if (suite_of(choice) == LS_SUITE_AES256GCM)
        crypto_aead_aes256gcm_encrypt_detached(payload, payload + n_payload, NULL, payload,
                                               n_message, bytes, n_ad, NULL, nonce, key);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(payload, payload + n_payload, NULL,
                                                           payload, n_message, bytes, n_ad,
                                                           NULL, nonce, key);
}

/* Opening a frame of the first epoch does not change a seal, so one of each will do. */
static struct ls_seal *seal_for(uint8_t choice)
{
    static struct ls_seal *seals[4];
    struct ls_seal **seal = &seals[choice & 3];
    enum ls_level level = is_sealed(choice) ? LS_LEVEL_SEALED : LS_LEVEL_SIGNED;
    if (!*seal)
        require(ls_seal_create(seal, level, suite_of(choice), key, NULL) == LS_OK);
    return *seal;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bytes[1 << 17];
    if (size < 1 || size > sizeof bytes)
        return 0;
    uint8_t choice = data[0];
    size_t n = size - 1;
    bool hostile = choice & HOSTILE && n >= LS_FRAME_HEADER + LS_FRAME_TAG;
    memcpy(bytes, data + 1, n);
    if (hostile)
        seal_by_hand(choice, bytes, n);
    struct ls_frame_link link = link_state;
    struct ls_frame frame;
    ls_status s = ls_seal_open(seal_for(choice), &frame, bytes, n, &link, &anything, NULL);
    if (n > MAX_FRAME)
        require(s == LS_E_TOO_LARGE);
    else if (!hostile)
        require(s == LS_E_AUTH);
    else
        require(s != LS_E_AUTH);
    require(link.next_sequence == 3 + (s == LS_OK));
    if (s == LS_OK) {
        require(frame.payload_bytes == n - LS_FRAME_HEADER - LS_FRAME_TAG);
        require(memcmp(bytes + LS_FRAME_HEADER, data + 1 + LS_FRAME_HEADER,
                       frame.payload_bytes) == 0);
    }
    return 0;
}
