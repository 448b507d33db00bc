#include "pipeline/packer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "tensor/dtype.h"

#include <string.h>

enum {
    MIN_BYTES = 1024, /* smaller tensors are not worth a call */
    TRIALS = 8,       /* tensors after which auto decides */
    WORTH_PERCENT = 90,
};

ls_status ls_packer_init(struct ls_packer *p, enum ls_pack mode, bool receives, uint64_t room,
                         struct ls_err *err)
{
    void *memory = NULL, *clear = NULL;
    *p = (struct ls_packer){ .mode = mode, .room = room };
    if (mode == LS_PACK_NONE)
        return LS_OK;
    ls_status s = ls_alloc(&memory, room, "packing", err);
    if (!s && receives)
        s = ls_alloc(&clear, room, "packing", err);
    p->scratch = memory;
    p->clear = clear;
    return s;
}

void ls_packer_finish(struct ls_packer *p)
{
    ls_free(p->scratch);
    ls_free(p->clear);
    p->scratch = p->clear = NULL;
}

uint64_t ls_packer_bytes(const struct ls_packer *p)
{
    return (p->scratch ? p->room : 0) + (p->clear ? p->room : 0);
}

/* Packs and unpacks one tensor, which stays as it is, and takes the time. */
static void try_out(struct ls_packer *p, unsigned char *tensor, uint64_t n, unsigned size)
{
    uint64_t begin = ls_now_us(), packed = ls_pack_apply(tensor, n, size, p->scratch);
    if (packed)
        ls_pack_open(tensor, n, tensor, packed, size, p->scratch, NULL);
    p->tried_us += ls_now_us() - begin;
    p->tried_bytes += n;
    p->tried_packed += packed ? packed : n;
    p->n_tried++;
}

/* Packing pays when the bytes that it saves would take longer than it does. */
static enum ls_pack judge(const struct ls_packer *p, const struct ls_link *link)
{
    uint64_t rate = ls_link_rate(link), saved = p->tried_bytes - p->tried_packed;
    bool smaller = 100 * p->tried_packed < WORTH_PERCENT * p->tried_bytes;
    return smaller && rate > 0 && p->tried_us < saved / rate ? LS_PACK_LZ4 : LS_PACK_NONE;
}

void ls_packer_pack(struct ls_packer *p, struct ls_frame *frame, unsigned char *payload,
                    const struct ls_link *link)
{
    uint64_t n = frame->tensor_bytes, begin = ls_now_us();
    unsigned size = (unsigned)ls_dtype_bytes((enum ls_dtype)frame->dtype);
    unsigned char *tensor = payload + frame->table_bytes;
    if (p->mode == LS_PACK_NONE || n < MIN_BYTES || n > p->room)
        return;
    if (p->mode == LS_PACK_AUTO) {
        try_out(p, tensor, n, size);
        if (p->n_tried == TRIALS)
            p->mode = judge(p, link);
    } else {
        uint64_t packed = ls_pack_apply(tensor, n, size, p->scratch);
        if (packed) {
            frame->flags |= LS_FLAG_PACKED;
            frame->payload_bytes = frame->table_bytes + packed;
            p->frames++;
            p->raw_bytes += n;
            p->packed_bytes += packed;
        }
    }
    p->us += ls_now_us() - begin;
}

ls_status ls_packer_unpack(struct ls_packer *p, const struct ls_frame *frame,
                           unsigned char **payload, struct ls_err *err)
{
    uint64_t n = frame->tensor_bytes, table = frame->table_bytes, begin = ls_now_us();
    if (!(frame->flags & LS_FLAG_PACKED))
        return LS_OK;
    if (!p->clear || n > p->room || table > p->room - n)
        return ls_fail(err, LS_E_INTERNAL, "a packed tensor on a link without packing");
    uint64_t packed = frame->payload_bytes - table;
    memcpy(p->clear, *payload, table);
    ls_status s =
        ls_pack_open(p->clear + table, n, *payload + table, packed,
                     (unsigned)ls_dtype_bytes((enum ls_dtype)frame->dtype), p->scratch, err);
    *payload = p->clear;
    p->us += ls_now_us() - begin;
    p->frames += !s;
    p->raw_bytes += s ? 0 : n;
    p->packed_bytes += s ? 0 : packed;
    return s;
}
