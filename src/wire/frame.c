#include "wire/frame.h"

#include "base/guard.h"
#include "base/le.h"
#include "base/size.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Places in the header; the figure is in frame.h. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 6,
    AT_FLAGS = 7,
    AT_RUN_ID = 8,
    AT_SOURCE = 24,
    AT_DESTINATION = 28,
    AT_SEQUENCE = 32,
    AT_ID = 40,
    AT_NONCE = 48,
    AT_STEP = 56,
    AT_ROWS = 60,
    AT_DTYPE = 64,
    AT_NDIM = 65,
    AT_RESERVED1 = 66,
    AT_DIMS = 68,
    AT_TABLE_BYTES = 84,
    AT_TENSOR_BYTES = 88,
    AT_PAYLOAD_BYTES = 96,
    AT_EPOCH = 104,
    AT_CHUNK_OFFSET = 108,
    AT_RESERVED2 = 116,
};

enum { KNOWN_FLAGS = LS_FLAG_PACKED | LS_FLAG_SEALED | LS_FLAG_MORE };

static const unsigned char magic[4] = { 'L', 'K', 'S', '1' };

static bool all_zero(const unsigned char *p, size_t n)
{
    unsigned char any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

static void encode(unsigned char *h, const struct ls_frame *f)
{
    memset(h, 0, LS_FRAME_HEADER);
    memcpy(h + AT_MAGIC, magic, sizeof magic);
    ls_le_put(h + AT_VERSION, LS_FRAME_VERSION, 2);
    h[AT_KIND] = f->kind;
    h[AT_FLAGS] = f->flags;
    memcpy(h + AT_RUN_ID, f->run_id, LS_RUN_ID);
    ls_le_put(h + AT_SOURCE, f->source, 4);
    ls_le_put(h + AT_DESTINATION, f->destination, 4);
    ls_le_put(h + AT_SEQUENCE, f->sequence, 8);
    ls_le_put(h + AT_ID, f->id, 8);
    ls_le_put(h + AT_NONCE, f->nonce, 8);
    ls_le_put(h + AT_STEP, f->step, 4);
    ls_le_put(h + AT_ROWS, f->rows, 4);
    h[AT_DTYPE] = f->dtype;
    h[AT_NDIM] = f->ndim;
    for (int i = 0; i < LS_FRAME_DIMS; i++)
        ls_le_put(h + AT_DIMS + 4 * i, f->dims[i], 4);
    ls_le_put(h + AT_TABLE_BYTES, f->table_bytes, 4);
    ls_le_put(h + AT_TENSOR_BYTES, f->tensor_bytes, 8);
    ls_le_put(h + AT_PAYLOAD_BYTES, f->payload_bytes, 8);
    ls_le_put(h + AT_EPOCH, f->epoch, 4);
    ls_le_put(h + AT_CHUNK_OFFSET, f->chunk_offset, 8);
}

void ls_frame_read_header(struct ls_frame *f, const unsigned char h[LS_FRAME_HEADER])
{
    f->kind = h[AT_KIND];
    f->flags = h[AT_FLAGS];
    memcpy(f->run_id, h + AT_RUN_ID, LS_RUN_ID);
    f->source = ls_le_get32(h + AT_SOURCE);
    f->destination = ls_le_get32(h + AT_DESTINATION);
    f->sequence = ls_le_get(h + AT_SEQUENCE, 8);
    f->id = ls_le_get(h + AT_ID, 8);
    f->nonce = ls_le_get(h + AT_NONCE, 8);
    f->step = ls_le_get32(h + AT_STEP);
    f->rows = ls_le_get32(h + AT_ROWS);
    f->dtype = h[AT_DTYPE];
    f->ndim = h[AT_NDIM];
    for (int i = 0; i < LS_FRAME_DIMS; i++)
        f->dims[i] = ls_le_get32(h + AT_DIMS + 4 * i);
    f->table_bytes = ls_le_get32(h + AT_TABLE_BYTES);
    f->tensor_bytes = ls_le_get(h + AT_TENSOR_BYTES, 8);
    f->payload_bytes = ls_le_get(h + AT_PAYLOAD_BYTES, 8);
    f->epoch = ls_le_get32(h + AT_EPOCH);
    f->chunk_offset = ls_le_get(h + AT_CHUNK_OFFSET, 8);
}

void ls_frame_write_header(unsigned char header[LS_FRAME_HEADER], struct ls_frame *frame,
                           struct ls_frame_link *link)
{
    assert(frame->payload_bytes <= link->max_frame_bytes - LS_FRAME_HEADER - LS_FRAME_TAG);
    memcpy(frame->run_id, link->run_id, LS_RUN_ID);
    frame->source = link->source;
    frame->destination = link->destination;
    frame->sequence = link->next_sequence++;
    frame->epoch = link->epoch;
    encode(header, frame);
}

uint64_t ls_frame_seal(unsigned char *buf, struct ls_frame *frame, struct ls_frame_link *link)
{
    frame->flags &= (uint8_t)~LS_FLAG_SEALED;
    ls_frame_write_header(buf, frame, link);
    memset(buf + LS_FRAME_HEADER + frame->payload_bytes, 0, LS_FRAME_TAG);
    return LS_FRAME_HEADER + frame->payload_bytes + LS_FRAME_TAG;
}

ls_status ls_frame_check_size(uint64_t n, const struct ls_frame_link *link, struct ls_err *err)
{
    if (LS_GUARD("size-max") && n > link->max_frame_bytes)
        return ls_fail(err, LS_E_TOO_LARGE,
                       "frame from rank %" PRIu32 ": %" PRIu64
                       " bytes arrived, this link carries at most %" PRIu64,
                       link->source, n, link->max_frame_bytes);
    if (LS_GUARD("size-min") && n < LS_FRAME_HEADER + LS_FRAME_TAG)
        return ls_fail(err, LS_E_AUTH,
                       "frame from rank %" PRIu32 ": %" PRIu64
                       " bytes arrived, a header and a tag are %d",
                       link->source, n, LS_FRAME_HEADER + LS_FRAME_TAG);
    return LS_OK;
}

static ls_status check_version(const unsigned char *h, unsigned level_flags, uint32_t from,
                               struct ls_err *err)
{
    if (LS_GUARD("magic") && memcmp(h + AT_MAGIC, magic, sizeof magic) != 0)
        return ls_fail(err, LS_E_VERSION, "frame from rank %" PRIu32 ": no LKS1 magic", from);
    unsigned version = (unsigned)ls_le_get(h + AT_VERSION, 2);
    if (LS_GUARD("version") && version != LS_FRAME_VERSION)
        return ls_fail(err, LS_E_VERSION,
                       "frame from rank %" PRIu32 ": version %u, this program speaks %d", from,
                       version, LS_FRAME_VERSION);
    if (LS_GUARD("reserved") &&
        (!all_zero(h + AT_RESERVED1, 2) || !all_zero(h + AT_RESERVED2, 12)))
        return ls_fail(err, LS_E_VERSION, "frame from rank %" PRIu32 ": reserved bytes are set",
                       from);
    unsigned flags = h[AT_FLAGS];
    if (LS_GUARD("flags") && flags & ~(unsigned)KNOWN_FLAGS)
        return ls_fail(err, LS_E_VERSION,
                       "frame from rank %" PRIu32 ": flags 0x%02x, this program knows 0x%02x",
                       from, flags, KNOWN_FLAGS);
    if (LS_GUARD("level") && (flags & LS_FLAG_SEALED) != level_flags)
        return ls_fail(err, LS_E_VERSION,
                       "frame from rank %" PRIu32 ": %s payload on a link of another level",
                       from, flags & LS_FLAG_SEALED ? "encrypted" : "readable");
    return LS_OK;
}

static ls_status check_link(const struct ls_frame *f, const struct ls_frame_link *link,
                            struct ls_err *err)
{
    if (LS_GUARD("run-id") && memcmp(f->run_id, link->run_id, LS_RUN_ID) != 0)
        return ls_fail(err, LS_E_WRONG_LINK,
                       "frame from rank %" PRIu32 ": run id of another run", link->source);
    if (LS_GUARD("ranks") && (f->source != link->source || f->destination != link->destination))
        return ls_fail(err, LS_E_WRONG_LINK,
                       "frame on link %" PRIu32 " -> %" PRIu32 ": names link %" PRIu32
                       " -> %" PRIu32,
                       link->source, link->destination, f->source, f->destination);
    if (LS_GUARD("sequence") && (f->epoch != link->epoch || f->sequence != link->next_sequence))
        return ls_fail(err, LS_E_SEQUENCE,
                       "frame from rank %" PRIu32 ": number %" PRIu64 " of epoch %" PRIu32
                       ", expected %" PRIu64 " of epoch %" PRIu32,
                       link->source, f->sequence, f->epoch, link->next_sequence, link->epoch);
    return LS_OK;
}

static ls_status check_kind(const struct ls_frame *f, uint32_t kinds, struct ls_err *err)
{
    if (LS_GUARD("kind-known") && (f->kind == 0 || f->kind >= LS_N_KINDS))
        return ls_fail(err, LS_E_VERSION, "frame from rank %" PRIu32 ": unknown kind %u",
                       f->source, f->kind);
    if (LS_GUARD("kind-allowed") && !(kinds >> f->kind & 1))
        return ls_fail(err, LS_E_NOT_ALLOWED,
                       "frame from rank %" PRIu32 ": %s may not be sent here now", f->source,
                       ls_kind_name(f->kind));
    return LS_OK;
}

static uint64_t frame_room(const struct ls_frame_link *link)
{
    return link->max_frame_bytes - LS_FRAME_HEADER - LS_FRAME_TAG;
}

/* The length that the header claims, against the limit and against what arrived. */
static ls_status check_length(const struct ls_frame *f, uint64_t n,
                              const struct ls_frame_link *link, struct ls_err *err)
{
    uint64_t room = frame_room(link);
    if (LS_GUARD("length-limit") && f->payload_bytes > room)
        return ls_fail(err, LS_E_TOO_LARGE,
                       "%s from rank %" PRIu32 ": payload of %" PRIu64
                       " bytes, this link carries at most %" PRIu64,
                       ls_kind_name(f->kind), f->source, f->payload_bytes, room);
    if (LS_GUARD("length-arrived") && f->payload_bytes != n - LS_FRAME_HEADER - LS_FRAME_TAG)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": payload of %" PRIu64 " bytes, %" PRIu64
                       " arrived",
                       ls_kind_name(f->kind), f->source, f->payload_bytes,
                       n - LS_FRAME_HEADER - LS_FRAME_TAG);
    return LS_OK;
}

