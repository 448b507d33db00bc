#include "jobs/job_parts.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHOICE_BITS = 16, /* of a sequence's id; the rest is its request's place */
    COMMIT_EVERY_US = 500 * 1000,
    LINES_AT_ONCE =
        2000, /* without a sequence among them, before other things get their turn */
};

void ls_run_leave(struct ls_job *job, struct ls_run *run)
{
    if (run->in_runs)
        ls_runs_drop(&job->runs, run->place);
    run->in_runs = false;
    if (job->current == run)
        job->current = NULL;
}

void ls_run_destroy(struct ls_job *job, struct ls_run *run)
{
    if (!run)
        return;
    ls_run_leave(job, run);
    for (uint32_t i = 0; i < run->n_issued; i++)
        ls_choice_finish(&run->choices[i], &job->choice_rules);
    free(run->choices);
    ls_out_finish(&run->row);
    ls_request_finish(&run->req);
    free(run);
}

/* An error row. Takes the run over. */
static ls_status put_error(struct ls_job *job, struct ls_run *run, const char *code,
                           const char *message, struct ls_err *err)
{
    struct ls_out row = { 0 };
    ls_row_error(&row, &run->req, code, message);
    run->record.is_error = true;
    return ls_job_deliver(job, run, &row, err);
}

/* --- requests in -----------------------------------------------------------------------------
 */

static ls_status check_unique(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    bool fresh = true;
    struct ls_request *req = &run->req;
    if (!req->custom_id || job->kind != LS_INPUT_JSON)
        return LS_OK;
    run->record.has_id = true;
    ls_id_digest(run->record.id_digest, req->custom_id, req->n_custom_id);
    ls_status status = ls_id_set_add(&job->ids, run->record.id_digest, &fresh, err);
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
    run->record.line = line->number;
    memcpy(run->record.line_digest, run->req.digest, sizeof run->record.line_digest);
    ls_status unique = check_unique(job, run, &twice);
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
    ls_status status = ls_runs_add(&job->runs, run, &run->place, err);
    if (status)
        return status;
    run->in_runs = true;
    job->current = run;
    return LS_OK;
}

/* The request of a line becomes the current one, or an error row. */
static ls_status open_line(struct ls_job *job, const struct ls_line *line, struct ls_err *err)
{
    struct ls_err why = { 0 };
    struct ls_run *run = calloc(1, sizeof *run);
    if (!run)
        return ls_fail(err, LS_E_MEMORY, "out of memory for line %" PRIu64, line->number);
    ls_status status = read_request(job, run, line, &why);
    if (status == LS_E_REQUEST)
        return put_error(job, run, run->req.code, why.text, err);
    if (status && err)
        *err = why;
    if (!status)
        status = start_run(job, run, err);
    if (status)
        ls_run_destroy(job, run);
    return status;
}

/* Takes one line, unless an earlier run has done it. */
static ls_status take_line(struct ls_job *job, struct ls_err *err)
{
    struct ls_line line;
    bool more, done;
    ls_status status = ls_lines_next(&job->lines, &line, &more, err);
    if (status)
        return status;
    if (!more) {
        status = ls_job_check_end(job, err);
        job->at_end = !status;
        return status;
    }
    status = ls_job_resume_line(job, &line, &done, err);
    return status || done ? status : open_line(job, &line, err);
}

static ls_status issue(struct ls_job *job, struct ls_sequence *seq, struct ls_err *err)
{
    struct ls_run *run = job->current;
    const uint32_t k = run->n_issued;
    ls_status status = ls_choice_init(&run->choices[k], &run->req, k, &job->choice_rules, err);
    if (status)
        return status;
    run->n_issued++;
    seq->id = (uint64_t)run->place << CHOICE_BITS | k;
    ls_choice_sequence(&run->choices[k], &job->choice_rules, seq);
    if (run->n_issued == run->n_choices)
        job->current = NULL;
    return LS_OK;
}

