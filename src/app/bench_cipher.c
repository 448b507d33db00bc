#include "app/bench_cipher.h"

#include "base/clock.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>

enum {
    LEAST_BYTES = 1 << 20, /* of one timed run: a clock is too coarse for less */
    END_BYTES = 8 << 20,   /* of one run at each end of a link */
};

struct ciphering {
    bool aes;
    unsigned char *buffer, *clear;
    uint64_t message_bytes, ad_bytes; /* one of them is 0 */
    int count;
    bool good; /* every tag verified */
    crypto_aead_aes256gcm_state state;
    unsigned char key[LS_KEY_BYTES], nonce[12], tag[LS_FRAME_TAG];
};

static void seal(void *arg)
{
    struct ciphering *const c = arg;
    for (int i = 0; i < c->count; i++) {
        c->nonce[0]++;
        if (c->aes)
            crypto_aead_aes256gcm_encrypt_detached_afternm(
                c->buffer, c->tag, NULL, c->buffer, c->message_bytes, c->buffer, c->ad_bytes,
                NULL, c->nonce, &c->state);
        else
            crypto_aead_chacha20poly1305_ietf_encrypt_detached(
                c->buffer, c->tag, NULL, c->buffer, c->message_bytes, c->buffer, c->ad_bytes,
                NULL, c->nonce, c->key);
    }
}

/* The message sealed last, again and again. */
static void open_again(void *arg)
{
    struct ciphering *const c = arg;
    for (int i = 0; i < c->count; i++) {
        const int bad = c->aes ? crypto_aead_aes256gcm_decrypt_detached_afternm(
                                     c->clear, NULL, c->buffer, c->message_bytes, c->tag,
                                     c->buffer, c->ad_bytes, c->nonce, &c->state)
                               : crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                                     c->clear, NULL, c->buffer, c->message_bytes, c->tag,
                                     c->buffer, c->ad_bytes, c->nonce, c->key);
        c->good = c->good && !bad;
    }
}

static double measure(struct ls_results *results, struct ciphering *c, void (*run)(void *),
                      double seconds, const char *name)
{
    struct ls_rate rate;
    ls_measure(&rate,
               &(struct ls_work){ .run = run,
                                  .arg = c,
                                  .amount = (double)(c->message_bytes + c->ad_bytes) * c->count,
                                  .seconds = seconds,
                                  .by_cpu_time = results->by_cpu_time });
    ls_results_add(
        results,
        &(struct ls_result){ .part = "link", .name = name, .unit = "GB/s", .scale = 1e9 },
        &rate);
    return rate.median;
}

static void begin(struct ciphering *c, enum ls_suite suite, enum ls_level level,
                  unsigned char *buffer, unsigned char *clear, uint64_t n)
{
    const bool sealed = level == LS_LEVEL_SEALED;
    *c = (struct ciphering){ .aes = suite == LS_SUITE_AES256GCM,
                             .buffer = buffer,
                             .clear = clear,
                             .message_bytes = sealed ? n : 0,
                             .ad_bytes = sealed ? 0 : n,
                             .count = 1,
                             .good = true };
    if (c->aes)
        crypto_aead_aes256gcm_beforenm(&c->state, c->key);
}

double ls_bench_cipher(struct ls_results *results, enum ls_suite suite, enum ls_level level,
                       unsigned char *buffer, unsigned char *clear, uint64_t n,
                       const char *size, double seconds)
{
    struct ciphering c;
    char name[80];
    begin(&c, suite, level, buffer, clear, n);
    c.count = n < LEAST_BYTES ? (int)(LEAST_BYTES / n) : 1;
    snprintf(name, sizeof name, "%s, %s, %s", ls_suite_name(suite), ls_level_name(level), size);
    const double seals = measure(results, &c, seal, seconds, name);
    snprintf(name, sizeof name, "%s, %s, %s: opening", ls_suite_name(suite),
             ls_level_name(level), size);
    const double opens = measure(results, &c, open_again, seconds, name);
    assert(c.good);
    return opens < seals ? opens : seals;
}

double ls_bench_cipher_end(enum ls_suite suite, enum ls_level level, bool opens,
                           unsigned char *buffer, unsigned char *clear, uint64_t n)
{
    struct ciphering c;
    begin(&c, suite, level, buffer, clear, n);
    seal(&c);
    c.count = n < END_BYTES ? (int)(END_BYTES / n) : 1;
    const uint64_t begin_us = ls_now_us();
    (opens ? open_again : seal)(&c);
    const double us = (double)(ls_now_us() - begin_us);
    assert(c.good);
    return 1e6 * (double)n * c.count / us;
}