/* tensor_bytes must be the product of the dims, whatever the receiver expects. */
static ls_status check_tensor_bytes(const struct ls_frame *f, struct ls_err *err)
{
    uint64_t bytes = ls_dtype_bytes((enum ls_dtype)f->dtype);
    bool fits = f->ndim <= LS_FRAME_DIMS && (bytes != 0) == (f->ndim > 0) &&
                (f->dtype == LS_DTYPE_NONE) == (bytes == 0);
    for (int i = 0; fits && i < LS_FRAME_DIMS; i++)
        fits = i < f->ndim ? ls_mul_u64(bytes, f->dims[i], &bytes) : f->dims[i] == 0;
    if (LS_GUARD("tensor-bytes") && (!fits || bytes != f->tensor_bytes))
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": tensor of %" PRIu64
                       " bytes is not dtype %u with %u dims %" PRIu32 " %" PRIu32 " %" PRIu32
                       " %" PRIu32,
                       ls_kind_name(f->kind), f->source, f->tensor_bytes, f->dtype, f->ndim,
                       f->dims[0], f->dims[1], f->dims[2], f->dims[3]);
    return LS_OK;
}

/* Which part of the whole payload this frame carries: the next one, and a full frame unless it
 * is the last. Only of a packed payload the whole length is not known before its end. */
