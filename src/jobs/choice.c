#include "jobs/choice.h"

#include <inttypes.h>
#include <string.h>

/* Tokens that may share a character, or a run of byte tokens, with what follows. */
enum { PRIME_TOKENS = 16 };

ls_status ls_prime_detok(struct ls_detok *detok, const struct ls_prompt *prompt,
                         struct ls_err *err)
{
    struct ls_bytes dropped = { 0 };
    ls_status status = LS_OK;
    uint32_t i = prompt->n > PRIME_TOKENS ? prompt->n - PRIME_TOKENS : 0;
    for (; !status && i < prompt->n; i++)
        status = ls_detok_feed(detok, prompt->tokens[i], &dropped, err);
    ls_bytes_finish(&dropped);
    return status;
}

ls_status ls_choice_init(struct ls_choice *choice, const struct ls_request *req, uint32_t index,
                         const struct ls_choice_rules *rules, struct ls_err *err)
{
    *choice = (struct ls_choice){ .req = req, .index = index, .nan_layer = -1 };
    choice->prompt = &req->prompts[index / (uint32_t)req->n];
    const int32_t n_top = choice->prompt->n_scored && req->logprobs < 0 ? 0 : req->logprobs;
    ls_scores_init(&choice->scores, n_top, rules->vocab);
    ls_scores_init(&choice->prompt_scores, req->prompt_logprobs, rules->vocab);
    const uint64_t key = ls_sampler_key(rules->seed, req->has_seed ? &req->seed : NULL,
                                        req->custom_id, req->n_custom_id, index);
    ls_status status = ls_sampler_init(&choice->sampler, &req->sampling, key,
                                       choice->prompt->tokens, choice->prompt->n, err);
    if (!status && rules->tokenizer)
        status = ls_detok_create(&choice->detok, rules->tokenizer, true, err);
    if (!status && choice->detok && !req->text_alone)
        status = ls_prime_detok(choice->detok, choice->prompt, err);
    if (status)
        ls_choice_finish(choice, rules);
    return status;
}

void ls_choice_finish(struct ls_choice *choice, const struct ls_choice_rules *rules)
{
    if (rules->spool)
        ls_spool_release(rules->spool, &choice->rows);
    if (rules->leaves)
        ls_spool_release(rules->leaves, &choice->leaves);
    ls_scores_finish(&choice->prompt_scores);
    ls_scores_finish(&choice->scores);
    ls_bytes_finish(&choice->text);
    ls_ids_finish(&choice->tokens);
    ls_detok_destroy(choice->detok);
    ls_sampler_finish(&choice->sampler);
    *choice = (struct ls_choice){ 0 };
}

/* --- which rows are asked for ----------------------------------------------------------------
 */

static bool scores_prompt(const struct ls_request *req)
{
    return req->prompt_logprobs >= 0 || (req->echo && req->logprobs >= 0);
}

static bool dumps_prompt(const struct ls_choice_rules *rules)
{
    return rules->spool &&
           (rules->logits_rows == LS_ROWS_ALL || rules->logits_rows == LS_ROWS_PROMPT);
}

static uint32_t n_sent(const struct ls_choice *c, const struct ls_choice_rules *rules)
{
    if (scores_prompt(c->req) || dumps_prompt(rules))
        return c->prompt->n;
    return c->prompt->n_scored ? c->prompt->n_scored : 1;
}

void ls_choice_sequence(const struct ls_choice *choice, const struct ls_choice_rules *rules,
                        struct ls_sequence *seq)
{
    const struct ls_prompt *p = choice->prompt;
    const bool generates = choice->req->max_tokens > 0;
    uint32_t n_digest = 0;
    if (rules->digest == LS_DIGEST_ALL)
        n_digest = p->n;
    else if (rules->digest == LS_DIGEST_GENERATED)
        n_digest = generates ? 1 : 0;
    *seq = (struct ls_sequence){ .id = seq->id,
                                 .tokens = p->tokens,
                                 .n_prompt = p->n,
                                 .max_new = (uint32_t)choice->req->max_tokens,
                                 .n_send = n_sent(choice, rules),
                                 .n_digest = n_digest,
                                 .digest_generated = rules->digest != LS_DIGEST_NONE };
}

