#include "jobs/logits_files.h"

#include "base/alloc.h"
#include "jobs/logits_folder.h"
#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_BLOCK = 256 * 1024 };

/* --- opening ---------------------------------------------------------------------------------
 */

ls_status ls_logits_open(struct ls_logits_files *files, const char *folder,
                         enum ls_logits_format format, struct ls_err *err)
{
    struct ls_logits_files f = { .format = format, .index_fd = -1 };
    f.shard.fd = f.spool.fd = f.lock.fd = -1;
    f.made = mkdir(folder, 0777) == 0;
    if (!f.made && errno != EEXIST)
        return ls_fail(err, ls_io_status(errno), "cannot make logits folder %s: %s", folder,
                       strerror(errno));
    ls_status status = ls_logits_folder_check(folder, err);
    if (!status)
        status = ls_lock_take(&f.lock, folder, "the logits folder", err);
    if (status) {
        if (f.made)
            rmdir(folder);
        return status;
    }
    f.folder = folder;
    *files = f;
    return LS_OK;
}

static char *index_path(const struct ls_logits_files *f, const char *end)
{
    char *path;
    return asprintf(&path, "%s/index.json%s", f->folder, end) < 0 ? NULL : path;
}

static ls_status open_index(struct ls_logits_files *f, struct ls_err *err)
{
    char *path = index_path(f, ".part");
    if (!path)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of index.json");
    f->index_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ls_status status = LS_OK;
    if (f->index_fd < 0)
        status = ls_fail(err, ls_io_status(errno), "cannot make %s: %s", path, strerror(errno));
    free(path);
    return status;
}

ls_status ls_logits_start(struct ls_logits_files *files, size_t vocab, bool resume,
                          struct ls_err *err)
{
    void *row;
    files->vocab = vocab;
    ls_status status = ls_alloc(&row, vocab * sizeof(float), "a row of logits", err);
    if (status)
        return status;
    files->row = row;
    status = resume ? LS_OK : ls_logits_folder_clear(files->folder, err);
    if (!status)
        status = ls_spool_open(&files->spool, files->folder, vocab * sizeof(float), err);
    if (!status)
        status = open_index(files, err);
    return status;
}

/* --- one choice ------------------------------------------------------------------------------
 */

/* A choice on its way into a file, and where it went. */
struct place {
    const struct ls_dumped *req;
    uint32_t index; /* of the choice */
    struct ls_place rows;
    const struct ls_spooled *data; /* NULL: the data are in the file already */
    char file[48];
    struct ls_out tensor; /* empty for npy */
};

/* An id that could be taken for another id's choice, or for the format's own key. */
static bool needs_suffix(const char *id, size_t n)
{
    size_t at = n;
    while (at && id[at - 1] >= '0' && id[at - 1] <= '9')
        at--;
    return (at && at < n && id[at - 1] == '#') ||
           (n == strlen("__metadata__") && !memcmp(id, "__metadata__", n));
}

static void name_tensor(struct place *p)
{
    const struct ls_dumped *req = p->req;
    ls_out_add(&p->tensor, req->custom_id, req->n_custom_id);
    if (p->index == 0 && !needs_suffix(req->custom_id, req->n_custom_id))
        return;
    ls_out_text(&p->tensor, "#");
    ls_out_u64(&p->tensor, p->index);
}

static ls_status copy_rows(struct ls_logits_files *f, const struct place *p, struct ls_err *err)
{
    const size_t bytes = f->vocab * sizeof(float);
    ls_status status = LS_OK;
    if (!p->data)
        ls_shard_skip(&f->shard, p->rows.rows * (uint64_t)bytes);
    for (size_t i = 0; !status && p->data && i < p->rows.rows; i++) {
        status = ls_spool_get(&f->spool, p->data, i, f->row, err);
        if (!status)
            status = ls_shard_write(&f->shard, f->row, bytes, err);
    }
    return status;
}

