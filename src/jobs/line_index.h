/* Where each finished line's row lies: line number to offset in the journal.
 *
 * Layer: jobs. Local. Eight bytes a line in an unlinked file, made anew from the journal at
 * every start; memory does not grow. */
#ifndef LS_JOBS_LINE_INDEX_H
#define LS_JOBS_LINE_INDEX_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_line_index {
    const char *folder; /* where the file is made; the caller's */
    int fd;
    uint64_t last; /* the highest line that has an entry; 0: none */
};

/* folder outlives the index. LS_E_IO. */
ls_status ls_line_index_open(struct ls_line_index *index, const char *folder,
                             struct ls_err *err);
void ls_line_index_close(struct ls_line_index *index); /* takes one that is not open: fd -1 */

ls_status ls_line_index_put(struct ls_line_index *index, uint64_t line, uint64_t off,
                            struct ls_err *err);
/* *there: the line has an entry, *off. */
ls_status ls_line_index_get(const struct ls_line_index *index, uint64_t line, bool *there,
                            uint64_t *off, struct ls_err *err);

#endif
