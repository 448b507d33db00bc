/* Views of tensors in received payloads.
 *
 * Layer: wire. The one constructor of tensors from received bytes; it never converts: the bytes
 * that a kernel reads are the bytes that the sender's kernel wrote. The view borrows the
 * payload and is valid as long as its buffer is held. */
#ifndef LS_WIRE_TENSOR_H
#define LS_WIRE_TENSOR_H

#include "tensor/dtype.h"
#include "wire/frame.h"

#include <stdint.h>

struct ls_wire_tensor {
    enum ls_dtype dtype;
    int ndim;                     /* 0: no tensor */
    uint32_t dims[LS_FRAME_DIMS]; /* outermost first; unused ones 0 */
    const void *data;             /* borrowed; aligned as the table's length leaves it */
    uint64_t bytes;
};

/* `frame` has been opened (ls_frame_open says LS_OK) and `payload` holds all table_bytes +
 * tensor_bytes of it. Local, cannot fail. */
void ls_tensor_from_wire(struct ls_wire_tensor *out, const struct ls_frame *frame,
                         unsigned char *payload);

#endif
