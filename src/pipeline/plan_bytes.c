/* Byte forms of wish and plan. */
#include "base/guard.h"
#include "pipeline/bytes.h"
#include "pipeline/plan.h"
#include "wire/frame.h"
#include "wire/pack.h"

#include <sodium.h>

enum { DIGEST = 32 };

/* The numbers of a wish in the order in which they travel. */
enum { N_WISH_NUMBERS = 12, N_WISH_FLAGS = 9 };

static void wish_numbers(struct ls_run_wish *w, int32_t *at[N_WISH_NUMBERS])
{
    int32_t *const numbers[N_WISH_NUMBERS] = {
        &w->stages,    &w->threads, &w->context,       &w->budget,
        &w->chunk,     &w->window,  &w->max_sequences, &w->cpu_path,
        &w->silence_s, &w->pack,    &w->replicas,      &w->frame_bytes
    };
    memcpy(at, numbers, sizeof numbers);
}

size_t ls_wish_encode(const struct ls_run_wish *wish, unsigned char out[LS_WISH_BYTES])
{
    struct ls_run_wish copy = *wish;
    struct ls_writer w = { .at = out, .left = LS_WISH_BYTES };
    int32_t *numbers[N_WISH_NUMBERS];
    wish_numbers(&copy, numbers);
    ls_put_text(&w, copy.model);
    ls_put_text(&w, copy.layers);
    for (int i = 0; i < N_WISH_NUMBERS; i++)
        ls_put_i32(&w, *numbers[i]);
    ls_put_u64(&w, copy.kv_bytes);
    ls_put_u64(&w, copy.placement_seed);
    const unsigned char flags[N_WISH_FLAGS] = {
        copy.f32_activations, copy.check_bytes, copy.digests, copy.strict_placement, copy.trace,
        copy.prefix_reuse,    copy.own_weights, copy.leaves,  copy.few_logits
    };
    ls_put_bytes(&w, flags, sizeof flags);
    return LS_WISH_BYTES - w.left;
}

ls_status ls_wish_decode(struct ls_run_wish *wish, const unsigned char *bytes, size_t n,
                         struct ls_err *err)
{
    struct ls_run_wish got = { .stages = 0 };
    struct ls_reader r = { .at = bytes, .left = n };
    int32_t *numbers[N_WISH_NUMBERS];
    unsigned char flags[N_WISH_FLAGS];
    wish_numbers(&got, numbers);
    ls_get_text(&r, got.model, sizeof got.model);
    ls_get_text(&r, got.layers, sizeof got.layers);
    for (int i = 0; i < N_WISH_NUMBERS; i++)
        *numbers[i] = ls_get_i32(&r);
    got.kv_bytes = ls_get_u64(&r);
    got.placement_seed = ls_get_u64(&r);
    ls_get_bytes(&r, flags, sizeof flags);
    got.f32_activations = flags[0];
    got.check_bytes = flags[1];
    got.digests = flags[2];
    got.strict_placement = flags[3];
    got.trace = flags[4];
    got.prefix_reuse = flags[5];
    got.own_weights = flags[6];
    got.leaves = flags[7];
    got.few_logits = flags[8];
    bool good = ls_reader_done(&r) && got.cpu_path >= 0 && got.cpu_path < LS_N_CPU_PATHS &&
                got.pack >= 0 && got.pack < LS_N_PACKS;
    for (int i = 0; i < N_WISH_FLAGS; i++)
        good = good && flags[i] <= 1;
    if (!good)
        return ls_fail(err, LS_E_SHAPE,
                       "the configuration from rank 0 cannot be read (%zu bytes)", n);
    *wish = got;
    return LS_OK;
}

/* --- plan --------------------------------------------------------------------------------- */

static void put_body(struct ls_writer *w, const struct ls_plan *plan)
{
    const struct ls_step_limits *lim = &plan->limits;
    const uint32_t words[] = { (uint32_t)plan->n_stages,
                               lim->max_rows,
                               lim->max_events,
                               lim->max_tokens,
                               lim->n_slots,
                               lim->n_blocks,
                               lim->max_blocks_per_slot,
                               lim->context,
                               (uint32_t)plan->budget,
                               (uint32_t)plan->chunk,
                               (uint32_t)plan->window,
                               plan->logit_rows,
                               (uint32_t)plan->silence_s,
                               (uint32_t)plan->pack,
                               (uint32_t)plan->n_replicas,
                               lim->leaves,
                               (uint32_t)plan->frame_bytes };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ls_put_u32(w, words[i]);
    for (int i = 0; i < ls_plan_n_ranks(plan); i++) {
        const struct ls_stage_plan *sp = &plan->stages[i];
        ls_put_i32(w, sp->first_layer);
        ls_put_i32(w, sp->last_layer);
        ls_put_i32(w, sp->threads);
        ls_put_i32(w, sp->weights_rank);
        ls_put_i32(w, sp->n_sharing);
        ls_put_u64(w, sp->weights_bytes);
        ls_put_u64(w, sp->kv_bytes);
        ls_put_u64(w, sp->scratch_bytes);
        ls_put_u64(w, sp->link_bytes);
    }
}