static ls_status check_chunk(const struct ls_frame *f, const struct ls_frame_expect *e,
                             uint64_t room, struct ls_err *err)
{
    uint64_t whole = 0, end = 0;
    bool more = f->flags & LS_FLAG_MORE, packed = f->flags & LS_FLAG_PACKED;
    bool fits = ls_add_u64(f->table_bytes, f->tensor_bytes, &whole) &&
                ls_add_u64(f->chunk_offset, f->payload_bytes, &end) && end <= whole &&
                (packed || more == (end < whole)) && (!more || e->more_allowed) &&
                f->chunk_offset == e->chunk_offset;
    if (LS_GUARD("chunk") && !fits)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": bytes %" PRIu64 " + %" PRIu64
                       "%s of a table of %" PRIu32 " and a tensor of %" PRIu64
                       "; expected from byte %" PRIu64 "%s",
                       ls_kind_name(f->kind), f->source, f->chunk_offset, f->payload_bytes,
                       more ? " and more" : "", f->table_bytes, f->tensor_bytes,
                       e->chunk_offset, e->more_allowed ? "" : ", in one piece");
    if (LS_GUARD("chunk-full") && more && f->payload_bytes != room)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": %" PRIu64
                       " bytes and more, a frame with more "
                       "behind it has %" PRIu64,
                       ls_kind_name(f->kind), f->source, f->payload_bytes, room);
    bool smaller = f->ndim > 0 && end < whole && (more || end > f->table_bytes);
    if (LS_GUARD("packed") && packed && !smaller)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": %" PRIu64 " bytes are not a table of %" PRIu32
                       " and a packed tensor of less than %" PRIu64,
                       ls_kind_name(f->kind), f->source, end, f->table_bytes, f->tensor_bytes);
    return LS_OK;
}

