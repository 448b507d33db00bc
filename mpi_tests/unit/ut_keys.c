/* The job secret's file, the exchange of a pair of ranks, and the keys that come of it. */
#include "wire/keys.h"
#include "wire/secret.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ls_err err;

static struct ls_secret *parse(const char *text)
{
    struct ls_secret *secret = NULL;
    assert_int_equal(ls_secret_parse(&secret, (const unsigned char *)text, strlen(text), &err),
                     LS_OK);
    return secret;
}

#define DIGITS "00112233445566778899aabbccddeeff0123456789ABCDEFfedcba9876543210"

static void key_files_that_are_good(void **state)
{
    (void)state;
    static const char *const texts[] = {
        DIGITS,           DIGITS "\n",
        DIGITS " \t\r\n", "# made by lockstep keygen\n\n#\n" DIGITS "\n# end\n\n",
        ("\r\n" DIGITS),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ls_secret *secret = parse(texts[i]);
        assert_int_equal(ls_secret_bytes(secret)[0], 0x00);
        assert_int_equal(ls_secret_bytes(secret)[1], 0x11);
        assert_int_equal(ls_secret_bytes(secret)[31], 0x10);
        ls_secret_destroy(secret);
    }
}

static void key_files_that_are_bad(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\n\n",
        "# only a comment\n",
        DIGITS "0",
        DIGITS "\n" DIGITS,
        " " DIGITS,
        "#" DIGITS,
        "0x" DIGITS,
        "00112233445566778899aabbccddeeff0123456789abcdeffedcba987654321\n",
        "00112233445566778899aabbccddeeff0123456789abcdeffedcba98765432g0\n",
        "0011223344556677 8899aabbccddeeff0123456789abcdeffedcba98765432\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ls_secret *secret = NULL;
        assert_int_equal(
            ls_secret_parse(&secret, (const unsigned char *)texts[i], strlen(texts[i]), &err),
            LS_E_FORMAT);
        assert_null(secret);
        assert_null(strstr(err.text, "0011"));
    }
    unsigned char many[LS_SECRET_FILE_MAX + 1];
    struct ls_secret *secret = NULL;
    memset(many, '\n', sizeof many);
    memcpy(many, DIGITS, 64);
    assert_int_equal(ls_secret_parse(&secret, many, sizeof many, &err), LS_E_FORMAT);
    assert_int_equal(ls_secret_parse(&secret, many, sizeof many - 1, &err), LS_OK);
    ls_secret_destroy(secret);
    memset(many, 0, 65); /* zero bytes are no digits and no blanks */
    assert_int_equal(ls_secret_parse(&secret, many, 65, &err), LS_E_FORMAT);
}

static void raw_keys_have_exactly_their_size(void **state)
{
    (void)state;
    unsigned char raw[LS_SECRET_BYTES + 1];
    struct ls_secret *secret = NULL;
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (unsigned char)(200 - i);
    for (size_t n = 0; n <= sizeof raw; n++)
        if (n != LS_SECRET_BYTES)
            assert_int_equal(ls_secret_parse(&secret, raw, n, &err), LS_E_FORMAT);
    assert_int_equal(ls_secret_parse(&secret, raw, LS_SECRET_BYTES, &err), LS_OK);
    assert_memory_equal(ls_secret_bytes(secret), raw, LS_SECRET_BYTES);
    ls_secret_destroy(secret);
}

/* What nobody drew: a file of zeros, a key left at a placeholder. */
static void constant_keys_are_refused(void **state)
{
    (void)state;
    unsigned char raw[LS_SECRET_BYTES], digits[LS_SECRET_LINE];
    struct ls_secret *secret = NULL;
    for (int value = 0; value < 256; value += 15) {
        memset(raw, value, sizeof raw);
        assert_int_equal(ls_secret_parse(&secret, raw, sizeof raw, &err), LS_E_FORMAT);
    }
    memset(digits, '7', sizeof digits);
    assert_int_equal(ls_secret_parse(&secret, digits, sizeof digits, &err), LS_E_FORMAT);
}

static void fresh_secrets_differ_and_print_what_parses(void **state)
{
    (void)state;
    struct ls_secret *a, *b;
    char line[LS_SECRET_LINE + 1];
    assert_int_equal(ls_secret_create(&a, &err), LS_OK);
    assert_int_equal(ls_secret_create(&b, &err), LS_OK);
    assert_memory_not_equal(ls_secret_bytes(a), ls_secret_bytes(b), LS_SECRET_BYTES);
    ls_secret_print(a, line);
    assert_int_equal(strlen(line), LS_SECRET_LINE);
    struct ls_secret *again = parse(line);
    assert_memory_equal(ls_secret_bytes(a), ls_secret_bytes(again), LS_SECRET_BYTES);
    ls_secret_destroy(a);
    ls_secret_destroy(b);
    ls_secret_destroy(again);
    ls_secret_destroy(NULL);
}

