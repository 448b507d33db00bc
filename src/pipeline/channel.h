/* A link with frames on it: one direction between two ranks, sealed and checked.
 *
 * Layer: pipeline, over wire and comm. Owns nothing but numbers; the link belongs to the comm.
 * Used by the rank's one communicating thread; point-to-point, never blocks. */
#ifndef LS_PIPELINE_CHANNEL_H
#define LS_PIPELINE_CHANNEL_H

#include "comm/comm.h"
#include "wire/frame.h"

struct ls_channel {
    struct ls_link *link; /* NULL: not open */
    struct ls_frame_link frame;
};

/* Opens one end with n_buffers frames of up to max_payload bytes. Both ranks do it with the
 * same sizes. */
ls_status ls_channel_open(struct ls_channel *ch, struct ls_comm *comm, int peer,
                          enum ls_tag tag, enum ls_direction direction, int n_buffers,
                          uint64_t max_payload, const uint8_t run_id[LS_RUN_ID],
                          struct ls_err *err);

/* Sending: where the next frame's payload is to be written, or NULL while every buffer is in
 * flight. The same place is returned until it is sent. */
unsigned char *ls_channel_payload(struct ls_channel *ch);
/* Seals and starts sending that payload: table_bytes, then tensor_bytes of frame. */
ls_status ls_channel_send(struct ls_channel *ch, struct ls_frame *frame, struct ls_err *err);

/* Receiving: the oldest arrived message as raw bytes, *bytes NULL when there is none. */
ls_status ls_channel_poll(struct ls_channel *ch, unsigned char **bytes, uint64_t *n,
                          struct ls_err *err);
/* Opens it: every check of wire's rule. On success *payload is inside bytes. */
ls_status ls_channel_open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                                const struct ls_frame_expect *expect, struct ls_frame *frame,
                                unsigned char **payload, struct ls_err *err);
/* Done with the oldest message: its buffer is posted again. */
ls_status ls_channel_return(struct ls_channel *ch, struct ls_err *err);
/* Throws away whatever has arrived: a run that is over lets its peers' sends complete. */
ls_status ls_channel_discard(struct ls_channel *ch, struct ls_err *err);

#endif
