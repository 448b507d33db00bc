#include "jobs/ahead.h"

#include "base/clock.h"
#include "jobs/choice.h"
#include "jobs/input.h"
#include "jobs/job_rules.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_PICKS = 32 };

static ls_status grow(struct ls_ahead *a, struct ls_err *err)
{
    if (a->n < a->capacity)
        return LS_OK;
    const uint64_t capacity = a->capacity ? 2 * a->capacity : 64;
    void *const list = realloc(a->sequences, capacity * sizeof *a->sequences);
    if (!list)
        return ls_fail(err, LS_E_MEMORY, "out of memory: the sequences of the input");
    a->sequences = list;
    a->capacity = capacity;
    return LS_OK;
}

/* Logits of about the shape that models have: some far above the many. */
static void fill_row(float *row, int32_t vocab)
{
    uint32_t x = 1;
    for (int32_t i = 0; i < vocab; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            x = x * 1664525u + 1013904223u;
            sum += (float)(x >> 8) * 0x1p-23f - 1;
        }
        row[i] = 2 * sum;
    }
}

/* pick_us becomes the mean. */
static void time_pick(struct ls_ahead *a, const struct ls_choice *choice,
                      const struct ls_choice_rules *rules)
{
    const uint64_t begin = ls_now_us();
    ls_sampler_pick(&choice->sampler, rules->scratch, a->row, 0);
    a->pick_us += ((double)(ls_now_us() - begin) - a->pick_us) / (double)a->n;
}

static ls_status add(struct ls_ahead *a, const struct ls_request *req, uint32_t k,
                     const int32_t *tokens, const struct ls_choice_rules *rules,
                     struct ls_err *err)
{
    struct ls_choice choice = { .done = false };
    ls_status s = grow(a, err);
    if (!s)
        s = ls_choice_init(&choice, req, k, rules, err);
    if (s)
        return s;
    struct ls_sequence *const seq = &a->sequences[a->n++];
    *seq = (struct ls_sequence){ .id = a->n };
    ls_choice_sequence(&choice, rules, seq);
    seq->tokens = tokens;
    a->prompt_tokens += seq->n_prompt;
    a->new_tokens += seq->max_new;
    if (a->n <= N_PICKS)
        time_pick(a, &choice, rules);
    ls_choice_finish(&choice, rules);
    return LS_OK;
}

/* All choices of a prompt begin with the same tokens. */
static ls_status add_request(struct ls_ahead *a, const struct ls_request *req,
                             const struct ls_choice_rules *rules, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (uint32_t p = 0; !s && p < req->n_prompts; p++) {
        const struct ls_prompt *const prompt = &req->prompts[p];
        const uint64_t bytes = prompt->n * sizeof *prompt->tokens;
        int32_t *const tokens = ls_arena_take(&a->arena, bytes);
        if (!tokens)
            return ls_fail(err, LS_E_MEMORY, "out of memory: the prompts of the input");
        memcpy(tokens, prompt->tokens, bytes);
        for (int32_t i = 0; !s && i < req->n; i++)
            s = add(a, req, p * (uint32_t)req->n + (uint32_t)i, tokens, rules, err);
    }
    return s;
}

static ls_status read_line(struct ls_ahead *a, enum ls_input_kind kind,
                           const struct ls_line *line,
                           const struct ls_request_rules *request_rules,
                           const struct ls_choice_rules *choice_rules, struct ls_err *err)
{
    struct ls_request req;
    struct ls_err why = { .status = LS_OK };
    ls_status s = ls_request_read(&req, kind, line, request_rules, &why);
    if (!s)
        s = add_request(a, &req, choice_rules, err);
    else if (s == LS_E_REQUEST)
        a->refused++;
    else if (err)
        *err = why;
    ls_request_finish(&req);
    return s == LS_E_REQUEST ? LS_OK : s;
}

static ls_status read_lines(struct ls_ahead *a, int fd, const struct ls_job_config *config,
                            const struct ls_request_rules *request,
                            const struct ls_choice_rules *choice, struct ls_err *err)
{
    struct ls_lines lines;
    struct ls_line line;
    enum ls_input_kind kind = LS_INPUT_TEXT;
    bool more = true;
    ls_lines_init(&lines, fd, config->input);
    ls_status s = ls_job_kind(&kind, &lines, config, err);
    while (!s && more) {
        s = ls_lines_next(&lines, &line, &more, err);
        if (!s && more)
            s = read_line(a, kind, &line, request, choice, err);
    }
    ls_lines_finish(&lines);
    return s;
}

ls_status ls_ahead_read(struct ls_ahead *ahead, const struct ls_job_config *config,
                        const struct ls_arch *arch, const struct ls_tokenizer *tokenizer,
                        struct ls_err *err)
{
    struct ls_spool spool = { .n_free = 0 }; /* nothing goes there: that there is one counts */
    struct ls_sampler_scratch scratch = { .vocab = 0 };
    int fd = -1;
    *ahead = (struct ls_ahead){ .n = 0 };
    ls_arena_init(&ahead->arena);
    const struct ls_request_rules request = ls_job_request_rules(config, arch, tokenizer);
    struct ls_choice_rules choice = ls_job_choice_rules(config, arch, tokenizer);
    choice.spool = config->logits_dir ? &spool : NULL;
    choice.scratch = &scratch;
    ahead->row = ls_arena_take(&ahead->arena, (uint64_t)arch->vocab * sizeof(float));
    if (!ahead->row)
        return ls_fail(err, LS_E_MEMORY, "out of memory: a row of logits");
    fill_row(ahead->row, arch->vocab);
    ls_status s = ls_sampler_scratch_init(&scratch, arch->vocab, err);
    if (!s)
        s = ls_input_open(&fd, config->input, err);
    if (!s)
        s = read_lines(ahead, fd, config, &request, &choice, err);
    ls_sampler_scratch_finish(&scratch);
    if (fd >= 0)
        close(fd);
    return s;
}

void ls_ahead_finish(struct ls_ahead *ahead)
{
    ls_arena_finish(&ahead->arena);
    free(ahead->sequences);
    *ahead = (struct ls_ahead){ .n = 0 };
}
