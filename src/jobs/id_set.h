/* The custom_ids seen so far, to find one that comes twice.
 *
 * Layer: jobs. Local. Memory stays the same however many there are: 16-byte digests in a hash
 * table in an unlinked file. Two different ids are taken for one with a chance below 2^-80. */
#ifndef LS_JOBS_ID_SET_H
#define LS_JOBS_ID_SET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_id_set {
    const char *folder; /* where the file is made; the caller's */
    int fd;             /* -1 before the first id */
    uint64_t n_slots;   /* a power of two */
    uint64_t n_used;
};

/* The file comes into being with the first id. folder outlives the set. */
void ls_id_set_init(struct ls_id_set *set, const char *folder);
void ls_id_set_finish(struct ls_id_set *set);

enum { LS_ID_BYTES = 16 };
/* What the set keeps of an id. */
void ls_id_digest(unsigned char digest[LS_ID_BYTES], const char *id, size_t n);

/* *fresh: the id was not in the set; now it is. LS_E_IO. */
ls_status ls_id_set_add(struct ls_id_set *set, const unsigned char digest[LS_ID_BYTES],
                        bool *fresh, struct ls_err *err);

#endif
