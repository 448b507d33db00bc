#include "pipeline/keyring.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/secret_file.h"
#include "wire/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    CALL_S = 60, /* for rank 0, which reads its configuration first */
    WORD_S = 30, /* for everything else: no rank has anything to do meanwhile */
    END_S = 5,   /* for rank 0's last word, after a refusal of one's own */
    BUFFERS = 4,
};

/* A rank that this one talks to. */
struct peer {
    int rank;
    struct ls_link *in, *out;
    struct ls_handshake *handshake; /* NULL at level plain */
    char host[LS_CARD_HOST];
    bool done; /* has said what is being waited for */
};

struct ls_keyring {
    struct ls_comm *comm;
    struct ls_link_wish wish;
    struct ls_link_terms terms;
    struct ls_secret *own; /* made or fetched here; else wish.secret is used */
    struct peer *peers;    /* [n_peers]; rank 0 first unless this is rank 0 */
    int rank, n_peers;
    uint32_t suites; /* that every rank heard so far has */
    bool ended;      /* rank 0 has ended the job */
};

/* --- talking ------------------------------------------------------------------------------ */

static ls_status open_peer(struct ls_comm *comm, struct peer *p, struct ls_err *err)
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
    uint64_t deadline = ls_now_us() + END_S * 1000000u;
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

static ls_status say_card(struct ls_comm *comm, struct ls_link *out, const struct ls_card *card,
                          struct ls_err *err)
{
    unsigned char bytes[LS_CARD_BYTES];
    ls_card_encode(card, bytes);
    return say(comm, out, bytes, sizeof bytes, err);
}

/* Takes one message of a peer. */
typedef ls_status take_fn(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                          uint64_t n, struct ls_err *err);

static ls_status poll_peer(struct ls_keyring *k, struct peer *p, take_fn *take,
                           struct ls_err *err)
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

/* Decodes a card; one that refuses, or ends the job, becomes this rank's failure. */
static ls_status read_card(struct ls_keyring *k, struct ls_card *card, const struct peer *p,
                           const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    card->host[0] = '\0';
    ls_status s = ls_card_decode(card, bytes, n, (uint32_t)p->rank, err);
    if (s || !card->status)
        return s;
    k->ended = p->rank == 0;
    return ls_fail(err, card->status, "%s", card->text);
}

/* A card may come instead of what is awaited, but only to say that it is over. */
static ls_status fail_by_card(struct ls_keyring *k, const struct peer *p,
                              const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = read_card(k, &card, p, bytes, n, err);
    return s ? s
             : ls_fail(err, LS_E_NOT_ALLOWED, "rank %d: a card where a hello is due", p->rank);
}

static ls_status heed_end(struct ls_keyring *k, struct ls_err *err)
{
    struct peer *lead = &k->peers[0];
    void *bytes;
    uint64_t n;
    if (k->rank == 0 || !lead->done)
        return LS_OK;
    ls_status s = ls_link_poll(lead->in, &bytes, &n, err);
    return s || !bytes ? s : fail_by_card(k, lead, bytes, n, err);
}

/* Until each of the first n peers has said one thing. */
static ls_status gather(struct ls_keyring *k, int n, take_fn *take, uint64_t seconds,
                        const char *what, struct ls_err *err)
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
        if (!s && ls_now_us() > deadline)
            s = ls_fail(err, LS_E_LINK, "rank %d: no %s from rank %d within %" PRIu64 " s",
                        k->rank, what, k->peers[missing].rank, seconds);
        if (s)
            return s;
        ls_comm_idle(&idle);
    }
}

/* --- hellos ------------------------------------------------------------------------------- */

static ls_status take_hello(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                            uint64_t n, struct ls_err *err)
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

static ls_status say_hello(struct ls_keyring *k, struct peer *p, struct ls_err *err)
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

/* --- rank 0 ------------------------------------------------------------------------------- */

static ls_status check_offer(struct ls_keyring *k, struct peer *p, const struct ls_card *card,
                             struct ls_err *err)
{
    bool here = k->wish.secret, there = card->origin != LS_SECRET_NONE;
    if (card->level != k->wish.level)
        return ls_fail(err, LS_E_REFUSED, "has link level %s, rank 0 has %s",
                       ls_level_name(card->level), ls_level_name(k->wish.level));
    if (here != there)
        return ls_fail(err, LS_E_REFUSED, "was given %s secret, rank 0 was given %s",
                       there ? "a" : "no", here ? "one" : "none");
    k->suites &= card->suites;
    memcpy(p->host, card->host, sizeof p->host);
    return LS_OK;
}

