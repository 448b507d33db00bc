#include "jobs/sampler.h"

#include "base/alloc.h"
#include "base/le.h"
#include "base/philox.h"
#include "kernels/math64.h"

#include <math.h>
#include <string.h>

#include <sodium.h>

ls_status ls_sampler_scratch_init(struct ls_sampler_scratch *scratch, int32_t vocab,
                                  struct ls_err *err)
{
    void *y;
    struct ls_ranks ranks;
    ls_status status = ls_alloc(&y, (uint64_t)vocab * sizeof(double), "sampler", err);
    if (status)
        return status;
    status = ls_ranks_init(&ranks, vocab, err);
    if (status) {
        ls_free(y);
        return status;
    }
    *scratch = (struct ls_sampler_scratch){ .vocab = vocab, .y = y, .ranks = ranks };
    return LS_OK;
}

void ls_sampler_scratch_finish(struct ls_sampler_scratch *scratch)
{
    ls_free(scratch->y);
    ls_ranks_finish(&scratch->ranks);
    *scratch = (struct ls_sampler_scratch){ 0 };
}

uint64_t ls_sampler_key(uint64_t run_seed, const int64_t *request_seed, const char *custom_id,
                        size_t n_custom_id, uint32_t choice)
{
    unsigned char front[25] = { 0 }, back[4], digest[32];
    ls_le_put(front, run_seed, 8);
    front[8] = request_seed != NULL;
    ls_le_put(front + 9, request_seed ? (uint64_t)*request_seed : 0, 8);
    ls_le_put(front + 17, n_custom_id, 8);
    ls_le_put(back, choice, sizeof back);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    crypto_generichash_update(&state, front, sizeof front);
    crypto_generichash_update(&state, (const unsigned char *)custom_id, n_custom_id);
    crypto_generichash_update(&state, back, sizeof back);
    crypto_generichash_final(&state, digest, sizeof digest);
    return ls_le_get(digest, 8);
}

/* --- how often tokens occur ------------------------------------------------------------------
 */

static size_t slot_of(const struct ls_token_count *counts, size_t n_slots, int32_t token)
{
    size_t i = ((uint64_t)(uint32_t)token * 0x9E3779B97F4A7C15u >> 20) & (n_slots - 1);
    while (counts[i].token >= 0 && counts[i].token != token)
        i = (i + 1) & (n_slots - 1);
    return i;
}

static ls_status set_slots(struct ls_sampler *s, size_t n_slots, struct ls_err *err)
{
    void *memory;
    ls_status status =
        ls_alloc(&memory, n_slots * sizeof(struct ls_token_count), "token counts", err);
    if (status)
        return status;
    struct ls_token_count *counts = memory;
    for (size_t i = 0; i < n_slots; i++)
        counts[i].token = -1;
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->counts[i].token >= 0)
            counts[slot_of(counts, n_slots, s->counts[i].token)] = s->counts[i];
    ls_free(s->counts);
    s->counts = counts;
    s->n_slots = n_slots;
    return LS_OK;
}

static ls_status count(struct ls_sampler *s, int32_t token, uint32_t more, struct ls_err *err)
{
    if (2 * (s->n_used + 1) > s->n_slots) {
        ls_status status = set_slots(s, 2 * s->n_slots, err);
        if (status)
            return status;
    }
    struct ls_token_count *c = &s->counts[slot_of(s->counts, s->n_slots, token)];
    s->n_used += c->token < 0;
    c->token = token;
    c->output += more;
    return LS_OK;
}

static bool has_penalties(const struct ls_sampling *s)
{
    return s->repetition_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
}

ls_status ls_sampler_init(struct ls_sampler *sampler, const struct ls_sampling *sampling,
                          uint64_t key, const int32_t *prompt, size_t n_prompt,
                          struct ls_err *err)
{
    struct ls_sampler s = { .sampling = sampling, .key = key };
    ls_status status = has_penalties(sampling) ? set_slots(&s, 64, err) : LS_OK;
    const bool prompt_counts = sampling->repetition_penalty != 1;
    for (size_t i = 0; !status && prompt_counts && i < n_prompt; i++)
        status = count(&s, prompt[i], 0, err);
    if (status)
        ls_sampler_finish(&s);
    else
        *sampler = s;
    return status;
}

void ls_sampler_finish(struct ls_sampler *sampler)
{
    ls_free(sampler->counts);
    *sampler = (struct ls_sampler){ 0 };
}

ls_status ls_sampler_note(struct ls_sampler *sampler, int32_t token, struct ls_err *err)
{
    return sampler->counts ? count(sampler, token, 1, err) : LS_OK;
}

/* --- the row ---------------------------------------------------------------------------------
 */

