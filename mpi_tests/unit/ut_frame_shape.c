/* The frame reader's last step: dtype, dims, table, tensor bytes and chunks, and the view of
 * the tensor behind them. */
#include "base/mutant.h"
#include "wire/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_PAYLOAD = 1 << 16, MAX_FRAME = LS_FRAME_HEADER + MAX_PAYLOAD + LS_FRAME_TAG };

static unsigned char bytes[MAX_FRAME];
static uint64_t limit = MAX_FRAME; /* of the receiver's link */

/* Seals `frame` and opens it again under `expect`. */
static ls_status pass(struct ls_frame frame, const struct ls_frame_expect *expect)
{
    struct ls_frame_link sender = { .source = 1,
                                    .destination = 2,
                                    .max_frame_bytes = MAX_FRAME };
    struct ls_frame_link receiver = sender;
    struct ls_frame out;
    struct ls_err err;
    receiver.max_frame_bytes = limit;
    uint64_t n = ls_frame_seal(bytes, &frame, &sender);
    return ls_frame_open(&out, bytes, n, &receiver, expect, &err);
}

static const struct ls_frame hidden = { .kind = LS_KIND_STEP,
                                        .dtype = LS_DTYPE_F32,
                                        .ndim = 2,
                                        .dims = { 4, 6 },
                                        .table_bytes = 32,
                                        .tensor_bytes = 96,
                                        .payload_bytes = 128 };
static const struct ls_frame_expect step = { .kinds = 1u << LS_KIND_STEP,
                                             .dtype = LS_DTYPE_F32,
                                             .ndim = 2,
                                             .dims = { 0, 6 },
                                             .min_dim0 = 2,
                                             .max_dim0 = 8,
                                             .min_table = 16,
                                             .max_table = 48 };
static const struct ls_frame_expect control = { .kinds = 1u << LS_KIND_PLAN,
                                                .any_content = true };

static void first_dim_has_a_minimum_and_a_maximum(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < 12; d++) {
        struct ls_frame f = hidden;
        f.dims[0] = d;
        f.tensor_bytes = d * 24;
        f.payload_bytes = 32 + f.tensor_bytes;
        assert_int_equal(pass(f, &step), d >= 2 && d <= 8 ? LS_OK : LS_E_SHAPE);
    }
}

static void table_has_a_minimum_and_a_maximum(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 64; t++) {
        struct ls_frame f = hidden;
        f.table_bytes = t;
        f.payload_bytes = t + 96;
        assert_int_equal(pass(f, &step), t >= 16 && t <= 48 ? LS_OK : LS_E_SHAPE);
    }
}

static void other_dims_and_dtype_are_equal_or_refused(void **state)
{
    (void)state;
    static const uint32_t widths[] = { 0, 1, 5, 7, 12 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct ls_frame f = hidden;
        f.dims[1] = widths[i];
        f.tensor_bytes = 16 * widths[i];
        f.payload_bytes = 32 + f.tensor_bytes;
        assert_int_equal(pass(f, &step), LS_E_SHAPE);
    }
    for (unsigned dtype = 0; dtype < 256; dtype++) {
        struct ls_frame f = hidden;
        f.dtype = (uint8_t)dtype;
        f.tensor_bytes = 24 * ls_dtype_bytes((enum ls_dtype)dtype);
        f.payload_bytes = 32 + f.tensor_bytes;
        assert_int_equal(pass(f, &step), dtype == LS_DTYPE_F32 ? LS_OK : LS_E_SHAPE);
    }
}

static void ndim_is_equal_and_unused_dims_are_zero(void **state)
{
    (void)state;
    for (unsigned ndim = 0; ndim < 256; ndim++) {
        struct ls_frame f = hidden;
        f.ndim = (uint8_t)ndim;
        f.dims[2] = ndim > 2, f.dims[3] = ndim > 3;
        assert_int_equal(pass(f, &step), ndim == 2 ? LS_OK : LS_E_SHAPE);
    }
    struct ls_frame flat = hidden;
    flat.ndim = 1;
    flat.dims[1] = 0;
    flat.tensor_bytes = 16;
    flat.payload_bytes = 48;
    assert_int_equal(pass(flat, &step), LS_E_SHAPE);
    for (int i = 2; i < LS_FRAME_DIMS; i++) {
        struct ls_frame f = hidden;
        f.dims[i] = 1;
        assert_int_equal(pass(f, &step), LS_E_SHAPE);
    }
}

