/* The frame: a fixed 128-byte little-endian header, the payload (row table, then tensor), and a
 * 16-byte tag.
 *
 * Layer: wire. Pure functions over bytes: no transport, no clock, no allocation. Nothing in a
 * received header means anything before ls_frame_open has said LS_OK; the receiver says what it
 * expects and equality is demanded, never "at most".
 *
 *   0   4 magic "LKS1"          48  8 reply nonce          84  4 table bytes
 *   4   2 version               56  4 step (low 32 bits)   88  8 tensor bytes before packing
 *   6   1 kind                  60  4 rows                 96  8 payload bytes as sent
 *   7   1 flags                 64  1 dtype               104  4 key epoch
 *   8  16 run id                65  1 ndim (0..4)         108  8 offset of this chunk
 *  24   4 source rank           66  2 reserved, 0         116 12 reserved, 0
 *  28   4 destination rank      68 16 dims, 4 x u32
 *  32   8 sequence number       40  8 request or step id
 */
#ifndef LS_WIRE_FRAME_H
#define LS_WIRE_FRAME_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_FRAME_HEADER = 128,
    LS_FRAME_TAG = 16,
    LS_FRAME_VERSION = 1,
    LS_FRAME_DIMS = 4,
    LS_RUN_ID = 16,
};

enum ls_kind {
    LS_KIND_STEP = 1,    /* row table + hidden state: stage to next stage */
    LS_KIND_RESULT = 2,  /* logits: last stage to rank 0 */
    LS_KIND_ERROR = 3,   /* a failing rank to rank 0 */
    LS_KIND_PLAN = 4,    /* configuration and plan: rank 0 to all */
    LS_KIND_VOTE = 5,    /* report or vote: all to rank 0 */
    LS_KIND_KV = 6,      /* hand-off, not sent yet */
    LS_KIND_WEIGHTS = 7, /* layer transfer, not sent yet */
    LS_KIND_STATS = 8,   /* counters: all to rank 0, at the end */
    LS_KIND_DRAIN = 9,   /* rank 0 to all */
    LS_KIND_STOP = 10,   /* rank 0 to all: the run is over, with its status */
    LS_N_KINDS
};

enum ls_frame_flags { LS_FLAG_PACKED = 1, LS_FLAG_SEALED = 2, LS_FLAG_MORE = 4 };

struct ls_frame {
    uint8_t kind;  /* enum ls_kind */
    uint8_t flags; /* enum ls_frame_flags */
    uint8_t run_id[LS_RUN_ID];
    uint32_t source, destination; /* ranks */
    uint64_t sequence;            /* of this link and direction, from 0 */
    uint64_t id;                  /* step or request */
    uint64_t nonce;               /* repeated by the reply; 0 where none is awaited */
    uint32_t step;                /* low 32 bits of the step number */
    uint32_t rows;
    uint8_t dtype; /* enum ls_dtype; 0 when there is no tensor */
    uint8_t ndim;
    uint32_t dims[LS_FRAME_DIMS]; /* unused ones 0 */
    uint32_t table_bytes;
    uint64_t tensor_bytes;  /* before packing */
    uint64_t payload_bytes; /* as sent, in this frame */
    uint32_t epoch;
    uint64_t chunk_offset;
};

/* One direction of one link, as both ends keep it. */
struct ls_frame_link {
    uint8_t run_id[LS_RUN_ID];
    uint32_t source, destination;
    uint64_t next_sequence; /* advanced by seal (sender) and by a successful open (receiver) */
    uint64_t
        max_frame_bytes; /* header + payload + tag; from the plan, before the first receive */
    uint32_t epoch;      /* of the key in use; 0 while a link has no keys */
};

/* What a receiver expects of the next frame; every field is compared for equality except that
 * table_bytes and dims[0] may have a range. */
struct ls_frame_expect {
    uint32_t kinds;   /* bit mask of 1 << kind that this link may carry now */
    bool any_content; /* control kinds (PLAN, VOTE, ERROR, STATS, STOP): only the limits hold */
    bool check_id;
    uint64_t id; /* expected step or request id; `step` must hold its low 32 bits */
    bool check_nonce;
    uint64_t nonce; /* of what this frame answers */
    bool check_rows;
    uint32_t rows;
    uint8_t dtype, ndim;
    uint32_t dims[LS_FRAME_DIMS];
    uint32_t min_dim0, max_dim0;   /* dims[0] within these; dims[0] above is not used */
    uint32_t min_table, max_table; /* bytes */
    bool more_allowed;             /* the payload may come in several frames */
    bool packed_allowed;           /* the tensor may be packed, and smaller */
    uint64_t chunk_offset;         /* bytes of this payload that have already come */
    const struct ls_frame *first;  /* the frame that began this payload; NULL: this one does */
};

/* A frame without a tensor has dtype NONE, ndim 0 and tensor_bytes 0; one with a tensor has
 * 1..4 dims. The payload, over all of its chunks, is table_bytes + tensor_bytes long, and MORE
 * is set on every chunk but the last; those are full. Of a PACKED payload the table is as it is
 * and the tensor shorter than tensor_bytes says. */

/* Writes header and (zero) tag around a payload that already lies at buf + LS_FRAME_HEADER; buf
 * has room for header + payload_bytes + tag. Fills run id, source, destination, sequence from
 * `link` and advances it; clears SEALED. Level `plain`. Returns the frame's total size. */
uint64_t ls_frame_seal(unsigned char *buf, struct ls_frame *frame, struct ls_frame_link *link);

/* Checks n received bytes of a `plain` link in the order of the wire's rule and fills *frame.
 * On success the payload is at bytes + LS_FRAME_HEADER, frame->payload_bytes long, the table
 * first. Each failure has its own status (TOO_LARGE, AUTH, VERSION, WRONG_LINK, SEQUENCE,
 * NOT_ALLOWED, SHAPE) and leaves `link` and *frame untouched. A frame too short for a header
 * and a tag, or with a tag that is not zero, is AUTH; unknown flags or reserved bytes are
 * VERSION. */
ls_status ls_frame_open(struct ls_frame *frame, const unsigned char *bytes, uint64_t n,
                        struct ls_frame_link *link, const struct ls_frame_expect *expect,
                        struct ls_err *err);

/* The parts of seal and open that every level shares; seal.h puts the tag between them.
 * Header only: fills it as ls_frame_seal does, with `frame->flags` as given. */
void ls_frame_write_header(unsigned char header[LS_FRAME_HEADER], struct ls_frame *frame,
                           struct ls_frame_link *link);
/* Step 1, the size of what arrived. */
ls_status ls_frame_check_size(uint64_t n, const struct ls_frame_link *link, struct ls_err *err);
/* The header's fields as they stand, unchecked: for a tag's nonce and for tests. */
void ls_frame_read_header(struct ls_frame *frame, const unsigned char header[LS_FRAME_HEADER]);
/* Steps 3 to 5, on bytes whose tag has been verified; level_flags is what this link's level
 * demands of LS_FLAG_SEALED. Advances link on success. */
ls_status ls_frame_check_authentic(struct ls_frame *frame, const unsigned char *bytes,
                                   uint64_t n, unsigned level_flags, struct ls_frame_link *link,
                                   const struct ls_frame_expect *expect, struct ls_err *err);

/* The table of who may send what: the kinds (mask) that `from` may send to `to`, given which
 * ranks hold the first and last stage and which stage each holds. stage < 0: no stage. */
uint32_t ls_kinds_allowed(int from_rank, int to_rank, int from_stage, int to_stage,
                          int n_stages);

const char *ls_kind_name(unsigned kind);

#endif
