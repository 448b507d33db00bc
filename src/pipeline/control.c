#include "pipeline/control.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    N_BUFFERS = 4,
    MAX_PAYLOAD = 64 * 1024,
    SEND_WAIT_US = 10000000,
    BEAT_US = 2000000, /* or a quarter of the silence that is allowed, if that is less */
    NEWS_US = 100000,  /* between two beats at least */
    BEAT_BYTES = 28 + LS_MAX_HOST,
    SEARCH_US = 250000, /* processes of this host are looked for this often */
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

uint64_t ls_control_bytes(int n_peers)
{
    return 2 * (uint64_t)n_peers * N_BUFFERS * ls_channel_bytes(MAX_PAYLOAD, 0);
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
    ctl->lost = -1;
    ls_arena_init(&ctl->arena);
    ctl->in = ls_arena_take(&ctl->arena, n * sizeof *ctl->in);
    ctl->out = ls_arena_take(&ctl->arena, n * sizeof *ctl->out);
    ctl->hosts = ls_arena_take(&ctl->arena, n * sizeof *ctl->hosts);
    ctl->heard_us = ls_arena_take(&ctl->arena, n * sizeof *ctl->heard_us);
    ctl->least_us = ls_arena_take(&ctl->arena, n * sizeof *ctl->least_us);
    ctl->last = ls_arena_take(&ctl->arena, n * sizeof *ctl->last);
    ctl->waiting = ls_arena_take(&ctl->arena, n * sizeof *ctl->waiting);
    if (!ctl->in || !ctl->out || !ctl->hosts || !ctl->heard_us || !ctl->least_us ||
        !ctl->last || !ctl->waiting)
        s = ls_fail(err, LS_E_MEMORY, "out of memory: control links of %d ranks", ctl->n_ranks);
    for (int r = 0; !s && r < ctl->n_ranks; r++) {
        ctl->least_us[r] = INT64_MAX;
        if (is_peer(ctl, r))
            s = open_peer(ctl, keyring, r, err);
    }
    if (s) {
        ls_control_destroy(ctl);
        return s;
    }
    snprintf(ctl->hosts[ctl->rank], LS_MAX_HOST, "%.*s", LS_MAX_HOST - 1, ls_comm_host(comm));
    ctl->last[ctl->rank].pid = (uint32_t)getpid();
    ls_control_set_silence(ctl, LS_SILENCE_S);
    *out = ctl;
    return LS_OK;
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

static ls_status send_now(struct ls_control *ctl, int peer, enum ls_kind kind, uint64_t id,
                          const void *body, size_t n, struct ls_err *err)
{
    struct ls_frame frame = { .kind = (uint8_t)kind, .id = id, .table_bytes = (uint32_t)n };
    if (n > MAX_PAYLOAD)
        return ls_fail(err, LS_E_INTERNAL, "control frame of %zu bytes, at most %d fit", n,
                       MAX_PAYLOAD);
    return ls_channel_send(&ctl->out[peer], &frame, body, err);
}

ls_status ls_control_send(struct ls_control *ctl, int peer, enum ls_kind kind, uint64_t id,
                          const void *body, size_t n, struct ls_err *err)
{
    uint64_t deadline = ls_now_us() + SEND_WAIT_US;
    char name[LS_RANK_NAME];
    unsigned idle = 0;
    for (;;) {
        if (ls_channel_payload(&ctl->out[peer], MAX_PAYLOAD))
            return send_now(ctl, peer, kind, id, body, n, err);
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

/* The oldest arrived frame as it is. */
static ls_status open_next(struct ls_control *ctl, int peer, uint32_t kinds,
                           struct ls_message *message, struct ls_err *err)
{
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

static bool is_beat(const struct ls_message *m)
{
    return (m->kind == LS_KIND_STATS && m->id == LS_STATS_BEAT) ||
           (m->kind == LS_KIND_PLAN && m->id == LS_PHASE_BEAT);
}

/* Clocks of hosts that run for as long as can be believed are less than this. */
static const int64_t max_clock_us = INT64_C(1) << 60;

static void note_clock(struct ls_control *ctl, int peer, int64_t sent_us)
{
    const int64_t apart = (int64_t)ls_now_us() - sent_us;
    if (sent_us >= 0 && sent_us < max_clock_us && apart < ctl->least_us[peer])
        ctl->least_us[peer] = apart;
}

int64_t ls_control_clock(const struct ls_control *ctl, int peer, int64_t there_us,
                         uint64_t *error_us)
{
    const int64_t here_us = ctl->least_us[peer];
    *error_us = 0;
    if (peer == ctl->rank || !strcmp(ctl->hosts[peer], ctl->hosts[ctl->rank]))
        return 0;
    *error_us = UINT64_MAX;
    /* what a peer says may be anything; both ways together cannot take less than no time */
    if (here_us >= max_clock_us || there_us >= max_clock_us || there_us <= -max_clock_us ||
        here_us + there_us < 0)
        return 0;
    *error_us = (uint64_t)(here_us + there_us + 1) / 2;
    return (here_us - there_us) / 2;
}

static ls_status take_beat(struct ls_control *ctl, int peer, const struct ls_message *m,
                           struct ls_err *err)
{
    struct ls_reader r = { .at = m->body, .left = m->n };
    struct ls_activity now = { .doing = ls_get_u32(&r), .step = ls_get_u64(&r) };
    char host[LS_MAX_HOST];
    now.pid = ls_get_u32(&r);
    const int64_t sent_us = (int64_t)ls_get_u64(&r);
    ls_get_text(&r, host, sizeof host);
    if (!ls_reader_done(&r) || now.doing >= LS_N_DOING)
        return ls_fail(err, LS_E_SHAPE, "rank %d: a sign of life that cannot be read", peer);
    ctl->last[peer] = now;
    note_clock(ctl, peer, sent_us);
    memcpy(ctl->hosts[peer], host, sizeof host);
    return ls_control_done(ctl, peer, err);
}

/* Into *message whatever has come beside signs of life. */
static ls_status next_message(struct ls_control *ctl, int peer, uint32_t kinds,
                              struct ls_message *message, struct ls_err *err)
{
    kinds |= 1u << (peer == 0 ? LS_KIND_PLAN : LS_KIND_STATS);
    for (;;) {
        *message = (struct ls_message){ .kind = 0 };
        ls_status s = open_next(ctl, peer, kinds, message, err);
        if (s || !message->kind || !is_beat(message))
            return s;
        s = take_beat(ctl, peer, message, err);
        if (s)
            return s;
    }
}

ls_status ls_control_poll(struct ls_control *ctl, int peer, uint32_t kinds,
                          struct ls_message *message, struct ls_err *err)
{
    ls_status s = LS_OK;
    *message = ctl->waiting[peer];
    ctl->waiting[peer] = (struct ls_message){ .kind = 0 };
    if (message->kind)
        ctl->heard_us[peer] = ls_now_us(); /* its signs of life are behind this message */
    else
        s = next_message(ctl, peer, kinds, message, err);
    if (s || !message->kind || kinds >> message->kind & 1)
        return s;
    return ls_fail(err, LS_E_NOT_ALLOWED, "rank %d: %s %" PRIu64 " was not to come now", peer,
                   ls_kind_name(message->kind), message->id);
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
        ls_status s = ls_control_tend(ctl, err);
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

void ls_control_set_silence(struct ls_control *ctl, int seconds)
{
    uint64_t now = ls_now_us();
    ctl->silence_us = (uint64_t)seconds * 1000000;
    ctl->next_beat_us = now;
    for (int r = 0; r < ctl->n_ranks; r++)
        ctl->heard_us[r] = now;
}

void ls_control_set_doing(struct ls_control *ctl, enum ls_doing doing, uint64_t step)
{
    ctl->news = ctl->news || ctl->last[ctl->rank].doing != doing;
    ctl->last[ctl->rank].doing = doing;
    ctl->last[ctl->rank].step = step;
}

const char *ls_control_doing(const struct ls_control *ctl, int peer, char text[LS_RANK_NAME])
{
    static const char *const names[LS_N_DOING] = {
        [LS_DOING_START] = "start",     [LS_DOING_VOTE] = "vote",
        [LS_DOING_LOAD] = "load",       [LS_DOING_WAIT] = "wait for step",
        [LS_DOING_PREFILL] = "prefill", [LS_DOING_DECODE] = "decode",
        [LS_DOING_SEND] = "send",       [LS_DOING_SHUTDOWN] = "shutdown",
    };
    const struct ls_activity *a = &ctl->last[peer];
    if (a->doing < LS_DOING_WAIT || a->doing == LS_DOING_SHUTDOWN)
        snprintf(text, LS_RANK_NAME, "%s", names[a->doing]);
    else
        snprintf(text, LS_RANK_NAME, "%s%s %" PRIu64, names[a->doing],
                 a->doing == LS_DOING_WAIT ? "" : ", step", a->step);
    return text;
}

ls_status ls_control_beat(struct ls_control *ctl, uint64_t now_us, struct ls_err *err)
{
    bool soon = ctl->news && now_us - ctl->last_beat_us >= NEWS_US;
    if (now_us < ctl->next_beat_us && !soon)
        return LS_OK;
    ctl->news = false;
    ctl->last_beat_us = now_us;
    unsigned char body[BEAT_BYTES];
    struct ls_writer w = { .at = body, .left = sizeof body };
    ls_put_u32(&w, ctl->last[ctl->rank].doing);
    ls_put_u64(&w, ctl->last[ctl->rank].step);
    ls_put_u32(&w, ctl->last[ctl->rank].pid);
    ls_put_u64(&w, now_us);
    ls_put_text(&w, ctl->hosts[ctl->rank]);
    ctl->next_beat_us = now_us + beat_us(ctl);
    for (int r = 0; r < ctl->n_ranks; r++) {
        if (!is_peer(ctl, r))
            continue;
        /* no room: the last beats are still on their way, the peer computes */
        if (!ls_channel_payload(&ctl->out[r], MAX_PAYLOAD))
            continue;
        ls_status s = ctl->rank == 0 ? send_now(ctl, r, LS_KIND_PLAN, LS_PHASE_BEAT, body,
                                                sizeof body - w.left, err)
                                     : send_now(ctl, r, LS_KIND_STATS, LS_STATS_BEAT, body,
                                                sizeof body - w.left, err);
        if (s)
            return s;
    }
    return LS_OK;
}

/* "rank 0: decode, step 4; rank 1: ..." as far as it fits. */
static void list_doings(const struct ls_control *ctl, char *out, size_t size)
{
    char doing[LS_RANK_NAME];
    size_t at = 0;
    out[0] = '\0';
    for (int r = 0; r < ctl->n_ranks && at < size; r++) {
        if (r != ctl->rank && !is_peer(ctl, r))
            continue;
        int n = snprintf(out + at, size - at, "%srank %d: %s", at ? "; " : "", r,
                         ls_control_doing(ctl, r, doing));
        at += n > 0 ? (size_t)n : size;
    }
}

static ls_status give_up(struct ls_control *ctl, int peer, const char *what, struct ls_err *err)
{
    char name[LS_RANK_NAME], doing[LS_RANK_NAME], all[LS_ERR_TEXT / 2];
    ctl->lost = peer;
    list_doings(ctl, all, sizeof all);
    return ls_fail(err, LS_E_LINK, "%s: %s, last heard in %s (%s)",
                   ls_control_name(ctl, peer, name), what, ls_control_doing(ctl, peer, doing),
                   all);
}

/* A killed process is a zombie until its parent has taken notice. */
static bool is_gone(uint32_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return errno == ENOENT;
    const char *end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return end && (end[1] && (end[2] == 'Z' || end[2] == 'X'));
}

/* When the launcher is about to kill, half of the silence that is allowed tells enough: a
 * network that is cut is noticed by the launcher first. */
static bool is_quiet(const struct ls_control *ctl, int peer, uint64_t now_us)
{
    return ctl->hurry && *ctl->hurry && !ctl->waiting[peer].kind &&
           now_us > ctl->heard_us[peer] + ctl->silence_us / 2;
}

ls_status ls_control_find_gone(struct ls_control *ctl, struct ls_err *err)
{
    uint64_t now_us = ls_now_us();
    char what[64];
    for (int r = 0; r < ctl->n_ranks; r++) {
        if (!is_peer(ctl, r))
            continue;
        if (ctl->last[r].pid && !strcmp(ctl->hosts[r], ctl->hosts[ctl->rank]) &&
            is_gone(ctl->last[r].pid))
            return give_up(ctl, r, "its process is gone", err);
        if (is_quiet(ctl, r, now_us)) {
            snprintf(what, sizeof what, "no sign of life for %" PRIu64 " s",
                     (now_us - ctl->heard_us[r]) / 1000000);
            return give_up(ctl, r, what, err);
        }
    }
    return LS_OK;
}

static ls_status search(struct ls_control *ctl, uint64_t now_us, struct ls_err *err)
{
    if (now_us < ctl->next_search_us && !(ctl->hurry && *ctl->hurry))
        return LS_OK;
    ctl->next_search_us = now_us + SEARCH_US;
    return ls_control_find_gone(ctl, err);
}

ls_status ls_control_check_alive(struct ls_control *ctl, uint64_t now_us, struct ls_err *err)
{
    char what[64];
    if (ctl->last_check_us && now_us - ctl->last_check_us > ctl->silence_us / 2) {
        ctl->away_us = now_us;
        ls_control_set_silence(ctl, (int)(ctl->silence_us / 1000000));
    }
    ctl->last_check_us = now_us;
    for (int r = 0; r < ctl->n_ranks; r++) {
        if (!is_peer(ctl, r) || ctl->waiting[r].kind || now_us < ctl->heard_us[r] ||
            now_us - ctl->heard_us[r] < ctl->silence_us)
            continue;
        snprintf(what, sizeof what, "no sign of life for %" PRIu64 " s",
                 ctl->silence_us / 1000000);
        return give_up(ctl, r, what, err);
    }
    return search(ctl, now_us, err);
}

ls_status ls_control_heed(struct ls_control *ctl, struct ls_err *err)
{
    char name[LS_RANK_NAME];
    if (!ctl->hurry || !*ctl->hurry || ctl->heeded)
        return LS_OK;
    const char *what = *ctl->hurry == SIGINT ? "SIGINT" : "SIGTERM";
    if (ctl->rank == 0)
        return ls_fail(err, LS_E_DRAINED, "stopped by %s", what);
    ctl->heeded = true;
    return ls_fail(err, LS_E_DRAINED, "stopped by %s to %s", what,
                   ls_control_name(ctl, ctl->rank, name));
}

static ls_status listen(struct ls_control *ctl, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (int r = 0; !s && r < ctl->n_ranks; r++) {
        if (ctl->in[r].link && !ctl->waiting[r].kind)
            s = next_message(ctl, r, UINT32_MAX, &ctl->waiting[r], err);
        if (!s && ctl->waiting[r].kind == LS_KIND_ERROR)
            s = ls_control_read_failure(&ctl->waiting[r], err);
    }
    return s;
}

ls_status ls_control_tend(struct ls_control *ctl, struct ls_err *err)
{
    ls_status s = ls_comm_progress(ctl->comm, err);
    if (!s)
        s = listen(ctl, err);
    if (!s)
        s = ls_control_beat(ctl, ls_now_us(), err);
    if (!s)
        s = ls_control_check_alive(ctl, ls_now_us(), err);
    return s ? s : ls_control_heed(ctl, err);
}
