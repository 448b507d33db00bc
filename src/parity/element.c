#include "parity/element.h"

#include <math.h>
#include <string.h>

bool ls_element_is_known(enum ls_dtype dtype)
{
    return ls_dtype_bytes(dtype) > 0 && dtype != LS_DTYPE_F8_E4M3 && dtype != LS_DTYPE_F8_E5M2;
}

/* Little-endian bits of element i. */
static uint64_t bits_of(const void *data, size_t size, uint64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + i * size, size);
    return bits;
}

static double float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static double half_value(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

double ls_element_value(const void *data, enum ls_dtype dtype, uint64_t i)
{
    const uint64_t bits = bits_of(data, ls_dtype_bytes(dtype), i);
    double x;
    switch (dtype) {
    case LS_DTYPE_F32:
        return float_of((uint32_t)bits);
    case LS_DTYPE_BF16:
        return float_of((uint32_t)bits << 16);
    case LS_DTYPE_F16:
        return half_value(bits);
    case LS_DTYPE_F64:
        memcpy(&x, &bits, sizeof x);
        return x;
    case LS_DTYPE_I8:
        return (double)(int8_t)bits;
    case LS_DTYPE_I16:
        return (double)(int16_t)bits;
    case LS_DTYPE_I32:
        return (double)(int32_t)bits;
    case LS_DTYPE_I64:
        return (double)(int64_t)bits;
    default:
        return (double)bits;
    }
}

/* Monotonic in the value: magnitude with sign, so that -0 and +0 are both 0. */
static int64_t order_of(uint64_t bits, size_t size)
{
    const uint64_t sign = (uint64_t)1 << (8 * size - 1);
    const int64_t magnitude = (int64_t)(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

uint64_t ls_element_ulps(const void *a, const void *b, enum ls_dtype dtype, uint64_t i)
{
    if (dtype != LS_DTYPE_F32 && dtype != LS_DTYPE_F16 && dtype != LS_DTYPE_BF16 &&
        dtype != LS_DTYPE_F64)
        return 0;
    const size_t size = ls_dtype_bytes(dtype);
    const int64_t x = order_of(bits_of(a, size, i), size),
                  y = order_of(bits_of(b, size, i), size);
    return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}
