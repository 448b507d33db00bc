/* Likely causes of a difference, from a table of what goes wrong in such programs.
 *
 * Layer: parity. Local. A cause is *verified* when the located operation, computed again with
 * it by the first arm's means, gives the second arm's values bit for bit, or when the values
 * themselves prove it (heads that changed places). What was tried and gave other values is not
 * proposed. What cannot be tried, and fits, is *possible*. */
#ifndef LS_PARITY_QUIRK_H
#define LS_PARITY_QUIRK_H

#include "parity/locate.h"

enum { LS_MAX_PROPOSALS = 8 };

struct ls_proposal {
    const char *name;
    char text[320];
    bool verified;
};

struct ls_proposals {
    struct ls_proposal list[LS_MAX_PROPOSALS]; /* [n], the verified ones first */
    int n;
};

struct ls_quirk_case {
    const struct ls_location *where;        /* LS_APART_OP */
    const struct ls_locate_config *locate;  /* its folder holds the probes */
    struct ls_probe_config config;          /* of the first arm's operations */
    const struct ls_arch *other;            /* the second arm's */
    const struct ls_checkpoint *other_ckpt; /* the second arm's */
};

ls_status ls_quirks_propose(struct ls_proposals *out, const struct ls_quirk_case *c,
                            struct ls_err *err);

#endif
