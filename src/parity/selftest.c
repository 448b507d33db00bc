#include "parity/selftest.h"

#include "base/philox.h"
#include "parity/selftest_window.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = LS_SELFTEST_LENGTH, N_NEIGHBOURS = 3, CHUNK = 7, SEED = 0x5e1f };

typedef unsigned char digests[LENGTH][LS_REPLAY_DIGEST];

struct trial {
    const struct ls_replay_model *model;
    struct ls_replay *replay;
    uint32_t n;                               /* tokens of a sequence, <= LENGTH */
    int32_t tokens[1 + N_NEIGHBOURS][LENGTH]; /* the sequence, and its neighbours */
    digests expected;                         /* of the sequence, computed alone in one step */
};

const char *ls_selftest_name(enum ls_selftest_part part)
{
    static const char *const names[LS_N_SELFTEST_PARTS] = {
        [LS_SELFTEST_REPEAT] = "repeat",
        [LS_SELFTEST_CAUSALITY] = "causality",
        [LS_SELFTEST_NEIGHBOURS] = "neighbours",
        [LS_SELFTEST_WINDOW] = "window",
    };
    return names[part];
}

/* The first failure of a part stays. */
static void fail_part(struct ls_selftest_verdict *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void fail_part(struct ls_selftest_verdict *v, const char *fmt, ...)
{
    va_list args;
    if (!v->good)
        return;
    v->good = false;
    va_start(args, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}

static int32_t token_at(const struct trial *t, uint32_t index)
{
    const double x = ls_philox_uniform(SEED, index);
    return (int32_t)(x * t->model->arch.vocab);
}

static void make_tokens(struct trial *t)
{
    t->n = t->model->arch.context < LENGTH ? (uint32_t)t->model->arch.context : LENGTH;
    for (uint32_t s = 0; s <= N_NEIGHBOURS; s++)
        for (uint32_t i = 0; i < t->n; i++)
            t->tokens[s][i] = token_at(t, s * LENGTH + i);
}

/* Rows of the sequence, `chunk` tokens a step, with n_others neighbours in the steps beside it:
 * before it and behind it, each at a pace of its own. */
static ls_status play(struct trial *t, const int32_t *tokens, uint32_t chunk, uint32_t n_others,
                      digests out, struct ls_err *err)
{
    unsigned char seen[(1 + N_NEIGHBOURS) * LENGTH][LS_REPLAY_DIGEST];
    uint32_t done[1 + N_NEIGHBOURS] = { 0 };
    ls_status s = LS_OK;
    ls_replay_restart(t->replay);
    while (!s && done[0] < t->n) {
        struct ls_replay_row rows[1 + N_NEIGHBOURS];
        uint32_t n_rows = 0, n_before = 0, own = 0;
        for (uint32_t k = 0; k <= n_others; k++) {
            const uint32_t i = n_others ? (k + 1) % (n_others + 1) : 0;
            const uint32_t left = t->n - done[i], pace = i ? 2 * i + 3 : chunk;
            const uint32_t count = left < pace ? left : pace;
            if (!count)
                continue;
            rows[n_rows++] = (struct ls_replay_row){
                .sequence = i, .count = count, .tokens = (i ? t->tokens[i] : tokens) + done[i]
            };
            if (i == 0)
                own = count;
            else if (!own)
                n_before += count;
            done[i] += count;
        }
        s = ls_replay_run(t->replay, rows, n_rows, NULL, NULL, err);
        if (s)
            return s;
        ls_replay_logits(t->replay, seen);
        memcpy(out[done[0] - own], seen[n_before], own * sizeof *seen);
    }
    return s;
}

/* First row in [0, n) that differs; n: none. */
static uint32_t first_difference(const digests a, const digests b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && !memcmp(a[i], b[i], sizeof a[i]))
        i++;
    return i;
}

static void pass(struct ls_selftest_verdict *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void pass(struct ls_selftest_verdict *v, const char *fmt, ...)
{
    va_list args;
    if (!v->good)
        return;
    va_start(args, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}

static ls_status try_repeat(struct trial *t, struct ls_selftest_verdict *v, struct ls_err *err)
{
    const uint32_t chunks[] = { t->n, t->n, CHUNK, 1 };
    digests rows;
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < sizeof chunks / sizeof *chunks; i++) {
        s = play(t, t->tokens[0], chunks[i], 0, rows, err);
        const uint32_t first = s ? t->n : first_difference(rows, t->expected, t->n);
        if (first < t->n)
            fail_part(v,
                      "the logits of position %u are others when the same %u tokens are "
                      "computed again, %u a step",
                      first, t->n, chunks[i]);
    }
    pass(v, "%u tokens computed again at once, %d and 1 a step", t->n, CHUNK);
    return s;
}

/* One rung: token `at` is another one. */
static ls_status change(struct trial *t, uint32_t at, struct ls_selftest_verdict *v,
                        struct ls_err *err)
{
    int32_t tokens[LENGTH];
    digests rows;
    memcpy(tokens, t->tokens[0], sizeof tokens);
    tokens[at] = (tokens[at] + 1) % t->model->arch.vocab;
    ls_status s = play(t, tokens, t->n, 0, rows, err);
    if (s)
        return s;
    const uint32_t first = first_difference(rows, t->expected, t->n);
    if (first < at)
        fail_part(v, "changing the token at position %u changes the logits of position %u", at,
                  first);
    else if (first > at)
        fail_part(v, "changing the token at position %u leaves its logits as they are", at);
    return LS_OK;
}

static ls_status try_causality(struct trial *t, struct ls_selftest_verdict *v,
                               struct ls_err *err)
{
    /* both sides of the edge of a KV block, and a ladder up to it */
    static const uint32_t ladder[] = { 0, 1, 2, 5, 13, 31, 32, LENGTH - 1 };
    int n = 0;
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < sizeof ladder / sizeof *ladder; i++)
        if (ladder[i] < t->n && t->model->arch.vocab > 1) {
            s = change(t, ladder[i], v, err);
            n++;
        }
    if (!n)
        fail_part(v, "a vocabulary of one token has nothing to change");
    pass(v, "%d changes of one of %u tokens, none of them seen before its place", n, t->n);
    return s;
}

static ls_status try_neighbours(struct trial *t, struct ls_selftest_verdict *v,
                                struct ls_err *err)
{
    digests rows;
    ls_status s = LS_OK;
    for (uint32_t n = 1; !s && n <= N_NEIGHBOURS; n += N_NEIGHBOURS - 1) {
        s = play(t, t->tokens[0], CHUNK, n, rows, err);
        const uint32_t first = s ? t->n : first_difference(rows, t->expected, t->n);
        if (first < t->n)
            fail_part(v, "the logits of position %u are others beside %u other sequence%s",
                      first, n, n == 1 ? "" : "s");
    }
    pass(v, "the same logits alone and beside up to %d other sequences", N_NEIGHBOURS);
    return s;
}

static ls_status try_all(struct trial *t, struct ls_selftest_verdict *v, struct ls_err *err)
{
    ls_status s = play(t, t->tokens[0], t->n, 0, t->expected, err);
    if (!s)
        s = try_repeat(t, &v[LS_SELFTEST_REPEAT], err);
    if (!s)
        s = try_causality(t, &v[LS_SELFTEST_CAUSALITY], err);
    if (!s)
        s = try_neighbours(t, &v[LS_SELFTEST_NEIGHBOURS], err);
    return s;
}

ls_status ls_selftest_model(const struct ls_replay_model *model,
                            const struct ls_kernels *kernels, int n_threads,
                            struct ls_selftest_verdict verdicts[LS_N_SELFTEST_PARTS],
                            struct ls_err *err)
{
    struct trial t = { .model = model };
    for (int i = 0; i < LS_N_SELFTEST_PARTS; i++)
        verdicts[i] = (struct ls_selftest_verdict){ .good = true };
    make_tokens(&t);
    const struct ls_replay_config config = { .arch = &model->arch,
                                             .ckpt = model->ckpt,
                                             .kernels = kernels,
                                             .last_layer = model->arch.n_layers,
                                             .n_threads = n_threads,
                                             .n_sequences = 1 + N_NEIGHBOURS,
                                             .positions = t.n,
                                             .max_tokens = (1 + N_NEIGHBOURS) * t.n };
    ls_status s = ls_replay_create(&t.replay, &config, err);
    if (!s)
        s = try_all(&t, verdicts, err);
    ls_replay_destroy(t.replay);
    if (!s)
        s = ls_selftest_window(model, kernels, n_threads, &verdicts[LS_SELFTEST_WINDOW], err);
    return s;
}
