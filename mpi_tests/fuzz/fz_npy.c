/* npy images: what is accepted lies inside the image and is as large as its shape says. */
#include "parity/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_tensor t = { .name = "" };
    struct ls_err err;
    if (ls_npy_parse(&t, data, size, &err))
        return 0;
    uint64_t bytes = ls_dtype_bytes(t.dtype);
    for (int i = 0; i < t.n_dims; i++)
        bytes *= t.dims[i];
    if (bytes != t.bytes || t.data < data || t.data + t.bytes != data + size)
        abort();
    return 0;
}
