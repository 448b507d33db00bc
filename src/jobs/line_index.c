#include "jobs/line_index.h"

#include "jobs/scratch_file.h"

#include <unistd.h>

ls_status ls_line_index_open(struct ls_line_index *index, const char *folder,
                             struct ls_err *err)
{
    struct ls_line_index made = { .folder = folder, .fd = -1 };
    ls_status status = ls_scratch_open(&made.fd, folder, err);
    if (!status)
        *index = made;
    return status;
}

void ls_line_index_close(struct ls_line_index *index)
{
    if (index->fd >= 0)
        close(index->fd);
    index->fd = -1;
}

/* An entry is the offset plus one; a hole in the file reads as zero, which is none. */
ls_status ls_line_index_put(struct ls_line_index *index, uint64_t line, uint64_t off,
                            struct ls_err *err)
{
    const uint64_t entry = off + 1;
    ls_status status = ls_scratch_write(index->fd, &entry, sizeof entry, line * sizeof entry,
                                        index->folder, err);
    if (!status && line > index->last)
        index->last = line;
    return status;
}

ls_status ls_line_index_get(const struct ls_line_index *index, uint64_t line, bool *there,
                            uint64_t *off, struct ls_err *err)
{
    uint64_t entry = 0;
    ls_status status = LS_OK;
    if (line <= index->last)
        status = ls_read_at(index->fd, &entry, sizeof entry, line * sizeof entry, index->folder,
                            err);
    *there = entry != 0;
    *off = entry - *there;
    return status;
}
