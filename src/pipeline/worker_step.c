/* One step on one stage: receive, compute, send on. */
#include "base/fault.h"
#include "pipeline/worker_state.h"
#include "tensor/dtype.h"
#include "wire/tensor.h"

#include <inttypes.h>
#include <string.h>

static uint8_t wire_dtype(enum ls_fmt fmt)
{
    static const uint8_t dtypes[LS_N_FMT] = {
        [LS_FMT_F32] = LS_DTYPE_F32, [LS_FMT_F16] = LS_DTYPE_F16, [LS_FMT_BF16] = LS_DTYPE_BF16
    };
    return dtypes[fmt];
}

static ls_status send(struct ls_worker *w, struct ls_channel *ch, struct ls_frame *frame,
                      unsigned char *payload, struct ls_err *err)
{
    const uint64_t begin = ls_now_us();
    ls_status st = ls_channel_send(ch, frame, payload, err);
    ls_trace_add(w->trace, LS_TRACE_SEND, frame->id, begin, ls_now_us());
    return st;
}

/* A step without prompts has rows of one token. */
static bool is_prefill(const struct ls_step *step)
{
    return step->n_tokens > step->n_rows;
}

static void computed(struct ls_worker *w, const struct ls_step *step, uint64_t begin)
{
    const uint64_t now = ls_now_us();
    w->stats.compute_us += now - begin;
    w->stats.prompt_us += is_prefill(step) ? now - begin : 0;
    ls_trace_add(w->trace, LS_TRACE_COMPUTE, step->id, begin, now);
}

/* The step's leaves behind all layers so far, those of the stages before first. */
static void put_leaves(const struct ls_worker *w, const struct ls_step *step,
                       unsigned char *out)
{
    const struct ls_session *s = w->s;
    const struct ls_step_limits *lim = &s->plan.limits;
    const struct ls_stage_plan *mine = &s->plan.stages[s->rank];
    const int n_own = mine->last_layer - mine->first_layer + ls_worker_is_last(w);
    const uint64_t before = ls_step_leaf_bytes(lim, step->n_tokens, mine->first_layer);
    if (!lim->leaves)
        return;
    if (before)
        memcpy(out, w->leaves_in, before);
    memcpy(out + before, ls_stage_leaves(s->stage),
           ls_step_leaf_bytes(lim, step->n_tokens, n_own));
}

static ls_status send_result(struct ls_worker *w, struct ls_step *step,
                             const struct ls_result_group *g, unsigned char *payload,
                             struct ls_err *err)
{
    const struct ls_session *s = w->s;
    uint32_t vocab = (uint32_t)s->arch.vocab;
    const uint64_t leaves = ls_result_leaf_bytes(g, step, &s->plan.limits, s->arch.n_layers);
    struct ls_frame frame = { .kind = LS_KIND_RESULT,
                              .id = step->id,
                              .nonce = step->nonce,
                              .step = (uint32_t)step->id,
                              .rows = g->n_sent,
                              .table_bytes = g->table_bytes + (uint32_t)leaves };
    if (g->n_sent > 0) {
        frame.dtype = LS_DTYPE_F32;
        frame.ndim = 2;
        frame.dims[0] = g->n_sent;
        frame.dims[1] = vocab;
        frame.tensor_bytes = (uint64_t)g->n_sent * vocab * sizeof(float);
    }
    ls_result_encode(payload, step, w->places, g, s->wish.digests ? s->stage : NULL);
    if (leaves)
        put_leaves(w, step, payload + g->table_bytes);
    return send(w, &w->s->result_out, &frame, payload, err);
}

/* The last stage: logits, a group at a time, computed where they are sent from. */
static ls_status send_logits(struct ls_worker *w, struct ls_step *step, struct ls_err *err)
{
    struct ls_session *s = w->s;
    struct ls_result_group g = { .last = false };
    ls_step_logit_places(step, w->places);
    while (!g.last) {
        g = ls_result_group(step, s->plan.logit_rows, g.end);
        const uint64_t logits = (uint64_t)g.n_sent * (uint64_t)s->arch.vocab * sizeof(float);
        const uint64_t table =
            g.table_bytes + ls_result_leaf_bytes(&g, step, &s->plan.limits, s->arch.n_layers);
        unsigned char *payload = ls_worker_wait_payload(w, &s->result_out, table + logits);
        if (!payload)
            return LS_OK;
        uint64_t begin = ls_now_us();
        if (g.end > g.begin)
            ls_stage_logits(s->stage, step, g.begin, g.end, (float *)(void *)(payload + table));
        computed(w, step, begin);
        ls_status st = ls_result_has_frame(&g) ? send_result(w, step, &g, payload, err) : LS_OK;
        if (st)
            return st;
        ls_worker_pump(w);
    }
    return LS_OK;
}

