/* What an earlier run left: its journal, taken up or replaced. */
#include "jobs/job_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static ls_status visit(void *arg, uint64_t off, const struct ls_row_record *row,
                       const char *text, size_t n, struct ls_err *err)
{
    struct ls_job *job = arg;
    if (!row)
        return ls_identity_check(&job->identity, text, n, job->config.output, err);
    ls_status status = ls_job_check_leaves(job, row, err);
    if (status)
        return status;
    job->counts.rows++;
    job->counts.resumed_rows++;
    job->counts.error_rows += row->is_error;
    job->counts.prompt_tokens += row->prompt_tokens;
    job->counts.generated_tokens += row->generated_tokens;
    return ls_line_index_put(&job->index, row->line, off, err);
}

static ls_status take_up(struct ls_job *job, struct ls_err *err)
{
    ls_status status = ls_journal_scan(&job->journal, visit, job, &job->counts.torn_bytes, err);
    if (!status && job->counts.torn_bytes)
        status = ls_journal_cut(&job->journal, err);
    job->resumed_end = job->journal.end;
    job->resumed_last = job->index.last;
    job->resumed_tokens = job->counts.prompt_tokens + job->counts.generated_tokens;
    return status;
}

static ls_status begin(struct ls_job *job, struct ls_err *err)
{
    char *text;
    ls_status status = ls_identity_text(&job->identity, &text, err);
    if (status)
        return status;
    status = ls_journal_create(&job->journal, job->folder, text, strlen(text), err);
    free(text);
    return status;
}

ls_status ls_job_open_journal(struct ls_job *job, struct ls_err *err)
{
    bool there = false;
    ls_status status = ls_line_index_open(&job->index, job->folder, err);
    if (!status && !job->config.fresh)
        status = ls_journal_open(&job->journal, job->folder, true, &there, err);
    if (!status)
        status = ls_job_open_leaves(job, there, err);
    if (status)
        return status;
    return there ? take_up(job, err) : begin(job, err);
}

ls_status ls_job_resume_line(struct ls_job *job, const struct ls_line *line, bool *done,
                             struct ls_err *err)
{
    struct ls_row_record rec;
    unsigned char digest[32];
    uint64_t off;
    bool fresh;
    *done = false;
    if (line->number > job->resumed_last)
        return LS_OK;
    ls_status status = ls_line_index_get(&job->index, line->number, done, &off, err);
    if (!status && *done)
        status = ls_journal_look(&job->journal, off, &rec, err);
    if (status || !*done)
        return status;
    crypto_generichash(digest, sizeof digest, (const unsigned char *)line->data, line->n, NULL,
                       0);
    if (memcmp(digest, rec.line_digest, sizeof digest))
        return ls_fail(err, LS_E_REFUSED,
                       "line %" PRIu64 " of %s is not the one that the journal of %s has a row "
                       "for; give the same requests, or --fresh to start over",
                       line->number, job->lines.name, job->config.output);
    if (rec.has_id)
        status = ls_id_set_add(&job->ids, rec.id_digest, &fresh, err);
    return status ? status : ls_job_emit(job, err);
}

ls_status ls_job_check_end(const struct ls_job *job, struct ls_err *err)
{
    if (job->resumed_last <= job->lines.n_lines)
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "%s ends after line %" PRIu64 ", and the journal of %s has a row for line "
                   "%" PRIu64 "; give the same requests, or --fresh to start over",
                   job->lines.name, job->lines.n_lines, job->config.output, job->resumed_last);
}
