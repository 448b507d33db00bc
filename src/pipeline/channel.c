#include "pipeline/channel.h"

#include <string.h>

ls_status ls_channel_open(struct ls_channel *ch, struct ls_comm *comm, int peer,
                          enum ls_tag tag, enum ls_direction direction, int n_buffers,
                          uint64_t max_payload, const uint8_t run_id[LS_RUN_ID],
                          struct ls_err *err)
{
    uint32_t self = (uint32_t)ls_comm_rank(comm), other = (uint32_t)peer;
    uint64_t bytes = LS_FRAME_HEADER + max_payload + LS_FRAME_TAG;
    struct ls_channel made = {
        .frame = { .source = direction == LS_SEND ? self : other,
                   .destination = direction == LS_SEND ? other : self,
                   .max_frame_bytes = bytes },
    };
    memcpy(made.frame.run_id, run_id, LS_RUN_ID);
    ls_status s = ls_comm_open(comm, &made.link, peer, tag, direction, n_buffers, bytes, err);
    if (!s)
        *ch = made;
    return s;
}

unsigned char *ls_channel_payload(struct ls_channel *ch)
{
    unsigned char *buffer = ls_link_buffer(ch->link);
    return buffer ? buffer + LS_FRAME_HEADER : NULL;
}

ls_status ls_channel_send(struct ls_channel *ch, struct ls_frame *frame, struct ls_err *err)
{
    unsigned char *buffer = ls_link_buffer(ch->link);
    frame->payload_bytes = frame->table_bytes + frame->tensor_bytes;
    uint64_t n = ls_frame_seal(buffer, frame, &ch->frame);
    return ls_link_send(ch->link, n, err);
}

ls_status ls_channel_poll(struct ls_channel *ch, unsigned char **bytes, uint64_t *n,
                          struct ls_err *err)
{
    void *message = NULL;
    ls_status s = ls_link_poll(ch->link, &message, n, err);
    *bytes = message;
    return s;
}

ls_status ls_channel_open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                                const struct ls_frame_expect *expect, struct ls_frame *frame,
                                unsigned char **payload, struct ls_err *err)
{
    ls_status s = ls_frame_open(frame, bytes, n, &ch->frame, expect, err);
    if (!s)
        *payload = bytes + LS_FRAME_HEADER;
    return s;
}

ls_status ls_channel_return(struct ls_channel *ch, struct ls_err *err)
{
    return ls_link_return(ch->link, err);
}

ls_status ls_channel_discard(struct ls_channel *ch, struct ls_err *err)
{
    if (!ch->link)
        return LS_OK;
    for (;;) {
        unsigned char *bytes;
        uint64_t n;
        ls_status s = ls_channel_poll(ch, &bytes, &n, err);
        if (s || !bytes)
            return s;
        s = ls_channel_return(ch, err);
        if (s)
            return s;
    }
}
