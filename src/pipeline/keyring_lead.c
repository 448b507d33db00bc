/* Rank 0: hears what everybody brings, names the terms, lets all go or ends the job. */
#include "pipeline/keyring_state.h"
#include "pipeline/secret_file.h"

#include <stdio.h>
#include <string.h>

static ls_status check_offer(struct ls_keyring *k, struct ls_key_peer *p,
                             const struct ls_card *card, struct ls_err *err)
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

static ls_status take_offer(struct ls_keyring *k, struct ls_key_peer *p,
                            const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = ls_keyring_read_card(k, &card, p, bytes, n, err);
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

static ls_status take_ready(struct ls_keyring *k, struct ls_key_peer *p,
                            const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    struct ls_card card;
    ls_status s = ls_keyring_read_card(k, &card, p, bytes, n, err);
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
        s = ls_keyring_say_card(k->comm, k->peers[i].out, &card, err);
        if (!s && k->terms.level != LS_LEVEL_PLAIN)
            s = ls_keyring_say_hello(k, &k->peers[i], err);
    }
    return s;
}

static ls_status lead(struct ls_keyring *k, uint8_t name[LS_SECRET_NAME], struct ls_err *err)
{
    int n = k->n_peers;
    if (k->wish.status)
        return ls_fail(err, k->wish.status, "%s", k->wish.text);
    ls_status s = ls_keyring_gather(k, n, take_offer, LS_KEYRING_WORD_S, "offer", err);
    if (!s)
        s = set_terms(k, name, err);
    if (!s)
        s = name_run(k, name, err);
    if (!s && k->terms.level != LS_LEVEL_PLAIN)
        s = ls_keyring_gather(k, n, ls_keyring_take_hello, LS_KEYRING_WORD_S, "hello", err);
    if (!s)
        s = ls_keyring_gather(k, n, take_ready, LS_KEYRING_LEAD_S,
                              "word that its keys are ready", err);
    return s;
}

static void tell_all(struct ls_keyring *k, enum ls_card_phase phase, ls_status status,
                     const char *text)
{
    struct ls_card card = { .phase = phase, .level = k->terms.level, .status = status };
    snprintf(card.text, sizeof card.text, "%.*s", LS_CARD_TEXT - 1, text);
    for (int i = 0; i < k->n_peers; i++)
        ls_keyring_say_card(k->comm, k->peers[i].out, &card, NULL);
}

ls_status ls_keyring_lead(struct ls_keyring *k, struct ls_err *err)
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
