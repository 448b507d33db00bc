#include "base/guard.h"

#ifdef LS_MUTANTS
#include <stdlib.h>
#include <string.h>

int ls_guard_is_on(const char *name)
{
    const char *off = getenv("LOCKSTEP_GUARD_OFF");
    return !off || strcmp(off, name) != 0;
}
#else
extern int ls_guard_unused; /* an empty translation unit is not ISO C */
#endif
