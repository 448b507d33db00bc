#include "kt.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct ls_kernels ls_emulated_avx512, ls_emulated_avx512bf16;
extern const struct ls_kernels ls_unoptimised_ref, ls_unoptimised_avx2;

enum { CANARY = 192, MAX_BUFFERS = 64, MAX_PRINTED = 10 };

static struct {
    const char *name;
    uint64_t state;
    bool is_long;
    unsigned saved;
    unsigned long n_checked, n_failed;
    uint64_t digest; /* of everything expected, to compare compilers with */
    char *buffer[MAX_BUFFERS];
    size_t bytes[MAX_BUFFERS];
    int n_buffers;
} kt;

void kt_start(const char *name, int argc, char **argv)
{
    uint64_t seed = 20240229;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--long"))
            kt.is_long = true;
        else
            seed = strtoull(argv[i], NULL, 0);
    kt.name = name;
    kt.state = seed * 0x9e3779b97f4a7c15u + 1u;
    struct kt_table table[8];
    int n = kt_tables(table);
    printf("%s: seed %llu%s; paths:", name, (unsigned long long)seed,
           kt.is_long ? " long" : "");
    for (int i = 0; i < n; i++)
        printf("%s %s", i ? "," : "", table[i].label);
    printf("\n");
    kt.saved = ls_fp_enter();
}

int kt_finish(void)
{
    ls_fp_leave(kt.saved);
    printf("%s: %lu compared, %lu differ, digest %016llx\n", kt.name, kt.n_checked, kt.n_failed,
           (unsigned long long)kt.digest);
    if (!kt.n_checked)
        printf("%s: nothing was compared\n", kt.name);
    return kt.n_failed || !kt.n_checked ? 1 : 0;
}

bool kt_is_long(void)
{
    return kt.is_long;
}

int kt_tables(struct kt_table out[8])
{
    int n = 0;
    const struct ls_kernels *k;
    enum ls_cpu_path path;
    for (int i = 0; (k = ls_kernels_at(i, &path)); i++)
        if (k != &ls_kernels_ref)
            out[n++] = (struct kt_table){ k->name, k };
    out[n++] = (struct kt_table){ "avx512 emulated", &ls_emulated_avx512 };
    out[n++] = (struct kt_table){ "avx512bf16 emulated", &ls_emulated_avx512bf16 };
    out[n++] = (struct kt_table){ "avx2 -O0", &ls_unoptimised_avx2 };
    out[n++] = (struct kt_table){ "ref -O0", &ls_unoptimised_ref };
    return n;
}

int kt_tables_in(int round, int n_tables)
{
    enum { N_SLOW = 2 };
    return round % 5 ? n_tables - N_SLOW : n_tables;
}

