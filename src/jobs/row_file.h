/* The output file: whole lines, in order, also when the disk fills up. Layer: jobs. Local.
 *
 * Opened for writing before anything is computed, and written in blocks of whole lines; after a
 * failed write it is cut back to its last whole line. What the file already holds is compared
 * first and only replaced from the first difference on, so a run that is resumed rewrites
 * nothing, and a finished file is never torn by one that comes to the same rows. Messages name
 * the path. */
#ifndef LS_JOBS_ROW_FILE_H
#define LS_JOBS_ROW_FILE_H

#include "jobs/out.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_row_file {
    const char *path;      /* the caller's */
    int fd;                /* -1: not open */
    bool regular;          /* a file, not a device or pipe */
    bool made;             /* it did not exist before */
    bool failed;           /* a write failed; nothing more is written */
    struct ls_out waiting; /* whole lines not yet written */
    uint64_t bytes;        /* written, or there already */
    uint64_t old_bytes;    /* of an earlier run, still there from `bytes` on */
};

/* Refuses a folder, and the file that input_fd (>= 0) reads. LS_E_IO, LS_E_USAGE. */
ls_status ls_row_file_open(struct ls_row_file *file, const char *path, int input_fd,
                           struct ls_err *err);
/* Drops what the file held before. */
ls_status ls_row_file_empty(struct ls_row_file *file, struct ls_err *err);
/* Adds whole lines. */
ls_status ls_row_file_add(struct ls_row_file *file, const void *rows, size_t n,
                          struct ls_err *err);
ls_status ls_row_file_flush(struct ls_row_file *file, struct ls_err *err);
/* Flushes, makes durable and closes; whole: nothing that the file held before stays behind the
 * rows. After a failed write it only closes. */
ls_status ls_row_file_close(struct ls_row_file *file, bool whole, struct ls_err *err);
/* Closes without writing; removes a file that was made here and is empty. */
void ls_row_file_abandon(struct ls_row_file *file);

#endif
