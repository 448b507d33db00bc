/* The sampler against a second implementation that sorts everything, against the frequencies
 * that the probabilities promise, and against itself in other company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "jobs/sampler.h"
#include "kernels/math64.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 1200 };

static const struct ls_sampling plain = { .temperature = 1,
                                          .top_p = 1,
                                          .repetition_penalty = 1 };

static int32_t pick(const struct ls_sampling *want, const float *row, int32_t vocab,
                    uint64_t key, uint64_t index, const int32_t *prompt, size_t n_prompt,
                    const int32_t *output, size_t n_output)
{
    struct ls_sampler_scratch scratch;
    struct ls_sampler s;
    assert_int_equal(ls_sampler_scratch_init(&scratch, vocab, NULL), LS_OK);
    assert_int_equal(ls_sampler_init(&s, want, key, prompt, n_prompt, NULL), LS_OK);
    for (size_t i = 0; i < n_output; i++)
        assert_int_equal(ls_sampler_note(&s, output[i], NULL), LS_OK);
    const int32_t token = ls_sampler_pick(&s, &scratch, row, index);
    ls_sampler_finish(&s);
    ls_sampler_scratch_finish(&scratch);
    return token;
}

/* --- the second implementation ---------------------------------------------------------------
 */

struct candidate {
    double z, w;
    int32_t token;
};

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->z != y->z)
        return x->z > y->z ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static size_t times(int32_t token, const int32_t *list, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += list[i] == token;
    return count;
}

static void adjusted(double *y, const struct ls_sampling *want, const float *row, int32_t vocab,
                     const int32_t *prompt, size_t n_prompt, const int32_t *output,
                     size_t n_output)
{
    for (int32_t t = 0; t < vocab; t++) {
        y[t] = row[t];
        const size_t n_out = times(t, output, n_output);
        if (n_out || times(t, prompt, n_prompt)) {
            if (want->repetition_penalty != 1)
                y[t] = y[t] > 0 ? y[t] / want->repetition_penalty
                                : y[t] * want->repetition_penalty;
        }
        if (n_out) {
            y[t] -= want->frequency_penalty * (double)n_out;
            y[t] -= want->presence_penalty;
        }
    }
    for (size_t i = 0; i < want->n_bias; i++)
        y[want->bias[i].token] += want->bias[i].value;
}

static int32_t draw(const struct candidate *c, int32_t n, double u)
{
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++)
        total += c[i].w;
    for (int32_t i = 0; i < n; i++)
        if (u * total < (sum += c[i].w))
            return c[i].token;
    return -1;
}

static int by_token(const void *a, const void *b)
{
    return ((const struct candidate *)a)->token < ((const struct candidate *)b)->token ? -1 : 1;
}

static int32_t reference(const struct ls_sampling *want, const double *y, int32_t vocab,
                         double u)
{
    struct candidate c[MAX_VOCAB];
    double max = -INFINITY, by_id = 0;
    for (int32_t t = 0; t < vocab; t++)
        max = y[t] > max ? y[t] : max;
    for (int32_t t = 0; t < vocab; t++) {
        c[t].token = t;
        c[t].z =
            y[t] == max ? 0 : (y[t] - max) / (want->temperature > 0 ? want->temperature : 1);
        c[t].w = c[t].z < -700 ? 0 : ls_exp64(c[t].z);
        by_id += c[t].w;
    }
    qsort(c, (size_t)vocab, sizeof c[0], by_rank);
    if (want->temperature == 0)
        return c[0].token;
    int32_t n = vocab, kept = 0;
    const bool by_k = want->top_k > 0 && want->top_k < vocab;
    if (by_k)
        n = (int32_t)want->top_k;
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++)
        total += c[i].w;
    if (!by_k)
        total = by_id;
    while (kept < n && (want->top_p == 1 || !kept || sum < want->top_p * total))
        sum += c[kept++].w;
    int32_t alive = 0;
    while (alive < kept && (alive == 0 || c[alive].w >= want->min_p))
        alive++;
    if (!by_k && want->top_p == 1)
        qsort(c, (size_t)alive, sizeof c[0], by_token);
    return draw(c, alive, u);
}

/* --- tests -----------------------------------------------------------------------------------
 */

static uint64_t draws;
static double next(void)
{
    return ls_philox_uniform(777, draws++);
}
static int32_t below(int32_t n)
{
    return (int32_t)(next() * n);
}

static void random_row(float *row, int32_t vocab)
{
    const int kind = below(5);
    for (int32_t t = 0; t < vocab; t++)
        row[t] = kind == 0 ? (float)below(5) /* many ties */
                           : (float)((next() - 0.5) * (kind == 1   ? 4
                                                       : kind == 4 ? 1e-3
                                                                   : 40));
    if (kind == 4) /* all but one near each other, one far below */
        row[below(vocab)] = -50;
    if (kind == 3)
        row[below(vocab)] = -INFINITY;
}

