#include "base/alloc.h"

#include "base/fault.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local uint64_t n_allocs;

enum {
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

/* Reading weights and cache runs through gigabytes: with small pages the walks of the page
 * tables cost as much as the memory. The kernel may decline; nothing depends on it. What is
 * used of a block's beginning only, as a cache often is, takes no large page. */
static void ask_for_large_pages(char *p, uint64_t bytes)
{
    const uint64_t end = bytes / LARGE_PAGE * LARGE_PAGE;
    if (bytes >= LARGE_BLOCK)
        madvise(p + LARGE_PAGE, end - LARGE_PAGE, MADV_HUGEPAGE);
}

/* glibc serves a large calloc from fresh pages, so zeroing by calloc touches nothing;
 * alignment is made by hand inside it, with the block's start kept just before the result. Of a
 * block with large pages it is that of these, so that what is resident can be foreseen. */
static void *aligned_zeroed(uint64_t bytes)
{
    const uint64_t align = bytes >= LARGE_BLOCK ? LARGE_PAGE : LS_ALIGN;
    uint64_t padded;
    if (!ls_add_u64(bytes, align + sizeof(void *), &padded) || padded > SIZE_MAX / 2)
        return NULL;
    char *base = LS_FAULT_MEMORY ? NULL : calloc(1, padded);
    if (!base)
        return NULL;
    n_allocs++;
    char *p =
        (char *)(((uintptr_t)base + sizeof(void *) + align - 1) & ~(uintptr_t)(align - 1));
    ask_for_large_pages(p, bytes);
    memcpy(p - sizeof(void *), &base, sizeof base);
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
    void *base;
    memcpy(&base, (char *)p - sizeof(void *), sizeof base);
    free(base);
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

void *ls_arena_take(struct ls_arena *a, uint64_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    bytes = ls_round_up(bytes ? bytes : 1, LS_ALIGN);
    struct ls_arena_block *b = a->blocks;
    if (!b || b->size - b->used < bytes)
        b = add_block(a, ls_max_u64(bytes, ARENA_BLOCK));
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