static ls_status check_expected_dims(const struct ls_frame *f, const struct ls_frame_expect *e,
                                     struct ls_err *err)
{
    if (LS_GUARD("dtype") && (f->dtype != e->dtype || f->ndim != e->ndim))
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": %s with %u dims, expected %s with %u",
                       ls_kind_name(f->kind), f->source, ls_dtype_name((enum ls_dtype)f->dtype),
                       f->ndim, ls_dtype_name((enum ls_dtype)e->dtype), e->ndim);
    for (int i = 0; i < f->ndim; i++) {
        uint32_t low = i ? e->dims[i] : e->min_dim0, high = i ? e->dims[i] : e->max_dim0;
        if (LS_GUARD("dims") && (f->dims[i] < low || f->dims[i] > high))
            return ls_fail(err, LS_E_SHAPE,
                           "%s from rank %" PRIu32 ": dim %d is %" PRIu32 ", expected %" PRIu32
                           " to %" PRIu32,
                           ls_kind_name(f->kind), f->source, i, f->dims[i], low, high);
    }
    return LS_OK;
}

/* Control frames say for themselves what they hold, but no axis of theirs is empty. */
static ls_status check_any_dims(const struct ls_frame *f, struct ls_err *err)
{
    for (int i = 0; i < f->ndim; i++)
        if (LS_GUARD("zero-dim") && f->dims[i] == 0)
            return ls_fail(err, LS_E_SHAPE, "%s from rank %" PRIu32 ": dim %d is 0",
                           ls_kind_name(f->kind), f->source, i);
    return LS_OK;
}

/* Is it about what is awaited? */
static ls_status check_answer(const struct ls_frame *f, const struct ls_frame_expect *e,
                              struct ls_err *err)
{
    if (LS_GUARD("id") && e->check_id && (f->id != e->id || f->step != (uint32_t)e->id))
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": id %" PRIu64 ", step %" PRIu32
                       ", expected %" PRIu64,
                       ls_kind_name(f->kind), f->source, f->id, f->step, e->id);
    if (LS_GUARD("nonce") && e->check_nonce && f->nonce != e->nonce)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": id %" PRIu64 " with the nonce of no request",
                       ls_kind_name(f->kind), f->source, f->id);
    if (LS_GUARD("rows") && e->check_rows && f->rows != e->rows)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": %" PRIu32 " rows, expected %" PRIu32,
                       ls_kind_name(f->kind), f->source, f->rows, e->rows);
    return LS_OK;
}

/* Every frame of a payload says the same of the whole. */
static ls_status check_same(const struct ls_frame *f, const struct ls_frame *first,
                            struct ls_err *err)
{
    bool same = f->kind == first->kind && f->id == first->id && f->nonce == first->nonce &&
                f->step == first->step && f->rows == first->rows && f->dtype == first->dtype &&
                f->ndim == first->ndim && !memcmp(f->dims, first->dims, sizeof f->dims) &&
                f->table_bytes == first->table_bytes &&
                f->tensor_bytes == first->tensor_bytes &&
                !((f->flags ^ first->flags) & LS_FLAG_PACKED);
    if (LS_GUARD("chunk-same") && !same)
        return ls_fail(err, LS_E_SHAPE,
                       "%s from rank %" PRIu32 ": goes on with byte %" PRIu64
                       " of another payload",
                       ls_kind_name(f->kind), f->source, f->chunk_offset);
    return LS_OK;
}

