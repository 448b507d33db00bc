/* The numbers of a benchmark run: kept, printed as a table, written as JSON, and set beside
 * those of a former run.
 *
 * Layer: bench. A result without the machine's line is not kept: the list begins with it.
 * Local; memory exhaustion is remembered and reported at the end. */
#ifndef LS_BENCH_RESULTS_H
#define LS_BENCH_RESULTS_H

#include "bench/measure.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct ls_results {
    json_t *root;      /* {"machine": {...}, "results": [...]}; owned */
    json_t *former;    /* results of another run by name, or NULL; owned */
    FILE *table;       /* lines are printed as results come, or NULL */
    char part[32];     /* of the last line that was printed */
    const char *match; /* only what has this in its name is measured, or NULL */
    bool by_cpu_time;  /* for struct ls_work */
    bool failed;
};

/* table: where lines go at once, or NULL. LS_E_MEMORY. */
ls_status ls_results_init(struct ls_results *r, FILE *table, struct ls_err *err);
void ls_results_finish(struct ls_results *r);

/* Reads a file that ls_results_write wrote, to be set beside. LS_E_IO, LS_E_FORMAT. */
ls_status ls_results_compare(struct ls_results *r, const char *path, struct ls_err *err);

/* Takes the reference. */
void ls_results_machine(struct ls_results *r, json_t *machine);

struct ls_result {
    const char *part, *name; /* name: unique within the part */
    const char *unit;        /* of the rate, printed in units of `scale` */
    double scale;            /* 1e9 for GFLOP/s; 1 */
    double bound;            /* what the machine's own peaks allow, as the rate; 0: none */
};
/* Whether to measure it, by its name. */
bool ls_results_wants(const struct ls_results *r, const char *name);
void ls_results_add(struct ls_results *r, const struct ls_result *what,
                    const struct ls_rate *rate);

/* Adds all results of a file that another process's ls_results_write wrote. LS_E_IO,
 * LS_E_FORMAT. */
ls_status ls_results_take(struct ls_results *r, const char *path, struct ls_err *err);

/* LS_E_MEMORY when a result was lost; LS_E_IO. path NULL: standard output. */
ls_status ls_results_write(const struct ls_results *r, const char *path, struct ls_err *err);

#endif
