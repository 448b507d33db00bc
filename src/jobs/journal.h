/* The journal of a job: an append-only file of records (record.h), the first of which is the
 * run's identity.
 *
 * Layer: jobs. Local. Records gather in memory and reach the file, and then the disk, in groups
 * (ls_journal_commit): what a kill can cost is the last group, and what a crash of the machine
 * leaves is a whole number of records and perhaps a torn tail, which scanning finds by the
 * digests. A failed write is taken back, so the file stays whole when the disk is full. */
#ifndef LS_JOBS_JOURNAL_H
#define LS_JOBS_JOURNAL_H

#include "jobs/out.h"
#include "jobs/record.h"

struct ls_journal {
    char *path; /* owned; NULL: not open */
    int fd;
    uint64_t end;       /* bytes of whole records in the file */
    uint64_t durable;   /* of these, on disk */
    struct ls_out tail; /* records that follow at `end`, not written yet */
    bool failed;        /* a write failed; nothing more is written */
};

/* Makes folder/journal with an identity as its only record, in the place of one that is there:
 * at every instant there is the old one or the new one, whole. */
ls_status ls_journal_create(struct ls_journal *j, const char *folder, const char *identity,
                            size_t n, struct ls_err *err);
/* Opens folder/journal, to be scanned next. *there is false, and nothing is opened, when there
 * is none. */
ls_status ls_journal_open(struct ls_journal *j, const char *folder, bool write, bool *there,
                          struct ls_err *err);
/* Closes; what was not committed is lost. Takes a journal that is not open. */
void ls_journal_close(struct ls_journal *j);

/* Called for each whole record in the file's order; row is NULL for an identity, whose text is
 * then text[n]. off: of the record. */
typedef ls_status ls_journal_visit(void *arg, uint64_t off, const struct ls_row_record *row,
                                   const char *text, size_t n, struct ls_err *err);

/* Reads the file from its beginning to its end or to the first record that is not whole, and
 * sets `end`; *torn: bytes behind it. Memory does not grow with the file. LS_E_REFUSED when it
 * does not begin with an identity. */
ls_status ls_journal_scan(struct ls_journal *j, ls_journal_visit *visit, void *arg,
                          uint64_t *torn, struct ls_err *err);
/* Drops everything behind `end`. */
ls_status ls_journal_cut(struct ls_journal *j, struct ls_err *err);

/* row [rec->n_row], places [rec->n_places], id [rec->n_id]. *off is for ls_journal_get. */
ls_status ls_journal_put_row(struct ls_journal *j, const struct ls_row_record *rec,
                             const char *row, const struct ls_place *places, const char *id,
                             uint64_t *off, struct ls_err *err);

/* A row's record, committed or not. *payload: all of it, valid until the next call with the
 * same buffer or a put; the row's text begins at LS_ROW_FIXED_BYTES. */
ls_status ls_journal_get(struct ls_journal *j, uint64_t off, struct ls_row_record *rec,
                         struct ls_out *buffer, const unsigned char **payload,
                         struct ls_err *err);

/* The same without the rest of the payload, and without a look at the digest. */
ls_status ls_journal_look(struct ls_journal *j, uint64_t off, struct ls_row_record *rec,
                          struct ls_err *err);

/* Bytes that wait to be committed. */
uint64_t ls_journal_pending(const struct ls_journal *j);
/* Writes what waits and makes it durable. LS_E_IO: nothing of it is in the file. */
ls_status ls_journal_commit(struct ls_journal *j, struct ls_err *err);

#endif
