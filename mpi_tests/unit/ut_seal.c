/* Sealing: every bit of a frame, order and epochs, and authentic frames that are wrong, for
 * both suites and both levels with keys. */
#include "wire/seal.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_PAYLOAD = 1024, MAX_FRAME = LS_FRAME_HEADER + MAX_PAYLOAD + LS_FRAME_TAG };
enum { TABLE = 16, PAYLOAD = TABLE + 2 * 3 * 4 };

/* Both ends of one direction of a link. */
struct ends {
    enum ls_level level;
    enum ls_suite suite;
    struct ls_seal *sender, *receiver;
    struct ls_frame_link sending, receiving;
    unsigned char key[LS_KEY_BYTES];
    unsigned char bytes[MAX_FRAME + 64];
    uint64_t n;
};

static struct ls_err err;

static void setup(struct ends *e, enum ls_level level, enum ls_suite suite)
{
    memset(e, 0, sizeof *e);
    e->level = level;
    e->suite = suite;
    e->sending = (struct ls_frame_link){
        .run_id = { 9, 8, 7 }, .source = 1, .destination = 2, .max_frame_bytes = MAX_FRAME
    };
    e->receiving = e->sending;
    for (int i = 0; i < LS_KEY_BYTES; i++)
        e->key[i] = (unsigned char)(i * 5 + 3);
    assert_int_equal(ls_seal_create(&e->sender, level, suite, e->key, &err), LS_OK);
    assert_int_equal(ls_seal_create(&e->receiver, level, suite, e->key, &err), LS_OK);
}

static void teardown(struct ends *e)
{
    ls_seal_destroy(e->sender);
    ls_seal_destroy(e->receiver);
}

typedef void body(struct ends *e);

static void with_each_suite(body *run)
{
    int ran = 0;
    for (enum ls_suite suite = LS_SUITE_AES256GCM; suite < LS_N_SUITES; suite++)
        for (enum ls_level level = LS_LEVEL_SIGNED; level < LS_N_LEVELS; level++) {
            struct ends e;
            if (!(ls_suites_here() >> suite & 1)) {
                print_message("no %s on this machine\n", ls_suite_name(suite));
                continue;
            }
            setup(&e, level, suite);
            run(&e);
            teardown(&e);
            ran++;
        }
    assert_true(ran >= 2);
}

static const struct ls_frame_expect step = { .kinds = 1u << LS_KIND_STEP,
                                             .dtype = 1,
                                             .ndim = 2,
                                             .dims = { 0, 3 },
                                             .min_dim0 = 1,
                                             .max_dim0 = 4,
                                             .min_table = TABLE,
                                             .max_table = TABLE };
static const struct ls_frame_expect anything = { .kinds = ~0u, .any_content = true };

static struct ls_frame step_frame(void)
{
    return (struct ls_frame){ .kind = LS_KIND_STEP,
                              .dtype = 1,
                              .ndim = 2,
                              .dims = { 2, 3 },
                              .table_bytes = TABLE,
                              .tensor_bytes = 24,
                              .payload_bytes = PAYLOAD };
}

static unsigned char clear_byte(uint64_t i)
{
    return (unsigned char)(i * 11 + 1);
}

static void apply(struct ends *e, struct ls_frame frame)
{
    for (uint64_t i = 0; i < frame.payload_bytes; i++)
        e->bytes[LS_FRAME_HEADER + i] = clear_byte(i);
    e->n = ls_seal_apply(e->sender, e->bytes, &frame, &e->sending);
}

/* Opens a copy of exactly the frame's size; the payload must come out clear. */
static ls_status open_copy(struct ends *e, const struct ls_frame_expect *expect)
{
    struct ls_frame out;
    struct ls_frame_link before = e->receiving;
    unsigned char *copy = malloc(e->n ? e->n : 1);
    assert_non_null(copy);
    memcpy(copy, e->bytes, e->n);
    ls_status s = ls_seal_open(e->receiver, &out, copy, e->n, &e->receiving, expect, &err);
    if (s)
        assert_memory_equal(&before, &e->receiving, sizeof before);
    for (uint64_t i = 0; !s && i < out.payload_bytes; i++)
        assert_int_equal(copy[LS_FRAME_HEADER + i], clear_byte(i));
    free(copy);
    return s;
}

