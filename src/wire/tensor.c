#include "wire/tensor.h"

#include "base/mutant.h"

#include <string.h>

/* The deliberate fault: what a trip through a narrower mantissa leaves of each f16. */
static void narrow_f16(unsigned char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i + 1 < bytes; i += 2)
        data[i] &= 0xf8;
}

void ls_tensor_from_wire(struct ls_wire_tensor *out, const struct ls_frame *frame,
                         unsigned char *payload)
{
    unsigned char *data = payload + frame->table_bytes;
    if (LS_MUTANT(F16_WIDEN) && frame->dtype == LS_DTYPE_F16)
        narrow_f16(data, frame->tensor_bytes);
    *out = (struct ls_wire_tensor){ .dtype = (enum ls_dtype)frame->dtype,
                                    .ndim = frame->ndim,
                                    .data = data,
                                    .bytes = frame->tensor_bytes };
    memcpy(out->dims, frame->dims, sizeof out->dims);
}
