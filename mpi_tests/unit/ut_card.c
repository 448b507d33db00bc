/* Cards: what was written is read, and what was not written by this program is refused. */
#include "wire/card.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct ls_err err;

static struct ls_card example(void)
{
    struct ls_card card = { .phase = LS_CARD_READY,
                            .level = LS_LEVEL_SIGNED,
                            .origin = LS_SECRET_EPHEMERAL,
                            .suites = 6,
                            .status = LS_E_REFUSED,
                            .host = "node7",
                            .text = "no memory" };
    memset(card.run_id, 7, sizeof card.run_id);
    memset(card.name, 9, sizeof card.name);
    return card;
}

static void cards_make_the_trip(void **state)
{
    (void)state;
    unsigned char bytes[LS_CARD_BYTES], again[LS_CARD_BYTES];
    const struct ls_card card = example();
    struct ls_card got;
    ls_card_encode(&card, bytes);
    assert_int_equal(ls_card_decode(&got, bytes, sizeof bytes, 3, &err), LS_OK);
    assert_int_equal(got.phase, card.phase);
    assert_int_equal(got.level, card.level);
    assert_int_equal(got.origin, card.origin);
    assert_int_equal(got.suites, card.suites);
    assert_int_equal(got.status, card.status);
    assert_memory_equal(got.run_id, card.run_id, sizeof card.run_id);
    assert_memory_equal(got.name, card.name, sizeof card.name);
    assert_string_equal(got.host, "node7");
    assert_string_equal(got.text, "no memory");
    ls_card_encode(&got, again);
    assert_memory_equal(again, bytes, sizeof bytes);
}

static void assert_refused(const unsigned char *bytes, uint64_t n, ls_status want)
{
    struct ls_card got, untouched;
    memset(&got, 0xa5, sizeof got);
    untouched = got;
    assert_int_equal(ls_card_decode(&got, bytes, n, 3, &err), want);
    assert_memory_equal(&got, &untouched, sizeof got);
    assert_non_null(strstr(err.text, "rank 3"));
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[LS_CARD_BYTES + 1] = { 0 };
    const struct ls_card card = example();
    ls_card_encode(&card, bytes);
    assert_refused(bytes, 0, LS_E_VERSION);
    assert_refused(bytes, LS_CARD_BYTES - 1, LS_E_VERSION);
    assert_refused(bytes, LS_CARD_BYTES + 1, LS_E_VERSION);
    for (int at = 0; at < 20; at++) {
        bool status = at >= 16, suites = at >= 12 && at < 16, zero = at >= 9 && at < 12;
        unsigned char saved = bytes[at];
        bytes[at] = 200;
        if (!suites)
            assert_refused(bytes, LS_CARD_BYTES,
                           status || zero || at >= 6 ? LS_E_SHAPE : LS_E_VERSION);
        bytes[at] = saved;
    }
    struct ls_card got;
    assert_int_equal(ls_card_decode(&got, bytes, LS_CARD_BYTES, 3, &err), LS_OK);
}

/* A stranger's text may hold anything and need not end. */
static void texts_are_harmless(void **state)
{
    (void)state;
    unsigned char bytes[LS_CARD_BYTES];
    const struct ls_card card = example();
    ls_card_encode(&card, bytes);
    for (int i = 52; i < LS_CARD_BYTES; i++)
        bytes[i] = (unsigned char)(1 + i % 255);
    struct ls_card got;
    assert_int_equal(ls_card_decode(&got, bytes, sizeof bytes, 3, &err), LS_OK);
    assert_int_equal(strlen(got.host), LS_CARD_HOST - 1);
    assert_int_equal(strlen(got.text), LS_CARD_TEXT - 1);
    for (const char *p = got.text; *p; p++)
        assert_true(*p >= 0x20 && *p < 0x7f);
    for (const char *p = got.host; *p; p++)
        assert_true(*p >= 0x20 && *p < 0x7f);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    unsigned char bytes[LS_CARD_BYTES];
    struct ls_card card = example(), got;
    memset(card.text, 'x', sizeof card.text - 1);
    memset(card.host, 'y', sizeof card.host - 1);
    ls_card_encode(&card, bytes);
    assert_int_equal(ls_card_decode(&got, bytes, sizeof bytes, 3, &err), LS_OK);
    assert_string_equal(got.text, card.text);
    assert_string_equal(got.host, card.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_make_the_trip),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(texts_are_harmless),
        cmocka_unit_test(long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
