/* The certificate of a job: leaves as they come, and the file when every line has its row. */
#include "jobs/job_parts.h"
#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- while the job runs ----------------------------------------------------------------------
 */

ls_status ls_job_open_leaves(struct ls_job *job, bool resume, struct ls_err *err)
{
    if (!job->config.certificate)
        return LS_OK;
    const ls_status s =
        ls_leaf_file_open(&job->leaves, job->folder, job->arch->n_layers, resume, err);
    job->choice_rules.leaves = s ? NULL : &job->leaves.spool;
    return s;
}

ls_status ls_job_check_leaves(const struct ls_job *job, const struct ls_row_record *row,
                              struct ls_err *err)
{
    bool there = true;
    if (!job->config.certificate || row->is_error)
        return LS_OK;
    const ls_status s = ls_leaf_file_has(&job->leaves, row->line, &there, err);
    if (s || there)
        return s;
    return ls_fail(err, LS_E_REFUSED,
                   "%s lacks the leaves of line %" PRIu64 ", which the journal has a row for; "
                   "--fresh starts over",
                   job->leaves.path, row->line);
}

static void digest_row(unsigned char digest[LS_LEAF], const char *row, size_t n)
{
    if (n && row[n - 1] == '\n')
        n--;
    crypto_generichash(digest, LS_LEAF, (const unsigned char *)row, n, NULL, 0);
}

ls_status ls_job_add_leaves(struct ls_job *job, const struct ls_run *run,
                            const struct ls_out *row, struct ls_err *err)
{
    struct ls_leaf_line line = { .line = run->record.line };
    if (!job->config.certificate || run->record.is_error)
        return LS_OK;
    memcpy(line.digest, run->record.line_digest, LS_LEAF);
    digest_row(line.row_digest, row->data, row->n);
    return ls_leaf_file_add(&job->leaves, &line, run->choices, run->n_choices, err);
}

/* --- the file --------------------------------------------------------------------------------
 */

struct writer {
    struct ls_job *job;
    const char *path;
    int fd;
    uint64_t end;
    struct ls_cert_head head;
    struct ls_merkle blocks;
};

static ls_status put(struct writer *w, const void *bytes, uint64_t n, struct ls_err *err)
{
    const ls_status s = ls_write_at(w->fd, bytes, n, w->end, w->path, err);
    w->end += n;
    return s;
}

static ls_status put_block(struct writer *w, const struct ls_cert_block *block,
                           const unsigned char *bytes, uint64_t n, struct ls_err *err)
{
    ls_merkle_add(&w->blocks, block->digest);
    w->head.n_blocks++;
    w->head.n_positions += block->n_positions;
    return put(w, bytes, n, err);
}

static ls_status put_error_line(struct writer *w, const struct ls_row_record *rec,
                                const unsigned char *payload, struct ls_err *err)
{
    struct ls_merkle none = { .n = 0 };
    struct ls_cert_block block = { .line = rec->line };
    unsigned char bytes[LS_CERT_BLOCK];
    memcpy(block.line_digest, rec->line_digest, LS_LEAF);
    digest_row(block.row_digest, (const char *)payload + LS_ROW_FIXED_BYTES, rec->n_row);
    ls_merkle_root(&none, block.leaves_root);
    ls_cert_block_put(bytes, &block, bytes + LS_CERT_BLOCK);
    return put_block(w, &block, bytes, sizeof bytes, err);
}

static ls_status put_good_line(struct writer *w, uint64_t line, struct ls_err *err)
{
    uint64_t off = 0, n;
    struct ls_cert_block block;
    const unsigned char *bytes;
    bool more;
    ls_status s =
        ls_leaf_file_next(&w->job->leaves, line, &off, &block, &bytes, &n, &more, err);
    while (!s && more) {
        s = put_block(w, &block, bytes, n, err);
        if (!s)
            s = ls_leaf_file_next(&w->job->leaves, line, &off, &block, &bytes, &n, &more, err);
    }
    return s;
}

static ls_status put_line(struct writer *w, uint64_t line, struct ls_err *err)
{
    struct ls_job *const job = w->job;
    struct ls_row_record rec;
    const unsigned char *payload;
    uint64_t off;
    bool there;
    ls_status s = ls_line_index_get(&job->index, line, &there, &off, err);
    if (!s && !there)
        s = ls_fail(err, LS_E_INTERNAL, "line %" PRIu64 " has no row", line);
    if (!s)
        s = ls_journal_get(&job->journal, off, &rec, &job->record, &payload, err);
    if (s)
        return s;
    return rec.is_error ? put_error_line(w, &rec, payload, err) : put_good_line(w, line, err);
}

static void fill_head(struct writer *w)
{
    const struct ls_arch *const arch = w->job->arch;
    const struct ls_certificate_terms *const terms = w->job->config.certificate;
    struct ls_cert_head *const h = &w->head;
    h->n_layers = arch->n_layers;
    h->vocab = arch->vocab;
    h->hidden = arch->hidden;
    h->context = arch->context;
    h->dtype = (int32_t)arch->dtype;
    snprintf(h->profile, sizeof h->profile, "%s", terms->profile);
    h->n_lines = w->job->lines.n_lines;
    h->n_parts = terms->n_parts;
    h->parts_bytes = terms->parts_bytes;
    memcpy(h->parts_root, terms->parts_root, LS_LEAF);
}

static ls_status write_all(struct writer *w, struct ls_err *err)
{
    const struct ls_certificate_terms *const terms = w->job->config.certificate;
    unsigned char head[LS_CERT_HEAD] = { 0 };
    fill_head(w);
    ls_status s = put(w, head, sizeof head, err);
    if (!s)
        s = put(w, terms->parts, terms->parts_bytes, err);
    const uint64_t begin = w->end;
    for (uint64_t line = 1; !s && line <= w->head.n_lines; line++)
        s = put_line(w, line, err);
    w->head.blocks_bytes = w->end - begin;
    ls_merkle_root(&w->blocks, w->head.blocks_root);
    ls_cert_head_put(head, &w->head, terms->secret);
    return s ? s : ls_write_at(w->fd, head, sizeof head, 0, w->path, err);
}

ls_status ls_job_certify(struct ls_job *job, struct ls_err *err)
{
    char *part;
    const struct ls_certificate_terms *const terms = job->config.certificate;
    if (!terms)
        return LS_OK;
    if (asprintf(&part, "%s.part", terms->path) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the certificate's path");
    struct writer w = { .job = job, .path = part };
    w.fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ls_status s = w.fd < 0 ? ls_fail(err, ls_io_status(errno), "cannot make %s: %s", part,
                                     strerror(errno))
                           : write_all(&w, err);
    if (!s && (fsync(w.fd) || rename(part, terms->path)))
        s = ls_fail(err, ls_io_status(errno), "cannot complete %s: %s", terms->path,
                    strerror(errno));
    if (w.fd >= 0)
        close(w.fd);
    free(part);
    return s;
}