static ls_status add_tensor(struct ls_logits_files *f, struct place *p, struct ls_err *err)
{
    name_tensor(p);
    const uint64_t bytes = p->rows.rows * (uint64_t)f->vocab * sizeof(float);
    ls_status status = ls_out_check(&p->tensor, "a tensor's name", err);
    if (!status && f->shard.path && !ls_shard_fits(&f->shard, p->tensor.n, bytes))
        status = ls_shard_close(&f->shard, err);
    if (!status && !f->shard.path) {
        char name[48];
        snprintf(name, sizeof name, "logits-%05u.safetensors", ++f->n_shards);
        status = ls_shard_open(&f->shard, f->folder, name, p->tensor.n, !p->data, err);
    }
    if (status)
        return status;
    snprintf(p->file, sizeof p->file, "logits-%05u.safetensors", f->n_shards);
    ls_shard_tensor(&f->shard, p->tensor.data, p->tensor.n, p->rows.rows, f->vocab);
    return copy_rows(f, p, err);
}

size_t ls_npy_header(char out[LS_NPY_HEADER], uint64_t rows, uint64_t columns)
{
    memset(out, ' ', LS_NPY_HEADER);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(LS_NPY_HEADER - 10);
    out[9] = 0;
    int n = snprintf(out + 10, LS_NPY_HEADER - 10,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64
                     "), }",
                     rows, columns);
    out[10 + n] = ' ';
    out[LS_NPY_HEADER - 1] = '\n';
    return LS_NPY_HEADER;
}

static ls_status write_array(struct ls_logits_files *f, const struct place *p, const char *path,
                             struct ls_err *err)
{
    char header[LS_NPY_HEADER];
    const size_t bytes = f->vocab * sizeof(float);
    uint64_t off = ls_npy_header(header, p->rows.rows, f->vocab);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make %s: %s", path, strerror(errno));
    ls_status status = ls_write_at(fd, header, off, 0, path, err);
    for (size_t i = 0; !status && i < p->rows.rows; i++, off += bytes) {
        status = ls_spool_get(&f->spool, p->data, i, f->row, err);
        if (!status)
            status = ls_write_at(fd, f->row, bytes, off, path, err);
    }
    if (close(fd) && !status)
        status =
            ls_fail(err, ls_io_status(errno), "cannot close %s: %s", path, strerror(errno));
    return status;
}

static ls_status check_array(const struct ls_logits_files *f, const struct place *p,
                             const char *path, struct ls_err *err)
{
    struct stat st;
    const uint64_t n = LS_NPY_HEADER + p->rows.rows * (uint64_t)f->vocab * sizeof(float);
    if (!stat(path, &st) && (uint64_t)st.st_size == n)
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "%s is not there, or not as long as the journal says; --fresh starts over",
                   path);
}

