#include "base/alloc.h"
#include "pipeline/keyring_state.h"

#include <stdio.h>
#include <sys/resource.h>

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
            k->peers[k->n_peers++] = (struct ls_key_peer){ .rank = r };
    }
}

ls_status ls_keyring_create(struct ls_keyring **out, struct ls_comm *comm,
                            const struct ls_link_wish *wish, struct ls_err *err)
{
    void *memory = NULL, *peers = NULL;
    int n_ranks = ls_comm_size(comm);
    ls_status s = ls_alloc(&memory, sizeof(struct ls_keyring), "keys of links", err);
    if (!s)
        s = ls_alloc(&peers, (uint64_t)n_ranks * sizeof(struct ls_key_peer), "keys of links",
                     err);
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
        s = ls_keyring_open_peer(comm, &k->peers[i], err);
    if (!s)
        s = k->rank == 0 ? ls_keyring_lead(k, err) : ls_keyring_follow(k, err);
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
        struct ls_key_peer *p = &k->peers[i];
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
        struct ls_key_peer p = { .rank = r };
        if (!ls_keyring_open_peer(comm, &p, NULL))
            ls_keyring_say_card(comm, p.out, &card, NULL);
    }
}
