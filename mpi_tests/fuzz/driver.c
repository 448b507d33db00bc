/* Runs a fuzz target without libFuzzer: every file of a corpus folder, then seeded mutations of
 * them. Usage: fz_NAME CORPUS [COUNT [SEED]]. The same COUNT and SEED give the same inputs, so
 * a crash is repeated by running it again in a debugger. An input slower than 100 ms fails. */
#include "base/philox.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SEEDS = 256, MAX_INPUT_BYTES = 1 << 16, SLOW_US = 100000 };

struct input {
    size_t size;
    uint8_t *bytes;
};

static struct input seeds[MAX_SEEDS];
static int n_seeds;
static uint64_t draw_key, draw_index;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(ls_philox_uniform(draw_key, draw_index++) * below);
}

/* Of the processor's time: others who use the machine make no input slow. */
static uint64_t spent_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* The target sees memory of exactly `size` bytes, so that a sanitizer notices one too many. */
static int run_one(const uint8_t *bytes, size_t size, const char *name)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return 1;
    memcpy(exact, bytes, size);
    const uint64_t begin = spent_us();
    LLVMFuzzerTestOneInput(exact, size);
    const uint64_t took = spent_us() - begin;
    free(exact);
    if (took <= SLOW_US)
        return 0;
    fprintf(stderr, "slow input %s: %" PRIu64 " us\n", name, took);
    return 1;
}

static int read_seed(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(MAX_INPUT_BYTES);
    if (!f || !bytes || n_seeds == MAX_SEEDS) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    size_t size = fread(bytes, 1, MAX_INPUT_BYTES, f);
    fclose(f);
    seeds[n_seeds++] = (struct input){ .size = size, .bytes = bytes };
    return run_one(bytes, size, path);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_corpus(const char *folder)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, by_name), bad = n < 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (names[i]->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            bad += read_seed(path);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (n_seeds == 0)
        fprintf(stderr, "no corpus in %s\n", folder);
    return bad || n_seeds == 0;
}

static void set_number(uint8_t *p, size_t room)
{
    static const uint64_t edges[] = {
        0,          1,          0x7f,       0x80,       0xff,       0x7fff,     0xffff,
        0x7fffffff, 0x80000000, 0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX, UINT64_MAX - 143
    };
    uint64_t value = edges[draw(sizeof edges / sizeof *edges)];
    size_t size = (size_t)1 << draw(4);
    for (size_t i = 0; i < size && i < room; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static size_t mutate_once(uint8_t *b, size_t size)
{
    size_t at = size ? draw((uint32_t)size) : 0;
    const struct input *other = &seeds[draw((uint32_t)n_seeds)];
    switch (draw(7)) {
    case 0:
        if (size)
            b[at] ^= (uint8_t)(1 << draw(8));
        return size;
    case 1:
        if (size)
            b[at] = (uint8_t)draw(256);
        return size;
    case 2:
        set_number(b + at, size - at);
        return size;
    case 3: /* cut the end */
        return at;
    case 4: { /* grow the end */
        size_t more = draw(64);
        if (size + more > MAX_INPUT_BYTES)
            return size;
        for (size_t i = 0; i < more; i++)
            b[size + i] = (uint8_t)(draw(2) ? draw(256) : 0);
        return size + more;
    }
    case 5: /* remove a piece */
        if (size > at + 1) {
            size_t gone = 1 + draw((uint32_t)(size - at - 1));
            memmove(b + at, b + at + gone, size - at - gone);
            return size - gone;
        }
        return size;
    default: /* the end of another seed */
        if (at < other->size) {
            memcpy(b + at, other->bytes + at, other->size - at);
            return other->size;
        }
        return size;
    }
}

static int run_mutations(uint64_t count, uint64_t seed)
{
    static uint8_t bytes[MAX_INPUT_BYTES];
    char name[64];
    int bad = 0;
    for (uint64_t i = 0; i < count; i++) {
        draw_key = seed + i;
        draw_index = 0;
        const struct input *from = &seeds[draw((uint32_t)n_seeds)];
        size_t size = from->size;
        memcpy(bytes, from->bytes, size);
        for (uint32_t n = 1 + draw(6); n > 0; n--)
            size = mutate_once(bytes, size);
        snprintf(name, sizeof name, "number %" PRIu64, i);
        bad += run_one(bytes, size, name);
    }
    return bad;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s CORPUS [COUNT [SEED]]\n", argv[0]);
        return 2;
    }
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    int bad = read_corpus(argv[1]);
    if (!bad)
        bad = run_mutations(count, seed);
    printf("%d corpus files, %" PRIu64 " mutations, seed %" PRIu64 ": %s\n", n_seeds, count,
           seed, bad ? "FAILED" : "ok");
    for (int i = 0; i < n_seeds; i++)
        free(seeds[i].bytes);
    return bad != 0;
}
