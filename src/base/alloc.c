#include "base/alloc.h"

#include "base/fault.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local uint64_t n_allocs;
static _Atomic uint64_t large_bytes;

enum {
    ARENA_FIRST = 4 * 1024, /* a block has twice the size of the one before, up to */
    ARENA_BLOCK = 64 * 1024,
    PAGE = 4096,
    LARGE_PAGE = 2 * 1024 * 1024,
    LARGE_BLOCK = 4 * LARGE_PAGE, /* blocks from this size on ask for large pages */
};

struct ls_arena_block {
    struct ls_arena_block *next;
    uint64_t used, size;
    char *bytes;
};

/* Just before the memory that a caller gets. */
struct header {
    void *base;
    uint64_t mapped; /* bytes that the caller asked for; 0: the block is calloc's */
};

enum { MAPPED_MORE = LARGE_PAGE + sizeof(struct header) };

static void *begin_in(void *base, uint64_t align, uint64_t mapped)
{
    const struct header header = { base, mapped };
    char *const p = (char *)ls_round_up((uintptr_t)base + sizeof header, align);
    memcpy(p - sizeof header, &header, sizeof header);
    return p;
}

/* Reading weights and cache runs through gigabytes: with small pages the walks of the page
 * tables cost as much as the memory. The kernel may decline; nothing depends on it. A block
 * begins with a large page, so that what of it will be resident can be foreseen; the first one
 * is in small pages, for blocks of which little is used, as of a cache. */
static void *map_large(uint64_t bytes)
{
    char *const base = mmap(NULL, bytes + MAPPED_MORE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    char *const p = (char *)ls_round_up((uintptr_t)base + sizeof(struct header), LARGE_PAGE);
    madvise(base, (uint64_t)(p - base) + LARGE_PAGE, MADV_NOHUGEPAGE);
    madvise(p + LARGE_PAGE, bytes / LARGE_PAGE * LARGE_PAGE - LARGE_PAGE, MADV_HUGEPAGE);
    atomic_fetch_add(&large_bytes, bytes);
    return begin_in(base, LARGE_PAGE, bytes);
}

static void *aligned_zeroed(uint64_t bytes)
{
    void *p = NULL;
    if (bytes > SIZE_MAX / 2 || LS_FAULT_MEMORY)
        return NULL;
    if (bytes >= LARGE_BLOCK)
        p = map_large(bytes);
    else if ((p = calloc(1, bytes + sizeof(struct header) + LS_ALIGN)))
        p = begin_in(p, LS_ALIGN, 0);
    n_allocs += p != NULL;
    return p;
}

ls_status ls_alloc(void **out, uint64_t bytes, const char *what, struct ls_err *err)
{
    *out = aligned_zeroed(bytes);
    if (*out)
        return LS_OK;
    return ls_fail(err, LS_E_MEMORY, "out of memory: %" PRIu64 " bytes for %s", bytes, what);
}

void ls_free(void *p)
{
    if (!p)
        return;
    struct header header;
    memcpy(&header, (char *)p - sizeof header, sizeof header);
    if (header.mapped) {
        atomic_fetch_sub(&large_bytes, header.mapped);
        munmap(header.base, header.mapped + MAPPED_MORE);
    } else {
        free(header.base);
    }
}

static uint64_t page_begin(uint64_t bytes, uint64_t at)
{
    const bool large =
        bytes >= LARGE_BLOCK && at >= LARGE_PAGE && at < bytes / LARGE_PAGE * LARGE_PAGE;
    const uint64_t page = large ? LARGE_PAGE : PAGE;
    return at / page * page;
}

static uint64_t page_end(uint64_t bytes, uint64_t at)
{
    const uint64_t first = page_begin(bytes, at);
    return first +
           (first % LARGE_PAGE || page_begin(bytes, first + PAGE) != first ? PAGE : LARGE_PAGE);
}

uint64_t ls_alloc_resident(uint64_t bytes, uint64_t begin, uint64_t end, uint64_t *next)
{
    if (begin >= end || end <= *next)
        return 0;
    const uint64_t first = ls_max_u64(page_begin(bytes, begin), *next);
    *next = ls_max_u64(page_end(bytes, end - 1), first);
    return *next - first;
}

uint64_t ls_alloc_count(void)
{
    return n_allocs;
}

uint64_t ls_alloc_large_bytes(void)
{
    return atomic_load(&large_bytes);
}

void ls_arena_init(struct ls_arena *a)
{
    a->blocks = NULL;
}

void ls_arena_finish(struct ls_arena *a)
{
    while (a->blocks) {
        struct ls_arena_block *next = a->blocks->next;
        ls_free(a->blocks->bytes);
        free(a->blocks);
        a->blocks = next;
    }
}

/* A new block of `size` bytes in front of the others; NULL when memory is exhausted. */
static struct ls_arena_block *add_block(struct ls_arena *a, uint64_t size)
{
    struct ls_arena_block *b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (struct ls_arena_block){ .next = a->blocks, .size = size };
    b->bytes = aligned_zeroed(size);
    if (!b->bytes) {
        free(b);
        return NULL;
    }
    a->blocks = b;
    return b;
}

bool ls_arena_reserve(struct ls_arena *a, uint64_t bytes)
{
    return bytes <= SIZE_MAX / 4 && add_block(a, bytes) != NULL;
}

/* Small arenas are many: every request has one. */
static uint64_t next_block(const struct ls_arena_block *newest)
{
    return newest ? ls_min_u64(2 * newest->size, ARENA_BLOCK) : ARENA_FIRST;
}

void *ls_arena_take(struct ls_arena *a, uint64_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    bytes = ls_round_up(bytes ? bytes : 1, LS_ALIGN);
    struct ls_arena_block *b = a->blocks;
    if (!b || b->size - b->used < bytes)
        b = add_block(a, ls_max_u64(bytes, next_block(b)));
    if (!b)
        return NULL;
    void *p = b->bytes + b->used;
    b->used += bytes;
    return p;
}

char *ls_arena_text(struct ls_arena *a, const char *text, size_t n)
{
    char *p = ls_arena_take(a, n + 1);
    if (p)
        memcpy(p, text, n);
    return p;
}