static ls_status take_offer(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                            uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = read_card(k, &card, p, bytes, n, err);
    if (!s && card.phase != LS_CARD_OFFER)
        s = ls_fail(err, LS_E_SEQUENCE, "says that it is ready before it is asked");
    if (!s)
        s = check_offer(k, p, &card, err);
    if (s && card.host[0])
        ls_fail_prefix(err, "rank %d on %s", p->rank, card.host);
    else if (s)
        ls_fail_prefix(err, "rank 0 with rank %d", p->rank);
    return s;
}

static ls_status take_ready(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                            uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = read_card(k, &card, p, bytes, n, err);
    if (!s && card.phase != LS_CARD_READY)
        s = ls_fail(err, LS_E_SEQUENCE, "makes an offer a second time");
    return s ? ls_fail_prefix(err, "rank %d on %s", p->rank, p->host) : LS_OK;
}

static ls_status check_places(const struct ls_keyring *k, struct ls_err *err)
{
    if (k->terms.one_host)
        return LS_OK;
    if (k->wish.level != LS_LEVEL_PLAIN && !k->wish.secret)
        return ls_fail(err, LS_E_REFUSED,
                       "the ranks are on several hosts and have no secret: make one with "
                       "lockstep keygen FILE, where every host can read it, and give "
                       "--secret-file FILE");
    if (k->wish.level == LS_LEVEL_PLAIN && !k->wish.plain_across_hosts)
        return ls_fail(err, LS_E_REFUSED,
                       "--link plain between several hosts lets anybody on the way read and "
                       "change prompts and results: use --link sealed, or add "
                       "--allow-plain-across-hosts");
    return LS_OK;
}

/* What the run's terms are, and the secret under which they hold. */
static ls_status set_terms(struct ls_keyring *k, uint8_t name[LS_SECRET_NAME],
                           struct ls_err *err)
{
    ls_status s = check_places(k, err);
    k->terms.level = k->wish.level;
    k->terms.origin = k->wish.origin;
    if (s || k->n_peers == 0 || k->wish.level == LS_LEVEL_PLAIN)
        return s;
    k->terms.suite = ls_suite_choose(k->suites);
    if (k->terms.suite == LS_SUITE_NONE)
        return ls_fail(err, LS_E_REFUSED, "no cipher suite that every rank's CPU can run");
    if (k->wish.secret)
        return LS_OK;
    k->terms.origin = LS_SECRET_EPHEMERAL;
    s = ls_secret_create(&k->own, err);
    return s ? s : ls_secret_publish(k->own, name, err);
}

static ls_status name_run(struct ls_keyring *k, const uint8_t name[LS_SECRET_NAME],
                          struct ls_err *err)
{
    struct ls_card card = { .level = k->terms.level,
                            .origin = k->terms.origin,
                            .suites = 1u << k->terms.suite };
    memcpy(card.run_id, k->terms.run_id, LS_RUN_ID);
    memcpy(card.name, name, LS_SECRET_NAME);
    ls_status s = LS_OK;
    for (int i = 0; !s && i < k->n_peers; i++) {
        s = say_card(k->comm, k->peers[i].out, &card, err);
        if (!s && k->terms.level != LS_LEVEL_PLAIN)
            s = say_hello(k, &k->peers[i], err);
    }
    return s;
}

static ls_status lead(struct ls_keyring *k, uint8_t name[LS_SECRET_NAME], struct ls_err *err)
{
    int n = k->n_peers;
    if (k->wish.status)
        return ls_fail(err, k->wish.status, "%s", k->wish.text);
    ls_status s = gather(k, n, take_offer, WORD_S, "offer", err);
    if (!s)
        s = set_terms(k, name, err);
    if (!s)
        s = name_run(k, name, err);
    if (!s && k->terms.level != LS_LEVEL_PLAIN)
        s = gather(k, n, take_hello, WORD_S, "hello", err);
    if (!s)
        s = gather(k, n, take_ready, WORD_S, "word that its keys are ready", err);
    return s;
}

