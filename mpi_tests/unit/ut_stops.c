/* Stop strings: against a search that tries every place, over texts cut into tokens at every
 * border. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "jobs/stops.h"

#include <stdio.h>
#include <string.h>

static struct ls_stops stops_of(struct ls_stop *items, const char *const *texts, size_t n)
{
    struct ls_stops s = { .items = items, .n = n };
    for (size_t i = 0; i < n; i++) {
        items[i] = (struct ls_stop){ .text = texts[i], .n = strlen(texts[i]) };
        if (items[i].n > s.longest)
            s.longest = items[i].n;
    }
    return s;
}

static void finds_the_earliest(void **state)
{
    (void)state;
    const char *texts[] = { "lo w", "o", "xyz" };
    struct ls_stop items[3];
    const struct ls_stops stops = stops_of(items, texts, 3);
    size_t cut = 99;
    assert_true(ls_stops_find(&stops, "hello world", 11, 0, &cut));
    assert_int_equal(cut, 3); /* "lo w" begins before "o" */
    assert_false(ls_stops_find(&stops, "hell xy", 7, 0, &cut));
    assert_int_equal(cut, 3);
    assert_false(ls_stops_find(&stops, "", 0, 0, &cut));
    const struct ls_stops none = { 0 };
    assert_false(ls_stops_find(&none, "abc", 3, 0, &cut));
}

/* The first place at which any stop matches. */
static bool plain_search(const struct ls_stops *stops, const char *text, size_t n, size_t *cut)
{
    for (size_t at = 0; at < n; at++)
        for (size_t i = 0; i < stops->n; i++)
            if (n - at >= stops->items[i].n &&
                !memcmp(text + at, stops->items[i].text, stops->items[i].n)) {
                *cut = at;
                return true;
            }
    return false;
}

/* A text of two letters grows by tokens of 1 to 3 bytes; the first hit must be where a search
 * of the whole text finds it, and must come with the token that completes it. */
static void any_token_borders(void **state)
{
    (void)state;
    const uint64_t seed = 20260707;
    uint64_t at = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        char words[3][6], text[24];
        const char *texts[3] = { words[0], words[1], words[2] };
        struct ls_stop items[3];
        const size_t n_stops = 1 + (size_t)(ls_philox_uniform(seed, at++) * 3);
        for (size_t i = 0; i < n_stops; i++) {
            const size_t n = 1 + (size_t)(ls_philox_uniform(seed, at++) * 5);
            for (size_t j = 0; j < n; j++)
                words[i][j] = ls_philox_uniform(seed, at++) < 0.5 ? 'a' : 'b';
            words[i][n] = 0;
        }
        const struct ls_stops stops = stops_of(items, texts, n_stops);
        size_t n = 0, cut = 0, expected = 0;
        bool hit = false;
        while (!hit && n + 3 < sizeof text) {
            const size_t old = n, more = 1 + (size_t)(ls_philox_uniform(seed, at++) * 3);
            for (size_t j = 0; j < more; j++)
                text[n++] = ls_philox_uniform(seed, at++) < 0.5 ? 'a' : 'b';
            hit = ls_stops_find(&stops, text, n, old, &cut);
            assert_int_equal(hit, plain_search(&stops, text, n, &expected));
        }
        if (hit)
            assert_int_equal(cut, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_earliest),
        cmocka_unit_test(any_token_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