/* Both ends of one exchange. */
struct both {
    struct ls_secret *secret;
    struct ls_pair low, high;
    struct ls_handshake *a, *b; /* of rank 2 and rank 5 */
};

static void begin(struct both *x)
{
    x->secret = parse(DIGITS);
    x->low = (struct ls_pair){ .run_id = { 1, 2, 3 },
                               .self = 2,
                               .peer = 5,
                               .level = LS_LEVEL_SEALED,
                               .suite = LS_SUITE_CHACHA20 };
    x->high = x->low;
    x->high.self = 5;
    x->high.peer = 2;
    assert_int_equal(ls_handshake_create(&x->a, x->secret, &x->low, &err), LS_OK);
    assert_int_equal(ls_handshake_create(&x->b, x->secret, &x->high, &err), LS_OK);
}

static void finish(struct both *x)
{
    assert_int_equal(ls_handshake_finish(x->a, ls_handshake_hello(x->b), LS_HELLO_BYTES, &err),
                     LS_OK);
    assert_int_equal(ls_handshake_finish(x->b, ls_handshake_hello(x->a), LS_HELLO_BYTES, &err),
                     LS_OK);
}

static void end(struct both *x)
{
    ls_handshake_destroy(x->a);
    ls_handshake_destroy(x->b);
    ls_secret_destroy(x->secret);
}

enum { PAYLOAD = 40, FRAME = LS_FRAME_HEADER + PAYLOAD + LS_FRAME_TAG };

/* One frame from `from` on channel `sent_on`, opened by `to` as coming on `read_on`. */
static ls_status carry(const struct ls_handshake *from, uint32_t sent_on, bool from_sends,
                       const struct ls_handshake *to, uint32_t read_on, bool to_sends)
{
    static const struct ls_frame_expect anything = { .kinds = ~0u, .any_content = true };
    unsigned char bytes[FRAME] = { 0 };
    struct ls_seal *sender, *receiver;
    struct ls_frame_link out = { .source = 2, .destination = 5, .max_frame_bytes = FRAME };
    struct ls_frame_link in = out;
    struct ls_frame frame = { .kind = LS_KIND_PLAN,
                              .table_bytes = PAYLOAD,
                              .payload_bytes = PAYLOAD };
    assert_int_equal(ls_handshake_seal(from, &sender, sent_on, from_sends, &err), LS_OK);
    assert_int_equal(ls_handshake_seal(to, &receiver, read_on, to_sends, &err), LS_OK);
    uint64_t n = ls_seal_apply(sender, bytes, &frame, &out);
    ls_status s = ls_seal_open(receiver, &frame, bytes, n, &in, &anything, &err);
    ls_seal_destroy(sender);
    ls_seal_destroy(receiver);
    return s;
}

static void both_ends_have_the_same_keys_per_direction_and_channel(void **state)
{
    (void)state;
    struct both x;
    begin(&x);
    finish(&x);
    for (uint32_t sent_on = 1; sent_on <= 3; sent_on++)
        for (uint32_t read_on = 1; read_on <= 3; read_on++) {
            ls_status want = sent_on == read_on ? LS_OK : LS_E_AUTH;
            assert_int_equal(carry(x.a, sent_on, true, x.b, read_on, false), want);
            assert_int_equal(carry(x.b, sent_on, true, x.a, read_on, false), want);
            assert_int_equal(carry(x.a, sent_on, true, x.b, read_on, true), LS_E_AUTH);
            assert_int_equal(carry(x.a, sent_on, true, x.a, read_on, false), LS_E_AUTH);
        }
    end(&x);
}

static void a_restart_under_the_same_secret_has_other_keys(void **state)
{
    (void)state;
    struct both x, y;
    begin(&x);
    begin(&y); /* even the run id is the same */
    finish(&x);
    assert_memory_not_equal(ls_handshake_hello(x.a), ls_handshake_hello(y.a), LS_HELLO_BYTES);
    assert_int_equal(ls_handshake_finish(y.b, ls_handshake_hello(x.a), LS_HELLO_BYTES, &err),
                     LS_OK);
    assert_int_equal(carry(x.a, 1, true, y.b, 1, false), LS_E_AUTH);
    end(&x);
    end(&y);
}

