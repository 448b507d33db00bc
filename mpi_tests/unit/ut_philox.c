/* Philox4x32-10 against the known answers that its authors publish, and the uniform numbers
 * made from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"

struct answer {
    uint32_t counter[4], key[2], out[4];
};

static void known_answers(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        uint32_t out[4];
        ls_philox4x32(out, answers[i].counter, answers[i].key);
        assert_memory_equal(out, answers[i].out, sizeof out);
    }
}

static void uniform_is_made_from_outputs_0_and_1(void **state)
{
    (void)state;
    const uint64_t bits = (0xe169c58d6627e8d5ull) >> 11;
    assert_true(ls_philox_uniform(0, 0) == (double)bits * 0x1p-53);
    double sum = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = ls_philox_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    /* the mean of 1e5 uniforms has a standard deviation of 9.1e-4 */
    assert_true(sum / 100000 > 0.495 && sum / 100000 < 0.505);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniform_is_made_from_outputs_0_and_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
