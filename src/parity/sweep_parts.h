/* The parts of reading a sweep file. Layer: parity, private to sweep*.c. */
#ifndef LS_PARITY_SWEEP_PARTS_H
#define LS_PARITY_SWEEP_PARTS_H

#include "base/yaml_tree.h"
#include "parity/sweep.h"

struct ls_sweep_reader {
    struct ls_sweep *sweep;
    const struct ls_sweep_rules *rules;
    struct ls_arm defaults; /* without a name */
};

ls_status ls_sweep_fail(const struct ls_sweep_reader *r, int line, struct ls_err *err,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A failure that names the unknown key and the known one that lies nearest: of `own` [n_own]
 * and, when `options`, of the options that an arm may have. */
ls_status ls_sweep_unknown(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                           const char *const *own, size_t n_own, bool options,
                           struct ls_err *err);

/* The text of a node that must be a single value. */
ls_status ls_sweep_text(const struct ls_sweep_reader *r, const struct ls_yaml *node,
                        const char **text, struct ls_err *err);

/* One key of an arm. */
ls_status ls_sweep_set(struct ls_sweep_reader *r, struct ls_arm *arm, const char *key,
                       const struct ls_yaml *value, struct ls_err *err);
/* All keys of a mapping. */
ls_status ls_sweep_set_all(struct ls_sweep_reader *r, struct ls_arm *arm,
                           const struct ls_yaml *map, struct ls_err *err);
/* arm becomes a copy of the other, with lists of its own. */
ls_status ls_sweep_copy(struct ls_sweep_reader *r, struct ls_arm *arm,
                        const struct ls_arm *from, struct ls_err *err);
/* Checks the arm as a whole, finds its ranks, and adds it; its name is made from `named` keys
 * when it has none. */
ls_status ls_sweep_add(struct ls_sweep_reader *r, struct ls_arm *arm, struct ls_err *err);

/* `grid`: one mapping, or a list of them. */
ls_status ls_sweep_read_grids(struct ls_sweep_reader *r, const struct ls_yaml *node,
                              struct ls_err *err);

#endif
