/* Reader of one safetensors image in memory. Layer: tensor. Pure function over (bytes, size);
 * knows no file. Format: 8-byte little-endian header length, JSON header, tensor bytes
 * (the safetensors format description of Hugging Face).
 *
 * Refused, with the tensor's name in the message: a header that is longer than the file or than
 * LS_SAFETENSORS_MAX_HEADER, broken JSON, duplicate keys, unknown dtype, more than LS_MAX_DIMS
 * dims, offsets that overlap, leave a gap, lie out of range or disagree with dtype x shape. */
#ifndef LS_TENSOR_SAFETENSORS_H
#define LS_TENSOR_SAFETENSORS_H

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_MAX_DIMS = 8, LS_SAFETENSORS_MAX_HEADER = 100000000 };

struct ls_tensor {
    const char *name; /* in the arena */
    enum ls_dtype dtype;
    int n_dims;                 /* 0..LS_MAX_DIMS; 0 is a scalar */
    uint64_t dims[LS_MAX_DIMS]; /* outermost first; 0 is allowed in a file */
    const unsigned char *data;  /* inside the image; any alignment */
    uint64_t bytes;
    int shard; /* index of the file in its checkpoint */
};

/* On success *tensors is an array of *n in the arena, sorted by name. `arena` owns the names
 * and the array; the image must outlive them. Local. */
ls_status ls_safetensors_parse(const void *image, uint64_t size, struct ls_arena *arena,
                               struct ls_tensor **tensors, size_t *n, struct ls_err *err);

#endif
