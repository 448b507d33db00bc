/* Little-endian numbers in bytes, at any alignment: the one form in files, frames and digests.
 *
 * Layer: base. Local, cannot fail. 1 <= n_bytes <= 8; what does not fit is cut off. */
#ifndef LS_BASE_LE_H
#define LS_BASE_LE_H

#include <stdint.h>

static inline void ls_le_put(unsigned char *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t ls_le_get(const unsigned char *in, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static inline uint32_t ls_le_get32(const unsigned char *in)
{
    return (uint32_t)ls_le_get(in, 4);
}

#endif
