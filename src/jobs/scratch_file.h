/* A file without a name for what does not fit in memory. Layer: jobs. Local. It vanishes when
 * it is closed, also when the process is killed. */
#ifndef LS_JOBS_SCRATCH_FILE_H
#define LS_JOBS_SCRATCH_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* *fd is open for reading and writing; close with close(). LS_E_IO, LS_E_FULL. */
ls_status ls_scratch_open(int *fd, const char *folder, struct ls_err *err);

/* All n bytes at off, or LS_E_IO, LS_E_FULL; `where` and `path` name the file in the message
 * (`where` may be a folder). Reading past the end gives zeros. */
ls_status ls_read_at(int fd, void *data, size_t n, uint64_t off, const char *where,
                     struct ls_err *err);
ls_status ls_write_at(int fd, const void *data, size_t n, uint64_t off, const char *path,
                      struct ls_err *err);
/* The same for a file of ls_scratch_open, which has no name. */
ls_status ls_scratch_write(int fd, const void *data, size_t n, uint64_t off, const char *folder,
                           struct ls_err *err);

#endif