static void assert_opens_as(struct ends *e, const struct ls_frame_expect *expect,
                            ls_status want, const char *what)
{
    ls_status got = open_copy(e, expect);
    if (got != want)
        fail_msg("%s, %s, %s: got %s, want %s", ls_level_name(e->level),
                 ls_suite_name(e->suite), what, ls_status_name(got), ls_status_name(want));
}

static void all_sizes_of(struct ends *e)
{
    for (uint32_t size = 0; size <= 300; size++) {
        apply(e, (struct ls_frame){
                     .kind = LS_KIND_PLAN, .table_bytes = size, .payload_bytes = size });
        assert_int_equal(e->n, LS_FRAME_HEADER + size + LS_FRAME_TAG);
        int clear = 0;
        for (uint32_t i = 0; i < size; i++)
            clear += e->bytes[LS_FRAME_HEADER + i] == clear_byte(i);
        if (e->level == LS_LEVEL_SIGNED)
            assert_int_equal(clear, size);
        else
            assert_true(clear < 8 || (uint32_t)clear < size / 8);
        assert_opens_as(e, &anything, LS_OK, "round trip");
    }
}

static void every_size_makes_the_trip(void **state)
{
    (void)state;
    with_each_suite(all_sizes_of);
}

/* The layout in words of the wire's rule, by the library's combined function: the second frame
 * of a link whose epochs are one frame long. */
static void by_hand(struct ends *e)
{
    unsigned char want[MAX_FRAME], clear[PAYLOAD], nonce[12] = { 1, 0, 0, 0 };
    unsigned char second_key[LS_KEY_BYTES];
    unsigned long long n_want;
    ls_seal_set_epoch_limits(e->sender, 1, 0);
    apply(e, step_frame());
    assert_int_equal(e->sending.epoch, 0);
    e->sending.next_sequence = 0x0102030405060708u;
    apply(e, step_frame());
    crypto_generichash(second_key, sizeof second_key,
                       (const unsigned char *)"lockstep next epoch", 19, e->key, sizeof e->key);
    for (int i = 0; i < PAYLOAD; i++)
        clear[i] = clear_byte((uint64_t)i);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (unsigned char)(8 - i);
    bool sealed = e->level == LS_LEVEL_SEALED;
    unsigned long long n_ad = LS_FRAME_HEADER + (sealed ? 0 : PAYLOAD);
    unsigned long long n_message = sealed ? PAYLOAD : 0;
    if (e->suite == LS_SUITE_AES256GCM)
        crypto_aead_aes256gcm_encrypt(want, &n_want, clear, n_message, e->bytes, n_ad, NULL,
                                      nonce, second_key);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt(want, &n_want, clear, n_message, e->bytes,
                                                  n_ad, NULL, nonce, second_key);
    assert_int_equal(n_want, n_message + LS_FRAME_TAG);
    assert_memory_equal(e->bytes + n_ad, want, n_want);
}

static void bytes_are_what_the_rule_says(void **state)
{
    (void)state;
    with_each_suite(by_hand);
}

