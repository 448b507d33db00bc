#include "jobs/scores.h"

#include <stdbool.h>
#include <stdlib.h>

void ls_scores_init(struct ls_scores *scores, int32_t n_top, int32_t vocab)
{
    *scores = (struct ls_scores){ .n_top = n_top < vocab ? n_top : vocab };
}

void ls_scores_finish(struct ls_scores *scores)
{
    free(scores->items);
    free(scores->tops);
    *scores = (struct ls_scores){ .n_top = -1 };
}

struct ls_row_sum ls_row_sum(const struct ls_kernels *kernels, const float *row, int32_t vocab)
{
    struct ls_row_sum s;
    unsigned saved = ls_fp_enter();
    s.sum = kernels->sum_exp(row, vocab, &s.max);
    ls_fp_leave(saved);
    return s;
}

static ls_status grow(struct ls_scores *s, struct ls_err *err)
{
    if (s->n < s->cap)
        return LS_OK;
    const size_t cap = s->cap ? 2 * s->cap : 64;
    const size_t width = s->n_top ? (size_t)s->n_top : 1;
    void *items = realloc(s->items, cap * sizeof *s->items);
    if (items)
        s->items = items;
    void *tops = items ? realloc(s->tops, cap * width * sizeof *s->tops) : NULL;
    if (!tops)
        return ls_fail(err, LS_E_MEMORY, "out of memory for log-probabilities");
    s->tops = tops;
    s->cap = cap;
    return LS_OK;
}

/* The n likeliest by (logit descending, id ascending): an insertion sort whose last element
 * most of the row does not reach. */
static void find_top(int32_t *top, int32_t n, const float *row, int32_t vocab)
{
    int32_t held = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (held == n && !(row[i] > row[top[n - 1]]))
            continue;
        int32_t at = held < n ? held++ : n - 1;
        for (; at > 0 && row[top[at - 1]] < row[i]; at--)
            top[at] = top[at - 1];
        top[at] = i;
    }
}

static int32_t rank_of(const float *row, int32_t vocab, int32_t token)
{
    int32_t before = 0;
    for (int32_t i = 0; i < token; i++)
        before += row[i] >= row[token];
    for (int32_t i = token + 1; i < vocab; i++)
        before += row[i] > row[token];
    return before + 1;
}

ls_status ls_scores_add(struct ls_scores *scores, const struct ls_row_sum *sum,
                        const float *row, int32_t vocab, int32_t token, struct ls_err *err)
{
    ls_status status = grow(scores, err);
    if (status)
        return status;
    scores->items[scores->n] =
        (struct ls_score){ .token = token,
                           .rank = rank_of(row, vocab, token),
                           .logprob = ls_log_prob(row[token], sum->max, sum->sum) };
    if (scores->n_top > 0) {
        int32_t top[64];
        struct ls_top *to = scores->tops + scores->n * (size_t)scores->n_top;
        find_top(top, scores->n_top, row, vocab);
        for (int32_t i = 0; i < scores->n_top; i++)
            to[i] = (struct ls_top){ .token = top[i],
                                     .logprob = ls_log_prob(row[top[i]], sum->max, sum->sum) };
    }
    scores->n++;
    return LS_OK;
}
