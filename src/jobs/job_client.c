#include "jobs/job_parts.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHOICE_BITS = 16, /* of a sequence's id; the rest is its row's number */
    FLUSH_EVERY_US = 1000 * 1000,
    REQUEST_BYTES = 64 * 1024, /* of a request that waits with its logits, roughly */
};

void ls_run_destroy(struct ls_job *job, struct ls_run *run)
{
    if (!run)
        return;
    for (uint32_t i = 0; i < run->n_issued; i++)
        ls_choice_finish(&run->choices[i], &job->choice_rules);
    free(run->choices);
    ls_request_finish(&run->req);
    free(run);
}

/* --- rows out --------------------------------------------------------------------------------
 */

/* Writes every row whose turn has come. */
static ls_status drain(struct ls_job *job, struct ls_err *err)
{
    for (struct ls_row_slot *s; (s = ls_reorder_head(&job->reorder));) {
        struct ls_run *run = s->owner;
        ls_status status = ls_row_file_add(&job->rows, s->row, s->n_row, err);
        if (!status && run)
            status = ls_logits_add(&job->logits, &run->req, run->choices, err);
        if (status)
            return status;
        crypto_generichash_update(&job->digest_state, s->digest, sizeof s->digest);
        job->counts.rows++;
        job->counts.error_rows += s->is_error;
        ls_reorder_pop(&job->reorder);
        ls_run_destroy(job, run);
    }
    return LS_OK;
}

static ls_status put_row(struct ls_job *job, uint64_t number, struct ls_out *row, size_t held,
                         struct ls_err *err)
{
    size_t n;
    ls_status status = ls_out_check(row, "a row", err);
    char *text = status ? NULL : ls_out_take(row, &n);
    if (!status && !text)
        status = ls_fail(err, LS_E_MEMORY, "out of memory for a row");
    if (status)
        return status;
    ls_reorder_put(&job->reorder, number, text, n, held);
    return drain(job, err);
}

static ls_status put_error(struct ls_job *job, uint64_t number, const struct ls_request *req,
                           const char *code, const char *message, struct ls_err *err)
{
    struct ls_out row = { 0 };
    ls_row_error(&row, req, code, message);
    ls_reorder_slot(&job->reorder, number)->is_error = true;
    ls_status status = put_row(job, number, &row, 0, err);
    ls_out_finish(&row);
    return status;
}

/* --- requests in -----------------------------------------------------------------------------
 */

static ls_status find_kind(struct ls_job *job, struct ls_err *err)
{
    const char *data;
    size_t n;
    if (job->kind_known)
        return LS_OK;
    ls_status status = ls_lines_peek(&job->lines, LS_KIND_BYTES, &data, &n, err);
    if (status)
        return status;
    job->kind = ls_input_kind(job->config.input, data, n);
    if (job->kind == LS_INPUT_TEXT && job->config.score.scores && !job->config.score.by_line) {
        job->kind = LS_INPUT_DOCUMENT;
        job->lines.whole = true;
    }
    job->kind_known = true;
    return LS_OK;
}

static ls_status check_unique(struct ls_job *job, struct ls_request *req, struct ls_err *err)
{
    bool fresh = true;
    if (!req->custom_id || job->kind != LS_INPUT_JSON)
        return LS_OK;
    ls_status status = ls_id_set_add(&job->ids, req->custom_id, req->n_custom_id, &fresh, err);
    if (status || fresh)
        return status;
    return ls_request_refuse(
        req, "duplicate_custom_id", err, "custom_id \"%.*s\" came in an earlier line",
        (int)(req->n_custom_id < 64 ? req->n_custom_id : 64), req->custom_id);
}

/* Reads a line into run->req. LS_E_REQUEST: refused. */
static ls_status read_request(struct ls_job *job, struct ls_run *run,
                              const struct ls_line *line, struct ls_err *err)
{
    struct ls_err twice = { 0 };
    ls_status status = ls_request_read(&run->req, job->kind, line, &job->request_rules, err);
    if (status && status != LS_E_REQUEST)
        return status;
    ls_status unique = check_unique(job, &run->req, &twice);
    if (!unique)
        return status;
    if (err)
        *err = twice;
    return unique;
}

static ls_status start_run(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    run->n_choices = run->req.n_prompts * (uint32_t)run->req.n;
    run->choices = calloc(run->n_choices, sizeof *run->choices);
    if (!run->choices)
        return ls_fail(err, LS_E_MEMORY,
                       "out of memory for the %" PRIu32 " choices of line %" PRIu64,
                       run->n_choices, run->req.line);
    ls_reorder_slot(&job->reorder, run->number)->owner = run;
    job->current = run;
    return LS_OK;
}

/* Takes one line: it becomes the current request, or an error row. */
static ls_status take_line(struct ls_job *job, struct ls_err *err)
{
    struct ls_line line;
    bool more;
    struct ls_err why = { 0 };
    ls_status status = ls_lines_next(&job->lines, &line, &more, err);
    if (status)
        return status;
    job->at_end = !more;
    if (!more)
        return LS_OK;
    struct ls_run *run = calloc(1, sizeof *run);
    if (!run)
        return ls_fail(err, LS_E_MEMORY, "out of memory for line %" PRIu64, line.number);
    status = ls_reorder_open(&job->reorder, &run->number, err);
    if (!status) {
        status = read_request(job, run, &line, &why);
        if (!status && !(status = start_run(job, run, err)))
            return LS_OK;
        if (status == LS_E_REQUEST)
            status = put_error(job, run->number, &run->req, run->req.code, why.text, err);
        else if (err && why.status)
            *err = why;
    }
    ls_run_destroy(job, run);
    return status;
}