ls_status ls_job_next(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err)
{
    struct ls_job *job = arg;
    ls_status status = LS_OK;
    int n_lines = 0;
    if (job->current && job->current->failed)
        job->current = NULL;
    bool full = job->waiting_bytes >= LS_MAX_WAITING_BYTES;
    while (!status && !job->current && !job->at_end && !full && n_lines++ < LINES_AT_ONCE) {
        status = take_line(job, err);
        full = job->waiting_bytes >= LS_MAX_WAITING_BYTES;
    }
    if (status)
        return status;
    if (job->current) {
        *what = LS_NEXT_SEQUENCE;
        return issue(job, seq, err);
    }
    *what = job->at_end ? LS_NEXT_END : full ? LS_NEXT_LATER : LS_NEXT_AGAIN;
    return LS_OK;
}

/* --- results in ------------------------------------------------------------------------------
 */

static ls_status find_choice(struct ls_job *job, uint64_t id, struct ls_run **run,
                             struct ls_choice **choice, struct ls_err *err)
{
    const uint64_t k = id & ((1u << CHOICE_BITS) - 1);
    *choice = NULL;
    *run = ls_runs_at(&job->runs, id >> CHOICE_BITS);
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

ls_status ls_job_leaves(void *arg, uint64_t id, uint32_t pos, const unsigned char *leaves,
                        struct ls_err *err)
{
    struct ls_job *job = arg;
    struct ls_run *run;
    struct ls_choice *choice;
    ls_status status = find_choice(job, id, &run, &choice, err);
    if (!status && pos != choice->leaves.n)
        status = ls_fail(err, LS_E_INTERNAL,
                         "sequence %" PRIu64 ": leaves of position %" PRIu32 ", expected %zu",
                         id, pos, choice->leaves.n);
    return status ? status : ls_leaf_file_put(&job->leaves, &choice->leaves, leaves, err);
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
    return put_error(job, run, "nan_logits", text, err);
}

static void count_tokens(struct ls_row_record *rec, const struct ls_run *run)
{
    for (uint32_t i = 0; i < run->req.n_prompts; i++)
        rec->prompt_tokens += run->req.prompts[i].n;
    for (uint32_t i = 0; i < run->n_choices; i++)
        rec->generated_tokens += run->choices[i].tokens.n;
}

static ls_status finish_good(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    struct ls_out row = { 0 };
    ls_status status = ls_row_write(&row, &run->req, run->choices, &job->row_rules,
                                    run->record.logits_digest, err);
    if (!status) {
        count_tokens(&run->record, run);
        return ls_job_deliver(job, run, &row, err);
    }
    ls_out_finish(&row);
    ls_run_destroy(job, run);
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

void ls_job_show(struct ls_job *job, uint64_t n_running, bool last)
{
    const uint64_t now = ls_now_us();
    const struct ls_progress_counts counts = { .rows = job->counts.rows,
                                               .resumed_rows = job->counts.resumed_rows,
                                               .error_rows = job->counts.error_rows,
                                               .running = n_running,
                                               .tokens = job->tokens,
                                               .done_tokens = job->counts.prompt_tokens +
                                                              job->counts.generated_tokens -
                                                              job->resumed_tokens };
    struct ls_metrics_values values = { .lines_read = job->lines.n_lines,
                                        .running = n_running,
                                        .tokens = job->tokens,
                                        .journal_bytes = job->journal.end };
    ls_job_count(job, &values.counts);
    if (last)
        values.state = ls_job_is_whole(job) ? LS_JOB_COMPLETE : LS_JOB_STOPPED;
    ls_progress_show(&job->progress, &counts, now, last);
    ls_metrics_show(&job->metrics, &values, now, last);
}

ls_status ls_job_tick(void *arg, uint64_t n_running, bool *drain_now, struct ls_err *err)
{
    struct ls_job *job = arg;
    *drain_now = false;
    ls_job_show(job, n_running, false);
    if (ls_now_us() - job->committed_us < COMMIT_EVERY_US)
        return LS_OK;
    ls_status status = ls_job_commit(job, err);
    return status ? status : ls_row_file_flush(&job->rows, err);
}
