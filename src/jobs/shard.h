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
    char *path, *part; /* owned; NULL: none is open */
    int fd;
    uint64_t reserved;    /* bytes in front of the data */
    uint64_t data_bytes;  /* written or promised */
    uint64_t write_off;   /* where the next row goes, from the start of the data */
    struct ls_out header; /* without the closing brace */
};

/* first_name_bytes: length of the first tensor's name. */
ls_status ls_shard_open(struct ls_shard *shard, const char *folder, const char *name,
                        size_t first_name_bytes, struct ls_err *err);
/* True when a tensor more of that name and size still belongs into this shard. */
bool ls_shard_fits(const struct ls_shard *shard, size_t name_bytes, uint64_t data_bytes);
/* Declares a tensor [rows][columns] of binary32; its rows follow in order. */
void ls_shard_tensor(struct ls_shard *shard, const char *name, size_t n_name, uint64_t rows,
                     uint64_t columns);
ls_status ls_shard_write(struct ls_shard *shard, const void *data, size_t n,
                         struct ls_err *err);
/* Writes the header, makes the file durable and names it. Takes a shard that is not open. */
ls_status ls_shard_close(struct ls_shard *shard, struct ls_err *err);
/* Closes and removes it. */
void ls_shard_abandon(struct ls_shard *shard);

#endif
