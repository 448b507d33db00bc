/* The links that carry steps and results: which ranks have them, and how large. */
#include "base/alloc.h"
#include "pipeline/session_state.h"

static ls_status open_steps(struct ls_session *s, struct ls_err *err)
{
    const struct ls_plan *p = &s->plan;
    const struct ls_stage_plan *mine = &p->stages[s->rank];
    const bool first = ls_plan_is_first(p, s->rank);
    struct ls_channel_config config = { .tag = LS_TAG_STEP,
                                        .pack = first ? LS_PACK_NONE : (enum ls_pack)p->pack,
                                        .frame_bytes = (uint64_t)p->frame_bytes,
                                        .n_buffers = ls_plan_step_buffers(p) };
    ls_status st = LS_OK;
    if (s->rank > 0) {
        config.peer = first ? 0 : s->rank - 1;
        config.direction = LS_RECV;
        config.max_payload = ls_plan_step_payload(p, &s->arch, mine->first_layer);
        st = ls_channel_open(&s->step_in, s->keyring, &config, err);
    }
    if (!st && !ls_plan_is_last(p, s->rank)) {
        config.peer = s->rank + 1;
        config.direction = LS_SEND;
        config.pack = (enum ls_pack)p->pack;
        config.max_payload = ls_plan_step_payload(p, &s->arch, mine->last_layer);
        st = ls_channel_open(&s->step_out, s->keyring, &config, err);
    }
    return st;
}

/* Rank 0: tokens to the first stage of a replica, results from its last one. */
static ls_status open_replica(struct ls_session *s, int replica, struct ls_err *err)
{
    const struct ls_plan *p = &s->plan;
    const struct ls_channel_config feed = { .peer = replica * p->n_stages,
                                            .tag = LS_TAG_STEP,
                                            .direction = LS_SEND,
                                            .frame_bytes = (uint64_t)p->frame_bytes,
                                            .n_buffers = ls_plan_step_buffers(p),
                                            .max_payload =
                                                ls_plan_step_payload(p, &s->arch, 0) };
    const struct ls_channel_config result = { .peer = (replica + 1) * p->n_stages - 1,
                                              .tag = LS_TAG_RESULT,
                                              .direction = LS_RECV,
                                              .pack = (enum ls_pack)p->pack,
                                              .frame_bytes = (uint64_t)p->frame_bytes,
                                              .n_buffers = ls_plan_result_receives(p),
                                              .max_payload =
                                                  ls_plan_result_payload(p, &s->arch) };
    ls_status st = LS_OK;
    if (replica > 0)
        st = ls_channel_open(&s->feeds[replica], s->keyring, &feed, err);
    return st ? st : ls_channel_open(&s->result_in[replica], s->keyring, &result, err);
}

static ls_status open_replicas(struct ls_session *s, struct ls_err *err)
{
    const uint64_t n = (uint64_t)s->plan.n_replicas;
    s->feeds = ls_arena_take(&s->arena, n * sizeof *s->feeds);
    s->result_in = ls_arena_take(&s->arena, n * sizeof *s->result_in);
    ls_status st = s->feeds && s->result_in
                       ? LS_OK
                       : ls_fail(err, LS_E_MEMORY, "out of memory: links to replicas");
    for (int r = 0; !st && r < s->plan.n_replicas; r++)
        st = open_replica(s, r, err);
    return st;
}

static ls_status open_results(struct ls_session *s, struct ls_err *err)
{
    struct ls_channel_config config = { .peer = 0,
                                        .tag = LS_TAG_RESULT,
                                        .direction = LS_SEND,
                                        .n_buffers = ls_plan_result_sends(&s->plan, s->rank),
                                        .pack = (enum ls_pack)s->plan.pack,
                                        .frame_bytes = (uint64_t)s->plan.frame_bytes,
                                        .max_payload =
                                            ls_plan_result_payload(&s->plan, &s->arch) };
    ls_status st = LS_OK;
    if (ls_plan_is_last(&s->plan, s->rank))
        st = ls_channel_open(&s->result_out, s->keyring, &config, err);
    return !st && s->rank == 0 ? open_replicas(s, err) : st;
}

ls_status ls_links_open(struct ls_session *s, struct ls_err *err)
{
    ls_status st = open_steps(s, err);
    if (!st)
        st = open_results(s, err);
    ls_keyring_close(s->keyring);
    return st;
}