static void tensor_bytes_is_the_product(void **state)
{
    (void)state;
    static const uint64_t claims[] = {
        0, 95, 97, 192, UINT32_MAX, UINT64_MAX, (uint64_t)96 + ((uint64_t)1 << 32)
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        struct ls_frame f = hidden;
        f.tensor_bytes = claims[i];
        assert_int_equal(pass(f, &step), LS_E_SHAPE);
    }
}

/* Each wraps to a small number in 64 bits; tensor_bytes says what the wrapped product is. */
static void a_product_that_overflows_is_refused(void **state)
{
    (void)state;
    static const uint32_t dims[][LS_FRAME_DIMS] = {
        { 0x80000000u, 0x80000000u, 2, 2 }, /* 2^64 elements: 0 */
        { 0x40000000u, 0x40000000u, 4, 1 }, /* 2^62 x 4 bytes: 0 */
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, 1 },
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX },
        { 641, 6700417, 0xffffffffu, 1 },
    };
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct ls_frame f = { .kind = LS_KIND_PLAN, .dtype = LS_DTYPE_F32, .ndim = 4 };
        memcpy(f.dims, dims[i], sizeof f.dims);
        f.tensor_bytes = (uint64_t)4 * dims[i][0] * dims[i][1] * dims[i][2] * dims[i][3];
        f.payload_bytes = f.tensor_bytes < MAX_PAYLOAD ? f.tensor_bytes : 0;
        assert_int_equal(pass(f, &control), LS_E_SHAPE);
    }
}

/* 641 x 6700417 x (2^32 - 1) is 2^64 - 1: the tensor fits 64 bits, table and tensor do not. */
static void table_and_tensor_that_overflow_are_refused(void **state)
{
    (void)state;
    struct ls_frame f = { .kind = LS_KIND_PLAN,
                          .dtype = LS_DTYPE_U8,
                          .ndim = 3,
                          .dims = { 641, 6700417, UINT32_MAX },
                          .table_bytes = 101,
                          .tensor_bytes = UINT64_MAX,
                          .payload_bytes = 100 };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
}

static void control_frames_are_consistent_in_themselves(void **state)
{
    (void)state;
    struct ls_frame f = { .kind = LS_KIND_PLAN, .table_bytes = 100, .payload_bytes = 100 };
    assert_int_equal(pass(f, &control), LS_OK);
    f.payload_bytes = 99;
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f = (struct ls_frame){ .kind = LS_KIND_PLAN,
                           .dtype = LS_DTYPE_U8,
                           .ndim = 1,
                           .dims = { 100 },
                           .tensor_bytes = 100,
                           .payload_bytes = 100 };
    assert_int_equal(pass(f, &control), LS_OK);
    f.dims[0] = 0, f.tensor_bytes = f.payload_bytes = 0;
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f = (struct ls_frame){
        .kind = LS_KIND_PLAN, .dtype = LS_DTYPE_U8, .tensor_bytes = 1, .payload_bytes = 1
    };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f = (struct ls_frame){ .kind = LS_KIND_PLAN, .dtype = 200 };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f = (struct ls_frame){ .kind = LS_KIND_PLAN,
                           .dtype = LS_DTYPE_U8,
                           .ndim = 5,
                           .dims = { 1, 1, 1, 1 },
                           .table_bytes = 4,
                           .tensor_bytes = 1,
                           .payload_bytes = 5 };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f.ndim = 4;
    assert_int_equal(pass(f, &control), LS_OK);
    f = (struct ls_frame){ .kind = LS_KIND_PLAN, .ndim = 1, .dims = { 1 } };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
    f = (struct ls_frame){ .kind = LS_KIND_PLAN, .tensor_bytes = 8, .payload_bytes = 8 };
    assert_int_equal(pass(f, &control), LS_E_SHAPE);
}

