/* Checked arithmetic on sizes that come from files, peers or options. Layer: base.
 * Each returns false on overflow and leaves *out untouched. Local. */
#ifndef LS_BASE_SIZE_H
#define LS_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ls_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool ls_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline uint64_t ls_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t ls_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t ls_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint64_t ls_round_up(uint64_t a, uint64_t to)
{
    return ls_ceil_div(a, to) * to;
}

#endif