static bool get_body(struct ls_reader *r, struct ls_plan *plan)
{
    struct ls_step_limits *lim = &plan->limits;
    plan->n_stages = ls_get_i32(r);
    uint32_t *const words[] = { &lim->max_rows, &lim->max_events, &lim->max_tokens,
                                &lim->n_slots,  &lim->n_blocks,   &lim->max_blocks_per_slot,
                                &lim->context };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i] = ls_get_u32(r);
    plan->budget = ls_get_i32(r);
    plan->chunk = ls_get_i32(r);
    plan->window = ls_get_i32(r);
    plan->logit_rows = ls_get_u32(r);
    plan->silence_s = ls_get_i32(r);
    plan->pack = ls_get_i32(r);
    plan->n_replicas = ls_get_i32(r);
    lim->leaves = ls_get_u32(r);
    plan->frame_bytes = ls_get_i32(r);
    if (plan->pack < 0 || plan->pack >= LS_N_PACKS)
        return false;
    if (plan->n_stages < 1 || plan->n_stages > LS_MAX_STAGES || plan->n_replicas < 1 ||
        plan->n_replicas > LS_MAX_STAGES / plan->n_stages || plan->silence_s < 1)
        return false;
    for (int i = 0; i < ls_plan_n_ranks(plan); i++) {
        struct ls_stage_plan *sp = &plan->stages[i];
        sp->first_layer = ls_get_i32(r);
        sp->last_layer = ls_get_i32(r);
        sp->threads = ls_get_i32(r);
        sp->weights_rank = ls_get_i32(r);
        sp->n_sharing = ls_get_i32(r);
        sp->weights_bytes = ls_get_u64(r);
        sp->kv_bytes = ls_get_u64(r);
        sp->scratch_bytes = ls_get_u64(r);
        sp->link_bytes = ls_get_u64(r);
    }
    return ls_reader_done(r);
}

static void digest_of(const unsigned char *body, size_t n, unsigned char digest[DIGEST])
{
    crypto_generichash(digest, DIGEST, body, n, NULL, 0);
}

void ls_plan_sign(unsigned char *bytes, size_t n)
{
    size_t head = LS_RUN_ID + DIGEST;
    digest_of(bytes + head, n - head, bytes + LS_RUN_ID);
}

/* run id | digest | body */
size_t ls_plan_encode(const struct ls_plan *plan, unsigned char out[LS_PLAN_BYTES])
{
    size_t head = LS_RUN_ID + DIGEST;
    struct ls_writer w = { .at = out + head, .left = LS_PLAN_BYTES - head };
    put_body(&w, plan);
    size_t n = LS_PLAN_BYTES - head - w.left;
    memcpy(out, plan->run_id, LS_RUN_ID);
    ls_plan_sign(out, head + n);
    return head + n;
}

void ls_plan_digest(const struct ls_plan *plan, unsigned char digest[DIGEST])
{
    unsigned char bytes[LS_PLAN_BYTES];
    ls_plan_encode(plan, bytes);
    memcpy(digest, bytes + LS_RUN_ID, DIGEST);
}

ls_status ls_plan_decode(struct ls_plan *plan, const unsigned char *bytes, size_t n,
                         struct ls_err *err)
{
    size_t head = LS_RUN_ID + DIGEST;
    memset(plan, 0, sizeof *plan);
    struct ls_reader r = { .at = bytes + head, .left = n - head };
    if (n < head || n > LS_PLAN_BYTES || !get_body(&r, plan))
        return ls_fail(err, LS_E_SHAPE, "the plan from rank 0 cannot be read (%zu bytes)", n);
    unsigned char digest[DIGEST];
    digest_of(bytes + head, n - head, digest);
    if (LS_GUARD("plan-digest") && memcmp(digest, bytes + LS_RUN_ID, DIGEST) != 0)
        return ls_fail(err, LS_E_SHAPE, "the plan from rank 0 does not have its digest");
    memcpy(plan->run_id, bytes, LS_RUN_ID);
    return LS_OK;
}