static void id_is_checked_when_asked(void **state)
{
    (void)state;
    struct ls_frame_expect e = step;
    struct ls_frame f = hidden;
    f.id = 9;
    f.step = 9;
    assert_int_equal(pass(f, &e), LS_OK);
    e.check_id = true;
    e.id = 9;
    assert_int_equal(pass(f, &e), LS_OK);
    e.id = 10;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
    e.id = 9;
    f.step = 8;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
    e.id = f.id = 9 + (1ull << 32);
    f.step = 9;
    assert_int_equal(pass(f, &e), LS_OK);
}

static void nonce_and_rows_are_checked_when_asked(void **state)
{
    (void)state;
    struct ls_frame_expect e = step;
    struct ls_frame f = hidden;
    f.nonce = 1ull << 63;
    f.rows = 3;
    assert_int_equal(pass(f, &e), LS_OK);
    e.check_nonce = e.check_rows = true;
    e.nonce = f.nonce;
    e.rows = 3;
    assert_int_equal(pass(f, &e), LS_OK);
    e.nonce = 0;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
    e.nonce = f.nonce;
    e.rows = 2;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
}

static void set_room(uint64_t room)
{
    limit = LS_FRAME_HEADER + room + LS_FRAME_TAG;
}

static void packed_tensors_are_smaller(void **state)
{
    (void)state;
    static const uint64_t offsets[] = { 0, 8, 31, 32, 60, 127, 128 };
    struct ls_frame_expect e = step;
    e.packed_allowed = e.more_allowed = true;
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (uint64_t n = 0; n <= 130; n++)
            for (int more = 0; more < 2; more++) {
                struct ls_frame f = hidden;
                set_room(n < 50 ? 50 : n);
                f.flags = (uint8_t)(LS_FLAG_PACKED | (more ? LS_FLAG_MORE : 0));
                f.payload_bytes = n;
                f.chunk_offset = e.chunk_offset = offsets[i];
                uint64_t end = offsets[i] + n;
                bool good = end < 128 && (more ? n >= 50 : end > 32);
                assert_int_equal(pass(f, &e), good ? LS_OK : LS_E_SHAPE);
                e.chunk_offset++;
                assert_int_equal(pass(f, &e), LS_E_SHAPE);
                e.chunk_offset--;
                e.packed_allowed = false;
                assert_int_equal(pass(f, &e), LS_E_VERSION);
                e.packed_allowed = true;
            }
    limit = MAX_FRAME;
    struct ls_frame f = {
        .kind = LS_KIND_PLAN, .flags = LS_FLAG_PACKED, .table_bytes = 8, .payload_bytes = 7
    };
    struct ls_frame_expect any = { .kinds = ~0u, .any_content = true, .packed_allowed = true };
    assert_int_equal(pass(f, &any), LS_E_SHAPE);
}

static void chunks_are_full_and_contiguous_and_end_without_more(void **state)
{
    (void)state;
    enum { ROOM = 40 };
    struct ls_frame_expect e = step;
    e.more_allowed = true;
    set_room(ROOM);
    for (uint64_t offset = 0; offset <= 130; offset++)
        for (uint64_t n = 0; n <= ROOM; n++)
            for (int more = 0; more < 2; more++) {
                struct ls_frame f = hidden;
                f.chunk_offset = offset;
                f.payload_bytes = n;
                f.flags = more ? LS_FLAG_MORE : 0;
                bool good = more ? offset + n < 128 && n == ROOM : offset + n == 128;
                e.chunk_offset = offset;
                assert_int_equal(pass(f, &e), good ? LS_OK : LS_E_SHAPE);
                e.chunk_offset = offset + 1;
                assert_int_equal(pass(f, &e), LS_E_SHAPE);
                e.chunk_offset = offset;
                e.more_allowed = false;
                assert_int_equal(pass(f, &e), good && !more ? LS_OK : LS_E_SHAPE);
                e.more_allowed = true;
            }
    limit = MAX_FRAME;
}

