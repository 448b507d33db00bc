/* The command line of one arm of a sweep. Layer: app. Local. */
#ifndef LS_APP_SWEEP_WORDS_H
#define LS_APP_SWEEP_WORDS_H

#include "base/alloc.h"
#include "parity/sweep.h"

#include <jansson.h>

struct ls_sweep_words {
    const char *program; /* for arms that name no binary */
    const char *input;
    const char *rows, *logits; /* what the run writes; logits NULL: none */
};

/* Words of the arm's run, ended by NULL, in the arena. NULL: no memory. */
const char **ls_sweep_words(const struct ls_sweep *sweep, const struct ls_arm *arm,
                            const struct ls_sweep_words *how, struct ls_arena *arena);
/* This program's environment with the arm's variables, in the arena; the texts of the former
 * are not copied. NULL: no memory. */
const char **ls_sweep_env(const struct ls_arm *arm, struct ls_arena *arena);
/* The words as a new list. NULL: no memory. */
json_t *ls_sweep_words_json(const char *const *words);

#endif
