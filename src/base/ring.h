/* Ring memory: a block that is mapped twice, one copy right behind the other, so that whatever
 * crosses the end of the ring is one piece of memory too.
 *
 * Layer: base. Local, thread-safe. */
#ifndef LS_BASE_RING_H
#define LS_BASE_RING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a ring can have this size: a multiple of the page, and not 0. */
bool ls_ring_fits(uint64_t bytes);

/* Zeroed memory: out[i] and out[bytes + i] are the same byte, for i in [0, bytes). `what` names
 * the purpose in the LS_E_MEMORY message. Free with ls_ring_free. */
ls_status ls_ring_alloc(void **out, uint64_t bytes, const char *what, struct ls_err *err);

/* The size as given to alloc. Takes NULL. */
void ls_ring_free(void *ring, uint64_t bytes);

#endif
