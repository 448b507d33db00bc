/* Fuzz target: the frame reader on a plain link. Byte 0 chooses what the receiver expects, and
 * (bit 7) that the identifying fields be made right, so that mutations get past them; the rest
 * are the bytes that arrived. */
#include "wire/frame.h"
#include "wire/tensor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FRAME = 8192, REPAIR = 0x80 };

static const struct ls_frame_link link_state = { .run_id = { 0xf0, 1, 2, 3, 4, 5, 6, 7 },
                                                 .source = 1,
                                                 .destination = 2,
                                                 .next_sequence = 3,
                                                 .max_frame_bytes = MAX_FRAME };

/* What the last of the expectations goes on with. */
static const struct ls_frame begun = { .kind = LS_KIND_STEP,
                                       .flags = LS_FLAG_MORE,
                                       .dtype = LS_DTYPE_BF16,
                                       .ndim = 2,
                                       .dims = { 600, 8 },
                                       .table_bytes = 16,
                                       .tensor_bytes = 9600 };

static const struct ls_frame_expect expects[] = {
    { .kinds = 1u << LS_KIND_STEP,
      .dtype = LS_DTYPE_BF16,
      .ndim = 2,
      .dims = { 0, 8 },
      .min_dim0 = 1,
      .max_dim0 = 16,
      .min_table = 16,
      .max_table = 512 },
    { .kinds = ~0u, .any_content = true },
    { .kinds = ~0u, .any_content = true, .more_allowed = true, .chunk_offset = 64 },
    { .kinds = 1u << LS_KIND_STEP,
      .dtype = LS_DTYPE_BF16,
      .ndim = 2,
      .dims = { 0, 8 },
      .min_dim0 = 1,
      .max_dim0 = 4096,
      .min_table = 16,
      .max_table = 512,
      .more_allowed = true,
      .packed_allowed = true },
    { .kinds = ~0u,
      .any_content = true,
      .more_allowed = true,
      .packed_allowed = true,
      .chunk_offset = MAX_FRAME - 144,
      .first = &begun },
};

static void require(int truth)
{
    if (!truth)
        abort();
}

static void repair(unsigned char *bytes, size_t n)
{
    memcpy(bytes, "LKS1\x01", 6);
    memcpy(bytes + 8, link_state.run_id, LS_RUN_ID);
    memset(bytes + 24, 0, 16);
    bytes[24] = 1;
    bytes[28] = 2;
    bytes[32] = 3;
    memset(bytes + n - LS_FRAME_TAG, 0, LS_FRAME_TAG);
}

/* What every accepted frame must be, whatever was expected. */
static void check_accepted(const struct ls_frame *f, const struct ls_frame_expect *e, size_t n)
{
    struct ls_wire_tensor t;
    static unsigned char whole[1 << 16];
    require(n >= 144 && n <= MAX_FRAME && f->payload_bytes == n - 144);
    require(f->kind > 0 && f->kind < LS_N_KINDS && f->ndim <= LS_FRAME_DIMS);
    require(f->source == 1 && f->destination == 2 && f->sequence == 3);
    require(f->tensor_bytes <= UINT64_MAX - f->table_bytes);
    require(f->chunk_offset + f->payload_bytes <= f->table_bytes + f->tensor_bytes);
    require(f->chunk_offset == e->chunk_offset);
    require(!(f->flags & LS_FLAG_MORE) || (e->more_allowed && n == MAX_FRAME));
    require(!(f->flags & LS_FLAG_PACKED) || e->packed_allowed);
    require(!e->first || (f->kind == e->first->kind && f->dims[0] == e->first->dims[0]));
    uint64_t bytes = f->ndim ? ls_dtype_bytes((enum ls_dtype)f->dtype) : 0;
    for (int i = 0; i < f->ndim; i++)
        bytes *= f->dims[i];
    require(bytes == f->tensor_bytes);
    if (f->table_bytes + f->tensor_bytes <= sizeof whole) {
        ls_tensor_from_wire(&t, f, whole);
        require(t.bytes == bytes && t.ndim == f->ndim);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t n = size - 1;
    unsigned char *bytes = malloc(n ? n : 1);
    require(bytes != NULL);
    memcpy(bytes, data + 1, n);
    if (data[0] & REPAIR && n >= LS_FRAME_HEADER + LS_FRAME_TAG)
        repair(bytes, n);
    struct ls_frame_link link = link_state;
    struct ls_frame frame;
    struct ls_err err = { .status = LS_OK };
    const struct ls_frame_expect *expect =
        &expects[(data[0] & ~REPAIR) % (sizeof expects / sizeof *expects)];
    ls_status s = ls_frame_open(&frame, bytes, n, &link, expect, &err);
    require(s == err.status && link.next_sequence == 3 + (s == LS_OK));
    if (s == LS_OK)
        check_accepted(&frame, expect, n);
    free(bytes);
    return 0;
}