/* Steps 1 and 2. */
static void adjust(const struct ls_sampler *s, double *y, int32_t vocab, const float *row)
{
    const struct ls_sampling *want = s->sampling;
    for (int32_t i = 0; i < vocab; i++)
        y[i] = (double)row[i];
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct ls_token_count *c = &s->counts[i];
        if (c->token < 0 || c->token >= vocab)
            continue;
        double v = y[c->token];
        if (want->repetition_penalty != 1)
            v = v > 0 ? v / want->repetition_penalty : v * want->repetition_penalty;
        v -= want->frequency_penalty * c->output;
        v -= c->output ? want->presence_penalty : 0;
        y[c->token] = v;
    }
    for (size_t i = 0; i < want->n_bias; i++)
        y[want->bias[i].token] += want->bias[i].value;
}

static int32_t arg_max(const double *y, int32_t vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (y[i] > y[best])
            best = i;
    return best;
}

static double weight(double z)
{
    return z < -700 ? 0 : ls_exp64(z);
}

/* Steps 5 to 7 over candidates that are ranked: first[0], first[-1], ..., n of them, holding w.
 */
static int32_t draw_ranked(const struct ls_ranked *first, int32_t n, double min_p, double u)
{
    while (n > 1 && first[1 - n].z < min_p)
        n--;
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++)
        total += first[-i].z;
    for (int32_t i = 0; i < n; i++) {
        sum += first[-i].z;
        if (u * total < sum)
            return first[-i].token;
    }
    return first[0].token;
}

/* Ranks only as many tokens as top-k and top-p keep. Without top-k the total needs each token's
 * weight; y then holds it for the ranks. */
static int32_t pick_ranked(struct ls_sampler_scratch *scratch, const struct ls_sampling *want,
                           double u)
{
    const int32_t vocab = scratch->vocab;
    const bool by_k = want->top_k > 0 && want->top_k < vocab;
    const int32_t limit = by_k ? (int32_t)want->top_k : vocab;
    const struct ls_ranked *const first = ls_ranks_first(&scratch->ranks);
    double total = 0, sum = 0;
    ls_ranks_begin(&scratch->ranks, scratch->y);
    for (int32_t i = 0; i < limit; i++) {
        double *const w = by_k ? &ls_ranks_next(&scratch->ranks)->z : &scratch->y[i];
        *w = weight(*w);
        total += *w;
    }
    int32_t kept = 0;
    for (; kept < limit && (kept == 0 || want->top_p == 1 || sum < want->top_p * total);
         kept++) {
        if (!by_k) {
            struct ls_ranked *const next = ls_ranks_next(&scratch->ranks);
            next->z = scratch->y[next->token];
        }
        sum += first[-kept].z;
    }
    return draw_ranked(first, kept, want->min_p, u);
}

static int32_t pick_by_id(struct ls_sampler_scratch *scratch, double min_p, double u)
{
    double *w = scratch->y, total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < scratch->vocab; i++) {
        w[i] = weight(w[i]);
        w[i] = w[i] >= min_p ? w[i] : 0;
        total += w[i];
    }
    for (int32_t i = 0; i < scratch->vocab; i++) {
        sum += w[i];
        if (u * total < sum)
            return i;
        last = w[i] > 0 ? i : last;
    }
    return last;
}

static bool is_plain_greedy(const struct ls_sampler *s)
{
    return s->sampling->temperature == 0 && !s->counts && !s->sampling->n_bias;
}

/* The largest value in lanes that a compiler can keep in registers, then its first place. */
static int32_t arg_max_row(const float *row, int32_t vocab)
{
    enum { LANES = 32 };
    float lanes[LANES], max = row[0];
    int32_t i = 0;
    for (int j = 0; j < LANES; j++)
        lanes[j] = row[0];
    for (; i + LANES <= vocab; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
    for (; i < vocab; i++)
        max = row[i] > max ? row[i] : max;
    for (int j = 0; j < LANES; j++)
        max = lanes[j] > max ? lanes[j] : max;
    for (i = 0; i + 1 < vocab && row[i] != max;)
        i++;
    return i;
}

int32_t ls_sampler_pick(const struct ls_sampler *sampler, struct ls_sampler_scratch *scratch,
                        const float *row, uint64_t index)
{
    const struct ls_sampling *want = sampler->sampling;
    if (is_plain_greedy(sampler))
        return arg_max_row(row, scratch->vocab);
    adjust(sampler, scratch->y, scratch->vocab, row);
    const int32_t best = arg_max(scratch->y, scratch->vocab);
    if (want->temperature == 0)
        return best;
    const double max = scratch->y[best];
    for (int32_t i = 0; i < scratch->vocab; i++) {
        const double y = scratch->y[i];
        scratch->y[i] = y == max ? 0 : (y - max) / want->temperature;
    }
    const double u = ls_philox_uniform(sampler->key, index);
    const bool by_k = want->top_k > 0 && want->top_k < scratch->vocab;
    return by_k || want->top_p < 1 ? pick_ranked(scratch, want, u)
                                   : pick_by_id(scratch, want->min_p, u);
}