static ls_status add_array(struct ls_logits_files *f, struct place *p, struct ls_err *err)
{
    char *path;
    snprintf(p->file, sizeof p->file, "%08" PRIu64 "-%" PRIu32 ".npy", p->req->line, p->index);
    if (asprintf(&path, "%s/%s", f->folder, p->file) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a logits file");
    ls_status status = p->data ? write_array(f, p, path, err) : check_array(f, p, path, err);
    free(path);
    return status;
}

/* --- the index -------------------------------------------------------------------------------
 */

static void add_place(struct ls_out *out, const struct place *p)
{
    ls_out_text(out, "{\"file\":");
    ls_out_string(out, p->file, strlen(p->file));
    ls_out_text(out, ",\"tensor\":");
    if (p->tensor.n)
        ls_out_string(out, p->tensor.data, p->tensor.n);
    else
        ls_out_text(out, "null");
    ls_out_text(out, ",\"first_position\":");
    ls_out_u64(out, p->rows.first_row);
    ls_out_text(out, ",\"rows\":");
    ls_out_u64(out, p->rows.rows);
}

static ls_status flush_index(struct ls_logits_files *f, struct ls_err *err)
{
    char *path = index_path(f, ".part");
    ls_status status = path ? ls_out_check(&f->index, "index.json", err)
                            : ls_fail(err, LS_E_MEMORY, "out of memory for index.json");
    if (!status)
        status = ls_write_at(f->index_fd, f->index.data, f->index.n, f->index_off, path, err);
    free(path);
    f->index_off += f->index.n;
    f->index.n = 0;
    return status;
}

ls_status ls_logits_add(struct ls_logits_files *files, const struct ls_dumped *req,
                        const struct ls_choice *choices, struct ls_err *err)
{
    struct ls_out *index = &files->index, list = { 0 };
    ls_status status = LS_OK;
    ls_out_text(index, files->index_off || index->n ? ",\n" : "{");
    ls_out_string(index, req->custom_id, req->n_custom_id);
    ls_out_text(index, ":");
    for (uint32_t i = 0; !status && i < req->n_places; i++) {
        struct place p = { .req = req, .index = i, .rows = req->places[i] };
        p.data = choices ? &choices[i].rows : NULL;
        status = files->format == LS_LOGITS_NPY ? add_array(files, &p, err)
                                                : add_tensor(files, &p, err);
        if (i == 0)
            add_place(index, &p);
        ls_out_text(&list, i ? "," : ",\"choices\":[");
        add_place(&list, &p);
        ls_out_text(&list, "}");
        ls_out_finish(&p.tensor);
    }
    ls_out_text(&list, "]");
    if (req->n_places > 1)
        ls_out_add(index, list.data, list.n);
    ls_out_text(index, "}");
    if (!status)
        status = ls_out_check(&list, "index.json", err);
    ls_out_finish(&list);
    if (!status && index->n >= INDEX_BLOCK)
        status = flush_index(files, err);
    files->failed = files->failed || status;
    return status;
}

/* One array a file: they are too many to be kept open, so the file system is asked. */
ls_status ls_logits_sync(const struct ls_logits_files *files, struct ls_err *err)
{
    if (!files->folder || files->index_fd < 0)
        return LS_OK;
    if (files->format == LS_LOGITS_SAFETENSORS)
        return ls_shard_sync(&files->shard, err);
    if (syncfs(files->index_fd))
        return ls_fail(err, ls_io_status(errno), "cannot make logits in %s durable: %s",
                       files->folder, strerror(errno));
    return LS_OK;
}

static ls_status name_index(struct ls_logits_files *f, struct ls_err *err)
{
    char *part = index_path(f, ".part"), *path = index_path(f, "");
    ls_status status = LS_OK;
    if (!part || !path)
        status = ls_fail(err, LS_E_MEMORY, "out of memory for the path of index.json");
    else if (fsync(f->index_fd) || rename(part, path))
        status =
            ls_fail(err, ls_io_status(errno), "cannot complete %s: %s", path, strerror(errno));
    free(part);
    free(path);
    return status;
}

ls_status ls_logits_close(struct ls_logits_files *files, struct ls_err *err)
{
    if (!files->folder || files->index_fd < 0 || files->failed)
        return LS_OK;
    ls_status status = ls_shard_close(&files->shard, err);
    ls_out_text(&files->index, files->index_off || files->index.n ? "}\n" : "{}\n");
    if (!status)
        status = flush_index(files, err);
    return status ? status : name_index(files, err);
}

void ls_logits_finish(struct ls_logits_files *files)
{
    if (!files->folder)
        return;
    ls_shard_abandon(&files->shard);
    if (files->spool.folder)
        ls_spool_close(&files->spool);
    if (files->index_fd >= 0)
        close(files->index_fd);
    ls_out_finish(&files->index);
    ls_free(files->row);
    ls_lock_release(&files->lock);
    if (files->made)
        rmdir(files->folder);
    *files = (struct ls_logits_files){ .index_fd = -1 };
}
