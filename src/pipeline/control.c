#include "pipeline/control.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/bytes.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    N_BUFFERS = 4,
    MAX_PAYLOAD = 64 * 1024,
    SEND_WAIT_US = 10000000,
    BEAT_US = 2000000, /* or a quarter of the silence that is allowed, if that is less */
    FAILURE_BYTES = LS_ERR_TEXT + 16,
};

_Static_assert((int)MAX_PAYLOAD >= (int)LS_PLAN_BYTES, "a plan fits into a control frame");
_Static_assert((int)MAX_PAYLOAD >= (int)LS_WISH_BYTES, "a wish fits into a control frame");

static ls_status open_peer(struct ls_control *ctl, struct ls_keyring *keyring, int peer,
                           struct ls_err *err)
{
    struct ls_channel_config config = { .peer = peer,
                                        .tag = LS_TAG_CONTROL,
                                        .direction = LS_RECV,
                                        .n_buffers = N_BUFFERS,
                                        .max_payload = MAX_PAYLOAD };
    ls_status s = ls_channel_open(&ctl->in[peer], keyring, &config, err);
    config.direction = LS_SEND;
    return s ? s : ls_channel_open(&ctl->out[peer], keyring, &config, err);
}

static bool is_peer(const struct ls_control *ctl, int rank)
{
    return rank != ctl->rank && (ctl->rank == 0 || rank == 0);
}

ls_status ls_control_create(struct ls_control **out, struct ls_keyring *keyring,
                            struct ls_err *err)
{
    struct ls_comm *comm = ls_keyring_comm(keyring);
    void *memory = NULL;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_control), "control links", err);
    if (s)
        return s;
    struct ls_control *ctl = memory;
    uint64_t n = (uint64_t)ls_comm_size(comm);
    ctl->comm = comm;
    ctl->rank = ls_comm_rank(comm);
    ctl->n_ranks = (int)n;
    ls_arena_init(&ctl->arena);
    ctl->in = ls_arena_take(&ctl->arena, n * sizeof *ctl->in);
    ctl->out = ls_arena_take(&ctl->arena, n * sizeof *ctl->out);
    ctl->hosts = ls_arena_take(&ctl->arena, n * sizeof *ctl->hosts);
    ctl->heard_us = ls_arena_take(&ctl->arena, n * sizeof *ctl->heard_us);
    if (!ctl->in || !ctl->out || !ctl->hosts || !ctl->heard_us)
        s = ls_fail(err, LS_E_MEMORY, "out of memory: control links of %d ranks", ctl->n_ranks);
    for (int r = 0; !s && r < ctl->n_ranks; r++)
        if (is_peer(ctl, r))
            s = open_peer(ctl, keyring, r, err);
    if (s)
        ls_control_destroy(ctl);
    else
        *out = ctl;
    return s;
}

void ls_control_destroy(struct ls_control *ctl)
{
    if (!ctl)
        return;
    for (int r = 0; ctl->in && ctl->out && r < ctl->n_ranks; r++) {
        ls_channel_close(&ctl->in[r]);
        ls_channel_close(&ctl->out[r]);
    }
    ls_arena_finish(&ctl->arena);
    ls_free(ctl);
}

/* --- sending ------------------------------------------------------------------------------ */

const char *ls_control_name(const struct ls_control *ctl, int peer, char text[LS_RANK_NAME])
{
    const char *host = ctl->hosts[peer];
    snprintf(text, LS_RANK_NAME, "rank %d%s%s", peer, *host ? " on " : "", host);
    return text;
}

static ls_status send_now(struct ls_control *ctl, int peer, unsigned char *payload,
                          enum ls_kind kind, uint64_t id, const void *body, size_t n,
                          struct ls_err *err)
{
    struct ls_frame frame = { .kind = (uint8_t)kind, .id = id, .table_bytes = (uint32_t)n };
    if (n > MAX_PAYLOAD)
        return ls_fail(err, LS_E_INTERNAL, "control frame of %zu bytes, at most %d fit", n,
                       MAX_PAYLOAD);
    if (n)
        memcpy(payload, body, n);
    return ls_channel_send(&ctl->out[peer], &frame, err);
}

ls_status ls_control_send(struct ls_control *ctl, int peer, enum ls_kind kind, uint64_t id,
                          const void *body, size_t n, struct ls_err *err)
{
    uint64_t deadline = ls_now_us() + SEND_WAIT_US;
    char name[LS_RANK_NAME];
    unsigned idle = 0;
    for (;;) {
        unsigned char *payload = ls_channel_payload(&ctl->out[peer]);
        if (payload)
            return send_now(ctl, peer, payload, kind, id, body, n, err);
        ls_status s = ls_comm_progress(ctl->comm, err);
        if (s)
            return s;
        if (ls_now_us() > deadline)
            return ls_fail(err, LS_E_LINK, "%s does not take %s frames",
                           ls_control_name(ctl, peer, name), ls_kind_name(kind));
        ls_comm_idle(&idle);
    }
}

ls_status ls_control_tell_all(struct ls_control *ctl, enum ls_kind kind, uint64_t id,
                              const void *body, size_t n, struct ls_err *err)
{
    for (int r = 1; r < ctl->n_ranks; r++) {
        ls_status s = ls_control_send(ctl, r, kind, id, body, n, err);
        if (s)
            return s;
    }
    return LS_OK;
}

