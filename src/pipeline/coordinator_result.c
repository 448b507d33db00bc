/* What comes back from the last stage, and what it means for the sequences. */
#include "pipeline/coordinator_state.h"

#include <inttypes.h>
#include <string.h>

/* The sequence of a step's row, or NULL when it has ended since. */
static struct running *owner(struct lane *l, const struct record *r, uint32_t row)
{
    struct running *run = &l->slots[r->step.rows[row].slot];
    return run->serial == r->serial[row] && !run->ended ? run : NULL;
}

static ls_status give_logits(struct ls_coordinator *c, struct running *run, uint32_t pos,
                             const float *row)
{
    const struct ls_client *client = c->cfg.client;
    const struct ls_logits logits = { .pos = pos, .row = row, .nan_layer = run->nan_layer };
    enum ls_verdict verdict = LS_FINISH;
    int32_t token = -1;
    ls_status s = client->logits(client->arg, run->seq.id, &logits, &verdict, &token, &c->err);
    if (s)
        return s;
    bool generates = pos >= run->seq.n_prompt - 1 && run->seq.max_new > 0;
    if (generates)
        run->n_generated++;
    if (verdict == LS_FINISH || (generates && run->n_generated == run->seq.max_new)) {
        run->ended = true;
        return LS_OK;
    }
    if (!generates)
        return LS_OK;
    if (token < 0 || token >= c->cfg.arch->vocab)
        return ls_fail(&c->err, LS_E_INTERNAL,
                       "sequence %" PRIu64 ": token %d of a vocabulary "
                       "of %d",
                       run->seq.id, token, c->cfg.arch->vocab);
    run->token = token;
    return LS_OK;
}

static ls_status give_group(struct ls_coordinator *c, struct lane *l, struct record *r,
                            const struct ls_result_group *g, const float *logits)
{
    uint32_t sent = 0;
    for (uint32_t i = g->begin; i < g->end; i++) {
        const struct ls_logit_place *p = &l->places[i];
        struct running *run = owner(l, r, p->row);
        if (run && p->digested)
            run->n_digested++;
        if (!p->sent)
            continue;
        int32_t nan_layer = c->nan_layers[sent];
        const float *row = logits + (uint64_t)sent++ * (uint64_t)c->cfg.arch->vocab;
        if (!run)
            continue;
        if (nan_layer >= 0 && (run->nan_layer < 0 || nan_layer < run->nan_layer))
            run->nan_layer = nan_layer;
        ls_status s = give_logits(c, run, p->pos, row);
        if (s)
            return s;
    }
    return LS_OK;
}

static ls_status end_sequence(struct ls_coordinator *c, struct lane *l, uint32_t slot,
                              const unsigned char digest[LS_DIGEST_BYTES])
{
    struct running *run = &l->slots[slot];
    const struct ls_client *client = c->cfg.client;
    ls_scheduler_end(l->scheduler, slot);
    run->serial = 0;
    c->is_later = false;
    return client->done(client->arg, run->seq.id, digest, run->n_digested, &c->err);
}

/* The leaves of one row of the step, whose first token is `token`: by position for the client,
 * where the frame has them by layer. */
static ls_status give_leaves(struct ls_coordinator *c, const struct record *r, uint32_t i,
                             uint64_t id, uint32_t token, const unsigned char *leaves)
{
    const struct ls_client *client = c->cfg.client;
    const struct ls_step_row *row = &r->step.rows[i];
    const int n = c->cfg.arch->n_layers + 1;
    ls_status s = LS_OK;
    for (uint32_t k = 0; !s && k < row->count; k++) {
        for (int l = 0; l < n; l++)
            memcpy(c->leaves + l * LS_LEAF,
                   leaves + ((uint64_t)l * r->step.n_tokens + token + k) * LS_LEAF, LS_LEAF);
        s = client->leaves(client->arg, id, row->first_pos + k, c->leaves, &c->err);
    }
    return s;
}

/* All frames of the oldest step have come: sequences go on or end. */
static ls_status complete_step(struct ls_coordinator *c, struct lane *l, struct record *r,
                               const unsigned char *leaves)
{
    ls_status s = LS_OK;
    for (uint32_t i = 0, token = 0; !s && i < r->step.n_rows;
         token += r->step.rows[i++].count) {
        const struct ls_step_row *row = &r->step.rows[i];
        struct running *run = &l->slots[row->slot];
        if (run->serial != r->serial[i])
            continue;
        if (c->cfg.plan->limits.leaves)
            s = give_leaves(c, r, i, run->seq.id, token, leaves);
        if (s)
            return s;
        int32_t nan_layer = c->result[i].nan_layer;
        if (nan_layer >= 0 && (run->nan_layer < 0 || nan_layer < run->nan_layer))
            run->nan_layer = nan_layer;
        ls_scheduler_computed(l->scheduler, row->slot, row->first_pos + row->count,
                              run->nan_layer < 0);
        if (run->seq.max_new == 0 && row->first_pos + row->count == run->seq.n_prompt)
            run->ended = true;
        if (run->ended)
            s = end_sequence(c, l, row->slot, c->result[i].digest);
        else if (run->token >= 0)
            ls_scheduler_token(l->scheduler, row->slot, run->token);
        run->token = -1;
    }
    l->oldest_step++;
    l->places_known = false;
    return s;
}

/* Next group of the step that makes a frame; digests of the groups passed over are counted. */
static struct ls_result_group next_group(struct ls_coordinator *c, struct lane *l,
                                         struct record *r)
{
    for (;;) {
        struct ls_result_group g = ls_result_group(&r->step, c->cfg.plan->logit_rows, r->next);
        if (ls_result_has_frame(&g))
            return g;
        give_group(c, l, r, &g, NULL);
        r->next = g.end;
    }
}

ls_status ls_coordinator_take_frame(struct ls_coordinator *c, struct lane *l,
                                    unsigned char *bytes, uint64_t n)
{
    struct ls_channel *in = l->results;
    if (ls_lane_in_flight(l) == 0) {
        ls_fail(&c->err, LS_E_NOT_ALLOWED, "a result while no step runs");
        return ls_channel_refuse(in, LS_E_NOT_ALLOWED, &c->err);
    }
    struct record *r = ls_lane_record(c, l, l->oldest_step);
    if (!l->places_known)
        ls_step_logit_places(&r->step, l->places);
    l->places_known = true;
    struct ls_result_group g = next_group(c, l, r);
    struct ls_frame_expect expect;
    struct ls_frame frame;
    ls_result_expect(&expect, &r->step, &g, (uint32_t)c->cfg.arch->vocab);
    const uint64_t n_leaves =
        ls_result_leaf_bytes(&g, &r->step, &c->cfg.plan->limits, c->cfg.arch->n_layers);
    expect.min_table = expect.max_table = g.table_bytes + (uint32_t)n_leaves;
    unsigned char *payload;
    ls_status s = ls_channel_open_frame(in, bytes, n, &expect, &frame, &payload, &c->err);
    if (s || !payload)
        return s;
    s = ls_result_decode(payload, &r->step, l->places, &g, c->cfg.arch->n_layers, c->nan_layers,
                         c->result, &c->err);
    if (s)
        ls_channel_refuse(in, s, &c->err);
    else
        s = give_group(c, l, r, &g,
                       (const float *)(const void *)(payload + g.table_bytes + n_leaves));
    r->next = g.end;
    if (!s && g.last)
        s = complete_step(c, l, r, payload + g.table_bytes);
    ls_exchange_frames_done(c->cfg.exchange, l->replica);
    return s;
}