static ls_status issue(struct ls_job *job, struct ls_sequence *seq, struct ls_err *err)
{
    struct ls_run *run = job->current;
    const uint32_t k = run->n_issued;
    ls_status status = ls_choice_init(&run->choices[k], &run->req, k, &job->choice_rules, err);
    if (status)
        return status;
    run->n_issued++;
    seq->id = run->number << CHOICE_BITS | k;
    ls_choice_sequence(&run->choices[k], &job->choice_rules, seq);
    if (run->n_issued == run->n_choices)
        job->current = NULL;
    return LS_OK;
}

ls_status ls_job_next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err)
{
    struct ls_job *job = arg;
    ls_status status = find_kind(job, err);
    if (job->current && job->current->failed)
        job->current = NULL;
    while (!status && !job->current && !job->at_end && !ls_reorder_full(&job->reorder))
        status = take_line(job, err);
    if (status)
        return status;
    if (job->current) {
        *what = LS_NEXT_SEQUENCE;
        return issue(job, seq, err);
    }
    *what = job->at_end ? LS_NEXT_END : LS_NEXT_LATER;
    return LS_OK;
}

/* --- results in ------------------------------------------------------------------------------
 */

static ls_status find_choice(struct ls_job *job, uint64_t id, struct ls_run **run,
                             struct ls_choice **choice, struct ls_err *err)
{
    const uint64_t number = id >> CHOICE_BITS, k = id & ((1u << CHOICE_BITS) - 1);
    *run = NULL;
    *choice = NULL;
    if (number >= job->reorder.first && number < job->reorder.next)
        *run = ls_reorder_slot(&job->reorder, number)->owner;
    if (!*run || k >= (*run)->n_issued || (*run)->choices[k].done)
        return ls_fail(err, LS_E_INTERNAL, "sequence %" PRIu64 " is not running", id);
    *choice = &(*run)->choices[k];
    return LS_OK;
}

ls_status ls_job_logits(void *arg, uint64_t id, const struct ls_logits *logits,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err)
{
    struct ls_job *job = arg;
    struct ls_run *run;
    struct ls_choice *choice;
    ls_status status = find_choice(job, id, &run, &choice, err);
    if (status)
        return status;
    job->tokens += choice->next_pos ? 0 : choice->prompt->n;
    const size_t n_tokens = choice->tokens.n;
    status = ls_choice_logits(choice, &job->choice_rules, logits, verdict, token, err);
    job->tokens += choice->tokens.n - n_tokens;
    return status;
}

static ls_status finish_failed(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    char text[160], which[32] = "";
    uint32_t k = 0;
    while (!run->choices[k].nan)
        k++;
    const struct ls_choice *c = &run->choices[k];
    if (run->n_choices > 1)
        snprintf(which, sizeof which, "choice %" PRIu32 ": ", k);
    if (c->nan_layer >= 0)
        snprintf(text, sizeof text,
                 "%sNaN in the logits of position %" PRIu32
                 ", first produced by layer %" PRId32,
                 which, c->nan_pos, c->nan_layer);
    else
        snprintf(text, sizeof text,
                 "%sNaN in the logits of position %" PRIu32
                 ", produced by no layer but the head",
                 which, c->nan_pos);
    ls_reorder_slot(&job->reorder, run->number)->owner = NULL;
    if (job->current == run)
        job->current = NULL;
    ls_status status = put_error(job, run->number, &run->req, "nan_logits", text, err);
    ls_run_destroy(job, run);
    return status;
}

static void count_tokens(struct ls_job_counts *counts, const struct ls_run *run)
{
    for (uint32_t i = 0; i < run->req.n_prompts; i++)
        counts->prompt_tokens += run->req.prompts[i].n;
    for (uint32_t i = 0; i < run->n_choices; i++)
        counts->generated_tokens += run->choices[i].tokens.n;
}

/* With logits files the request stays beside its row until their turn. */
static ls_status finish_good(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    struct ls_out row = { 0 };
    const uint64_t number = run->number;
    const bool stays = job->logits.folder != NULL;
    struct ls_row_slot *slot = ls_reorder_slot(&job->reorder, number);
    ls_status status =
        ls_row_write(&row, &run->req, run->choices, &job->row_rules, slot->digest, err);
    if (!status) {
        count_tokens(&job->counts, run);
        if (!stays) {
            slot->owner = NULL;
            ls_run_destroy(job, run);
        }
        status = put_row(job, number, &row, stays ? REQUEST_BYTES : 0, err);
    }
    ls_out_finish(&row);
    return status;
}

ls_status ls_job_done(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err)
{
    struct ls_job *job = arg;
    struct ls_run *run;
    struct ls_choice *choice;
    ls_status status = find_choice(job, id, &run, &choice, err);
    if (!status)
        status = ls_choice_done(choice, digest, n_rows, err);
    if (status)
        return status;
    run->n_done++;
    run->failed = run->failed || choice->nan;
    if (run->n_done < run->n_issued || (run->n_issued < run->n_choices && !run->failed))
        return LS_OK;
    return run->failed ? finish_failed(job, run, err) : finish_good(job, run, err);
}

ls_status ls_job_tick(void *arg, uint64_t n_running, bool *drain_now, struct ls_err *err)
{
    struct ls_job *job = arg;
    const uint64_t now = ls_now_us();
    const struct ls_progress_counts counts = { .rows = job->counts.rows,
                                               .error_rows = job->counts.error_rows,
                                               .running = n_running,
                                               .tokens = job->tokens };
    *drain_now = false;
    ls_progress_show(&job->progress, &counts, now, false);
    if (now - job->flushed_us < FLUSH_EVERY_US)
        return LS_OK;
    job->flushed_us = now;
    return ls_row_file_flush(&job->rows, err);
}
