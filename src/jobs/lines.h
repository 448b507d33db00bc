/* The lines of an input file, one at a time, in bounded memory.
 *
 * Layer: jobs. Local. A line ends at LF; one CR before it is dropped, a byte order mark in
 * front of the first line too; the last line may lack its LF. A line longer than LS_MAX_LINE is
 * reported by its number alone, and skipped. `whole` makes one line of all there is, line ends
 * included. */
#ifndef LS_JOBS_LINES_H
#define LS_JOBS_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_MAX_LINE = 16 * 1024 * 1024,      /* bytes, without the end of line */
    LS_MAX_DOCUMENT = 256 * 1024 * 1024, /* bytes of a whole input */
};

struct ls_lines {
    const char *name; /* for messages; the caller's */
    int fd;           /* the caller's */
    char *data;       /* [cap], bytes [begin, end) are unread; owned */
    size_t begin, end, cap;
    uint64_t n_lines;    /* handed out so far */
    uint64_t bytes_read; /* from the file */
    bool eof, started;
    bool whole; /* set it before the first line */
};

struct ls_line {
    const char *data; /* [n], valid until the next call */
    size_t n;
    uint64_t number; /* 1.. */
    bool too_long;   /* n is 0 */
};

/* fd is open for reading; a pipe will do. */
void ls_lines_init(struct ls_lines *lines, int fd, const char *name);
void ls_lines_finish(struct ls_lines *lines);

/* Looks at the first unread bytes without taking them: at least `want`, or all there are until
 * the end of the file. LS_E_IO. */
ls_status ls_lines_peek(struct ls_lines *lines, size_t want, const char **data, size_t *n,
                        struct ls_err *err);

/* *more is false at the end of the file. LS_E_IO, LS_E_MEMORY. */
ls_status ls_lines_next(struct ls_lines *lines, struct ls_line *line, bool *more,
                        struct ls_err *err);

#endif
