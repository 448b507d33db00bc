#include "base/mutant.h"

#ifdef LS_MUTANTS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int active = -1;

static enum ls_mutant from_environment(void)
{
    static const char *const names[LS_N_MUTANTS] = {
        [LS_MUT_NONE] = "none",
        [LS_MUT_LOCAL_LAYER] = "local-layer",
        [LS_MUT_WINDOW] = "window",
        [LS_MUT_F16_WIDEN] = "f16-widen",
        [LS_MUT_EVEN_FIRST] = "even-first",
        [LS_MUT_TIE_IGNORED] = "tie-ignored",
        [LS_MUT_LOCAL_POSITION] = "local-position",
        [LS_MUT_BOS_DOUBLED] = "bos-doubled",
        [LS_MUT_FUTURE] = "future",
        [LS_MUT_NEIGHBOUR] = "neighbour",
        [LS_MUT_DRIFT] = "drift",
        [LS_MUT_EMBED_SCALE] = "embed-scale",
        [LS_MUT_PLUS_ONE] = "plus-one",
        [LS_MUT_WIDE_RESIDUAL] = "wide-residual",
        [LS_MUT_NEXT_EXPERT] = "next-expert",
        [LS_MUT_KV_HEAD] = "kv-head",
        [LS_MUT_ROPE_LATE] = "rope-late",
        [LS_MUT_GATE_UP] = "gate-up",
    };
    const char *name = getenv("LOCKSTEP_MUTANT");
    if (!name || !*name)
        return LS_MUT_NONE;
    for (int m = 0; m < LS_N_MUTANTS; m++)
        if (!strcmp(names[m], name))
            return (enum ls_mutant)m;
    fprintf(stderr, "unknown LOCKSTEP_MUTANT %s\n", name);
    abort();
}

int ls_mutant_active(enum ls_mutant m)
{
    if (active < 0)
        active = (int)from_environment();
    return active == (int)m;
}
#else
extern int ls_mutant_unused; /* an empty translation unit is not ISO C */
#endif
