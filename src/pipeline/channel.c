#include "pipeline/channel.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/size.h"
#include "wire/parts.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE = 4096 /* bytes */ };

/* The largest payload is shared out evenly: a short last frame would have nothing to hide
 * behind. */
uint64_t ls_channel_frame_bytes(uint64_t max_payload, uint64_t frame_bytes)
{
    const uint64_t whole = LS_FRAME_HEADER + max_payload + LS_FRAME_TAG;
    if (frame_bytes == 0 || whole <= frame_bytes)
        return whole;
    const uint64_t n = ls_min_u64(ls_parts_count(max_payload, frame_bytes), LS_CHANNEL_PARTS);
    return ls_round_up((max_payload + n - 1) / n + LS_PARTS_GAP, PAGE);
}

uint64_t ls_channel_bytes(uint64_t max_payload, uint64_t frame_bytes)
{
    const uint64_t largest = ls_channel_frame_bytes(max_payload, frame_bytes);
    return ls_parts_count(max_payload, largest) * ls_link_stride(largest);
}

static int frames_of(const struct ls_channel *ch, uint64_t payload)
{
    return (int)ls_parts_count(payload, ch->frame.max_frame_bytes);
}

ls_status ls_channel_open(struct ls_channel *ch, struct ls_keyring *keyring,
                          const struct ls_channel_config *config, struct ls_err *err)
{
    struct ls_comm *comm = ls_keyring_comm(keyring);
    uint32_t self = (uint32_t)ls_comm_rank(comm), other = (uint32_t)config->peer;
    bool sends = config->direction == LS_SEND, within = self == other;
    uint64_t bytes =
        ls_channel_frame_bytes(config->max_payload, within ? 0 : config->frame_bytes);
    struct ls_channel made = { .frame = { .source = sends ? self : other,
                                          .destination = sends ? other : self,
                                          .max_frame_bytes = bytes },
                               .max_frames = (int)ls_parts_count(config->max_payload, bytes) };
    memcpy(made.frame.run_id, ls_keyring_terms(keyring)->run_id, LS_RUN_ID);
    ls_status s =
        ls_keyring_seal(keyring, config->peer, config->tag, config->direction, &made.seal, err);
    if (!s)
        s = ls_comm_open(comm, &made.link, config->peer, config->tag, config->direction,
                         config->n_buffers * made.max_frames, bytes, err);
    enum ls_pack pack = within ? LS_PACK_NONE : config->pack;
    if (!s)
        s = ls_packer_init(&made.packer, pack, !sends, config->max_payload, err);
    if (pack == LS_PACK_AUTO && ls_keyring_terms(keyring)->one_host)
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

/* --- sending ------------------------------------------------------------------------------ */

unsigned char *ls_channel_payload(struct ls_channel *ch, uint64_t n)
{
    unsigned char *buffer = ls_link_buffers(ch->link, frames_of(ch, n));
    return buffer ? buffer + LS_FRAME_HEADER : NULL;
}

/* Frames of one payload that are sealed side by side. */
struct group {
    const struct ls_channel *ch;
    unsigned char *first;             /* frame */
    uint64_t bytes[LS_CHANNEL_PARTS]; /* of each, with header and tag */
    int n;
};

static void seal_job(void *arg, int member, int n_members)
{
    const struct group *g = arg;
    for (int i = member; i < g->n; i += n_members)
        ls_seal_finish(g->ch->seal, g->first + (uint64_t)i * g->ch->frame.max_frame_bytes);
}

/* Writes the headers of the payload's next frames, from number `part` on: as many as the team
 * has members, but none of a later epoch. */
static void begin_group(struct ls_channel *ch, struct group *g, const struct ls_frame *frame,
                        int part)
{
    const uint64_t whole = frame->payload_bytes, largest = ch->frame.max_frame_bytes;
    const int n_frames = frames_of(ch, whole), most = ch->team ? ls_team_size(ch->team) : 1;
    for (g->n = 0; g->n < most && part < n_frames; part++) {
        struct ls_frame f = *frame;
        f.payload_bytes = ls_parts_bytes(whole, largest, (uint64_t)part);
        f.chunk_offset = (uint64_t)part * (largest - LS_PARTS_GAP);
        if (part < n_frames - 1)
            f.flags |= LS_FLAG_MORE;
        unsigned char *bytes = g->first + (uint64_t)g->n * largest;
        if (g->n > 0 && ch->seal && ls_seal_is_due(ch->seal, &f))
            return;
        g->bytes[g->n++] = ch->seal ? ls_seal_begin(ch->seal, bytes, &f, &ch->frame)
                                    : ls_frame_seal(bytes, &f, &ch->frame);
    }
}

static void seal_group(struct ls_channel *ch, struct group *g)
{
    uint64_t begin = ls_now_us();
    if (g->n == 1)
        seal_job(g, 0, 1);
    else
        ls_team_run(ch->team, seal_job, g);
    ch->counts.crypto_us += ls_now_us() - begin;
    ch->counts.sealed += (uint64_t)g->n;
}

static ls_status send_frames(struct ls_channel *ch, const struct ls_frame *frame,
                             unsigned char *buffer, struct ls_err *err)
{
    const int n_frames = frames_of(ch, frame->payload_bytes);
    ls_parts_split(buffer + LS_FRAME_HEADER, frame->payload_bytes, ch->frame.max_frame_bytes);
    struct group g = { .ch = ch };
    for (int part = 0; part < n_frames; part += g.n) {
        g.first = buffer + (uint64_t)part * ch->frame.max_frame_bytes;
        begin_group(ch, &g, frame, part);
        if (ch->seal)
            seal_group(ch, &g);
        for (int i = 0; i < g.n; i++) {
            ls_status s = ls_link_send(ch->link, g.bytes[i], err);
            if (s)
                return s;
            ch->counts.frames++;
            ch->counts.bytes += g.bytes[i];
        }
        ls_link_idle(ch->link); /* moves those before while the next ones are sealed */
    }
    ch->counts.split += n_frames > 1;
    return LS_OK;
}

ls_status ls_channel_send(struct ls_channel *ch, struct ls_frame *frame, const void *payload,
                          struct ls_err *err)
{
    frame->payload_bytes = frame->table_bytes + frame->tensor_bytes;
    unsigned char *buffer = ls_link_buffers(ch->link, frames_of(ch, frame->payload_bytes));
    if (payload != buffer + LS_FRAME_HEADER && frame->payload_bytes > 0) {
        memcpy(buffer + LS_FRAME_HEADER, payload, frame->payload_bytes);
        ch->counts.copies++;
    }
    ls_packer_pack(&ch->packer, frame, buffer + LS_FRAME_HEADER, ch->link);
    return send_frames(ch, frame, buffer, err);
}

/* --- receiving ---------------------------------------------------------------------------- */

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

/* An arrived message. */
struct arrival {
    unsigned char *bytes;
    uint64_t n;
    bool unlocked; /* its tag verified */
};

/* Frames of one payload that are opened side by side. */
struct opening {
    struct ls_channel *ch;
    struct arrival of[LS_CHANNEL_PARTS];
    int n;
};

static void unlock_job(void *arg, int member, int n_members)
{
    struct opening *o = arg;
    for (int i = member; i < o->n; i += n_members)
        o->of[i].unlocked =
            ls_seal_unlock(o->ch->seal, o->of[i].bytes, o->of[i].n, &o->ch->frame);
}

static void unlock(struct opening *o)
{
    struct ls_channel *ch = o->ch;
    if (!ch->seal)
        return;
    const uint64_t begin = ls_now_us();
    if (o->n == 1)
        unlock_job(o, 0, 1);
    else
        ls_team_run(ch->team, unlock_job, o);
    ch->counts.crypto_us += ls_now_us() - begin;
}

ls_status ls_channel_refuse(struct ls_channel *ch, ls_status status, struct ls_err *err)
{
    ch->counts.refused[status]++;
    if (err)
        ls_fail_prefix(err, "link from rank %" PRIu32 " to rank %" PRIu32, ch->frame.source,
                       ch->frame.destination);
    return status;
}

/* All of the payload is here. */
static ls_status complete(struct ls_channel *ch, struct ls_frame *frame,
                          unsigned char **payload, struct ls_err *err)
{
    unsigned char *whole = ch->begin + LS_FRAME_HEADER;
    frame->payload_bytes = ch->got;
    frame->chunk_offset = 0;
    ls_parts_join(whole, ch->got, ch->frame.max_frame_bytes);
    ch->counts.split += ch->n_frames > 1;
    ch->got = 0;
    ls_status s = ls_packer_unpack(&ch->packer, frame, &whole, err);
    *payload = whole;
    return s;
}

/* Every check of an unlocked frame. */
static ls_status accept(struct ls_channel *ch, const struct arrival *a,
                        const struct ls_frame_expect *expect, struct ls_frame *frame,
                        unsigned char **payload, struct ls_err *err)
{
    struct ls_frame_expect here = *expect;
    here.packed_allowed = ch->packer.clear != NULL;
    here.more_allowed = (ch->got ? ch->n_frames : 0) + 1 < ch->max_frames;
    here.chunk_offset = ch->got;
    here.first = ch->got ? &ch->first : NULL;
    ls_status s = ch->seal ? ls_seal_accept(ch->seal, frame, a->bytes, a->n, a->unlocked,
                                            &ch->frame, &here, err)
                           : ls_frame_open(frame, a->bytes, a->n, &ch->frame, &here, err);
    if (s)
        return ls_channel_refuse(ch, s, err);
    ch->counts.frames++;
    ch->counts.bytes += a->n;
    ch->counts.sealed += ch->seal != NULL;
    if (ch->got == 0) {
        ch->first = *frame;
        ch->begin = a->bytes;
        ch->n_frames = 0;
    }
    ch->n_frames++;
    ch->got += frame->payload_bytes;
    *payload = NULL;
    if (frame->flags & LS_FLAG_MORE)
        return LS_OK;
    s = complete(ch, frame, payload, err);
    return s ? ls_channel_refuse(ch, s, err) : LS_OK;
}

ls_status ls_channel_open_frame(struct ls_channel *ch, unsigned char *bytes, uint64_t n,
                                const struct ls_frame_expect *expect, struct ls_frame *frame,
                                unsigned char **payload, struct ls_err *err)
{
    struct opening o = { .ch = ch, .of = { { .bytes = bytes, .n = n } }, .n = 1 };
    unlock(&o);
    return accept(ch, &o.of[0], expect, frame, payload, err);
}

/* Whether the message behind those of `o` may be unlocked with them, and more behind it. What
 * an unverified header claims decides only that: one that lies fails its own tag. */
static bool may_join(const struct opening *o, const struct arrival *a, bool *more)
{
    const struct ls_channel *ch = o->ch;
    struct ls_frame claimed;
    *more = false;
    if (!ch->seal || ls_frame_check_size(a->n, &ch->frame, NULL))
        return o->n == 0;
    ls_frame_read_header(&claimed, a->bytes);
    const bool same_epoch = claimed.epoch == ch->frame.epoch || !LS_GUARD("opened-epoch");
    *more = same_epoch && (claimed.flags & LS_FLAG_MORE || !LS_GUARD("opened-more"));
    return o->n == 0 || same_epoch;
}

/* The next message; a->bytes NULL: none. A link that fails behind a frame says so again when
 * that one has been looked at. */
static ls_status look(const struct opening *o, struct arrival *a, struct ls_err *err)
{
    void *message = NULL;
    if (o->n == 0)
        return ls_channel_poll(o->ch, &a->bytes, &a->n, err);
    if (!ls_link_poll(o->ch->link, &message, &a->n, NULL))
        a->bytes = message;
    return LS_OK;
}

/* Takes the frames of one payload that have arrived, as many as the team has members. */
static ls_status gather(struct opening *o, struct ls_err *err)
{
    const struct ls_channel *ch = o->ch;
    const int room = ch->max_frames - (ch->got ? ch->n_frames : 0);
    const int members = ch->team ? ls_team_size(ch->team) : 1;
    const int most = members < room ? members : room;
    bool more = true;
    while (more && o->n < most) {
        struct arrival a = { .bytes = NULL };
        ls_status s = look(o, &a, err);
        if (s || !a.bytes || !may_join(o, &a, &more))
            return s;
        s = ls_link_hold(ch->link, err);
        if (s)
            return s;
        o->of[o->n++] = a;
    }
    return LS_OK;
}

ls_status ls_channel_receive(struct ls_channel *ch, const struct ls_frame_expect *expect,
                             bool *found, struct ls_frame *frame, unsigned char **payload,
                             struct ls_err *err)
{
    struct opening o = { .ch = ch };
    *payload = NULL;
    ls_status s = gather(&o, err);
    *found = o.n > 0;
    if (o.n > 0)
        unlock(&o);
    for (int i = 0; !s && i < o.n; i++)
        s = accept(ch, &o.of[i], expect, frame, payload, err);
    return s;
}

ls_status ls_channel_return(struct ls_channel *ch, struct ls_err *err)
{
    ls_status s = LS_OK;
    do
        s = ls_link_return(ch->link, err);
    while (!s && --ch->n_frames > 0);
    ch->n_frames = 0;
    return s;
}

ls_status ls_channel_discard(struct ls_channel *ch, struct ls_err *err)
{
    if (!ch->link)
        return LS_OK;
    for (;;) {
        void *bytes = NULL;
        uint64_t n;
        const bool held = ls_link_n_held(ch->link) > 0;
        ls_status s = held ? LS_OK : ls_link_poll(ch->link, &bytes, &n, err);
        if (s || (!held && !bytes))
            return s;
        s = ls_link_return(ch->link, err);
        if (s)
            return s;
    }
}