static void tell_all(struct ls_keyring *k, enum ls_card_phase phase, ls_status status,
                     const char *text)
{
    struct ls_card card = { .phase = phase, .level = k->terms.level, .status = status };
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, text);
    for (int i = 0; i < k->n_peers; i++)
        say_card(k->comm, k->peers[i].out, &card, NULL);
}

static ls_status run_lead(struct ls_keyring *k, struct ls_err *err)
{
    uint8_t name[LS_SECRET_NAME] = { 0 };
    ls_status s = ls_run_id_create(k->terms.run_id, err);
    k->terms.one_host = ls_comm_is_one_host(k->comm);
    if (!s)
        s = lead(k, name, err);
    if (k->own)
        ls_secret_withdraw(name);
    tell_all(k, LS_CARD_READY, s, s ? err->text : "");
    return s;
}

/* --- the others --------------------------------------------------------------------------- */

static ls_status take_terms(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                            uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = read_card(k, &card, p, bytes, n, err);
    if (s)
        return s;
    if (card.phase != LS_CARD_OFFER || card.level != k->wish.level)
        return ls_fail(err, LS_E_REFUSED, "rank 0 has link level %s, this rank has %s",
                       ls_level_name(card.level), ls_level_name(k->wish.level));
    k->terms.level = k->wish.level;
    memcpy(k->terms.run_id, card.run_id, LS_RUN_ID);
    if (k->wish.level == LS_LEVEL_PLAIN)
        return LS_OK;
    uint32_t common = card.suites & ls_suites_here();
    k->terms.suite = ls_suite_choose(common);
    if (1u << k->terms.suite != card.suites)
        return ls_fail(err, LS_E_REFUSED, "rank 0 names a cipher suite that is not here");
    k->terms.origin = k->wish.secret ? k->wish.origin : LS_SECRET_EPHEMERAL;
    if (k->wish.secret)
        return LS_OK;
    if (card.origin != LS_SECRET_EPHEMERAL || !k->terms.one_host)
        return ls_fail(err, LS_E_REFUSED, "this rank has no secret");
    return ls_secret_fetch(&k->own, card.name, err);
}

static ls_status take_go(struct ls_keyring *k, struct peer *p, const unsigned char *bytes,
                         uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = read_card(k, &card, p, bytes, n, err);
    if (!s && card.phase != LS_CARD_READY)
        s = ls_fail(err, LS_E_SEQUENCE, "rank 0 names its terms a second time");
    return s;
}

static struct ls_card own_card(const struct ls_keyring *k, enum ls_card_phase phase)
{
    struct ls_card card = { .phase = phase,
                            .level = k->wish.level,
                            .origin = k->wish.origin,
                            .suites = ls_suites_here() };
    snprintf(card.host, sizeof card.host, "%.*s", LS_CARD_HOST - 1, ls_comm_host(k->comm));
    return card;
}

static ls_status follow(struct ls_keyring *k, struct ls_err *err)
{
    struct ls_card card = own_card(k, LS_CARD_OFFER);
    card.status = k->wish.status;
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, k->wish.text);
    ls_status s = say_card(k->comm, k->peers[0].out, &card, err);
    if (!s)
        s = gather(k, 1, take_terms, CALL_S, "terms", err);
    bool keys = k->terms.level != LS_LEVEL_PLAIN;
    for (int i = 0; !s && keys && i < k->n_peers; i++)
        s = say_hello(k, &k->peers[i], err);
    if (!s && keys)
        s = gather(k, k->n_peers, take_hello, WORD_S, "hello", err);
    card = own_card(k, LS_CARD_READY);
    return s ? s : say_card(k->comm, k->peers[0].out, &card, err);
}

/* A refusal of this rank's own goes to rank 0, which then ends the job. */
static ls_status run_follow(struct ls_keyring *k, struct ls_err *err)
{
    struct ls_err late = { .status = LS_OK };
    k->terms.one_host = ls_comm_is_one_host(k->comm);
    ls_status s = follow(k, err);
    if (!s)
        return gather(k, 1, take_go, 2 * WORD_S, "word to begin", err);
    if (k->ended)
        return s;
    struct ls_card card = own_card(k, LS_CARD_READY);
    card.status = s;
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, err->text);
    if (!say_card(k->comm, k->peers[0].out, &card, &late))
        gather(k, 1, take_go, END_S, "end", &late);
    return s;
}