static ls_status run_stage(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                           void *hidden_out, struct ls_err *err)
{
    uint64_t begin = ls_now_us();
    bool prefill = is_prefill(step);
    ls_control_set_doing(w->s->control, prefill ? LS_DOING_PREFILL : LS_DOING_DECODE, step->id);
    if (prefill ? LS_FAULT(PREFILL, w->s->rank) : LS_FAULT(DECODE, w->s->rank))
        return ls_fail(err, LS_E_COMPUTE, "a fault of the test");
    ls_status st = ls_stage_run(w->s->stage, step, hidden_in, hidden_out, err);
    computed(w, step, begin);
    ls_control_set_doing(w->s->control, LS_DOING_SEND, step->id);
    if (!st && w->s->rank > 0 && LS_FAULT(GATHER, w->s->rank))
        return ls_fail(err, LS_E_COMPUTE, "a fault of the test");
    return st;
}

static struct ls_frame step_frame(const struct ls_step *step)
{
    return (struct ls_frame){ .kind = LS_KIND_STEP,
                              .id = step->id,
                              .nonce = step->nonce,
                              .step = (uint32_t)step->id,
                              .rows = step->n_rows,
                              .table_bytes = (uint32_t)ls_step_bytes(step) };
}

static uint64_t feed_bytes(const struct ls_step *step)
{
    return ls_step_bytes(step) + (uint64_t)step->n_tokens * sizeof *step->tokens;
}

static ls_status feed(struct ls_worker *w, const struct ls_step *step, struct ls_channel *ch,
                      unsigned char *payload, struct ls_err *err)
{
    struct ls_frame frame = step_frame(step);
    frame.dtype = LS_DTYPE_I32;
    frame.ndim = 1;
    frame.dims[0] = step->n_tokens;
    frame.tensor_bytes = (uint64_t)step->n_tokens * sizeof *step->tokens;
    ls_step_encode(step, payload);
    memcpy(payload + frame.table_bytes, step->tokens, frame.tensor_bytes);
    return send(w, ch, &frame, payload, err);
}

ls_status ls_worker_feed(struct ls_worker *w, struct ls_err *err)
{
    struct ls_session *s = w->s;
    ls_status st = LS_OK;
    for (int r = 1; !st && r < s->plan.n_replicas;) {
        if (!w->to_feed[r])
            w->to_feed[r] = ls_exchange_take(w->exchange, r);
        unsigned char *payload =
            w->to_feed[r] ? ls_channel_payload(&s->feeds[r], feed_bytes(w->to_feed[r])) : NULL;
        if (!payload) {
            r++;
            continue;
        }
        st = feed(w, w->to_feed[r], &s->feeds[r], payload, err);
        w->to_feed[r] = NULL;
    }
    return st;
}

/* A stage before the last: the hidden state is computed where it is sent from. */
static ls_status run_and_send(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                              struct ls_err *err)
{
    struct ls_session *s = w->s;
    int end = s->plan.stages[s->rank].last_layer;
    uint32_t width = (uint32_t)ls_inbound_width(&s->arch, end);
    const size_t form = ls_step_bytes(step);
    const size_t table = form + ls_step_leaf_bytes(&s->plan.limits, step->n_tokens, end);
    const uint64_t hidden_bytes =
        (uint64_t)step->n_tokens * width * ls_fmt_bytes(s->arch.dtype);
    unsigned char *payload = ls_worker_wait_payload(w, &s->step_out, table + hidden_bytes);
    if (!payload)
        return LS_OK;
    ls_status st = run_stage(w, step, hidden_in, payload + table, err);
    if (st)
        return st;
    ls_step_encode(step, payload);
    put_leaves(w, step, payload + form);
    struct ls_frame frame = step_frame(step);
    frame.table_bytes = (uint32_t)table;
    frame.dtype = wire_dtype(s->arch.dtype);
    frame.ndim = 2;
    frame.dims[0] = step->n_tokens;
    frame.dims[1] = width;
    frame.tensor_bytes = hidden_bytes;
    return send(w, &s->step_out, &frame, payload, err);
}

