#include "pipeline/channel.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>

static uint64_t frame_bytes(uint64_t max_payload)
{
    return LS_FRAME_HEADER + max_payload + LS_FRAME_TAG;
}

uint64_t ls_channel_bytes(uint64_t max_payload)
{
    return ls_link_stride(frame_bytes(max_payload));
}

ls_status ls_channel_open(struct ls_channel *ch, struct ls_keyring *keyring,
                          const struct ls_channel_config *config, struct ls_err *err)
{
    struct ls_comm *comm = ls_keyring_comm(keyring);
    uint32_t self = (uint32_t)ls_comm_rank(comm), other = (uint32_t)config->peer;
    bool sends = config->direction == LS_SEND;
    uint64_t bytes = frame_bytes(config->max_payload);
    struct ls_channel made = { .frame = { .source = sends ? self : other,
                                          .destination = sends ? other : self,
                                          .max_frame_bytes = bytes } };
    memcpy(made.frame.run_id, ls_keyring_terms(keyring)->run_id, LS_RUN_ID);
    ls_status s =
        ls_keyring_seal(keyring, config->peer, config->tag, config->direction, &made.seal, err);
    if (!s)
        s = ls_comm_open(comm, &made.link, config->peer, config->tag, config->direction,
                         config->n_buffers, bytes, err);
    bool near = ls_keyring_terms(keyring)->one_host;
    enum ls_pack pack = config->peer == ls_comm_rank(comm) ? LS_PACK_NONE : config->pack;
    if (!s)
        s = ls_packer_init(&made.packer, pack, config->max_payload, err);
    if (pack == LS_PACK_AUTO && near)
        made.packer.mode = LS_PACK_NONE; /* no packer is as fast as memory */
    if (s)
        ls_channel_close(&made);
    else
        *ch = made;
    return s;
}

void ls_channel_close(struct ls_channel *ch)
{
    ls_seal_destroy(ch->seal);
    ls_packer_finish(&ch->packer);
    ch->seal = NULL;
    ch->link = NULL;
}

unsigned char *ls_channel_payload(struct ls_channel *ch)
{
    unsigned char *buffer = ls_link_buffer(ch->link);
    return buffer ? buffer + LS_FRAME_HEADER : NULL;
}

ls_status ls_channel_send(struct ls_channel *ch, struct ls_frame *frame, const void *payload,
                          struct ls_err *err)
{
    unsigned char *buffer = ls_link_buffer(ch->link);
    uint64_t n;
    frame->payload_bytes = frame->table_bytes + frame->tensor_bytes;
    if (payload != buffer + LS_FRAME_HEADER && frame->payload_bytes > 0) {
        memcpy(buffer + LS_FRAME_HEADER, payload, frame->payload_bytes);
        ch->counts.copies++;
    }
    ls_packer_pack(&ch->packer, frame, buffer + LS_FRAME_HEADER, ch->link);
    if (ch->seal) {
        uint64_t begin = ls_now_us();
        n = ls_seal_apply(ch->seal, buffer, frame, &ch->frame);
        ch->counts.crypto_us += ls_now_us() - begin;
        ch->counts.sealed++;
    } else {
        n = ls_frame_seal(buffer, frame, &ch->frame);
    }
    ch->counts.frames++;
    ch->counts.bytes += n;
    return ls_link_send(ch->link, n, err);
}

ls_status ls_channel_poll(struct ls_channel *ch, unsigned char **bytes, uint64_t *n,
                          struct ls_err *err)
{
    void *message = NULL;
    ls_status s = ls_link_poll(ch->link, &message, n, err);
    if (s)
        ch->counts.refused[s]++;
    *bytes = message;
    return s;
}

static ls_status open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                            const struct ls_frame_expect *expect, struct ls_frame *frame,
                            struct ls_err *err)
{
    if (!ch->seal)
        return ls_frame_open(frame, bytes, n, &ch->frame, expect, err);
    uint64_t begin = ls_now_us();
    ls_status s = ls_seal_open(ch->seal, frame, bytes, n, &ch->frame, expect, err);
    ch->counts.crypto_us += ls_now_us() - begin;
    ch->counts.sealed += !s;
    return s;
}

ls_status ls_channel_refuse(struct ls_channel *ch, ls_status status, struct ls_err *err)
{
    ch->counts.refused[status]++;
    if (err)
        ls_fail_prefix(err, "link from rank %" PRIu32 " to rank %" PRIu32, ch->frame.source,
                       ch->frame.destination);
    return status;
}

ls_status ls_channel_open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                                const struct ls_frame_expect *expect, struct ls_frame *frame,
                                unsigned char **payload, struct ls_err *err)
{
    struct ls_frame_expect here = *expect;
    here.packed_allowed = ch->packer.scratch != NULL;
    ls_status s = open_frame(ch, bytes, n, &here, frame, err);
    if (!s)
        s = ls_packer_unpack(&ch->packer, frame, bytes + LS_FRAME_HEADER, err);
    if (s)
        return ls_channel_refuse(ch, s, err);
    ch->counts.frames++;
    ch->counts.bytes += n;
    *payload = bytes + LS_FRAME_HEADER;
    return LS_OK;
}

ls_status ls_channel_return(struct ls_channel *ch, struct ls_err *err)
{
    return ls_link_return(ch->link, err);
}

ls_status ls_channel_discard(struct ls_channel *ch, struct ls_err *err)
{
    if (!ch->link)
        return LS_OK;
    while (ls_link_n_held(ch->link) > 0) {
        ls_status s = ls_channel_return(ch, err);
        if (s)
            return s;
    }
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