static void random_sampling(struct ls_sampling *s, struct ls_bias *bias, int32_t vocab)
{
    *s = plain;
    s->temperature = below(5) == 0 ? 0 : next() * 2;
    s->top_k = below(2) ? below(vocab + 8) - 1 : 0;
    s->top_p = below(2) ? 1 - next() * 0.999 : 1;
    s->min_p = below(3) == 0 ? next() : 0;
    if (below(2))
        s->repetition_penalty = 0.5 + next() * 2;
    if (below(2))
        s->presence_penalty = next() * 4 - 2;
    if (below(2))
        s->frequency_penalty = next() * 4 - 2;
    s->bias = bias;
    for (int32_t t = 0; t < vocab; t++)
        if (below(12) == 0)
            bias[s->n_bias++] = (struct ls_bias){ .token = t, .value = next() * 20 - 10 };
    if (below(2))
        s->n_bias = 0;
}

static void equals_the_second_implementation(void **state)
{
    (void)state;
    printf("seed 777\n");
    for (int round = 0; round < 20000; round++) {
        float row[MAX_VOCAB];
        double y[MAX_VOCAB];
        int32_t prompt[16], output[16];
        struct ls_bias bias[MAX_VOCAB];
        struct ls_sampling want;
        const int32_t vocab = 1 + below(round % 50 ? 96 : MAX_VOCAB);
        const size_t n_prompt = (size_t)below(17), n_output = (size_t)below(17);
        random_row(row, vocab);
        random_sampling(&want, bias, vocab);
        for (size_t i = 0; i < n_prompt; i++)
            prompt[i] = below(vocab);
        for (size_t i = 0; i < n_output; i++)
            output[i] = below(vocab);
        const uint64_t key = (uint64_t)below(1 << 30), index = (uint64_t)below(1000);
        adjusted(y, &want, row, vocab, prompt, n_prompt, output, n_output);
        const int32_t expected = reference(&want, y, vocab, ls_philox_uniform(key, index));
        const int32_t got =
            pick(&want, row, vocab, key, index, prompt, n_prompt, output, n_output);
        if (got != expected)
            fail_msg("round %d: token %d, expected %d", round, got, expected);
    }
}

/* Chi-square over 40000 draws of ten tokens: the 0.999 quantile of nine degrees is 27.9. */
static void frequencies_match(void **state)
{
    (void)state;
    float row[10];
    double p[10], total = 0, chi = 0;
    int seen[10] = { 0 };
    const int n = 40000;
    struct ls_sampling want = plain;
    want.temperature = 0.7;
    for (int t = 0; t < 10; t++) {
        row[t] = (float)t * 0.3f;
        total += p[t] = exp((double)row[t] / 0.7);
    }
    for (int i = 0; i < n; i++)
        seen[pick(&want, row, 10, 5, (uint64_t)i, NULL, 0, NULL, 0)]++;
    for (int t = 0; t < 10; t++) {
        const double expected = n * p[t] / total;
        chi += (seen[t] - expected) * (seen[t] - expected) / expected;
    }
    printf("chi-square %.2f over 9 degrees\n", chi);
    assert_true(chi < 27.9);
}

static void ties_go_to_the_lower_id(void **state)
{
    (void)state;
    const float row[6] = { 1, 3, 3, 3, 2, 3 };
    struct ls_sampling want = plain;
    want.temperature = 0;
    assert_int_equal(pick(&want, row, 6, 1, 0, NULL, 0, NULL, 0), 1);
    want.temperature = 1;
    want.top_k = 2;
    for (uint64_t i = 0; i < 200; i++) {
        int32_t t = pick(&want, row, 6, 1, i, NULL, 0, NULL, 0);
        assert_true(t == 1 || t == 2);
    }
    want.top_k = 0;
    want.top_p = 1e-9;
    assert_int_equal(pick(&want, row, 6, 1, 0, NULL, 0, NULL, 0), 1);
}

static void infinities(void **state)
{
    (void)state;
    const float none[3] = { -INFINITY, -INFINITY, -INFINITY };
    const float sure[3] = { 1, INFINITY, 2 };
    int seen[3] = { 0 };
    for (uint64_t i = 0; i < 300; i++) {
        seen[pick(&plain, none, 3, 9, i, NULL, 0, NULL, 0)]++;
        assert_int_equal(pick(&plain, sure, 3, 9, i, NULL, 0, NULL, 0), 1);
    }
    assert_true(seen[0] > 50 && seen[1] > 50 && seen[2] > 50);
}

