/* A link with frames on it: one direction between two ranks, sealed and checked.
 *
 * Layer: pipeline, over wire and comm. Owns its seal and its numbers; the link belongs to the
 * comm. Used by the rank's one communicating thread, but for ls_channel_open_frame, which the
 * one thread that reads the frames calls, alone. Point-to-point, never blocks. A payload is
 * sealed and opened where it lies; a large one travels as several whole frames (wire/parts.h),
 * so that one is sealed while those before it are on their way, and opened while those behind
 * it are. */
#ifndef LS_PIPELINE_CHANNEL_H
#define LS_PIPELINE_CHANNEL_H

#include "base/team.h"
#include "pipeline/keyring.h"
#include "pipeline/packer.h"

struct ls_channel_config {
    int peer; /* rank */
    enum ls_tag tag;
    enum ls_direction direction;
    int n_buffers;        /* payloads of the largest size */
    enum ls_pack pack;    /* of tensors; both ends have the same */
    uint64_t max_payload; /* bytes */
    uint64_t frame_bytes; /* larger payloads take several frames of about this, larger ones
                             where they would be too many; a multiple of the page. 0: every
                             payload is one frame */
};

/* Evidence: what this end has sealed or opened. */
struct ls_channel_counts {
    uint64_t frames, bytes; /* good ones; with header and tag */
    uint64_t sealed;        /* of these frames, those that had a key */
    uint64_t crypto_us;
    uint64_t copies;               /* payloads that did not lie where they are sent from */
    uint64_t split;                /* payloads that took several frames */
    uint64_t refused[LS_N_STATUS]; /* arrived frames, by what was wrong with them */
};

struct ls_channel {
    struct ls_link *link; /* NULL: not open */
    struct ls_frame_link frame;
    struct ls_seal *seal; /* owned; NULL: level plain, or a link within this process */
    int max_frames;       /* of one payload */
    struct ls_packer packer;
    struct ls_team *team; /* borrowed; seals and opens the frames of one payload side by side.
                             NULL: none */
    struct ls_channel_counts counts;
    struct ls_frame first; /* receiving: of the payload that has begun to arrive */
    unsigned char *begin;  /* its first frame */
    uint64_t got;          /* its bytes so far; 0: none has begun */
    int n_frames;          /* of the payload last opened, in whole or in part */
};

enum { LS_CHANNEL_PARTS = 16 /* frames of one payload at most */ };

/* The largest frame of a link for payloads of at most max_payload bytes; both ends compute the
 * same. More than frame_bytes where a payload would take more than LS_CHANNEL_PARTS otherwise.
 */
uint64_t ls_channel_frame_bytes(uint64_t max_payload, uint64_t frame_bytes);
/* What the buffers for one payload take. */
uint64_t ls_channel_bytes(uint64_t max_payload, uint64_t frame_bytes);

/* Opens one end. Both ranks do it with the same sizes. Closed by ls_channel_close. */
ls_status ls_channel_open(struct ls_channel *ch, struct ls_keyring *keyring,
                          const struct ls_channel_config *config, struct ls_err *err);
/* Wipes the keys; the link stays with the comm. Takes a channel that is not open. */
void ls_channel_close(struct ls_channel *ch);

/* Sending: where the next payload, of at most n bytes, is to be written, or NULL while too many
 * buffers are in flight. The same place is returned until it is sent. */
unsigned char *ls_channel_payload(struct ls_channel *ch, uint64_t n);
/* Seals and starts sending a payload: table_bytes, then tensor_bytes of frame. It lies at the
 * place that ls_channel_payload gave, which is not NULL now; from anywhere else it is copied
 * there, and the copy is counted. */
ls_status ls_channel_send(struct ls_channel *ch, struct ls_frame *frame, const void *payload,
                          struct ls_err *err);

/* Receiving: the oldest arrived message as raw bytes, *bytes NULL when there is none. */
ls_status ls_channel_poll(struct ls_channel *ch, unsigned char **bytes, uint64_t *n,
                          struct ls_err *err);
/* Opens it in place: every check of wire's rule, then unpacks. On success *payload is as long
 * as the frame says: its table, then its tensor; valid until the message is returned. *payload
 * is NULL when more frames belong to it: hold the message (ls_link_hold) and come with the next
 * one, expecting the same. */
ls_status ls_channel_open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                                const struct ls_frame_expect *expect, struct ls_frame *frame,
                                unsigned char **payload, struct ls_err *err);
/* All of that at once: takes the frames of one payload that have arrived, as many as the team
 * has members, unlocks them side by side, and checks and accepts them one after the other.
 * *found is false when none has arrived; *payload stays NULL until the last one is here. The
 * messages are held. */
ls_status ls_channel_receive(struct ls_channel *ch, const struct ls_frame_expect *expect,
                             bool *found, struct ls_frame *frame, unsigned char **payload,
                             struct ls_err *err);
/* What an opened frame holds is not what it should: counts that as refused, and names the link
 * in front of err's text. Returns status. */
ls_status ls_channel_refuse(struct ls_channel *ch, ls_status status, struct ls_err *err);
/* Done with the payload last opened, or with the message shown: its buffers are posted again.
 */
ls_status ls_channel_return(struct ls_channel *ch, struct ls_err *err);
/* Throws away whatever has arrived: a run that is over lets its peers' sends complete. */
ls_status ls_channel_discard(struct ls_channel *ch, struct ls_err *err);

#endif
