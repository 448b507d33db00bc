#include "session_rig.h"

#include "base/philox.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t rig_below(struct rig_random *r, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(r->key, r->index++) * n);
}

static ls_status next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err)
{
    (void)err;
    struct rig_script *script = arg;
    /* Now and then there is none yet, as when an input file is read behind other work. */
    if (script->started > 0 && script->started < script->n && script->n_calls % 5 == 4 &&
        script->started > script->finished) {
        script->n_calls++;
        *what = LS_NEXT_LATER;
        return LS_OK;
    }
    *what = script->started < script->n ? LS_NEXT_SEQUENCE : LS_NEXT_END;
    if (*what == LS_NEXT_SEQUENCE)
        *seq = script->sequences[script->started++].seq;
    return LS_OK;
}

static struct rig_sequence *find(struct rig_script *script, uint64_t id)
{
    for (int i = 0; i < script->started; i++)
        if (script->sequences[i].seq.id == id)
            return &script->sequences[i];
    snprintf(script->fault, sizeof script->fault, "unknown sequence %" PRIu64, id);
    return NULL;
}

static int32_t largest(const float *row, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static void chain_hash(struct rig_script *script, struct rig_sequence *s,
                       const struct ls_logits *l)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof s->logits);
    crypto_generichash_update(&state, s->logits, sizeof s->logits);
    crypto_generichash_update(&state, (const unsigned char *)&l->pos, sizeof l->pos);
    crypto_generichash_update(&state, (const unsigned char *)l->row,
                              (size_t)script->vocab * sizeof *l->row);
    crypto_generichash_final(&state, s->logits, sizeof s->logits);
}

static ls_status logits(void *arg, uint64_t id, const struct ls_logits *l,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err)
{
    struct rig_script *script = arg;
    struct rig_sequence *s = find(script, id);
    if (script->drain_after)
        usleep(2000); /* a client slow enough for a tick in the middle of the run */
    if (++script->n_calls == script->fail_at)
        return ls_fail(err, LS_E_IO, "the client's disk is full");
    if (!s)
        return ls_fail(err, LS_E_INTERNAL, "unknown sequence");
    if (l->pos != s->next_pos || s->n_done || l->nan_layer != -1)
        snprintf(script->fault, sizeof script->fault,
                 "sequence %" PRIu64 ": position %u, expected %u", id, l->pos, s->next_pos);
    s->next_pos = l->pos + 1;
    chain_hash(script, s, l);
    *verdict = LS_GO_ON;
    *token = -1;
    if (l->pos + 1 < s->seq.n_prompt || s->seq.max_new == 0)
        return LS_OK;
    *token = largest(l->row, script->vocab);
    if (s->n_new == RIG_MAX_NEW)
        return ls_fail(err, LS_E_INTERNAL, "more tokens than asked for");
    s->new_tokens[s->n_new++] = *token;
    if (*token % 23 == 7)
        *verdict = LS_FINISH;
    return LS_OK;
}

static ls_status done(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err)
{
    struct rig_script *script = arg;
    struct rig_sequence *s = find(script, id);
    if (!s)
        return ls_fail(err, LS_E_INTERNAL, "unknown sequence");
    memcpy(s->digest, digest, sizeof s->digest);
    s->n_rows = n_rows;
    s->n_done++;
    script->finished++;
    return LS_OK;
}

static ls_status tick(void *arg, uint64_t n_running, bool *drain, struct ls_err *err)
{
    (void)n_running;
    (void)err;
    struct rig_script *script = arg;
    if (script->drain_after && script->finished >= script->drain_after)
        *drain = true;
    return LS_OK;
}

static void draw_sequence(struct rig_random *r, struct rig_sequence *s, uint64_t id, int vocab)
{
    uint32_t n = 1 + rig_below(r, rig_below(r, 3) ? RIG_MAX_PROMPT : 8);
    s->seq = (struct ls_sequence){ .id = id, .n_prompt = n };
    s->seq.max_new = rig_below(r, 4) ? 1 + rig_below(r, RIG_MAX_NEW) : 0;
    s->seq.n_send = rig_below(r, 3) ? 1 : 1 + rig_below(r, n);
    if (s->seq.max_new == 0 && rig_below(r, 2))
        s->seq.n_send = 0;
    s->seq.n_digest = rig_below(r, 2) ? n : rig_below(r, n + 1);
    s->seq.digest_generated = rig_below(r, 2);
    for (uint32_t t = 0; t < n; t++)
        s->prompt[t] = (int32_t)(8 + rig_below(r, (uint32_t)vocab - 8));
    s->next_pos = n - s->seq.n_send;
}

static void shuffle(struct rig_script *script, uint64_t seed)
{
    struct rig_random r = { .key = seed };
    for (int i = script->n - 1; i > 0; i--) {
        int j = (int)rig_below(&r, (uint32_t)i + 1);
        struct rig_sequence x = script->sequences[i];
        script->sequences[i] = script->sequences[j];
        script->sequences[j] = x;
    }
}

void rig_script_init(struct rig_script *script, uint64_t seed, uint64_t order_seed, int vocab)
{
    struct rig_random r = { .key = seed };
    *script = (struct rig_script){ .vocab = vocab, .n = RIG_SEQUENCES };
    script->sequences = calloc(RIG_SEQUENCES, sizeof *script->sequences);
    if (!script->sequences)
        abort();
    for (int i = 0; i < script->n; i++)
        draw_sequence(&r, &script->sequences[i], 1000 + (uint64_t)i, vocab);
    if (order_seed)
        shuffle(script, order_seed);
    for (int i = 0; i < script->n; i++)
        script->sequences[i].seq.tokens = script->sequences[i].prompt;
    script->client = (struct ls_client){
        .arg = script, .next = next, .logits = logits, .done = done, .tick = tick
    };
}

void rig_script_finish(struct rig_script *script)
{
    free(script->sequences);
    script->sequences = NULL;
}

static const struct rig_sequence *by_id(const struct rig_script *script, uint64_t id)
{
    for (int i = 0; i < script->n; i++)
        if (script->sequences[i].seq.id == id)
            return &script->sequences[i];
    return NULL;
}

const char *rig_script_differs(const struct rig_script *a, const struct rig_script *b)
{
    static char text[128];
    text[0] = '\0';
    for (int i = 0; i < a->n && !text[0]; i++) {
        const struct rig_sequence *x = &a->sequences[i], *y = by_id(b, x->seq.id);
        const char *what = NULL;
        if (!y || x->n_done != 1 || y->n_done != 1)
            what = "calls of done";
        else if (x->n_new != y->n_new ||
                 memcmp(x->new_tokens, y->new_tokens, sizeof x->new_tokens))
            what = "tokens";
        else if (memcmp(x->logits, y->logits, sizeof x->logits))
            what = "logits";
        else if (x->n_rows != y->n_rows)
            what = "number of digested rows";
        else if (memcmp(x->digest, y->digest, sizeof x->digest))
            what = "digest";
        if (what)
            snprintf(text, sizeof text, "sequence %" PRIu64 ": %s", x->seq.id, what);
    }
    return text;
}