static void flip_all_bits(struct ends *e)
{
    for (uint8_t kind = 1; kind < LS_N_KINDS; kind++) {
        struct ls_frame f = step_frame();
        f.kind = kind;
        apply(e, f);
        for (uint64_t bit = 0; bit < 8 * e->n; bit++) {
            e->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_opens_as(e, &anything, LS_E_AUTH, "flipped bit");
            e->bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        assert_opens_as(e, &anything, LS_OK, "the untouched frame");
    }
}

static void any_flipped_bit_is_an_authentication_error(void **state)
{
    (void)state;
    with_each_suite(flip_all_bits);
}

static void other_lengths(struct ends *e)
{
    apply(e, step_frame());
    uint64_t whole = e->n;
    memset(e->bytes + whole, 0, 64);
    for (uint64_t n = 0; n <= whole + 64; n++) {
        e->n = n;
        if (n != whole)
            assert_opens_as(e, &step, LS_E_AUTH, "another length");
    }
    e->n = MAX_FRAME + 1;
    assert_opens_as(e, &step, LS_E_TOO_LARGE, "over the limit");
    e->n = whole;
    assert_opens_as(e, &step, LS_OK, "the right length");
}

static void truncated_and_extended_frames_are_refused(void **state)
{
    (void)state;
    with_each_suite(other_lengths);
}

static void order_of(struct ends *e)
{
    unsigned char first[MAX_FRAME];
    apply(e, step_frame());
    assert_opens_as(e, &step, LS_OK, "first");
    assert_opens_as(e, &step, LS_E_SEQUENCE, "replay");
    apply(e, step_frame());
    memcpy(first, e->bytes, e->n);
    apply(e, step_frame());
    assert_opens_as(e, &step, LS_E_SEQUENCE, "the second one first, or the first one lost");
    memcpy(e->bytes, first, e->n);
    assert_opens_as(e, &step, LS_OK, "in order");
}

static void replay_drop_and_swap_are_sequence_errors(void **state)
{
    (void)state;
    with_each_suite(order_of);
}

static void strangers(struct ends *e)
{
    struct ls_seal *other;
    e->key[31] ^= 1;
    assert_int_equal(ls_seal_create(&other, e->level, e->suite, e->key, &err), LS_OK);
    struct ls_seal *own = e->receiver;
    apply(e, step_frame());
    e->receiver = other;
    assert_opens_as(e, &step, LS_E_AUTH, "another key");
    e->receiver = own;
    ls_seal_destroy(other);
    e->receiving.run_id[0] ^= 1;
    assert_opens_as(e, &step, LS_E_WRONG_LINK, "another run under the same key");
    e->receiving.run_id[0] ^= 1;
    e->receiving.source = 2, e->receiving.destination = 1;
    assert_opens_as(e, &step, LS_E_WRONG_LINK, "reflected under the same key");
    e->receiving.source = 1, e->receiving.destination = 2;
    assert_opens_as(e, &step, LS_OK, "the right link");
}

static void frames_of_others_are_refused(void **state)
{
    (void)state;
    with_each_suite(strangers);
}

/* A hostile holder of the key: any header bytes, authentically sealed. */
static void seal_by_hand(struct ends *e)
{
    unsigned char nonce[12];
    unsigned char *payload = e->bytes + LS_FRAME_HEADER;
    bool sealed = e->level == LS_LEVEL_SEALED;
    unsigned long long n_payload = e->n - LS_FRAME_HEADER - LS_FRAME_TAG;
    unsigned long long n_ad = LS_FRAME_HEADER + (sealed ? 0 : n_payload);
    memcpy(nonce, e->bytes + 104, 4);
    memcpy(nonce + 4, e->bytes + 32, 8);
    if (e->suite == LS_SUITE_AES256GCM)
        crypto_aead_aes256gcm_encrypt_detached(payload, payload + n_payload, NULL, payload,
                                               sealed ? n_payload : 0, e->bytes, n_ad, NULL,
                                               nonce, e->key);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(payload, payload + n_payload, NULL,
                                                           payload, sealed ? n_payload : 0,
                                                           e->bytes, n_ad, NULL, nonce, e->key);
}

static void hostile_headers(struct ends *e)
{
    static const struct {
        const char *what;
        int at, size;
        uint64_t value;
        ls_status want;
    } cases[] = {
        { "magic", 0, 4, 0x31534b4d, LS_E_VERSION },
        { "version", 4, 2, 2, LS_E_VERSION },
        { "kind 0", 6, 1, 0, LS_E_VERSION },
        { "kind out of the table", 6, 1, LS_N_KINDS, LS_E_VERSION },
        { "kind not allowed", 6, 1, LS_KIND_STOP, LS_E_NOT_ALLOWED },
        { "flags", 7, 1, 0x82, LS_E_VERSION },
        { "other level", 7, 1, 0xff, LS_E_VERSION },
        { "sequence", 32, 8, 1, LS_E_SEQUENCE },
        { "epoch", 104, 4, 7, LS_E_SEQUENCE },
        { "dtype", 64, 1, 2, LS_E_SHAPE },
        { "ndim 5", 65, 1, 5, LS_E_SHAPE },
        { "reserved", 66, 2, 1, LS_E_VERSION },
        { "zero dim", 68, 4, 0, LS_E_SHAPE },
        { "huge dims", 68, 8, UINT64_MAX, LS_E_SHAPE },
        { "no table", 84, 4, 0, LS_E_SHAPE },
        { "tensor 2^40", 88, 8, 1ull << 40, LS_E_SHAPE },
        { "length 2^40", 96, 8, 1ull << 40, LS_E_TOO_LARGE },
        { "length 0", 96, 8, 0, LS_E_SHAPE },
        { "offset", 108, 8, 1, LS_E_SHAPE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e->sending.next_sequence = 0;
        apply(e, step_frame());
        for (int b = 0; b < PAYLOAD; b++)
            e->bytes[LS_FRAME_HEADER + b] = clear_byte((uint64_t)b);
        for (int b = 0; b < cases[i].size; b++)
            e->bytes[cases[i].at + b] = (unsigned char)(cases[i].value >> (8 * b));
        seal_by_hand(e);
        assert_opens_as(e, &step, cases[i].want, cases[i].what);
    }
}

static void hostile_level(struct ends *e)
{
    apply(e, step_frame());
    e->bytes[7] ^= LS_FLAG_SEALED;
    seal_by_hand(e);
    assert_opens_as(e, &step, LS_E_VERSION, "the other level's flag");
}

static void authentic_but_wrong_has_its_own_status(void **state)
{
    (void)state;
    with_each_suite(hostile_headers);
    with_each_suite(hostile_level);
}

static void rekey_by_frames(struct ends *e)
{
    ls_seal_set_epoch_limits(e->sender, 3, UINT64_MAX);
    unsigned char old[MAX_FRAME];
    for (uint64_t i = 0; i < 30; i++) {
        apply(e, step_frame());
        if (i == 2)
            memcpy(old, e->bytes, e->n);
        assert_int_equal(e->sending.epoch, i / 3);
        assert_opens_as(e, &step, LS_OK, "frame of an epoch");
        assert_int_equal(e->receiving.epoch, i / 3);
        assert_opens_as(e, &step, LS_E_SEQUENCE, "replay within an epoch");
    }
    memcpy(e->bytes, old, e->n);
    assert_opens_as(e, &step, LS_E_AUTH, "a frame of an epoch that is over");
}

static void rekey_by_bytes(struct ends *e)
{
    const uint64_t n = LS_FRAME_HEADER + PAYLOAD + LS_FRAME_TAG;
    ls_seal_set_epoch_limits(e->sender, UINT64_MAX, 2 * n);
    for (uint64_t i = 0; i < 8; i++) {
        apply(e, step_frame());
        assert_int_equal(e->sending.epoch, i / 2);
        assert_opens_as(e, &step, LS_OK, "frame of an epoch");
    }
    ls_seal_set_epoch_limits(e->sender, 1, 0);
    for (uint64_t i = 0; i < 3; i++) {
        apply(e, step_frame());
        assert_int_equal(e->sending.epoch, 4 + i);
        assert_opens_as(e, &step, LS_OK, "one frame per epoch");
    }
}

/* Lost frames and forged epochs leave the receiver where it was. */
static void epochs_in_disorder(struct ends *e)
{
    unsigned char good[MAX_FRAME];
    apply(e, step_frame());
    assert_opens_as(e, &step, LS_OK, "first");
    ls_seal_set_epoch_limits(e->sender, 1, UINT64_MAX);
    apply(e, step_frame());
    memcpy(good, e->bytes, e->n);
    ls_seal_set_epoch_limits(e->sender, 2, UINT64_MAX);
    apply(e, step_frame());
    assert_int_equal(e->sending.epoch, 1);
    assert_opens_as(e, &step, LS_E_SEQUENCE, "first frame of the epoch lost");
    ls_seal_set_epoch_limits(e->sender, 1, UINT64_MAX);
    apply(e, step_frame());
    assert_opens_as(e, &step, LS_E_AUTH, "two epochs ahead");
    memcpy(e->bytes, good, e->n);
    e->bytes[e->n - 1] ^= 1;
    assert_opens_as(e, &step, LS_E_AUTH, "forged next epoch");
    e->bytes[e->n - 1] ^= 1;
    assert_opens_as(e, &step, LS_OK, "the real next epoch");
    assert_int_equal(e->receiving.epoch, 1);
}

/* Ends, epochs and keys all differ: the same clear text never looks the same. */
static void no_two_frames_alike(struct ends *e)
{
    enum { N = 40 };
    static unsigned char seen[N][PAYLOAD + LS_FRAME_TAG];
    ls_seal_set_epoch_limits(e->sender, 4, UINT64_MAX);
    for (int i = 0; i < N; i++) {
        apply(e, step_frame());
        memcpy(seen[i], e->bytes + LS_FRAME_HEADER, sizeof seen[i]);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(seen[i] + (e->level == LS_LEVEL_SIGNED ? PAYLOAD : 0),
                                    seen[j] + (e->level == LS_LEVEL_SIGNED ? PAYLOAD : 0), 16);
    }
}

static void an_epoch_ends_before_its_limits(void **state)
{
    (void)state;
    with_each_suite(rekey_by_frames);
    with_each_suite(rekey_by_bytes);
    with_each_suite(epochs_in_disorder);
    with_each_suite(no_two_frames_alike);
}

static void levels_do_not_mix(void **state)
{
    (void)state;
    struct ends a, b;
    setup(&a, LS_LEVEL_SIGNED, LS_SUITE_CHACHA20);
    setup(&b, LS_LEVEL_SEALED, LS_SUITE_CHACHA20);
    apply(&a, step_frame());
    memcpy(b.bytes, a.bytes, a.n);
    b.n = a.n;
    assert_opens_as(&b, &step, LS_E_AUTH, "a signed frame on a sealed link");
    teardown(&a);
    teardown(&b);
    setup(&a, LS_LEVEL_PLAIN, LS_SUITE_NONE);
    setup(&b, LS_LEVEL_SIGNED, LS_SUITE_CHACHA20);
    apply(&a, step_frame());
    memcpy(b.bytes, a.bytes, a.n);
    b.n = a.n;
    assert_opens_as(&b, &step, LS_E_AUTH, "a plain frame on a signed link");
    apply(&b, step_frame());
    memcpy(a.bytes, b.bytes, b.n);
    assert_opens_as(&a, &step, LS_E_AUTH, "a signed frame on a plain link");
    teardown(&a);
    teardown(&b);
}

static void plain_is_the_plain_frame(void **state)
{
    (void)state;
    struct ends e;
    unsigned char want[MAX_FRAME];
    setup(&e, LS_LEVEL_PLAIN, LS_SUITE_NONE);
    struct ls_frame_link link = e.sending;
    struct ls_frame f = step_frame();
    for (uint64_t i = 0; i < PAYLOAD; i++)
        want[LS_FRAME_HEADER + i] = clear_byte(i);
    uint64_t n = ls_frame_seal(want, &f, &link);
    apply(&e, step_frame());
    assert_int_equal(e.n, n);
    assert_memory_equal(e.bytes, want, n);
    assert_opens_as(&e, &step, LS_OK, "plain");
    teardown(&e);
}

static void impossible_levels_and_suites_are_refused(void **state)
{
    (void)state;
    struct ls_seal *seal = NULL;
    unsigned char key[LS_KEY_BYTES] = { 0 };
    for (int level = 0; level <= LS_N_LEVELS; level++)
        for (int suite = 0; suite <= LS_N_SUITES; suite++) {
            bool good = level == LS_LEVEL_PLAIN
                            ? suite == LS_SUITE_NONE
                            : level < LS_N_LEVELS && (ls_suites_here() >> suite & 1);
            ls_status s =
                ls_seal_create(&seal, (enum ls_level)level, (enum ls_suite)suite, key, &err);
            assert_int_equal(s, good ? LS_OK : LS_E_REFUSED);
            if (!s)
                ls_seal_destroy(seal);
        }
    ls_seal_destroy(NULL);
    assert_int_equal(ls_suite_choose(0), LS_SUITE_NONE);
    assert_int_equal(ls_suite_choose(1u << LS_SUITE_CHACHA20), LS_SUITE_CHACHA20);
    assert_int_equal(ls_suite_choose(~0u), LS_SUITE_AES256GCM);
    assert_true(ls_suites_here() >> LS_SUITE_CHACHA20 & 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_makes_the_trip),
        cmocka_unit_test(bytes_are_what_the_rule_says),
        cmocka_unit_test(any_flipped_bit_is_an_authentication_error),
        cmocka_unit_test(truncated_and_extended_frames_are_refused),
        cmocka_unit_test(replay_drop_and_swap_are_sequence_errors),
        cmocka_unit_test(frames_of_others_are_refused),
        cmocka_unit_test(authentic_but_wrong_has_its_own_status),
        cmocka_unit_test(an_epoch_ends_before_its_limits),
        cmocka_unit_test(levels_do_not_mix),
        cmocka_unit_test(plain_is_the_plain_frame),
        cmocka_unit_test(impossible_levels_and_suites_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
