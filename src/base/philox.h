/* Philox4x32-10, a counter-based random number generator: the same (key, counter) gives the
 * same number everywhere, so a sample never depends on its neighbours. Source: Salmon, Moraes,
 * Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Layer: base. Local,
 * cannot fail. */
#ifndef LS_BASE_PHILOX_H
#define LS_BASE_PHILOX_H

#include <stdint.h>

/* Four 32-bit outputs for a 128-bit counter (least significant word first) and 64-bit key. */
void ls_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* Uniform in [0, 1), 53 bits, from outputs 0 and 1 of counter {index low, index high, 0, 0}. */
double ls_philox_uniform(uint64_t key, uint64_t index);

#endif
