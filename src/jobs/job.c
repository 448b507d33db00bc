#include "jobs/job.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "jobs/input.h"
#include "jobs/job_parts.h"
#include "jobs/job_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT_BLOCK = 256 * 1024 };
/* Larger inputs are not read ahead just to know how many lines they have. */
static const off_t count_limit = (off_t)1 << 26;

/* --- creation --------------------------------------------------------------------------------
 */

static ls_status check_defaults(const struct ls_request_defaults *d, struct ls_err *err)
{
    if (d->has_temperature && !(d->temperature >= 0 && d->temperature <= 2))
        return ls_fail(err, LS_E_USAGE, "temperature is %g, expected 0 to 2", d->temperature);
    if (d->has_top_p && !(d->top_p > 0 && d->top_p <= 1))
        return ls_fail(err, LS_E_USAGE, "top-p is %g, expected above 0 to 1", d->top_p);
    if (d->has_min_p && !(d->min_p >= 0 && d->min_p <= 1))
        return ls_fail(err, LS_E_USAGE, "min-p is %g, expected 0 to 1", d->min_p);
    if (d->has_top_k && d->top_k < -1)
        return ls_fail(err, LS_E_USAGE, "top-k is %d, expected -1 or more", d->top_k);
    if (d->has_max_tokens && d->max_tokens < 0)
        return ls_fail(err, LS_E_USAGE, "max-tokens is %d, expected 0 or more", d->max_tokens);
    return LS_OK;
}

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static ls_status copy_config(struct ls_job *job, const struct ls_job_config *config,
                             struct ls_err *err)
{
    struct ls_job_config *c = &job->config;
    *c = *config;
    c->input = copy_text(config->input);
    c->output = copy_text(config->output);
    c->logits_dir = copy_text(config->logits_dir);
    c->metrics = copy_text(config->metrics);
    c->model_name = strdup(config->model_name ? config->model_name : "");
    if (c->input && c->output && c->model_name && (c->logits_dir || !config->logits_dir) &&
        (c->metrics || !config->metrics) &&
        asprintf(&job->folder, "%s.lockstep", c->output) >= 0)
        return LS_OK;
    job->folder = NULL;
    return ls_fail(err, LS_E_MEMORY, "out of memory for the job's settings");
}

static ls_status open_folder(struct ls_job *job, struct ls_err *err)
{
    struct stat s;
    job->folder_made = mkdir(job->folder, 0777) == 0;
    if (!job->folder_made && errno != EEXIST)
        return ls_fail(err, ls_io_status(errno), "cannot make folder %s beside the output: %s",
                       job->folder, strerror(errno));
    if (stat(job->folder, &s) || !S_ISDIR(s.st_mode))
        return ls_fail(err, LS_E_IO, "%s beside the output is not a folder", job->folder);
    return ls_lock_take(&job->lock, job->folder, "the output", err);
}

static ls_status open_input(struct ls_job *job, struct ls_err *err)
{
    if (strcmp(job->config.input, "-") != 0)
        return ls_input_open(&job->input_fd, job->config.input, err);
    job->input_fd = STDIN_FILENO;
    return LS_OK;
}

/* When the folder is ours. */
static ls_status settle_input(struct ls_job *job, struct ls_err *err)
{
    const struct ls_job_config *c = &job->config;
    const bool standard = job->input_fd == STDIN_FILENO;
    const char *const name = standard ? "standard input" : c->input;
    const bool copied = standard || !ls_input_is_file(job->input_fd);
    const ls_status s =
        copied ? ls_input_spool(&job->input_fd, name, job->folder, c->fresh, err) : LS_OK;
    ls_lines_init(&job->lines, job->input_fd, name);
    return s;
}

/* Rows that no journal vouches for are not ours to replace. */
static ls_status check_output(const struct ls_job *job, struct ls_err *err)
{
    char *journal;
    if (job->config.fresh || !job->rows.old_bytes)
        return LS_OK;
    if (asprintf(&journal, "%s/journal", job->folder) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of the journal");
    const bool there = !access(journal, F_OK);
    free(journal);
    if (there)
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "output %s is there and has no journal in %s; --fresh replaces it",
                   job->config.output, job->folder);
}

