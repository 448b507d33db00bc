/* Whether and how the tensors of one link are packed.
 *
 * Layer: pipeline. One end of one direction: the sender packs and, in mode auto, finds out from
 * its first tensors whether that pays; the receiver unpacks whatever says that it is packed.
 * Owns its scratch memory, sized once. Local. */
#ifndef LS_PIPELINE_PACKER_H
#define LS_PIPELINE_PACKER_H

#include "comm/comm.h"
#include "wire/frame.h"
#include "wire/pack.h"

struct ls_packer {
    enum ls_pack mode;      /* of the sender: AUTO while it is still finding out */
    unsigned char *scratch; /* [room]; NULL: nothing is packed or unpacked here */
    unsigned char *clear;   /* [room], receiving: the last payload that was unpacked */
    uint64_t room;          /* bytes of the largest payload */
    int n_tried;            /* auto: tensors measured, and what they gave */
    uint64_t tried_bytes, tried_packed, tried_us;
    uint64_t frames;                  /* packed or unpacked */
    uint64_t raw_bytes, packed_bytes; /* of their tensors */
    uint64_t us;                      /* time in packing or unpacking, trials included */
};

/* NONE takes no memory; a sender takes `room`, a receiver twice that. Freed by finish, which
 * takes a zeroed one. */
ls_status ls_packer_init(struct ls_packer *p, enum ls_pack mode, bool receives, uint64_t room,
                         struct ls_err *err);
void ls_packer_finish(struct ls_packer *p);
uint64_t ls_packer_bytes(const struct ls_packer *p); /* of memory */

/* Sending: the payload (table, then tensor) of `frame`; sets payload_bytes and the flag when
 * the tensor was packed. link: how fast it moves bytes, for auto. */
void ls_packer_pack(struct ls_packer *p, struct ls_frame *frame, unsigned char *payload,
                    const struct ls_link *link);
/* Receiving: *payload is that of an opened frame, all of it; afterwards the unpacked one, which
 * is valid until the next. */
ls_status ls_packer_unpack(struct ls_packer *p, const struct ls_frame *frame,
                           unsigned char **payload, struct ls_err *err);

#endif
