/* The other ranks: offer, terms, hellos, word that the keys are ready. */
#include "pipeline/keyring_state.h"
#include "pipeline/secret_file.h"

#include <stdio.h>
#include <string.h>

static ls_status take_terms(struct ls_keyring *k, struct ls_key_peer *p,
                            const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = ls_keyring_read_card(k, &card, p, bytes, n, err);
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

static ls_status take_go(struct ls_keyring *k, struct ls_key_peer *p,
                         const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = ls_keyring_read_card(k, &card, p, bytes, n, err);
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
    ls_status s = ls_keyring_say_card(k->comm, k->peers[0].out, &card, err);
    if (!s)
        s = ls_keyring_gather(k, 1, take_terms, LS_KEYRING_LEAD_S, "terms", err);
    bool keys = k->terms.level != LS_LEVEL_PLAIN;
    for (int i = 0; !s && keys && i < k->n_peers; i++)
        s = ls_keyring_say_hello(k, &k->peers[i], err);
    if (!s && keys)
        s = ls_keyring_gather(k, k->n_peers, ls_keyring_take_hello, LS_KEYRING_WORD_S, "hello",
                              err);
    card = own_card(k, LS_CARD_READY);
    return s ? s : ls_keyring_say_card(k->comm, k->peers[0].out, &card, err);
}

/* A refusal of this rank's own goes to rank 0, which then ends the job. */
ls_status ls_keyring_follow(struct ls_keyring *k, struct ls_err *err)
{
    struct ls_err late = { .status = LS_OK };
    k->terms.one_host = ls_comm_is_one_host(k->comm);
    ls_status s = follow(k, err);
    if (!s)
        return ls_keyring_gather(k, 1, take_go, LS_KEYRING_GO_S, "word to begin", err);
    if (k->ended)
        return s;
    struct ls_card card = own_card(k, LS_CARD_READY);
    card.status = s;
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, err->text);
    if (!ls_keyring_say_card(k->comm, k->peers[0].out, &card, &late))
        ls_keyring_gather(k, 1, take_go, LS_KEYRING_END_S, "end", &late);
    return s;
}
