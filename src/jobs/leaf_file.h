/* The leaves of finished requests, from which a certificate is made when all are there.
 *
 * Layer: jobs. Local. folder/leaves holds blocks as a certificate has them (certificate.h), in
 * the order in which requests finish; a request is added before its row is journalled, and is
 * made durable before that record is, so every row of the journal has its blocks, whatever was
 * killed when. Leaves of running requests wait in a spool. Memory does not grow with the lines:
 * where the blocks lie stands in an index on disk. */
#ifndef LS_JOBS_LEAF_FILE_H
#define LS_JOBS_LEAF_FILE_H

#include "jobs/certificate.h"
#include "jobs/choice.h"
#include "jobs/line_index.h"
#include "jobs/out.h"
#include "jobs/spool.h"

struct ls_leaf_file {
    char *path; /* owned; NULL: not open */
    int fd;
    int n_layers;
    uint64_t end; /* bytes of whole requests */
    struct ls_line_index index;
    struct ls_spool spool;
    struct ls_out block; /* the one being written or copied */
    unsigned char *row;  /* [n_layers + 1][LS_LEAF]; owned */
};

/* folder outlives it. resume: keeps the whole requests that an earlier run left. */
ls_status ls_leaf_file_open(struct ls_leaf_file *file, const char *folder, int n_layers,
                            bool resume, struct ls_err *err);
void ls_leaf_file_close(struct ls_leaf_file *file); /* takes a zeroed one */

/* The next position of a running choice. */
ls_status ls_leaf_file_put(struct ls_leaf_file *file, struct ls_spooled *leaves,
                           const unsigned char *row, struct ls_err *err);

/* What blocks say of a line beside its choices. */
struct ls_leaf_line {
    uint64_t line;
    unsigned char digest[LS_LEAF], row_digest[LS_LEAF];
};
/* A good request, finished. */
ls_status ls_leaf_file_add(struct ls_leaf_file *file, const struct ls_leaf_line *line,
                           const struct ls_choice *choices, uint32_t n_choices,
                           struct ls_err *err);
/* *there: the line's blocks are here. */
ls_status ls_leaf_file_has(const struct ls_leaf_file *file, uint64_t line, bool *there,
                           struct ls_err *err);
ls_status ls_leaf_file_sync(const struct ls_leaf_file *file, struct ls_err *err);

/* The blocks of a line that has some, one after the other: *off is 0 in front of the first;
 * *more is false behind the last. *bytes [*n] are valid until the next call. */
ls_status ls_leaf_file_next(struct ls_leaf_file *file, uint64_t line, uint64_t *off,
                            struct ls_cert_block *block, const unsigned char **bytes,
                            uint64_t *n, bool *more, struct ls_err *err);

#endif
