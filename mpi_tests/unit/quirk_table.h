/* Every quirk of every family, with a mutation that switches it off or gets it slightly wrong:
 * a test must see each of them. What a mutation does is said in three ways, all optional. */
#ifndef LS_TESTS_QUIRK_TABLE_H
#define LS_TESTS_QUIRK_TABLE_H

#include "model/arch.h"

enum quirk_fill {
    QUIRK_KEEP,
    QUIRK_ZERO,
    QUIRK_ONE,
    QUIRK_ROUND_ONE_PLUS /* w becomes bf16(1 + w) - 1 */
};

struct quirk {
    const char *fixture;
    const char *what;     /* the quirk */
    const char *mutation; /* in words */
    void (*poke)(struct ls_arch *arch);
    const char *key, *value; /* of config.json, "outer.inner" allowed; value is JSON */
    const char *tensors;     /* those whose name contains this ... */
    enum quirk_fill fill;    /* ... are filled (bf16 and f32) */
};

extern const struct quirk quirks[];
extern const int n_quirks;

#endif
