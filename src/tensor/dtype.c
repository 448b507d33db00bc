#include "tensor/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[LS_N_DTYPES] = {
    [LS_DTYPE_F32] = { "F32", 4 },         [LS_DTYPE_F16] = { "F16", 2 },
    [LS_DTYPE_BF16] = { "BF16", 2 },       [LS_DTYPE_F64] = { "F64", 8 },
    [LS_DTYPE_U8] = { "U8", 1 },           [LS_DTYPE_I8] = { "I8", 1 },
    [LS_DTYPE_I16] = { "I16", 2 },         [LS_DTYPE_U16] = { "U16", 2 },
    [LS_DTYPE_I32] = { "I32", 4 },         [LS_DTYPE_U32] = { "U32", 4 },
    [LS_DTYPE_I64] = { "I64", 8 },         [LS_DTYPE_U64] = { "U64", 8 },
    [LS_DTYPE_BOOL] = { "BOOL", 1 },       [LS_DTYPE_F8_E4M3] = { "F8_E4M3", 1 },
    [LS_DTYPE_F8_E5M2] = { "F8_E5M2", 1 },
};

static int known(enum ls_dtype dtype)
{
    return dtype > LS_DTYPE_NONE && dtype < LS_N_DTYPES;
}

size_t ls_dtype_bytes(enum ls_dtype dtype)
{
    return known(dtype) ? types[dtype].bytes : 0;
}

const char *ls_dtype_name(enum ls_dtype dtype)
{
    return known(dtype) ? types[dtype].name : "?";
}

enum ls_dtype ls_dtype_parse(const char *name, size_t n)
{
    for (int d = LS_DTYPE_NONE + 1; d < LS_N_DTYPES; d++)
        if (strlen(types[d].name) == n && !memcmp(types[d].name, name, n))
            return (enum ls_dtype)d;
    return LS_DTYPE_NONE;
}
