/* Monotonic time. Layer: base. Local. Never part of a result row. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ls_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

#endif
