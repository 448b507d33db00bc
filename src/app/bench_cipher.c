#include "app/bench_cipher.h"

#include <sodium.h>
#include <stdio.h>

enum { LEAST_BYTES = 1 << 20 /* of one timed run: a clock is too coarse for less */ };

struct ciphering {
    bool aes;
    unsigned char *buffer;
    uint64_t message_bytes, ad_bytes; /* one of them is 0 */
    int count;
    crypto_aead_aes256gcm_state state;
    unsigned char key[LS_KEY_BYTES];
};

static void run(void *arg)
{
    struct ciphering *const c = arg;
    unsigned char nonce[12] = { 0 }, tag[LS_FRAME_TAG];
    for (int i = 0; i < c->count; i++) {
        nonce[0]++;
        if (c->aes)
            crypto_aead_aes256gcm_encrypt_detached_afternm(c->buffer, tag, NULL, c->buffer,
                                                           c->message_bytes, c->buffer,
                                                           c->ad_bytes, NULL, nonce, &c->state);
        else
            crypto_aead_chacha20poly1305_ietf_encrypt_detached(
                c->buffer, tag, NULL, c->buffer, c->message_bytes, c->buffer, c->ad_bytes, NULL,
                nonce, c->key);
    }
}

double ls_bench_cipher(struct ls_results *results, enum ls_suite suite, enum ls_level level,
                       unsigned char *buffer, uint64_t n, const char *size, double seconds)
{
    const bool sealed = level == LS_LEVEL_SEALED;
    struct ciphering c = { .aes = suite == LS_SUITE_AES256GCM,
                           .buffer = buffer,
                           .message_bytes = sealed ? n : 0,
                           .ad_bytes = sealed ? 0 : n,
                           .count = n < LEAST_BYTES ? (int)(LEAST_BYTES / n) : 1 };
    struct ls_rate rate;
    char name[80];
    if (c.aes)
        crypto_aead_aes256gcm_beforenm(&c.state, c.key);
    ls_measure(&rate, &(struct ls_work){ .run = run,
                                         .arg = &c,
                                         .amount = (double)n * c.count,
                                         .seconds = seconds,
                                         .by_cpu_time = results->by_cpu_time });
    snprintf(name, sizeof name, "%s, %s, %s", ls_suite_name(suite), ls_level_name(level), size);
    ls_results_add(
        results,
        &(struct ls_result){ .part = "link", .name = name, .unit = "GB/s", .scale = 1e9 },
        &rate);
    return rate.median;
}