static void chunks_of_one_payload_say_the_same(void **state)
{
    (void)state;
    struct ls_frame first = hidden;
    first.id = first.step = 9;
    first.nonce = 4;
    first.rows = 2;
    first.flags = LS_FLAG_MORE;
    first.payload_bytes = 100;
    struct ls_frame_expect e = { .kinds = ~0u,
                                 .any_content = true,
                                 .more_allowed = true,
                                 .packed_allowed = true,
                                 .chunk_offset = 100,
                                 .first = &first };
    struct ls_frame next = first;
    next.flags = 0;
    next.chunk_offset = 100;
    next.payload_bytes = 28;
    assert_int_equal(pass(next, &e), LS_OK);
    struct ls_frame others[10];
    for (int i = 0; i < 10; i++)
        others[i] = next;
    others[0].kind = LS_KIND_PLAN;
    others[1].id = 8;
    others[2].nonce = 5;
    others[3].step = 8;
    others[4].rows = 3;
    others[5].dims[0] = 6, others[5].dims[1] = 4;
    others[6].ndim = 3, others[6].dims[2] = 1;
    others[7].dtype = LS_DTYPE_BF16, others[7].dims[1] = 12;
    others[8].table_bytes = 8, others[8].dims[0] = 5;
    others[8].tensor_bytes = 120;
    others[9].flags = LS_FLAG_PACKED, others[9].payload_bytes = 20;
    for (int i = 0; i < 10; i++)
        assert_int_equal(pass(others[i], &e), LS_E_SHAPE);
}

static void chunk_offset_that_overflows_is_refused(void **state)
{
    (void)state;
    struct ls_frame_expect e = step;
    struct ls_frame f = hidden;
    e.more_allowed = true;
    f.chunk_offset = e.chunk_offset = UINT64_MAX - 127;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
    f.flags = LS_FLAG_MORE;
    f.chunk_offset = e.chunk_offset = UINT64_MAX - 63;
    assert_int_equal(pass(f, &e), LS_E_SHAPE);
}

static void unknown_flags_are_version_skew(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 256; flags++) {
        if (flags & LS_FLAG_SEALED)
            continue; /* seal clears it on a plain link */
        struct ls_frame f = hidden;
        f.flags = (uint8_t)flags;
        ls_status want = flags == 0 ? LS_OK : flags == LS_FLAG_MORE ? LS_E_SHAPE : LS_E_VERSION;
        assert_int_equal(pass(f, &step), want);
    }
}

static void a_view_has_the_senders_bits(void **state)
{
    (void)state;
    unsigned char payload[32 + 2 * 64], sent[sizeof payload];
    struct ls_frame f = { .dtype = LS_DTYPE_F16,
                          .ndim = 2,
                          .dims = { 4, 16 },
                          .table_bytes = 32,
                          .tensor_bytes = 128 };
    struct ls_wire_tensor t;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (unsigned char)(i * 37 + 5);
    memcpy(sent, payload, sizeof sent);
    ls_tensor_from_wire(&t, &f, payload);
    assert_int_equal(t.dtype, LS_DTYPE_F16);
    assert_int_equal(t.ndim, 2);
    assert_int_equal(t.dims[0], 4);
    assert_int_equal(t.dims[1], 16);
    assert_int_equal(t.bytes, 128);
    assert_ptr_equal(t.data, payload + 32);
    assert_memory_equal(payload, sent, sizeof sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_dim_has_a_minimum_and_a_maximum),
        cmocka_unit_test(table_has_a_minimum_and_a_maximum),
        cmocka_unit_test(other_dims_and_dtype_are_equal_or_refused),
        cmocka_unit_test(ndim_is_equal_and_unused_dims_are_zero),
        cmocka_unit_test(tensor_bytes_is_the_product),
        cmocka_unit_test(a_product_that_overflows_is_refused),
        cmocka_unit_test(table_and_tensor_that_overflow_are_refused),
        cmocka_unit_test(control_frames_are_consistent_in_themselves),
        cmocka_unit_test(id_is_checked_when_asked),
        cmocka_unit_test(nonce_and_rows_are_checked_when_asked),
        cmocka_unit_test(packed_tensors_are_smaller),
        cmocka_unit_test(chunks_are_full_and_contiguous_and_end_without_more),
        cmocka_unit_test(chunks_of_one_payload_say_the_same),
        cmocka_unit_test(chunk_offset_that_overflows_is_refused),
        cmocka_unit_test(unknown_flags_are_version_skew),
        cmocka_unit_test(a_view_has_the_senders_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
