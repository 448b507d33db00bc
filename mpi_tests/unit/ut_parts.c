/* Large payloads as several frames: cut and joined where they lie, and memory in rings. */
#include "base/philox.h"
#include "base/ring.h"
#include "wire/parts.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(ls_philox_uniform(7, i) * 256);
}

static void frames_hold_every_byte_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 2 * LS_PARTS_GAP + 1, 512, 4096 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (uint64_t n = 0; n < 6 * sizes[k]; n++) {
            const uint64_t full = sizes[k] - LS_PARTS_GAP, count = ls_parts_count(n, sizes[k]);
            uint64_t sum = 0;
            assert_true(count >= 1 && (n == 0 || (count - 1) * full < n) && n <= count * full);
            for (uint64_t part = 0; part < count; part++) {
                const uint64_t bytes = ls_parts_bytes(n, sizes[k], part);
                assert_true(part == count - 1 ? bytes <= full : bytes == full);
                sum += bytes;
            }
            assert_int_equal(sum, n);
        }
}

/* Cuts n bytes, lets headers and tags destroy what lies under them, moves the frames to other
 * memory (with garbage between them), and joins them again. */
static void cut_and_join(uint64_t n, uint64_t frame)
{
    const uint64_t count = ls_parts_count(n, frame), room = count * frame;
    unsigned char *out = malloc(room + 1), *in = malloc(room + 1);
    assert_non_null(out);
    assert_non_null(in);
    unsigned char *payload = out + LS_FRAME_HEADER;
    out[room] = 0x5a;
    for (uint64_t i = 0; i < n; i++)
        payload[i] = byte_at(i);
    ls_parts_split(payload, n, frame);
    memset(in, 0xee, room);
    for (uint64_t part = 0; part < count; part++) {
        unsigned char *from = out + part * frame;
        const uint64_t bytes = ls_parts_bytes(n, frame, part);
        memset(from, 0xaa, LS_FRAME_HEADER);
        memset(from + LS_FRAME_HEADER + bytes, 0xbb, LS_FRAME_TAG);
        memcpy(in + part * frame, from, bytes + LS_PARTS_GAP);
    }
    assert_int_equal(out[room], 0x5a);
    in[room] = 0x5a;
    ls_parts_join(in + LS_FRAME_HEADER, n, frame);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(in[LS_FRAME_HEADER + i], byte_at(i));
    assert_int_equal(in[room], 0x5a);
    free(out);
    free(in);
}

static void what_is_cut_joins_again(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 2600; n++)
        cut_and_join(n, 512);
    for (uint64_t n = 0; n < 1200; n++)
        cut_and_join(n, 2 * LS_PARTS_GAP + 1);
    for (uint64_t k = 1; k < 5; k++) /* around each limit: of frames, and of memory */
        for (uint64_t d = 0; d < 2 * LS_PARTS_GAP + 10; d++)
            cut_and_join(k * 4096 + LS_PARTS_GAP + 5 - d, 4096);
}

/* Whatever the limit on the size of files. */
static void a_ring_is_there_twice(void **state)
{
    (void)state;
    enum { N = 3 * 4096 };
    void *memory = NULL;
    const struct rlimit none = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    assert_int_equal(ls_ring_alloc(&memory, N, "a test", NULL), LS_OK);
    unsigned char *ring = memory;
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(ring[i] | ring[N + i], 0);
    for (uint64_t i = 0; i < N; i++)
        ring[i + (i & 1) * N] = byte_at(i);
    for (uint64_t i = 0; i < 2 * N; i++)
        assert_int_equal(ring[i], byte_at(i % N));
    ls_ring_free(ring, N);
    ls_ring_free(NULL, N);
    struct ls_err err = { .status = LS_OK };
    static const uint64_t bad[] = { 0, 1, 4095, 4097, UINT64_MAX, UINT64_MAX - 4095 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ls_ring_fits(bad[i]));
        assert_int_equal(ls_ring_alloc(&memory, bad[i], "a test", &err), LS_E_MEMORY);
        assert_null(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_hold_every_byte_once),
        cmocka_unit_test(what_is_cut_joins_again),
        cmocka_unit_test(a_ring_is_there_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
