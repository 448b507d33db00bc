/* Where a job's request lines come from: a file; standard input or a FIFO is copied to a file
 * first, so that a run that is resumed can read it again. Layer: jobs. Local. */
#ifndef LS_JOBS_INPUT_H
#define LS_JOBS_INPUT_H

#include "base/status.h"

#include <stdbool.h>

/* A file that is there to be read. *fd is the caller's to close. LS_E_IO, LS_E_USAGE. */
ls_status ls_input_open(int *fd, const char *path, struct ls_err *err);

bool ls_input_is_file(int fd);

/* Copies *fd, which messages call `name`, to folder/input, durable before it gets its name; *fd
 * is closed, but for standard input, and becomes that file. A signal ends the wait for input
 * (LS_E_IO). Empty input means the copy of an earlier run, unless `fresh` or there is none. */
ls_status ls_input_spool(int *fd, const char *name, const char *folder, bool fresh,
                         struct ls_err *err);

#endif
