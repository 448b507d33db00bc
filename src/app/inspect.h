/* What lockstep understands of a checkpoint folder, gathered for printing.
 *
 * Layer: app. Local. Every part is tried on its own: a checkpoint with an unknown architecture
 * still has tensors and a tokenizer to describe. Reads headers only, no weight. */
#ifndef LS_APP_INSPECT_H
#define LS_APP_INSPECT_H

#include "model/arch.h"
#include "tensor/checkpoint.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>

struct ls_inspection {
    const char *folder;
    struct ls_arena arena;
    struct ls_arch arch;            /* when has_arch */
    struct ls_checkpoint *ckpt;     /* or NULL */
    struct ls_tokenizer *tokenizer; /* or NULL: none, or broken */
    bool has_arch, has_weights; /* weights: all tensors are there and fit the architecture */
    size_t n_unused;            /* tensors that nothing uses */
    const char *first_unused;   /* or NULL */
    /* why a part is missing; empty status: it is not */
    struct ls_err arch_err, ckpt_err, weights_err, tokenizer_err;
};

/* Cannot fail: what is wrong stands in the result. Finish it afterwards. */
void ls_inspect(struct ls_inspection *in, const char *folder, const struct ls_arch_wish *wish);
void ls_inspect_finish(struct ls_inspection *in);

/* The first reason why lockstep cannot run it, or NULL. */
const char *ls_inspect_reason(const struct ls_inspection *in);

void ls_inspect_print(const struct ls_inspection *in, FILE *out);
/* A new object; NULL when memory is exhausted. */
json_t *ls_inspect_to_json(const struct ls_inspection *in);

#endif
