/* Tokens in the order of their values, as many as are asked for, without sorting the others.
 *
 * Layer: jobs. Local. The order is total (larger value first, then the smaller id), so how it
 * is found cannot change what is found. */
#ifndef LS_JOBS_RANKS_H
#define LS_JOBS_RANKS_H

#include "base/status.h"

#include <stdint.h>

struct ls_ranked {
    double z;
    int32_t token;
};

struct ls_ranks {
    int32_t vocab, n_buckets;
    int32_t *begin;           /* [n_buckets + 1]: of each bucket in ranked, bucket 0 last */
    struct ls_ranked *ranked; /* [vocab]; rank i is ranked[vocab - 1 - i] once it is found */
    int32_t n_found, bucket;  /* the bucket in which rank n_found is looked for */
    int32_t n_left;           /* of its tokens, in a heap */
};

ls_status ls_ranks_init(struct ls_ranks *r, int32_t vocab, struct ls_err *err);
void ls_ranks_finish(struct ls_ranks *r);

/* Begins with values z [vocab]: at most 0, without NaN. */
void ls_ranks_begin(struct ls_ranks *r, const double *z);

/* The next rank, of which there are vocab. The caller may write its z: it is not read again. */
struct ls_ranked *ls_ranks_next(struct ls_ranks *r);

/* Where ls_ranks_next has found rank 0; rank i stands i places before it. */
static inline const struct ls_ranked *ls_ranks_first(const struct ls_ranks *r)
{
    return r->ranked + r->vocab - 1;
}

#endif