/* splitmix64 */
uint64_t kt_bits(void)
{
    uint64_t z = kt.state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int kt_int(int lo, int hi)
{
    return lo + (int)(kt_bits() % (uint64_t)(hi - lo + 1));
}

static float random_bits(void)
{
    static const uint32_t special[] = { 0,           0x80000000u, 0x7f800000u, 0xff800000u,
                                        0x7fc00000u, 0x3f800000u, 0x00800000u, 0x80800001u,
                                        0x7f7fffffu, 0x007fffffu, 0x80000001u, 0x7f800001u };
    uint64_t r = kt_bits();
    uint32_t u = r >> 40 & 7 ? (uint32_t)r : special[(r >> 43) % 12];
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float kt_value(enum kt_values kind, enum ls_fmt d)
{
    float x = (float)((double)(kt_bits() >> 11) * 0x1p-52 - 1.0);
    if (kind == KT_SMALL)
        x *= kt_int(0, 1) ? 0x1p-63f : 0x1p-62f;
    if (kind == KT_WILD)
        x = random_bits();
    ls_kernels_ref.round(&x, &x, 1, d);
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (d != LS_FMT_F16 && !(u & 0x7f800000u)) /* flushed, as everything computed is */
        u &= 0x80000000u;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Raw elements: in storage denormals and signalling NaN occur. */
void kt_fill(void *array, size_t n, enum kt_values kind, enum ls_fmt fmt)
{
    size_t bytes = ls_fmt_bytes(fmt);
    for (size_t i = 0; i < n; i++) {
        char *at = (char *)array + i * bytes;
        float x = kind == KT_WILD && fmt == LS_FMT_F32 ? random_bits() : kt_value(kind, fmt);
        ls_kernels_ref.narrow(at, &x, 1, fmt);
        uint16_t half = (uint16_t)kt_bits();
        if (kind == KT_WILD && fmt != LS_FMT_F32 && kt_int(0, 3))
            memcpy(at, &half, sizeof half);
    }
}

void kt_fill_floats(float *array, size_t n, enum kt_values kind, enum ls_fmt d)
{
    for (size_t i = 0; i < n; i++)
        array[i] = kt_value(kind, d);
}

void *kt_buffer(size_t bytes)
{
    size_t all = (CANARY + bytes + CANARY + 63) / 64 * 64;
    char *p = kt.n_buffers < MAX_BUFFERS ? aligned_alloc(64, all) : NULL;
    if (!p) {
        fprintf(stderr, "%s: no memory for a test buffer\n", kt.name);
        abort();
    }
    memset(p, 0xa5, all);
    kt.buffer[kt.n_buffers] = p;
    kt.bytes[kt.n_buffers++] = bytes;
    return p + CANARY;
}

float *kt_floats(size_t n)
{
    return kt_buffer(n * sizeof(float));
}

static void release_from(const char *what, int first)
{
    for (int b = first; b < kt.n_buffers; b++) {
        const unsigned char *p = (const unsigned char *)kt.buffer[b];
        size_t touched = 0;
        for (size_t i = 0; i < CANARY; i++)
            touched += (p[i] != 0xa5) + (p[CANARY + kt.bytes[b] + i] != 0xa5);
        kt_check(!touched, "%s: buffer %d of %zu bytes: %zu bytes around it were written", what,
                 b, kt.bytes[b], touched);
        free(kt.buffer[b]);
    }
    kt.n_buffers = first;
}

void kt_release(const char *what)
{
    release_from(what, 0);
}

void kt_release_since(const char *what, const void *first)
{
    int b = 0;
    while (b < kt.n_buffers && kt.buffer[b] + CANARY != first)
        b++;
    release_from(what, b);
}

void kt_check(bool ok, const char *what, ...)
{
    kt.n_checked++;
    if (ok || kt.n_failed++ >= MAX_PRINTED)
        return;
    va_list args;
    va_start(args, what);
    vprintf(what, args);
    va_end(args);
    printf("\n");
}

bool kt_same(float a, float b)
{
    return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

/* FNV-1a over 32-bit words, NaN as one. */
static void digest(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = 0x7fc00000u;
        if (!isnan(x[i]))
            memcpy(&u, &x[i], sizeof u);
        kt.digest = (kt.digest ^ u) * 0x100000001b3u;
    }
}

void kt_equal(const char *what, const char *label, const float *want, const float *got,
              size_t n)
{
    size_t first = n, n_wrong = 0;
    for (size_t i = n; i-- > 0;)
        if (!kt_same(want[i], got[i])) {
            first = i;
            n_wrong++;
        }
    kt.n_checked += n;
    digest(want, n);
    if (!n_wrong)
        return;
    kt_check(false, "%s, %s: %zu of %zu differ, the first at %zu: expected %a, got %a", what,
             label, n_wrong, n, first, (double)want[first], (double)got[first]);
    kt.n_failed += n_wrong - 1;
}

void kt_equal_bytes(const char *what, const char *label, const void *want, const void *got,
                    size_t n)
{
    const unsigned char *a = want, *b = got;
    size_t first = 0;
    while (first < n && a[first] == b[first])
        first++;
    kt_check(first == n, "%s, %s: byte %zu of %zu: expected %02x, got %02x", what, label, first,
             n, first < n ? a[first] : 0u, first < n ? b[first] : 0u);
}
