/* How ranks talk before there are keys: cards and hellos, each wait with a deadline. */
#include "base/clock.h"
#include "pipeline/keyring_state.h"

#include <inttypes.h>
#include <string.h>

enum { BUFFERS = 4 };

ls_status ls_keyring_open_peer(struct ls_comm *comm, struct ls_key_peer *p, struct ls_err *err)
{
    ls_status s =
        ls_comm_open(comm, &p->in, p->rank, LS_TAG_HELLO, LS_RECV, BUFFERS, LS_CARD_BYTES, err);
    return s ? s
             : ls_comm_open(comm, &p->out, p->rank, LS_TAG_HELLO, LS_SEND, BUFFERS,
                            LS_CARD_BYTES, err);
}

static ls_status say(struct ls_comm *comm, struct ls_link *out, const void *bytes, size_t n,
                     struct ls_err *err)
{
    uint64_t deadline = ls_now_us() + LS_KEYRING_END_S * 1000000u;
    unsigned idle = 0;
    void *buffer;
    while (!(buffer = ls_link_buffer(out))) {
        ls_status s = ls_comm_progress(comm, err);
        if (s)
            return s;
        if (ls_now_us() > deadline)
            return ls_fail(err, LS_E_LINK, "a peer takes no messages");
        ls_comm_idle(&idle);
    }
    memcpy(buffer, bytes, n);
    return ls_link_send(out, n, err);
}

ls_status ls_keyring_say_card(struct ls_comm *comm, struct ls_link *out,
                              const struct ls_card *card, struct ls_err *err)
{
    unsigned char bytes[LS_CARD_BYTES];
    ls_card_encode(card, bytes);
    return say(comm, out, bytes, sizeof bytes, err);
}

static ls_status poll_peer(struct ls_keyring *k, struct ls_key_peer *p,
                           ls_keyring_take_fn *take, struct ls_err *err)
{
    void *bytes;
    uint64_t n;
    ls_status s = ls_link_poll(p->in, &bytes, &n, err);
    if (s || !bytes)
        return s;
    s = take(k, p, bytes, n, err);
    p->done = true;
    ls_status returned = ls_link_return(p->in, s ? NULL : err);
    return s ? s : returned;
}

ls_status ls_keyring_read_card(struct ls_keyring *k, struct ls_card *card,
                               const struct ls_key_peer *p, const unsigned char *bytes,
                               uint64_t n, struct ls_err *err)
{
    card->host[0] = '\0';
    ls_status s = ls_card_decode(card, bytes, n, (uint32_t)p->rank, err);
    if (s || !card->status)
        return s;
    k->ended = p->rank == 0;
    return ls_fail(err, card->status, "%s", card->text);
}

/* A card may come instead of what is awaited, but only to say that it is over. */
static ls_status fail_by_card(struct ls_keyring *k, const struct ls_key_peer *p,
                              const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = ls_keyring_read_card(k, &card, p, bytes, n, err);
    return s ? s
             : ls_fail(err, LS_E_NOT_ALLOWED, "rank %d: a card where a hello is due", p->rank);
}

static ls_status heed_end(struct ls_keyring *k, struct ls_err *err)
{
    struct ls_key_peer *lead = &k->peers[0];
    void *bytes;
    uint64_t n;
    if (k->rank == 0 || !lead->done)
        return LS_OK;
    ls_status s = ls_link_poll(lead->in, &bytes, &n, err);
    return s || !bytes ? s : fail_by_card(k, lead, bytes, n, err);
}

ls_status ls_keyring_gather(struct ls_keyring *k, int n, ls_keyring_take_fn *take,
                            uint64_t seconds, const char *what, struct ls_err *err)
{
    uint64_t deadline = ls_now_us() + seconds * 1000000u;
    unsigned idle = 0;
    for (int i = 0; i < n; i++)
        k->peers[i].done = false;
    for (;;) {
        int missing = -1;
        ls_status s = ls_comm_progress(k->comm, err);
        for (int i = 0; !s && i < n; i++) {
            if (!k->peers[i].done)
                s = poll_peer(k, &k->peers[i], take, err);
            if (!k->peers[i].done)
                missing = i;
        }
        if (!s && missing < 0)
            return LS_OK;
        if (!s)
            s = heed_end(k, err);
        if (!s && ls_now_us() > deadline) {
            ls_comm_set_lost(k->comm, k->peers[missing].rank);
            s = ls_fail(err, LS_E_LINK, "rank %d: no %s from rank %d within %" PRIu64 " s",
                        k->rank, what, k->peers[missing].rank, seconds);
        }
        if (s)
            return s;
        ls_comm_idle(&idle);
    }
}

ls_status ls_keyring_take_hello(struct ls_keyring *k, struct ls_key_peer *p,
                                const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    ls_status s;
    if (n == LS_CARD_BYTES)
        s = fail_by_card(k, p, bytes, n, err);
    else
        s = ls_handshake_finish(p->handshake, bytes, n, err);
    if (s && k->rank == 0)
        ls_fail_prefix(err, n == LS_CARD_BYTES ? "rank %d on %s" : "rank 0 with rank %d on %s",
                       p->rank, p->host);
    return s;
}

ls_status ls_keyring_say_hello(struct ls_keyring *k, struct ls_key_peer *p, struct ls_err *err)
{
    struct ls_pair pair = { .self = (uint32_t)k->rank,
                            .peer = (uint32_t)p->rank,
                            .level = k->terms.level,
                            .suite = k->terms.suite };
    const struct ls_secret *secret = k->own ? k->own : k->wish.secret;
    memcpy(pair.run_id, k->terms.run_id, LS_RUN_ID);
    ls_status s = ls_handshake_create(&p->handshake, secret, &pair, err);
    if (s)
        return s;
    return say(k->comm, p->out, ls_handshake_hello(p->handshake), LS_HELLO_BYTES, err);
}