/* --- a row -----------------------------------------------------------------------------------
 */

static bool has_nan(const float *row, int32_t vocab)
{
    int32_t n = 0;
    for (int32_t i = 0; i < vocab; i++)
        n += row[i] != row[i];
    return n > 0;
}

/* The pipeline reports the layer per step, and a step may hold several positions of a prompt;
 * so it counts only from the last prompt position on, where every layout has seen the same. */
static void look_for_nan(struct ls_choice *c, const struct ls_choice_rules *rules,
                         const struct ls_logits *logits)
{
    const bool from_last = logits->pos + 1 >= c->prompt->n;
    if (!c->nan &&
        (has_nan(logits->row, rules->vocab) || (from_last && logits->nan_layer >= 0))) {
        c->nan = true;
        c->nan_pos = logits->pos;
    }
    if (c->nan)
        c->nan_layer = logits->nan_layer;
}

static bool dumps(const struct ls_choice *c, const struct ls_choice_rules *rules, uint32_t pos)
{
    const uint32_t last = c->prompt->n - 1;
    if (!rules->spool)
        return false;
    switch (rules->logits_rows) {
    case LS_ROWS_ALL:
        return true;
    case LS_ROWS_PROMPT:
        return pos <= last;
    case LS_ROWS_GENERATED:
        return pos >= last && c->req->max_tokens > 0;
    case LS_ROWS_LAST:
        return pos == last;
    }
    return false;
}

static ls_status dump(struct ls_choice *c, const struct ls_choice_rules *rules,
                      const struct ls_logits *logits, struct ls_err *err)
{
    if (!dumps(c, rules, logits->pos))
        return LS_OK;
    if (!c->rows.n)
        c->first_row = logits->pos;
    return ls_spool_put(rules->spool, &c->rows, logits->row, err);
}

static bool is_scored(const struct ls_choice *c)
{
    return c->prompt->n_scored > 0;
}

/* A row of the prompt: one of its scored ones, the last included, or one that has a token of
 * the prompt behind it. */
static bool has_next(const struct ls_choice *c, uint32_t pos)
{
    const struct ls_prompt *p = c->prompt;
    return p->n_scored ? pos + p->n_scored >= p->n : pos + 1 < p->n;
}

/* Scores `token` as what follows this position, wherever the request wants it. */
static ls_status score(struct ls_choice *c, const struct ls_choice_rules *rules,
                       const float *row, int32_t token, bool of_prompt, struct ls_err *err)
{
    const bool echoed = c->scores.n_top >= 0 && (!of_prompt || c->req->echo || is_scored(c));
    const bool listed = of_prompt && c->req->prompt_logprobs >= 0;
    if (!echoed && !listed)
        return LS_OK;
    const struct ls_row_sum sum = ls_row_sum(rules->kernels, row, rules->vocab);
    ls_status status =
        echoed ? ls_scores_add(&c->scores, &sum, row, rules->vocab, token, err) : LS_OK;
    if (!status && listed)
        status = ls_scores_add(&c->prompt_scores, &sum, row, rules->vocab, token, err);
    return status;
}

/* --- a token ---------------------------------------------------------------------------------
 */

static bool ends_sequence(const struct ls_choice *c, const struct ls_choice_rules *rules,
                          int32_t token)
{
    for (size_t i = 0; i < c->req->n_stop_ids; i++)
        if (c->req->stop_ids[i] == token)
            return true;
    for (int i = 0; !c->req->ignore_eos && i < rules->n_eos; i++)
        if (rules->eos[i] == token)
            return true;
    return false;
}

static void cut_at_stop(struct ls_choice *c, size_t n_old)
{
    size_t cut;
    if (!ls_stops_find(&c->req->stops, c->text.data, c->text.n, n_old, &cut))
        return;
    c->text.n = cut;
    c->cut = c->stopped = c->ended = true;
}