static ls_status open_all(struct ls_job *job, struct ls_err *err)
{
    struct stat s;
    const struct ls_job_config *c = &job->config;
    ls_status status = open_input(job, err);
    if (status)
        return status;
    if (!strcmp(c->output, "-") || !c->output[0])
        return ls_fail(err, LS_E_USAGE, "output is '%s', expected the path of a file",
                       c->output);
    /* before a folder is made beside it */
    if (!stat(c->output, &s) && S_ISDIR(s.st_mode))
        return ls_fail(err, LS_E_USAGE, "output %s is a folder", c->output);
    status = open_folder(job, err);
    if (!status)
        status = ls_row_file_open(&job->rows, c->output, job->input_fd, err);
    if (!status)
        status = check_output(job, err);
    if (!status && c->logits_dir)
        status = ls_logits_open(&job->logits, c->logits_dir, c->logits_format, err);
    if (!status)
        status = ls_metrics_start(&job->metrics, c->metrics, c->output, ls_now_us(), err);
    return status ? status : settle_input(job, err);
}

ls_status ls_job_create(struct ls_job **out, const struct ls_job_config *config,
                        struct ls_err *err)
{
    if (!config->input || !config->output)
        return ls_fail(err, LS_E_USAGE, "%s is missing", config->input ? "output" : "input");
    void *memory; /* a BLAKE2b state wants the alignment that malloc does not give */
    ls_status status = ls_alloc(&memory, sizeof(struct ls_job), "a job", err);
    if (status)
        return status;
    struct ls_job *job = memory;
    job->input_fd = job->rows.fd = job->ids.fd = job->index.fd = -1;
    job->next_row = 1;
    job->client = (struct ls_client){ .arg = job,
                                      .next = ls_job_next,
                                      .logits = ls_job_logits,
                                      .leaves = ls_job_leaves,
                                      .done = ls_job_done,
                                      .tick = ls_job_tick };
    if (sodium_init() < 0)
        status = ls_fail(err, LS_E_INTERNAL, "libsodium cannot start");
    if (!status)
        status = check_defaults(&config->defaults, err);
    if (!status)
        status = copy_config(job, config, err);
    if (!status)
        status = open_all(job, err);
    if (status) {
        ls_job_destroy(job);
        return status;
    }
    ls_id_set_init(&job->ids, job->folder);
    crypto_generichash_init(&job->digest_state, NULL, 0, sizeof job->digest);
    *out = job;
    return LS_OK;
}

/* --- binding ---------------------------------------------------------------------------------
 */

/* Lines of a file that can be read twice; 0 when it cannot, or is too large to be read ahead.
 */
static uint64_t count_lines(int fd)
{
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_size > count_limit)
        return 0;
    char *block = malloc(COUNT_BLOCK), last = '\n';
    uint64_t lines = 0;
    off_t at = 0;
    for (ssize_t n; block && (n = pread(fd, block, COUNT_BLOCK, at)) > 0; at += n) {
        for (const char *p = block, *end = block + n; (p = memchr(p, '\n', (size_t)(end - p)));
             p++)
            lines++;
        last = block[n - 1];
    }
    free(block);
    return lines + (last != '\n');
}

int32_t ls_job_prefix(const struct ls_arch *arch, const struct ls_tokenizer *tokenizer)
{
    const int32_t bos = tokenizer ? ls_tokenizer_bos(tokenizer) : -1;
    const int32_t eos = tokenizer ? ls_tokenizer_eos(tokenizer) : -1;
    if (bos >= 0 || eos >= 0)
        return bos >= 0 ? bos : eos;
    if (arch->bos >= 0)
        return arch->bos;
    return arch->n_eos ? arch->eos[0] : -1;
}

static void set_rules(struct ls_job *job, const struct ls_arch *arch,
                      const struct ls_tokenizer *tokenizer)
{
    job->request_rules = ls_job_request_rules(&job->config, arch, tokenizer);
    job->choice_rules = ls_job_choice_rules(&job->config, arch, tokenizer);
    job->choice_rules.scratch = &job->scratch;
    job->choice_rules.spool = job->logits.folder ? &job->logits.spool : NULL;
    job->row_rules = (struct ls_row_rules){ .tokenizer = tokenizer,
                                            .model_name = job->config.model_name,
                                            .digest = job->config.digest };
}

void ls_job_fact(struct ls_job *job, const char *name, const char *value)
{
    ls_identity_add(&job->identity, name, value);
}

void ls_job_fact_of_clock(struct ls_job *job, const char *name, const char *value)
{
    ls_identity_add(&job->identity, name, value);
    job->identity.inherited = name;
}

const char *ls_job_fact_value(const struct ls_job *job, const char *name)
{
    return ls_identity_value(&job->identity, name);
}

