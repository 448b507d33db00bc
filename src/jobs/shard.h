/* A safetensors file written as a stream: data first, the header into space kept in front.
 *
 * Layer: jobs. Local. The header is padded with spaces to the kept size, as the format allows.
 * The file is written as NAME.part and gets its name when it is whole.
 *
 *   8 bytes length | header, padded to `reserved` bytes in all | rows of tensor 0 | tensor 1
 * ... */
#ifndef LS_JOBS_SHARD_H
#define LS_JOBS_SHARD_H

#include "jobs/out.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LS_SHARD_HEADER = 64 * 1024, /* kept in front, more when the first name needs it */
    LS_SHARD_BYTES = 1 << 30,    /* of data after which a new shard begins */
};

struct ls_shard {
    char *path, *part;    /* owned; NULL: none is open */
    int fd;               /* -1: not touched yet, by a resumed run */
    bool again;           /* the beginning of its data is there from an earlier run */
    uint64_t reserved;    /* bytes in front of the data */
    uint64_t data_bytes;  /* written or promised */
    uint64_t write_off;   /* where the next row goes, from the start of the data */
    struct ls_out header; /* without the closing brace */
};

/* first_name_bytes: length of the first tensor's name. again: an earlier run wrote the first
 * tensors, which are to be declared and skipped before anything is written; the file is not
 * touched before that. */
ls_status ls_shard_open(struct ls_shard *shard, const char *folder, const char *name,
                        size_t first_name_bytes, bool again, struct ls_err *err);
/* True when a tensor more of that name and size still belongs into this shard. */
bool ls_shard_fits(const struct ls_shard *shard, size_t name_bytes, uint64_t data_bytes);
/* Declares a tensor [rows][columns] of binary32; its rows follow in order. */
void ls_shard_tensor(struct ls_shard *shard, const char *name, size_t n_name, uint64_t rows,
                     uint64_t columns);
/* The next n bytes of data are in the file already. */
void ls_shard_skip(struct ls_shard *shard, uint64_t n);
/* LS_E_REFUSED when skipped data are not there. */
ls_status ls_shard_write(struct ls_shard *shard, const void *data, size_t n,
                         struct ls_err *err);
/* Makes what was written so far durable. */
ls_status ls_shard_sync(const struct ls_shard *shard, struct ls_err *err);
/* Writes the header, makes the file durable and names it; one that an earlier run completed is
 * left as it is. Takes a shard that is not open. */
ls_status ls_shard_close(struct ls_shard *shard, struct ls_err *err);
/* Closes it as it is, for a later run to go on with. */
void ls_shard_abandon(struct ls_shard *shard);

#endif
