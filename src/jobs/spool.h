/* Rows of logits that wait on disk until their request's turn to be written.
 *
 * Layer: jobs. Local. One unlinked file of fixed-size records, reused as soon as they are
 * released, so memory is four bytes a row and disk the rows that wait. */
#ifndef LS_JOBS_SPOOL_H
#define LS_JOBS_SPOOL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ls_spool {
    const char *folder; /* where the file lies; the caller's */
    int fd;
    size_t record_bytes;
    uint32_t n_records; /* the file's length */
    uint32_t *free;     /* [n_free] records to be reused; owned */
    size_t n_free, cap;
};

/* The records of one sequence, in order. Zeroed is empty. */
struct ls_spooled {
    uint32_t *records; /* [n]; owned */
    size_t n, cap;
};

ls_status ls_spool_open(struct ls_spool *spool, const char *folder, size_t record_bytes,
                        struct ls_err *err);
void ls_spool_close(struct ls_spool *spool);

/* LS_E_IO, LS_E_MEMORY. */
ls_status ls_spool_put(struct ls_spool *spool, struct ls_spooled *rows, const void *record,
                       struct ls_err *err);
/* Record i of rows. */
ls_status ls_spool_get(const struct ls_spool *spool, const struct ls_spooled *rows, size_t i,
                       void *record, struct ls_err *err);
/* Releases the records; rows is empty afterwards. spool may be NULL when there are none. */
void ls_spool_release(struct ls_spool *spool, struct ls_spooled *rows);

#endif
