/* A safetensors file whose tensors are found while it is written, and one that is read whole.
 *
 * Layer: parity. Local. The header's room is kept free at the beginning and filled at the end;
 * tensors follow each other in the order in which they were made. Elements may be put from
 * several threads. */
#ifndef LS_PARITY_PROBE_FILE_H
#define LS_PARITY_PROBE_FILE_H

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/mapping.h"
#include "tensor/safetensors.h"

#include <pthread.h>
#include <stdbool.h>

enum { LS_PROBE_NAME = 64, LS_PROBE_ENTRY = 192 /* bytes of the header for one tensor */ };

struct ls_probe_tensor {
    char name[LS_PROBE_NAME]; /* letters, digits, dots and underscores */
    enum ls_dtype dtype;
    uint64_t rows, columns, begin; /* begin: bytes behind the header; rows 0: not made yet */
};

struct ls_probe_writer {
    const char *path;                /* the caller's */
    int fd;                          /* -1: not open */
    struct ls_probe_tensor *tensors; /* [capacity]; an index is a tensor for good */
    size_t capacity;
    uint64_t header_bytes, end; /* of the data so far */
    pthread_mutex_t mutex;      /* over end, error and the tensors' making */
    int error;                  /* the first errno of a write; 0: none */
};

/* Makes the file, which must not exist as anything but a file; room for `capacity` tensors.
 * LS_E_IO, LS_E_MEMORY. */
ls_status ls_probe_writer_open(struct ls_probe_writer *w, const char *path, size_t capacity,
                               struct ls_err *err);
/* Puts `count` elements of row `row` from column `first` on into tensor i, which the first call
 * makes from *shape (begin is ignored); what is never put is zero. Thread-safe; a failure is
 * kept for the end. */
void ls_probe_put(struct ls_probe_writer *w, size_t i, const struct ls_probe_tensor *shape,
                  uint64_t row, uint64_t first, uint64_t count, const void *elements);
/* Writes the header and closes. LS_E_IO with the first failure; the file is then removed. */
ls_status ls_probe_writer_close(struct ls_probe_writer *w, struct ls_err *err);
/* Closes and removes the file; takes one that is not open. */
void ls_probe_writer_abandon(struct ls_probe_writer *w);

struct ls_probe_file {
    struct ls_mapping mapping;
    struct ls_arena arena;
    struct ls_tensor *tensors; /* [n], by name */
    size_t n;
};

/* LS_E_IO, LS_E_FORMAT. Finish it in every case. */
ls_status ls_probe_file_open(struct ls_probe_file *f, const char *path, struct ls_err *err);
void ls_probe_file_finish(struct ls_probe_file *f);
/* NULL: none of that name. */
const struct ls_tensor *ls_probe_file_find(const struct ls_probe_file *f, const char *name);

#endif