static ls_status run_step(struct ls_worker *w, struct ls_step *step, const void *hidden_in,
                          struct ls_err *err)
{
    ls_trace_add(w->trace, LS_TRACE_WAIT, step->id, w->idle_since_us, ls_now_us());
    ls_status st = ls_worker_is_last(w) ? run_stage(w, step, hidden_in, NULL, err)
                                        : run_and_send(w, step, hidden_in, err);
    if (!st && ls_worker_is_last(w))
        st = send_logits(w, step, err);
    if (w->failed || w->stopped)
        return LS_OK; /* the loop says how it ended; a step given up is no failure of its own */
    if (st)
        return st;
    ls_control_set_doing(w->s->control, LS_DOING_WAIT, step->id + 1);
    if (w->next_id++ == 0)
        w->allocs_after_first = ls_alloc_count();
    return LS_OK;
}

/* Opens what has arrived of a STEP into w->step; *hidden points into it, or is NULL on a first
 * stage, which gets tokens. *whole is false while more frames belong to it. */
static ls_status read_step(struct ls_worker *w, const void **hidden, bool *found, bool *whole,
                           struct ls_err *err)
{
    struct ls_session *s = w->s;
    const struct ls_step_limits *lim = &s->plan.limits;
    int first = s->plan.stages[s->rank].first_layer;
    const uint32_t width = first ? (uint32_t)ls_inbound_width(&s->arch, first) : 0;
    const struct ls_frame_expect expect = {
        .kinds = 1u << LS_KIND_STEP,
        .check_id = true,
        .id = w->next_id,
        .dtype = first ? wire_dtype(s->arch.dtype) : LS_DTYPE_I32,
        .ndim = first ? 2 : 1,
        .dims = { 0, width },
        .min_dim0 = 1,
        .max_dim0 = lim->max_tokens,
        .min_table = 1,
        .max_table = (uint32_t)(ls_step_max_bytes(lim) +
                                ls_step_leaf_bytes(lim, lim->max_tokens, first)),
    };
    struct ls_frame frame;
    unsigned char *payload = NULL;
    ls_status st = ls_channel_receive(&s->step_in, &expect, found, &frame, &payload, err);
    *whole = payload != NULL;
    if (st || !payload)
        return st;
    const uint64_t leaves = ls_step_leaf_bytes(lim, frame.dims[0], first);
    if (frame.table_bytes < leaves)
        st = ls_fail(err, LS_E_SHAPE,
                     "step %" PRIu64 ": a table of %u bytes, the leaves of %u tokens behind %d "
                     "layers are %" PRIu64,
                     frame.id, frame.table_bytes, frame.dims[0], first, leaves);
    if (!st)
        st = ls_step_decode(&w->step, payload, frame.table_bytes - leaves, lim, err);
    w->leaves_in = payload + frame.table_bytes - leaves;
    if (!st && (w->step.n_tokens != frame.dims[0] || w->step.n_rows != frame.rows))
        st = ls_fail(err, LS_E_SHAPE,
                     "step %" PRIu64 ": %u tokens and %u rows in the table, a tensor of %u and "
                     "%u rows in the header",
                     frame.id, w->step.n_tokens, w->step.n_rows, frame.dims[0], frame.rows);
    if (st)
        return ls_channel_refuse(&s->step_in, st, err);
    w->step.id = frame.id;
    w->step.nonce = frame.nonce;
    struct ls_wire_tensor tensor;
    ls_tensor_from_wire(&tensor, &frame, payload);
    if (first)
        *hidden = tensor.data;
    else
        memcpy(w->step.tokens, tensor.data, w->step.n_tokens * sizeof *w->step.tokens);
    return LS_OK;
}

ls_status ls_worker_run_next(struct ls_worker *w, bool *found, struct ls_err *err)
{
    *found = false;
    if (w->s->rank == 0) {
        struct ls_step *step = ls_exchange_take(w->exchange, 0);
        *found = step != NULL;
        return step ? run_step(w, step, NULL, err) : LS_OK;
    }
    const void *hidden = NULL;
    bool whole = false;
    ls_status st = read_step(w, &hidden, found, &whole, err);
    if (st || !whole)
        return st;
    st = run_step(w, &w->step, hidden, err);
    return st ? st : ls_channel_return(&w->s->step_in, err);
}