static void huge_penalties_and_tiny_temperature(void **state)
{
    (void)state;
    const float row[3] = { 1, 2, 1.5f };
    const int32_t output[1] = { 1 };
    struct ls_sampling want = plain;
    want.temperature = 5e-324;
    assert_int_equal(pick(&want, row, 3, 4, 0, NULL, 0, NULL, 0), 1);
    want.presence_penalty = 2;
    assert_int_equal(pick(&want, row, 3, 4, 0, NULL, 0, output, 1), 2);
    struct ls_bias bias = { .token = 0, .value = 100 };
    want.bias = &bias;
    want.n_bias = 1;
    assert_int_equal(pick(&want, row, 3, 4, 0, NULL, 0, output, 1), 0);
}

/* A prompt counts for repetition only; the continuation for all three. */
static void what_penalties_count(void **state)
{
    (void)state;
    const float row[2] = { 2, 1.9f };
    const int32_t zero[1] = { 0 };
    struct ls_sampling want = plain;
    want.temperature = 0;
    want.presence_penalty = 1;
    assert_int_equal(pick(&want, row, 2, 0, 0, zero, 1, NULL, 0), 0);
    assert_int_equal(pick(&want, row, 2, 0, 0, NULL, 0, zero, 1), 1);
    want.presence_penalty = 0;
    want.repetition_penalty = 1.5;
    assert_int_equal(pick(&want, row, 2, 0, 0, zero, 1, NULL, 0), 1);
}

static void key_names_the_sample(void **state)
{
    (void)state;
    const int64_t a = 0, b = -1;
    const uint64_t keys[] = {
        ls_sampler_key(0, NULL, "x", 1, 0), ls_sampler_key(1, NULL, "x", 1, 0),
        ls_sampler_key(0, &a, "x", 1, 0),   ls_sampler_key(0, &b, "x", 1, 0),
        ls_sampler_key(0, NULL, "y", 1, 0), ls_sampler_key(0, NULL, "x", 1, 1),
        ls_sampler_key(0, NULL, "", 0, 0)
    };
    const size_t n = sizeof keys / sizeof keys[0];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            assert_true(keys[i] != keys[j]);
    assert_true(keys[0] == ls_sampler_key(0, NULL, "x", 1, 0));
    /* the documented bytes, put together by hand */
    unsigned char bytes[30] = { 7,    0,    0,    0,    0,    0,    0,    0, 1, 0xfe,
                                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0,
                                0,    0,    0,    0,    0,    'q',  3,    0, 0, 0 };
    unsigned char digest[32];
    uint64_t expected;
    const int64_t seed = -2;
    crypto_generichash(digest, 32, bytes, sizeof bytes, NULL, 0);
    memcpy(&expected, digest, 8);
    assert_true(ls_sampler_key(7, &seed, "q", 1, 3) == expected);
}

/* Sequences that share the scratch, in any order, get what they get alone. */
static void neighbours_do_not_matter(void **state)
{
    (void)state;
    enum { N = 6, STEPS = 40, VOCAB = 50 };
    int32_t alone[N][STEPS];
    float row[VOCAB];
    struct ls_sampling want = plain;
    want.top_k = 20;
    want.top_p = 0.9;
    want.repetition_penalty = 1.3;
    struct ls_sampler_scratch scratch;
    struct ls_sampler s[N];
    assert_int_equal(ls_sampler_scratch_init(&scratch, VOCAB, NULL), LS_OK);
    for (int t = 0; t < VOCAB; t++)
        row[t] = (float)(t * 7 % 13) * 0.4f;
    for (int pass = 0; pass < 2; pass++) {
        int at[N] = { 0 };
        for (int i = 0; i < N; i++)
            assert_int_equal(ls_sampler_init(&s[i], &want, (uint64_t)i, NULL, 0, NULL), LS_OK);
        for (int k = 0; k < N * STEPS; k++) {
            int i = pass ? below(N) : k / STEPS;
            while (at[i] == STEPS)
                i = (i + 1) % N;
            int32_t t = ls_sampler_pick(&s[i], &scratch, row, (uint64_t)at[i]);
            assert_int_equal(ls_sampler_note(&s[i], t, NULL), LS_OK);
            if (pass)
                assert_int_equal(t, alone[i][at[i]]);
            else
                alone[i][at[i]] = t;
            at[i]++;
        }
        for (int i = 0; i < N; i++)
            ls_sampler_finish(&s[i]);
    }
    ls_sampler_scratch_finish(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_second_implementation),
        cmocka_unit_test(frequencies_match),
        cmocka_unit_test(ties_go_to_the_lower_id),
        cmocka_unit_test(infinities),
        cmocka_unit_test(huge_penalties_and_tiny_temperature),
        cmocka_unit_test(what_penalties_count),
        cmocka_unit_test(key_names_the_sample),
        cmocka_unit_test(neighbours_do_not_matter),
    };
    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
