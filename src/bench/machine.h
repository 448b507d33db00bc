/* What this machine is, and the peaks that everything else is set beside.
 *
 * Layer: bench. Peaks are measured, in the same run, never taken from a data sheet: chains of
 * one instruction in registers, and reads of memory in large pages. Local. */
#ifndef LS_BENCH_MACHINE_H
#define LS_BENCH_MACHINE_H

#include "bench/results.h"
#include "kernels/kernels.h"

/* Amounts per second of all threads of a team together; 0: this CPU has none. */
struct ls_peaks {
    double fma256, fma512; /* binary32 FLOP */
    double bf16;           /* FLOP of vdpbf16ps */
    double int8;           /* operations of the int8 dot product that kernels may use */
    double l2, memory;     /* bytes read */
};

/* Bytes of which, read in turn, nothing is left in a cache: twice the last level's, at least
 * 256 MiB. */
uint64_t ls_beyond_caches(void);

/* {"cpu", "flags", "cpus", "caches": {...}, "kernel"}; a new reference or NULL. */
json_t *ls_machine_json(void);
/* The same in one line. */
void ls_machine_print(FILE *out);

/* Measures, and adds the results to part "machine". LS_E_MEMORY. */
ls_status ls_peaks_measure(struct ls_peaks *p, struct ls_team *team, double seconds,
                           struct ls_results *r, struct ls_err *err);

/* FLOP/s that bound a product of this table and these formats. */
double ls_peak_of(const struct ls_peaks *p, const struct ls_kernels *k, enum ls_fmt d,
                  enum ls_fmt weights);

#endif
