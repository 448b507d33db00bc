#include "pipeline/stats.h"

#include "pipeline/bytes.h"

enum { N_PLAIN = 33, N_COUNTS = N_PLAIN + LS_N_REFUSALS };

/* The counters in the order in which they travel. */
static void counters(struct ls_stage_stats *s, uint64_t *at[N_COUNTS])
{
    struct ls_stage_counts *c = &s->counts;
    struct ls_link_counts *l = &s->links;
    uint64_t *const all[N_PLAIN] = {
        &c->steps,      &c->tokens,         &c->logits_rows,    &c->weights_bytes,
        &c->kv_bytes,   &c->scratch_bytes,  &c->resident_bytes, &s->compute_us,
        &s->wait_us,    &s->send_us,        &s->frames_sent,    &s->frames_received,
        &s->bytes_sent, &s->bytes_received, &s->step_allocs,    &l->sealed,
        &l->opened,     &l->sealed_bytes,   &l->opened_bytes,   &l->rekeys,
        &l->crypto_us,  &l->copies,         &l->buffer_bytes,   &l->packed,
        &l->unpacked,   &l->raw_bytes,      &l->packed_bytes,   &l->pack_us,
        &s->prompt_us,  &c->shared_bytes,   &l->split,          &s->least_us,
        &s->peak_bytes,
    };
    memcpy(at, all, sizeof all);
    for (int i = 0; i < LS_N_REFUSALS; i++)
        at[N_PLAIN + i] = &l->refused[i];
}

size_t ls_stats_encode(const struct ls_stage_stats *stats, unsigned char out[LS_STATS_BYTES])
{
    struct ls_stage_stats copy = *stats;
    uint64_t *counts[N_COUNTS];
    counters(&copy, counts);
    struct ls_writer w = { .at = out, .left = LS_STATS_BYTES };
    ls_put_text(&w, copy.host);
    ls_put_text(&w, copy.kernels);
    ls_put_i32(&w, copy.kernels_failed);
    ls_put_i32(&w, copy.threads);
    for (int i = 0; i < N_COUNTS; i++)
        ls_put_u64(&w, *counts[i]);
    return LS_STATS_BYTES - w.left;
}

ls_status ls_stats_decode(struct ls_stage_stats *stats, const unsigned char *bytes, size_t n,
                          struct ls_err *err)
{
    struct ls_stage_stats got = { .threads = 0 };
    uint64_t *counts[N_COUNTS];
    counters(&got, counts);
    struct ls_reader r = { .at = bytes, .left = n };
    ls_get_text(&r, got.host, sizeof got.host);
    ls_get_text(&r, got.kernels, sizeof got.kernels);
    got.kernels_failed = ls_get_i32(&r);
    got.threads = ls_get_i32(&r);
    for (int i = 0; i < N_COUNTS; i++)
        *counts[i] = ls_get_u64(&r);
    if (!ls_reader_done(&r))
        return ls_fail(err, LS_E_SHAPE, "statistics that cannot be read (%zu bytes)", n);
    *stats = got;
    return LS_OK;
}