/* --- creation ----------------------------------------------------------------------------- */

/* A core file would hold prompts, weights and hidden states. One byte, because the kernel does
 * not hold a core handler behind a pipe to a limit of 0, but to a limit of 1. Clearing the
 * process's dumpable flag would also do, but takes MPI's shared-memory copies away. */
static void prevent_core_file(void)
{
    const struct rlimit one = { .rlim_cur = 1, .rlim_max = 1 };
    const struct rlimit none = { .rlim_cur = 0, .rlim_max = 0 };
    if (setrlimit(RLIMIT_CORE, &one))
        setrlimit(RLIMIT_CORE, &none);
}

static void list_peers(struct ls_keyring *k, int n_ranks)
{
    for (int r = 0; r < n_ranks; r++) {
        bool neighbour = r == k->rank - 1 || r == k->rank + 1;
        if (r != k->rank && (k->rank == 0 || r == 0 || neighbour))
            k->peers[k->n_peers++] = (struct peer){ .rank = r };
    }
}

ls_status ls_keyring_create(struct ls_keyring **out, struct ls_comm *comm,
                            const struct ls_link_wish *wish, struct ls_err *err)
{
    void *memory = NULL, *peers = NULL;
    int n_ranks = ls_comm_size(comm);
    ls_status s = ls_alloc(&memory, sizeof(struct ls_keyring), "keys of links", err);
    if (!s)
        s = ls_alloc(&peers, (uint64_t)n_ranks * sizeof(struct peer), "keys of links", err);
    if (s) {
        ls_free(memory);
        return s;
    }
    struct ls_keyring *k = memory;
    k->comm = comm;
    k->rank = ls_comm_rank(comm);
    k->peers = peers;
    k->wish.level = LS_LEVEL_SEALED;
    if (wish)
        k->wish = *wish;
    k->suites = ls_suites_here();
    if (k->wish.level != LS_LEVEL_PLAIN)
        prevent_core_file();
    list_peers(k, n_ranks);
    for (int i = 0; !s && i < k->n_peers; i++)
        s = open_peer(comm, &k->peers[i], err);
    if (!s)
        s = k->rank == 0 ? run_lead(k, err) : run_follow(k, err);
    if (s)
        ls_keyring_destroy(k);
    else
        *out = k;
    return s;
}

void ls_keyring_close(struct ls_keyring *k)
{
    for (int i = 0; i < k->n_peers; i++) {
        ls_handshake_destroy(k->peers[i].handshake);
        k->peers[i].handshake = NULL;
    }
    ls_secret_destroy(k->own);
    k->own = NULL;
}

void ls_keyring_destroy(struct ls_keyring *k)
{
    if (!k)
        return;
    ls_keyring_close(k);
    ls_free(k->peers);
    ls_free(k);
}

/* --- use ---------------------------------------------------------------------------------- */

struct ls_comm *ls_keyring_comm(const struct ls_keyring *k)
{
    return k->comm;
}

const struct ls_link_terms *ls_keyring_terms(const struct ls_keyring *k)
{
    return &k->terms;
}

ls_status ls_keyring_seal(struct ls_keyring *k, int peer, enum ls_tag tag,
                          enum ls_direction direction, struct ls_seal **out, struct ls_err *err)
{
    *out = NULL;
    if (k->terms.level == LS_LEVEL_PLAIN || peer == k->rank)
        return LS_OK;
    for (int i = 0; i < k->n_peers; i++) {
        struct peer *p = &k->peers[i];
        if (p->rank != peer || !p->handshake)
            continue;
        ls_status s =
            ls_handshake_seal(p->handshake, out, (uint32_t)tag, direction == LS_SEND, err);
        if (!s && k->wish.rekey_frames)
            ls_seal_set_epoch_limits(*out, k->wish.rekey_frames, UINT64_MAX);
        return s;
    }
    return ls_fail(err, LS_E_INTERNAL, "rank %d has no keys with rank %d", k->rank, peer);
}

void ls_keyring_refuse(struct ls_comm *comm, ls_status status, const char *text)
{
    struct ls_card card = { .phase = LS_CARD_READY, .status = status };
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, text);
    for (int r = 1; r < ls_comm_size(comm); r++) {
        struct peer p = { .rank = r };
        if (!open_peer(comm, &p, NULL))
            say_card(comm, p.out, &card, NULL);
    }
}