static void every_flipped_bit_of_a_hello_is_refused(void **state)
{
    (void)state;
    struct both x;
    unsigned char hello[LS_HELLO_BYTES + 1] = { 0 };
    begin(&x);
    memcpy(hello, ls_handshake_hello(x.b), LS_HELLO_BYTES);
    for (int bit = 0; bit < 8 * LS_HELLO_BYTES; bit++) {
        hello[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(ls_handshake_finish(x.a, hello, LS_HELLO_BYTES, &err), LS_E_AUTH);
        hello[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (uint64_t n = 0; n <= LS_HELLO_BYTES + 1; n++)
        if (n != LS_HELLO_BYTES)
            assert_int_equal(ls_handshake_finish(x.a, hello, n, &err), LS_E_AUTH);
    struct ls_seal *seal = NULL;
    assert_int_equal(ls_handshake_seal(x.a, &seal, 1, true, &err), LS_E_INTERNAL);
    assert_null(seal);
    assert_int_equal(ls_handshake_finish(x.a, hello, LS_HELLO_BYTES, &err), LS_OK);
    assert_int_equal(ls_handshake_finish(x.a, hello, LS_HELLO_BYTES, &err), LS_E_SEQUENCE);
    end(&x);
}

static void hellos_of_others_are_refused(void **state)
{
    (void)state;
    static const struct {
        int what;
        ls_status want;
    } cases[] = { { 0, LS_E_WRONG_LINK }, { 1, LS_E_WRONG_LINK }, { 2, LS_E_WRONG_LINK },
                  { 3, LS_E_REFUSED },    { 4, LS_E_REFUSED },    { 5, LS_E_AUTH } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct both x;
        struct ls_handshake *other;
        begin(&x);
        struct ls_pair pair = x.high;
        pair.run_id[15] ^= cases[i].what == 0;
        pair.self += cases[i].what == 1;
        pair.peer += cases[i].what == 2;
        pair.level = cases[i].what == 3 ? LS_LEVEL_SIGNED : pair.level;
        pair.suite = cases[i].what == 4 ? LS_SUITE_AES256GCM : pair.suite;
        struct ls_secret *secret;
        assert_int_equal(ls_secret_create(&secret, &err), LS_OK);
        assert_int_equal(
            ls_handshake_create(&other, cases[i].what == 5 ? secret : x.secret, &pair, &err),
            LS_OK);
        ls_secret_destroy(secret);
        assert_int_equal(
            ls_handshake_finish(x.a, ls_handshake_hello(other), LS_HELLO_BYTES, &err),
            cases[i].want);
        /* and our own, reflected */
        assert_int_equal(
            ls_handshake_finish(x.a, ls_handshake_hello(x.a), LS_HELLO_BYTES, &err),
            LS_E_WRONG_LINK);
        ls_handshake_destroy(other);
        end(&x);
    }
}

/* The proof as the header describes it, by another path, over a hello that we change. */
static void prove_again(const struct ls_secret *secret, unsigned char *hello)
{
    unsigned char key[32];
    crypto_generichash(key, 32, (const unsigned char *)"lockstep hello", 14,
                       ls_secret_bytes(secret), 32);
    unsigned char message[14 + 64] = "lockstep proof";
    memcpy(message + 14, hello, 64);
    crypto_generichash(hello + 64, 32, message, sizeof message, key, 32);
}

static void derive(unsigned char out[32], const unsigned char key[32], const char *label,
                   const unsigned char *parts, size_t n)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, key, 32, 32);
    crypto_generichash_update(&state, (const unsigned char *)label, strlen(label));
    crypto_generichash_update(&state, parts, n);
    crypto_generichash_final(&state, out, 32);
}

/* Rank 5 by hand: its own key pair and hello, and the keys as the header describes them. */
static void the_key_schedule_is_what_the_header_says(void **state)
{
    (void)state;
    struct both x;
    unsigned char public_key[32], private_key[32], hellos[2 * LS_HELLO_BYTES];
    unsigned char receiving[32], sending[32], transcript[32], key[32];
    unsigned char parts[32 + 12] = { 0 }, *hello = hellos + LS_HELLO_BYTES;
    begin(&x);
    crypto_kx_keypair(public_key, private_key);
    memcpy(hellos, ls_handshake_hello(x.a), LS_HELLO_BYTES);
    memcpy(hello, ls_handshake_hello(x.b), LS_HELLO_BYTES);
    memcpy(hello + 32, public_key, 32);
    prove_again(x.secret, hello);
    assert_int_equal(ls_handshake_finish(x.a, hello, LS_HELLO_BYTES, &err), LS_OK);
    assert_int_equal(
        crypto_kx_server_session_keys(receiving, sending, public_key, private_key, hellos + 32),
        0);
    derive(transcript, ls_secret_bytes(x.secret), "lockstep transcript", hellos, sizeof hellos);
    memcpy(parts, receiving, 32);
    parts[32] = 2, parts[36] = 5, parts[40] = 3;
    derive(key, transcript, "lockstep link", parts, sizeof parts);

    struct ls_seal *theirs, *ours;
    unsigned char a[FRAME] = { 0 }, b[FRAME] = { 0 };
    struct ls_frame frame = { .kind = LS_KIND_PLAN, .payload_bytes = PAYLOAD };
    struct ls_frame_link link = { .source = 2, .destination = 5, .max_frame_bytes = FRAME };
    struct ls_frame_link same = link;
    assert_int_equal(ls_handshake_seal(x.a, &theirs, 3, true, &err), LS_OK);
    assert_int_equal(ls_seal_create(&ours, x.low.level, x.low.suite, key, &err), LS_OK);
    ls_seal_apply(theirs, a, &frame, &link);
    ls_seal_apply(ours, b, &frame, &same);
    assert_memory_equal(a, b, FRAME);
    ls_seal_destroy(theirs);
    ls_seal_destroy(ours);
    end(&x);
}

static void authentic_hellos_that_are_wrong_have_their_status(void **state)
{
    (void)state;
    static const struct {
        int at;
        unsigned char value;
        ls_status want;
    } cases[] = { { 0, 'l', LS_E_VERSION }, { 4, 2, LS_E_VERSION },   { 5, 1, LS_E_VERSION },
                  { 6, 0, LS_E_REFUSED },   { 6, 200, LS_E_REFUSED }, { 7, 0, LS_E_REFUSED },
                  { 8, 0, LS_E_WRONG_LINK } };
    struct both x;
    unsigned char hello[LS_HELLO_BYTES];
    begin(&x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(hello, ls_handshake_hello(x.b), sizeof hello);
        hello[cases[i].at] = cases[i].value;
        prove_again(x.secret, hello);
        assert_int_equal(ls_handshake_finish(x.a, hello, sizeof hello, &err), cases[i].want);
    }
    /* a public key of small order would make the shared key known to all */
    memcpy(hello, ls_handshake_hello(x.b), sizeof hello);
    memset(hello + 32, 0, 32);
    prove_again(x.secret, hello);
    assert_int_equal(ls_handshake_finish(x.a, hello, sizeof hello, &err), LS_E_AUTH);
    memcpy(hello, ls_handshake_hello(x.b), sizeof hello);
    prove_again(x.secret, hello);
    assert_int_equal(ls_handshake_finish(x.a, hello, sizeof hello, &err), LS_OK);
    end(&x);
}

static void keys_are_made_for_two_ranks_only(void **state)
{
    (void)state;
    struct both x;
    struct ls_handshake *exchange = NULL;
    begin(&x);
    struct ls_pair pair = x.low;
    pair.peer = pair.self;
    assert_int_equal(ls_handshake_create(&exchange, x.secret, &pair, &err), LS_E_INTERNAL);
    pair = x.low;
    pair.level = LS_LEVEL_PLAIN;
    assert_int_equal(ls_handshake_create(&exchange, x.secret, &pair, &err), LS_E_INTERNAL);
    assert_null(exchange);
    ls_handshake_destroy(NULL);
    end(&x);
}

static void run_ids_differ(void **state)
{
    (void)state;
    uint8_t a[LS_RUN_ID], b[LS_RUN_ID];
    assert_int_equal(ls_run_id_create(a, &err), LS_OK);
    assert_int_equal(ls_run_id_create(b, &err), LS_OK);
    assert_memory_not_equal(a, b, LS_RUN_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_files_that_are_good),
        cmocka_unit_test(key_files_that_are_bad),
        cmocka_unit_test(raw_keys_have_exactly_their_size),
        cmocka_unit_test(constant_keys_are_refused),
        cmocka_unit_test(fresh_secrets_differ_and_print_what_parses),
        cmocka_unit_test(both_ends_have_the_same_keys_per_direction_and_channel),
        cmocka_unit_test(a_restart_under_the_same_secret_has_other_keys),
        cmocka_unit_test(every_flipped_bit_of_a_hello_is_refused),
        cmocka_unit_test(hellos_of_others_are_refused),
        cmocka_unit_test(the_key_schedule_is_what_the_header_says),
        cmocka_unit_test(authentic_hellos_that_are_wrong_have_their_status),
        cmocka_unit_test(keys_are_made_for_two_ranks_only),
        cmocka_unit_test(run_ids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
