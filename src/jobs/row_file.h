/* The output file: whole lines, in order, also when the disk fills up. Layer: jobs. Local.
 *
 * Opened for writing before anything is computed, emptied when the run is certain to start, and
 * written in blocks of whole lines; after a failed write it is cut back to its last whole line.
 * Messages name the path. */
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
    uint64_t bytes;        /* written */
};

/* Refuses a folder, and the file that input_fd (>= 0) reads. LS_E_IO, LS_E_USAGE. */
ls_status ls_row_file_open(struct ls_row_file *file, const char *path, int input_fd,
                           struct ls_err *err);
/* Drops what the file held before. */
ls_status ls_row_file_start(struct ls_row_file *file, struct ls_err *err);
/* Adds whole lines. */
ls_status ls_row_file_add(struct ls_row_file *file, const void *rows, size_t n,
                          struct ls_err *err);
ls_status ls_row_file_flush(struct ls_row_file *file, struct ls_err *err);
/* Flushes, makes durable and closes. After a failed write it only closes. */
ls_status ls_row_file_close(struct ls_row_file *file, struct ls_err *err);
/* Closes without writing; removes a file that was made here and is empty. */
void ls_row_file_abandon(struct ls_row_file *file);

#endif
