/* Reader of one .npy image in memory (NumPy's format, versions 1 to 3).
 *
 * Layer: parity. Pure function over (bytes, size). Little-endian arrays in C order of the types
 * that tensors have here; anything else is refused with LS_E_FORMAT. */
#ifndef LS_PARITY_NPY_H
#define LS_PARITY_NPY_H

#include "base/status.h"
#include "tensor/safetensors.h"

/* Fills dtype, dims, data and bytes of *tensor; name and shard stay. The data lies in the
 * image.
 */
ls_status ls_npy_parse(struct ls_tensor *tensor, const void *image, uint64_t size,
                       struct ls_err *err);

/* True when the image begins like one. */
int ls_npy_is(const void *image, uint64_t size);

#endif
