/* Finished rows: into the journal, and from there into the output, in input order. */
#include "jobs/job_parts.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COMMIT_BYTES = 8 * 1024 * 1024 /* that wait in memory, at most, but for one row */ };

/* --- the journal -----------------------------------------------------------------------------
 */

ls_status ls_job_commit(struct ls_job *job, struct ls_err *err)
{
    ls_status status = LS_OK;
    if (ls_journal_pending(&job->journal) && !job->journal.failed)
        status = ls_logits_sync(&job->logits, err);
    if (!status && ls_journal_pending(&job->journal) && !job->journal.failed)
        status = ls_leaf_file_sync(&job->leaves, err);
    if (!status)
        status = ls_journal_commit(&job->journal, err);
    job->committed_us = ls_now_us();
    return status;
}

static void count(struct ls_job_counts *counts, const struct ls_row_record *rec)
{
    counts->rows++;
    counts->error_rows += rec->is_error;
    counts->prompt_tokens += rec->prompt_tokens;
    counts->generated_tokens += rec->generated_tokens;
}

/* places: NULL without logits files. */
static ls_status record_row(struct ls_job *job, struct ls_run *run, const struct ls_out *row,
                            const struct ls_dumped *dumped, struct ls_err *err)
{
    uint64_t off;
    struct ls_row_record *rec = &run->record;
    ls_status status = ls_out_check(row, "a row", err);
    if (status)
        return status;
    if (row->n > UINT32_MAX)
        return ls_fail(err, LS_E_IO, "the row of line %" PRIu64 " has %zu bytes, at most %u",
                       rec->line, row->n, UINT32_MAX);
    status = ls_job_add_leaves(job, run, row, err);
    if (status)
        return status;
    rec->n_row = (uint32_t)row->n;
    rec->n_places = dumped ? dumped->n_places : 0;
    rec->n_id = dumped ? (uint32_t)dumped->n_custom_id : 0;
    status = ls_journal_put_row(&job->journal, rec, row->data, dumped ? dumped->places : NULL,
                                dumped ? dumped->custom_id : NULL, &off, err);
    if (!status)
        status = ls_line_index_put(&job->index, rec->line, off, err);
    if (status)
        return status;
    count(&job->counts, rec);
    return ls_journal_pending(&job->journal) > COMMIT_BYTES ? ls_job_commit(job, err) : LS_OK;
}

/* --- the output ------------------------------------------------------------------------------
 */

/* The logits of a row that an earlier run recorded are in their files already. */
static ls_status add_logits_again(struct ls_job *job, const struct ls_row_record *rec,
                                  const unsigned char *payload, struct ls_err *err)
{
    const unsigned char *at = payload + LS_ROW_FIXED_BYTES + rec->n_row;
    if (!rec->n_places)
        return LS_OK;
    struct ls_place *places = malloc(rec->n_places * sizeof *places);
    if (!places)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the places of logits");
    for (uint32_t i = 0; i < rec->n_places; i++)
        ls_place_get(&places[i], at + (size_t)i * LS_PLACE_BYTES);
    const struct ls_dumped dumped = { .line = rec->line,
                                      .custom_id = (const char *)at +
                                                   (size_t)rec->n_places * LS_PLACE_BYTES,
                                      .n_custom_id = rec->n_id,
                                      .places = places,
                                      .n_places = rec->n_places };
    ls_status status = ls_logits_add(&job->logits, &dumped, NULL, err);
    free(places);
    return status;
}

static ls_status emit_one(struct ls_job *job, uint64_t off, struct ls_err *err)
{
    struct ls_row_record rec;
    const unsigned char *payload;
    ls_status status = ls_journal_get(&job->journal, off, &rec, &job->record, &payload, err);
    if (!status)
        status = ls_row_file_add(&job->rows, payload + LS_ROW_FIXED_BYTES, rec.n_row, err);
    if (!status && job->logits.folder && off < job->resumed_end)
        status = add_logits_again(job, &rec, payload, err);
    if (status)
        return status;
    crypto_generichash_update(&job->digest_state, rec.logits_digest, sizeof rec.logits_digest);
    job->next_row++;
    return LS_OK;
}

ls_status ls_job_emit(struct ls_job *job, struct ls_err *err)
{
    /* never a row of a line that was not compared with it */
    while (job->next_row <= job->lines.n_lines) {
        bool there;
        uint64_t off;
        ls_status status = ls_line_index_get(&job->index, job->next_row, &there, &off, err);
        if (!status && there)
            status = emit_one(job, off, err);
        if (status || !there)
            return status;
    }
    return LS_OK;
}

bool ls_job_is_whole(const struct ls_job *job)
{
    return job->bound && job->at_end && job->next_row > job->lines.n_lines;
}

/* --- rows that wait with their logits --------------------------------------------------------
 */

static void wait_for_turn(struct ls_job *job, struct ls_run *run, struct ls_out *row)
{
    struct ls_run **at = &job->waiting;
    ls_run_leave(job, run);
    while (*at && (*at)->record.line < run->record.line)
        at = &(*at)->next;
    run->next = *at;
    *at = run;
    run->row = *row;
    *row = (struct ls_out){ 0 };
    job->waiting_bytes += run->row.n + LS_WAITING_BYTES;
}

/* Logits first, then the record that says where they are. */
static ls_status place(struct ls_job *job, struct ls_run *run, struct ls_err *err)
{
    const uint32_t n = run->record.is_error ? 0 : run->n_choices;
    struct ls_place *places = n ? malloc(n * sizeof *places) : NULL;
    if (n && !places)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the places of logits");
    for (uint32_t i = 0; i < n; i++)
        places[i] = (struct ls_place){ .rows = (uint32_t)run->choices[i].rows.n,
                                       .first_row = run->choices[i].first_row };
    const struct ls_dumped dumped = { .line = run->req.line,
                                      .custom_id = run->req.custom_id,
                                      .n_custom_id = run->req.n_custom_id,
                                      .places = places,
                                      .n_places = n };
    ls_status status = n ? ls_logits_add(&job->logits, &dumped, run->choices, err) : LS_OK;
    if (!status)
        status = record_row(job, run, &run->row, n ? &dumped : NULL, err);
    free(places);
    return status;
}

static ls_status place_waiting(struct ls_job *job, struct ls_err *err)
{
    while (job->waiting && job->waiting->record.line == job->next_row) {
        struct ls_run *run = job->waiting;
        ls_status status = place(job, run, err);
        job->waiting = run->next;
        job->waiting_bytes -= run->row.n + LS_WAITING_BYTES;
        ls_run_destroy(job, run);
        if (!status)
            status = ls_job_emit(job, err);
        if (status)
            return status;
    }
    return LS_OK;
}

ls_status ls_job_deliver(struct ls_job *job, struct ls_run *run, struct ls_out *row,
                         struct ls_err *err)
{
    if (job->logits.folder) {
        ls_status status = ls_out_check(row, "a row", err);
        if (status)
            ls_run_destroy(job, run);
        else
            wait_for_turn(job, run, row);
        return status ? status : place_waiting(job, err);
    }
    ls_status status = record_row(job, run, row, NULL, err);
    ls_run_destroy(job, run);
    ls_out_finish(row);
    return status ? status : ls_job_emit(job, err);
}
