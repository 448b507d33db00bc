/* A file without a name for what does not fit in memory. Layer: jobs. Local. It vanishes when
 * it is closed, also when the process is killed. */
#ifndef LS_JOBS_SCRATCH_FILE_H
#define LS_JOBS_SCRATCH_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* *fd is open for reading and writing; close with close(). LS_E_IO. */
ls_status ls_scratch_open(int *fd, const char *folder, struct ls_err *err);

/* All n bytes at off, or LS_E_IO; `where` names the file or folder in the message. Reading past
 * the end gives zeros. */
ls_status ls_read_at(int fd, void *data, size_t n, uint64_t off, const char *where,
                     struct ls_err *err);
ls_status ls_write_at(int fd, const void *data, size_t n, uint64_t off, const char *where,
                      struct ls_err *err);

#endif
