/* What a sweep file says: a reference arm, the other arms, and how they are run.
 *
 * Layer: parity. Local. An arm's settings are options of `lockstep run`, checked by the
 * program's own table, and a few keys of a sweep's own; options that a sweep itself uses
 * (output, logits, ...) are refused. The file:
 *
 *   name: layout                     # of the report; the file's name without it
 *   prompts: prompts.jsonl           # a request file
 *   output: build/parity/layout      # a folder of the sweep's own
 *   mode: both                       # forced, free or both
 *   launcher: mpirun -n {ranks}      # words before the program's for more than one rank
 *   slots: 4                         # ranks that may run at a time; default: of one arm
 *   timeout: 3600                    # seconds of one run
 *   locate: false                    # do not look where differing arms part; default: true
 *   defaults: {model: demo}          # of every arm that does not say
 *   reference: {name: one}
 *   arms: [{name: two, stages: 2}]
 *   grid:                            # one, or a list of them
 *     stages: [1, 2, 4]              # an axis; a single value holds in the whole grid
 *     budget: [16, 512]
 *     exclude: [{stages: 4, budget: 16}]
 *     include: [{stages: 8}]         # more arms, with the grid's single values
 *
 * A grid's arms come in the order of its axes, the last one fastest, and are named by their
 * axes: "stages=2 budget=16". A combination is excluded when it has all values of an entry. */
#ifndef LS_PARITY_SWEEP_H
#define LS_PARITY_SWEEP_H

#include "base/alloc.h"
#include "base/options.h"

enum { LS_SWEEP_ARMS = 1024, LS_SWEEP_NAME = 200, LS_SWEEP_RANKS = 4096 };

enum ls_sweep_mode { LS_SWEEP_BOTH, LS_SWEEP_FORCED, LS_SWEEP_FREE };

struct ls_setting {
    const char *key, *value;
    int line; /* of the sweep file */
};

struct ls_settings {
    struct ls_setting *list; /* [n] */
    size_t n, capacity;
};

struct ls_arm {
    const char *name;
    struct ls_settings options; /* of `run`; each key once */
    struct ls_settings env;     /* environment variables */
    const char *binary;         /* program; NULL: this one */
    const char *dump;           /* folder or file of others' logits; NULL: a run */
    const char *mapping; /* file that says where in a dump; NULL: names are request ids */
    int ranks;           /* stages x replicas */
    int line;
};

struct ls_sweep {
    struct ls_arena arena; /* owns all texts */
    const char *path;
    const char *name, *prompts;
    const char *output; /* NULL: it is not said */
    enum ls_sweep_mode mode;
    const char **launcher; /* [n_launcher] words; {ranks} stands for the number */
    size_t n_launcher;
    int slots; /* 0: one arm at a time */
    int timeout_s;
    bool locate;
    struct ls_arm *arms; /* [n]; the first one is the reference */
    size_t n, capacity;
};

/* Whose options an arm may have. */
struct ls_sweep_rules {
    const struct ls_option_set *set;
    int command;
};

/* Reads the text of a sweep file. LS_E_USAGE with file and line. The rules need not outlive it.
 * Local. On failure *out is finished. */
ls_status ls_sweep_parse(struct ls_sweep *out, const char *path, const char *text, size_t n,
                         const struct ls_sweep_rules *rules, struct ls_err *err);
/* The same from a file. */
ls_status ls_sweep_read(struct ls_sweep *out, const char *path,
                        const struct ls_sweep_rules *rules, struct ls_err *err);
void ls_sweep_finish(struct ls_sweep *sweep);

/* The value of an arm's option, or NULL. */
const char *ls_arm_option(const struct ls_arm *arm, const char *key);

#endif