static ls_status check_shape(const struct ls_frame *f, const struct ls_frame_expect *e,
                             uint64_t room, struct ls_err *err)
{
    ls_status s = check_tensor_bytes(f, err);
    if (!s)
        s = e->any_content ? check_any_dims(f, err) : check_expected_dims(f, e, err);
    if (!s && LS_GUARD("table") && !e->any_content &&
        (f->table_bytes < e->min_table || f->table_bytes > e->max_table))
        s = ls_fail(err, LS_E_SHAPE,
                    "%s from rank %" PRIu32 ": table of %" PRIu32 " bytes, expected %" PRIu32
                    " to %" PRIu32,
                    ls_kind_name(f->kind), f->source, f->table_bytes, e->min_table,
                    e->max_table);
    if (!s)
        s = check_answer(f, e, err);
    if (!s && e->first)
        s = check_same(f, e->first, err);
    return s ? s : check_chunk(f, e, room, err);
}

ls_status ls_frame_check_authentic(struct ls_frame *frame, const unsigned char *bytes,
                                   uint64_t n, unsigned level_flags, struct ls_frame_link *link,
                                   const struct ls_frame_expect *expect, struct ls_err *err)
{
    struct ls_frame f;
    ls_frame_read_header(&f, bytes);
    ls_status s = check_version(bytes, level_flags, link->source, err);
    if (!s)
        s = check_link(&f, link, err);
    if (!s)
        s = check_kind(&f, expect->kinds, err);
    if (!s && LS_GUARD("packed-allowed") && f.flags & LS_FLAG_PACKED && !expect->packed_allowed)
        s = ls_fail(err, LS_E_VERSION,
                    "%s from rank %" PRIu32 ": packed, on a link without packing",
                    ls_kind_name(f.kind), f.source);
    if (!s)
        s = check_length(&f, n, link, err);
    if (!s)
        s = check_shape(&f, expect, frame_room(link), err);
    if (s)
        return s;
    link->next_sequence++;
    *frame = f;
    return LS_OK;
}

ls_status ls_frame_open(struct ls_frame *frame, const unsigned char *bytes, uint64_t n,
                        struct ls_frame_link *link, const struct ls_frame_expect *expect,
                        struct ls_err *err)
{
    ls_status s = ls_frame_check_size(n, link, err);
    if (s)
        return s;
    if (LS_GUARD("plain-tag") && !all_zero(bytes + n - LS_FRAME_TAG, LS_FRAME_TAG))
        return ls_fail(err, LS_E_AUTH,
                       "frame from rank %" PRIu32 ": a tag on a link that has no keys",
                       link->source);
    return ls_frame_check_authentic(frame, bytes, n, 0, link, expect, err);
}

uint32_t ls_kinds_allowed(int from_rank, int to_rank, int from_stage, int to_stage,
                          int n_stages)
{
    uint32_t kinds = 0;
    if (from_rank < 0 || to_rank < 0)
        return kinds;
    if (from_stage >= 0 && from_stage < n_stages - 1 && to_stage == from_stage + 1)
        kinds |= 1u << LS_KIND_STEP;
    if (from_rank == 0 && to_rank > 0 && to_stage == 0) /* of another replica */
        kinds |= 1u << LS_KIND_STEP;
    if (from_stage >= 0 && from_stage == n_stages - 1 && to_rank == 0)
        kinds |= 1u << LS_KIND_RESULT;
    if (to_rank == 0)
        kinds |= 1u << LS_KIND_ERROR | 1u << LS_KIND_VOTE | 1u << LS_KIND_STATS;
    if (from_rank == 0)
        kinds |= 1u << LS_KIND_PLAN | 1u << LS_KIND_DRAIN | 1u << LS_KIND_STOP;
    return kinds;
}

const char *ls_kind_name(unsigned kind)
{
    static const char *const names[LS_N_KINDS] = {
        [LS_KIND_STEP] = "step",       [LS_KIND_RESULT] = "result", [LS_KIND_ERROR] = "error",
        [LS_KIND_PLAN] = "plan",       [LS_KIND_VOTE] = "vote",     [LS_KIND_KV] = "kv",
        [LS_KIND_WEIGHTS] = "weights", [LS_KIND_STATS] = "stats",   [LS_KIND_DRAIN] = "drain",
        [LS_KIND_STOP] = "stop",
    };
    return kind < LS_N_KINDS && names[kind] ? names[kind] : "unknown";
}
