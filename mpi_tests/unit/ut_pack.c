/* Packing: no bit is lost, nothing outside the tensor is touched, and what does not unpack to
 * exactly the expected size is refused. */
#include "base/philox.h"
#include "wire/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 40000, CANARY = 64 };

static struct ls_err err;
static unsigned char clear[MAX], data[MAX + 2 * CANARY], scratch[MAX + CANARY];

/* Like hidden states: exponents alike, mantissas at random; or all random; or all alike. */
static void fill(uint64_t n, unsigned size, int kind, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i++) {
        unsigned byte = (unsigned)(ls_philox_uniform(seed, i) * 256);
        bool high = i % size == size - 1;
        clear[i] = (unsigned char)(kind == 0   ? (high ? 0x3c + byte % 4 : byte)
                                   : kind == 1 ? byte
                                               : 7);
    }
    memset(data, 0xa5, sizeof data);
    memset(scratch, 0xa5, sizeof scratch);
    memcpy(data + CANARY, clear, n);
}

static void assert_canaries(uint64_t n)
{
    for (int i = 0; i < CANARY; i++) {
        assert_int_equal(data[i], 0xa5);
        assert_int_equal(data[CANARY + n + (uint64_t)i], 0xa5);
        assert_int_equal(scratch[n + (uint64_t)i], 0xa5);
    }
}

static uint64_t make_trip(uint64_t n, unsigned size, int kind)
{
    fill(n, size, kind, n * 8 + size);
    uint64_t packed = ls_pack_apply(data + CANARY, n, size, scratch);
    assert_canaries(n);
    assert_true(packed < n || n == 0);
    if (packed) {
        assert_int_equal(
            ls_pack_open(data + CANARY, n, data + CANARY, packed, size, scratch, &err), LS_OK);
        assert_canaries(n);
    }
    assert_memory_equal(data + CANARY, clear, n);
    return packed;
}

static void no_bit_is_lost(void **state)
{
    (void)state;
    static const unsigned sizes[] = { 1, 2, 4, 8 };
    for (int s = 0; s < 4; s++)
        for (int kind = 0; kind < 3; kind++)
            for (uint64_t count = 0; count <= 300; count++)
                make_trip(count * sizes[s], sizes[s], kind);
    assert_in_range(make_trip(32768, 2, 0), 1, 32768 * 9 / 10);
    assert_in_range(make_trip(32768, 2, 2), 1, 400);
    assert_int_equal(make_trip(32768, 2, 1), 0);
}

/* Bytes of a peer: other lengths, other sizes, any byte changed. */
static void other_bytes_are_refused_or_stay_inside(void **state)
{
    (void)state;
    enum { N = 4096 };
    unsigned char block[N];
    fill(N, 2, 0, 1);
    uint64_t packed = ls_pack_apply(data + CANARY, N, 2, scratch);
    assert_true(packed > 0);
    memcpy(block, data + CANARY, packed);
    for (uint64_t n = N - 64; n <= N + 64; n += 2) {
        memcpy(data + CANARY, block, packed);
        assert_int_equal(
            ls_pack_open(data + CANARY, n, data + CANARY, packed, 2, scratch, &err),
            n == N ? LS_OK : LS_E_SHAPE);
    }
    for (uint64_t cut = 0; cut < packed; cut++) {
        memcpy(data + CANARY, block, packed);
        assert_int_equal(ls_pack_open(data + CANARY, N, data + CANARY, cut, 2, scratch, &err),
                         LS_E_SHAPE);
    }
    for (uint64_t at = 0; at < packed; at++) {
        memset(data, 0xa5, sizeof data);
        memset(scratch, 0xa5, sizeof scratch);
        memcpy(data + CANARY, block, packed);
        data[CANARY + at] ^= 0x10;
        ls_pack_open(data + CANARY, N, data + CANARY, packed, 2, scratch, &err);
        assert_canaries(N);
    }
    assert_int_equal(ls_pack_open(data + CANARY, N, data + CANARY, N, 2, scratch, &err),
                     LS_E_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bit_is_lost),
        cmocka_unit_test(other_bytes_are_refused_or_stay_inside),
    };
    if (!ls_pack_is_built()) {
        print_message("SKIP: built without liblz4\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
