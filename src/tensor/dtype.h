/* Element types of tensors in files and on the wire. Layer: tensor. Local, cannot fail. */
#ifndef LS_TENSOR_DTYPE_H
#define LS_TENSOR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* The numbers travel on the wire and in journals: append only. */
enum ls_dtype {
    LS_DTYPE_NONE = 0,
    LS_DTYPE_F32 = 1,
    LS_DTYPE_F16 = 2,
    LS_DTYPE_BF16 = 3,
    LS_DTYPE_F64 = 4,
    LS_DTYPE_U8 = 5,
    LS_DTYPE_I8 = 6,
    LS_DTYPE_I16 = 7,
    LS_DTYPE_U16 = 8,
    LS_DTYPE_I32 = 9,
    LS_DTYPE_U32 = 10,
    LS_DTYPE_I64 = 11,
    LS_DTYPE_U64 = 12,
    LS_DTYPE_BOOL = 13,
    LS_DTYPE_F8_E4M3 = 14,
    LS_DTYPE_F8_E5M2 = 15,
    LS_N_DTYPES
};

size_t ls_dtype_bytes(enum ls_dtype dtype);     /* 0 for NONE and unknown values */
const char *ls_dtype_name(enum ls_dtype dtype); /* safetensors spelling, "?" if unknown */
/* From the safetensors spelling of n bytes; LS_DTYPE_NONE if unknown. */
enum ls_dtype ls_dtype_parse(const char *name, size_t n);

#endif