/* Text held back at the end (a cut character) comes out now, and may complete a stop. */
static ls_status end_text(struct ls_choice *c, struct ls_err *err)
{
    const size_t n_old = c->text.n;
    ls_status status = c->detok ? ls_detok_finish(c->detok, &c->text, err) : LS_OK;
    if (!status)
        cut_at_stop(c, n_old);
    return status;
}

static ls_status append(struct ls_choice *c, const struct ls_choice_rules *rules, int32_t token,
                        struct ls_err *err)
{
    ls_status status = ls_ids_push(&c->tokens, token, err);
    if (!status)
        status = ls_sampler_note(&c->sampler, token, err);
    if (status)
        return status;
    if (ends_sequence(c, rules, token)) {
        c->stopped = c->ended = true;
        return end_text(c, err);
    }
    const size_t n_old = c->text.n;
    status = c->detok ? ls_detok_feed(c->detok, token, &c->text, err) : LS_OK;
    if (status)
        return status;
    cut_at_stop(c, n_old);
    if (c->ended || c->tokens.n < (size_t)c->req->max_tokens)
        return LS_OK;
    c->ended = true;
    return end_text(c, err);
}

static ls_status generate(struct ls_choice *c, const struct ls_choice_rules *rules,
                          const struct ls_logits *logits, int32_t *token, struct ls_err *err)
{
    *token = ls_sampler_pick(&c->sampler, rules->scratch, logits->row, c->tokens.n);
    ls_status status = score(c, rules, logits->row, *token, false, err);
    return status ? status : append(c, rules, *token, err);
}

static ls_status check_position(struct ls_choice *c, const struct ls_choice_rules *rules,
                                uint32_t pos, struct ls_err *err)
{
    const uint32_t first = c->prompt->n - n_sent(c, rules);
    const uint32_t expected = c->next_pos ? c->next_pos : first;
    if (c->ended || pos != expected)
        return ls_fail(err, LS_E_INTERNAL,
                       "request of line %" PRIu64 ", choice %" PRIu32 ": logits of position "
                       "%" PRIu32 ", expected %s%" PRIu32,
                       c->req->line, c->index, pos, c->ended ? "none after " : "", expected);
    c->next_pos = pos + 1;
    return LS_OK;
}

ls_status ls_choice_logits(struct ls_choice *choice, const struct ls_choice_rules *rules,
                           const struct ls_logits *logits, enum ls_verdict *verdict,
                           int32_t *token, struct ls_err *err)
{
    const struct ls_prompt *p = choice->prompt;
    ls_status status = check_position(choice, rules, logits->pos, err);
    if (status)
        return status;
    const bool in_prompt = logits->pos + 1 < p->n;
    *token = -1;
    *verdict = LS_GO_ON;
    look_for_nan(choice, rules, logits);
    if (choice->nan)
        choice->ended = !in_prompt;
    else if (!(status = dump(choice, rules, logits, err)) && has_next(choice, logits->pos))
        status = score(choice, rules, logits->row, p->tokens[logits->pos + 1], true, err);
    else if (!status && !in_prompt && choice->req->max_tokens > 0)
        status = generate(choice, rules, logits, token, err);
    if (!in_prompt && !choice->req->max_tokens)
        choice->ended = true;
    if (choice->ended)
        *verdict = LS_FINISH;
    return status;
}

ls_status ls_choice_done(struct ls_choice *choice, const unsigned char digest[32],
                         uint64_t n_digested, struct ls_err *err)
{
    if (!choice->ended || choice->done)
        return ls_fail(
            err, LS_E_INTERNAL, "request of line %" PRIu64 ", choice %" PRIu32 ": ended %s",
            choice->req->line, choice->index, choice->done ? "twice" : "before its last token");
    choice->done = true;
    memcpy(choice->digest, digest, sizeof choice->digest);
    choice->n_digested = n_digested;
    return LS_OK;
}
