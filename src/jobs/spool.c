#include "jobs/spool.h"

#include "jobs/scratch_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ls_status ls_spool_open(struct ls_spool *spool, const char *folder, size_t record_bytes,
                        struct ls_err *err)
{
    struct ls_spool s = { .folder = folder, .fd = -1, .record_bytes = record_bytes };
    ls_status status = ls_scratch_open(&s.fd, folder, err);
    if (!status)
        *spool = s;
    return status;
}

void ls_spool_close(struct ls_spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    free(spool->free);
    *spool = (struct ls_spool){ .fd = -1 };
}

static ls_status grow(uint32_t **data, size_t n, size_t *cap, struct ls_err *err)
{
    if (n < *cap)
        return LS_OK;
    const size_t more = *cap ? 2 * *cap : 16;
    void *bigger = realloc(*data, more * sizeof **data);
    if (!bigger)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the list of spooled rows");
    *data = bigger;
    *cap = more;
    return LS_OK;
}

/* The free list always has room for every record, so that a release cannot fail. */
static ls_status new_record(struct ls_spool *spool, uint32_t *record, struct ls_err *err)
{
    if (spool->n_records == UINT32_MAX)
        return ls_fail(err, LS_E_IO, "too many rows wait in %s", spool->folder);
    ls_status status = grow(&spool->free, spool->n_records, &spool->cap, err);
    if (!status)
        *record = spool->n_records++;
    return status;
}

ls_status ls_spool_put(struct ls_spool *spool, struct ls_spooled *rows, const void *record,
                       struct ls_err *err)
{
    uint32_t at = 0;
    ls_status status = grow(&rows->records, rows->n, &rows->cap, err);
    if (status)
        return status;
    if (spool->n_free)
        at = spool->free[--spool->n_free];
    else
        status = new_record(spool, &at, err);
    if (status)
        return status;
    rows->records[rows->n++] = at;
    return ls_scratch_write(spool->fd, record, spool->record_bytes,
                            (uint64_t)at * spool->record_bytes, spool->folder, err);
}

ls_status ls_spool_get(const struct ls_spool *spool, const struct ls_spooled *rows, size_t i,
                       void *record, struct ls_err *err)
{
    return ls_read_at(spool->fd, record, spool->record_bytes,
                      (uint64_t)rows->records[i] * spool->record_bytes, spool->folder, err);
}

void ls_spool_release(struct ls_spool *spool, struct ls_spooled *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        spool->free[spool->n_free++] = rows->records[i];
    free(rows->records);
    *rows = (struct ls_spooled){ 0 };
}