static size_t put_failure(unsigned char out[FAILURE_BYTES], ls_status status, const char *text)
{
    struct ls_writer w = { .at = out, .left = FAILURE_BYTES };
    ls_put_u32(&w, status);
    ls_put_text(&w, text);
    return FAILURE_BYTES - w.left;
}

ls_status ls_control_send_failure(struct ls_control *ctl, int peer, enum ls_kind kind,
                                  ls_status status, const char *text, struct ls_err *err)
{
    unsigned char body[FAILURE_BYTES];
    size_t n = put_failure(body, status, text);
    return ls_control_send(ctl, peer, kind, 0, body, n, err);
}

ls_status ls_control_read_failure(const struct ls_message *message, struct ls_err *err)
{
    struct ls_reader r = { .at = message->body, .left = message->n };
    char text[LS_ERR_TEXT];
    uint32_t status = ls_get_u32(&r);
    ls_get_text(&r, text, sizeof text);
    if (!ls_reader_done(&r) || status >= LS_N_STATUS)
        return ls_fail(err, LS_E_SHAPE, "a %s frame that cannot be read (%zu bytes)",
                       ls_kind_name(message->kind), message->n);
    return status ? ls_fail(err, (ls_status)status, "%s", text) : LS_OK;
}

void ls_control_stop_all(struct ls_control *ctl, ls_status status, const char *text)
{
    for (int r = 1; r < ctl->n_ranks; r++)
        ls_control_send_failure(ctl, r, LS_KIND_STOP, status, text, NULL);
}

/* --- receiving ---------------------------------------------------------------------------- */

ls_status ls_control_poll(struct ls_control *ctl, int peer, uint32_t kinds,
                          struct ls_message *message, struct ls_err *err)
{
    *message = (struct ls_message){ .kind = 0 };
    unsigned char *bytes;
    uint64_t n;
    ls_status s = ls_channel_poll(&ctl->in[peer], &bytes, &n, err);
    if (s || !bytes)
        return s;
    struct ls_frame_expect expect = {
        .kinds = kinds & ls_kinds_allowed(peer, ctl->rank, -1, -1, ctl->n_ranks),
        .any_content = true,
    };
    struct ls_frame frame;
    s = ls_channel_open_frame(&ctl->in[peer], bytes, n, &expect, &frame, &message->body, err);
    if (s)
        return s;
    ctl->heard_us[peer] = ls_now_us();
    message->kind = frame.kind;
    message->id = frame.id;
    message->n = frame.table_bytes;
    return LS_OK;
}

ls_status ls_control_done(struct ls_control *ctl, int peer, struct ls_err *err)
{
    return ls_channel_return(&ctl->in[peer], err);
}

ls_status ls_control_wait(struct ls_control *ctl, int peer, uint32_t kinds,
                          uint64_t deadline_us, const char *what, struct ls_message *message,
                          struct ls_err *err)
{
    char name[LS_RANK_NAME];
    unsigned idle = 0;
    for (;;) {
        ls_status s = ls_comm_progress(ctl->comm, err);
        if (!s)
            s = ls_control_poll(ctl, peer, kinds, message, err);
        if (s || message->kind)
            return s;
        if (ls_now_us() > deadline_us)
            return ls_fail(err, LS_E_LINK, "%s: no %s within the deadline",
                           ls_control_name(ctl, peer, name), what);
        ls_comm_idle(&idle);
    }
}

/* --- signs of life ------------------------------------------------------------------------ */

static uint64_t beat_us(const struct ls_control *ctl)
{
    return ctl->silence_us / 4 < BEAT_US ? ctl->silence_us / 4 : BEAT_US;
}

void ls_control_start_beats(struct ls_control *ctl, uint64_t now_us)
{
    ctl->next_beat_us = now_us + beat_us(ctl);
    for (int r = 0; r < ctl->n_ranks; r++)
        ctl->heard_us[r] = now_us;
}

ls_status ls_control_beat(struct ls_control *ctl, uint64_t now_us, struct ls_err *err)
{
    if (now_us < ctl->next_beat_us)
        return LS_OK;
    ctl->next_beat_us = now_us + beat_us(ctl);
    for (int r = 0; r < ctl->n_ranks; r++) {
        if (!is_peer(ctl, r))
            continue;
        unsigned char *payload = ls_channel_payload(&ctl->out[r]);
        if (!payload) /* the last beats are still on their way: the peer computes */
            continue;
        ls_status s =
            ctl->rank == 0
                ? send_now(ctl, r, payload, LS_KIND_PLAN, LS_PHASE_BEAT, NULL, 0, err)
                : send_now(ctl, r, payload, LS_KIND_STATS, LS_STATS_BEAT, NULL, 0, err);
        if (s)
            return s;
    }
    return LS_OK;
}

ls_status ls_control_check_alive(const struct ls_control *ctl, uint64_t now_us,
                                 struct ls_err *err)
{
    char name[LS_RANK_NAME];
    for (int r = 0; r < ctl->n_ranks; r++) {
        if (!is_peer(ctl, r) || now_us < ctl->heard_us[r] ||
            now_us - ctl->heard_us[r] < ctl->silence_us)
            continue;
        return ls_fail(err, LS_E_LINK, "%s: no sign of life for %" PRIu64 " s while running",
                       ls_control_name(ctl, r, name), ctl->silence_us / 1000000);
    }
    return LS_OK;
}