/* How lines are read is part of what the rows mean. */
static ls_status find_kind(struct ls_job *job, const struct ls_arch *arch, struct ls_err *err)
{
    static const char *const kinds[] = {
        [LS_INPUT_TEXT] = "text", [LS_INPUT_JSON] = "json", [LS_INPUT_DOCUMENT] = "document"
    };
    char context[24];
    ls_status status = ls_job_kind(&job->kind, &job->lines, &job->config, err);
    if (status)
        return status;
    snprintf(context, sizeof context, "%d", (int)arch->context);
    ls_job_fact(job, "context", context);
    ls_job_fact(job, "kind of lines", kinds[job->kind]);
    ls_identity_add_config(&job->identity, &job->config);
    return LS_OK;
}

ls_status ls_job_bind(struct ls_job *job, const struct ls_arch *arch,
                      const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    job->arch = arch;
    set_rules(job, arch, tokenizer);
    ls_status status = ls_sampler_scratch_init(&job->scratch, arch->vocab, err);
    if (!status)
        status = find_kind(job, arch, err);
    if (!status)
        status = ls_job_open_journal(job, err);
    if (!status && job->config.fresh)
        status = ls_row_file_empty(&job->rows, err);
    /* without a row the files of logits are another run's, whose clearing may not have ended */
    if (!status && job->logits.folder)
        status = ls_logits_start(&job->logits, (size_t)arch->vocab, job->resumed_last > 0, err);
    if (status)
        return status;
    const uint64_t now = ls_now_us();
    ls_progress_init(&job->progress, job->config.progress, STDERR_FILENO,
                     job->config.score.scores ? 0 : count_lines(job->input_fd), now);
    job->committed_us = now;
    job->bound = true;
    return LS_OK;
}

const struct ls_client *ls_job_client(struct ls_job *job)
{
    return &job->client;
}

/* --- the end ---------------------------------------------------------------------------------
 */

static ls_status end_files(struct ls_job *job, struct ls_err *err)
{
    struct ls_err second = { 0 };
    const bool whole = ls_job_is_whole(job);
    ls_status status = ls_job_commit(job, err), next;
    next = ls_row_file_close(&job->rows, whole, status ? &second : err);
    status = status ? status : next;
    next = whole ? ls_logits_close(&job->logits, status ? &second : err) : LS_OK;
    status = status ? status : next;
    return status || !whole ? status : ls_job_certify(job, err);
}

void ls_job_count(const struct ls_job *job, struct ls_job_counts *counts)
{
    *counts = job->counts;
    counts->bytes_written = job->rows.bytes;
}

ls_status ls_job_finish(struct ls_job *job, struct ls_job_counts *counts, struct ls_err *err)
{
    ls_status status = LS_OK;
    if (job->bound) {
        status = end_files(job, err);
        ls_job_show(job, 0, true);
    }
    crypto_generichash_final(&job->digest_state, job->digest, sizeof job->digest);
    ls_job_count(job, counts);
    return status;
}

void ls_job_digest(const struct ls_job *job, char text[68])
{
    memcpy(text, "b2:", 3);
    sodium_bin2hex(text + 3, 65, job->digest, sizeof job->digest);
}

const char *ls_job_folder(const struct ls_job *job)
{
    return job->folder;
}

static void free_runs(struct ls_job *job)
{
    for (uint32_t i = 0; i < job->runs.cap; i++)
        ls_run_destroy(job, job->runs.at[i]);
    while (job->waiting) {
        struct ls_run *run = job->waiting;
        job->waiting = run->next;
        ls_run_destroy(job, run);
    }
    ls_runs_finish(&job->runs);
}

void ls_job_destroy(struct ls_job *job)
{
    if (!job)
        return;
    free_runs(job);
    ls_journal_close(&job->journal);
    ls_line_index_close(&job->index);
    ls_identity_finish(&job->identity);
    ls_out_finish(&job->record);
    ls_logits_finish(&job->logits);
    ls_leaf_file_close(&job->leaves);
    ls_row_file_abandon(&job->rows);
    ls_lines_finish(&job->lines);
    ls_id_set_finish(&job->ids);
    ls_lock_release(&job->lock);
    if (job->folder_made)
        rmdir(job->folder);
    if (job->input_fd > STDIN_FILENO)
        close(job->input_fd);
    ls_sampler_scratch_finish(&job->scratch);
    free((void *)(uintptr_t)job->config.input);
    free((void *)(uintptr_t)job->config.output);
    free((void *)(uintptr_t)job->config.logits_dir);
    free((void *)(uintptr_t)job->config.metrics);
    free((void *)(uintptr_t)job->config.model_name);
    free(job->folder);
    ls_free(job);
}
