/* Memory that one process fills and others on its host then read.
 *
 * Layer: base. An anonymous file: it has no name, so nothing is left behind however its users
 * end. Once frozen nobody can change, shorten or lengthen it, its maker included, so a reader
 * needs to trust nobody. Local. */
#ifndef LS_BASE_SHARED_H
#define LS_BASE_SHARED_H

#include "base/status.h"

#include <stdint.h>

struct ls_shared {
    char *bytes; /* page-aligned; NULL: none */
    uint64_t n;
    int fd; /* of the maker, valid until finish; -1 in a reader */
};

/* Zeroed memory of n > 0 bytes, to be filled and then frozen. LS_E_MEMORY. */
ls_status ls_shared_create(struct ls_shared *shared, uint64_t n, const char *what,
                           struct ls_err *err);
ls_status ls_shared_freeze(struct ls_shared *shared, struct ls_err *err);

/* The memory that process `pid` of this host holds under `fd`, to be read. LS_E_REFUSED unless
 * it can be opened, is frozen and has exactly n bytes. */
ls_status ls_shared_adopt(struct ls_shared *shared, uint32_t pid, int fd, uint64_t n,
                          struct ls_err *err);

/* Takes one without memory; addresses in it are gone. */
void ls_shared_finish(struct ls_shared *shared);

#endif
