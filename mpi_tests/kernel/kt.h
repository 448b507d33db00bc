/* What the kernel tests share: one seed, values of every kind, guarded buffers, the tables
 * under test and the comparison bit for bit. Test code: a failure is counted and printed, and
 * the program's exit status says whether there was one. Not thread-safe. */
#ifndef LS_TESTS_KT_H
#define LS_TESTS_KT_H

#include "kernels/kernels.h"
#include "kernels/tables.h"

/* Reads [SEED] [--long], prints the seed, enters the compute state. */
void kt_start(const char *name, int argc, char **argv);
/* Prints the counts; the exit status. */
int kt_finish(void);
bool kt_is_long(void);

/* Everything that must equal ref: native tables where the CPU has them, emulated AVX-512
 * always, and ref and avx2 compiled without optimisation. */
struct kt_table {
    const char *label;
    const struct ls_kernels *k;
};
int kt_tables(struct kt_table out[8]);
/* The last of them, without optimisation, are slow: how many take part in round `round`. */
int kt_tables_in(int round, int n_tables);

/* Uniform in [lo, hi]. */
int kt_int(int lo, int hi);
uint64_t kt_bits(void);

enum kt_values {
    KT_PLAIN, /* about 1, both signs */
    KT_SMALL, /* products near and below 2^-126 */
    KT_WILD,  /* any bits: denormals, infinities, NaN, both zeros, huge and tiny */
    KT_N_VALUES
};
/* A value; representable in `d` and never denormal where d is bf16 or f32. */
float kt_value(enum kt_values kind, enum ls_fmt d);
/* Fills an array in format fmt. */
void kt_fill(void *array, size_t n, enum kt_values kind, enum ls_fmt fmt);
void kt_fill_floats(float *array, size_t n, enum kt_values kind, enum ls_fmt d);

/* 64-byte aligned storage between canaries that kt_release checks and frees, all at once. */
void *kt_buffer(size_t bytes);
float *kt_floats(size_t n);
void kt_release(const char *what);
/* The same for `first` and the buffers taken after it. */
void kt_release_since(const char *what, const void *first);

/* Equal bits, or both NaN. */
bool kt_same(float a, float b);
/* Compares n floats; prints the first difference. */
void kt_equal(const char *what, const char *label, const float *want, const float *got,
              size_t n);
void kt_equal_bytes(const char *what, const char *label, const void *want, const void *got,
                    size_t n);
void kt_check(bool ok, const char *what, ...) __attribute__((format(printf, 2, 3)));

#endif
