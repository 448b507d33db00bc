#include "pipeline/prefix.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

bool ls_prefix_init(struct ls_prefix *p, struct ls_arena *arena, uint32_t n_blocks)
{
    /* as many ready ones as blocks, and as many claims */
    *p = (struct ls_prefix){ .n_entries = 2 * n_blocks, .n_buckets = 1 };
    while (p->n_buckets < p->n_entries)
        p->n_buckets *= 2;
    p->entries = ls_arena_take(arena, (uint64_t)p->n_entries * sizeof *p->entries);
    p->buckets = ls_arena_take(arena, (uint64_t)p->n_buckets * sizeof *p->buckets);
    if (!p->entries || !p->buckets)
        return false;
    for (uint32_t i = 0; i < p->n_buckets; i++)
        p->buckets[i] = LS_PREFIX_NONE;
    for (uint32_t i = 0; i < p->n_entries; i++)
        p->entries[i].next = i + 1 < p->n_entries ? i + 1 : LS_PREFIX_NONE;
    p->oldest = p->newest = LS_PREFIX_NONE;
    return true;
}

void ls_prefix_extend(unsigned char digest[LS_PREFIX_DIGEST], const int32_t *tokens)
{
    unsigned char bytes[LS_PREFIX_DIGEST + LS_KV_BLOCK * sizeof *tokens];
    memcpy(bytes, digest, LS_PREFIX_DIGEST);
    memcpy(bytes + LS_PREFIX_DIGEST, tokens, LS_KV_BLOCK * sizeof *tokens);
    crypto_generichash(digest, LS_PREFIX_DIGEST, bytes, sizeof bytes, NULL, 0);
}

static uint32_t *bucket_of(const struct ls_prefix *p, const unsigned char *digest)
{
    uint32_t h;
    memcpy(&h, digest, sizeof h);
    return &p->buckets[h & (p->n_buckets - 1)];
}

uint32_t ls_prefix_find(const struct ls_prefix *p, const unsigned char digest[LS_PREFIX_DIGEST])
{
    uint32_t at = *bucket_of(p, digest);
    while (at != LS_PREFIX_NONE && memcmp(p->entries[at].digest, digest, LS_PREFIX_DIGEST) != 0)
        at = p->entries[at].next;
    return at;
}

uint32_t ls_prefix_claim(struct ls_prefix *p, const unsigned char digest[LS_PREFIX_DIGEST])
{
    const uint32_t at = p->first_free;
    if (at == LS_PREFIX_NONE || ls_prefix_find(p, digest) != LS_PREFIX_NONE)
        return LS_PREFIX_NONE;
    struct ls_prefix_entry *e = &p->entries[at];
    uint32_t *bucket = bucket_of(p, digest);
    p->first_free = e->next;
    *e = (struct ls_prefix_entry){
        .block = LS_PREFIX_NONE, .holders = 1, .next = *bucket, .claim = e->claim + 1
    };
    memcpy(e->digest, digest, LS_PREFIX_DIGEST);
    *bucket = at;
    return at;
}

/* Out of its bucket, and free for another prefix. */
static void drop(struct ls_prefix *p, uint32_t entry)
{
    struct ls_prefix_entry *e = &p->entries[entry];
    uint32_t *at = bucket_of(p, e->digest);
    while (*at != entry)
        at = &p->entries[*at].next;
    *at = e->next;
    e->next = p->first_free;
    e->claim++;
    p->first_free = entry;
}

/* --- those that nobody holds -------------------------------------------------------------- */

static void keep(struct ls_prefix *p, uint32_t entry)
{
    struct ls_prefix_entry *e = &p->entries[entry];
    e->older = p->newest;
    e->newer = LS_PREFIX_NONE;
    if (p->newest != LS_PREFIX_NONE)
        p->entries[p->newest].newer = entry;
    else
        p->oldest = entry;
    p->newest = entry;
    p->n_kept++;
}

static void unkeep(struct ls_prefix *p, uint32_t entry)
{
    const struct ls_prefix_entry *e = &p->entries[entry];
    if (e->older != LS_PREFIX_NONE)
        p->entries[e->older].newer = e->newer;
    else
        p->oldest = e->newer;
    if (e->newer != LS_PREFIX_NONE)
        p->entries[e->newer].older = e->older;
    else
        p->newest = e->older;
    p->n_kept--;
}

void ls_prefix_hold(struct ls_prefix *p, uint32_t entry)
{
    struct ls_prefix_entry *e = &p->entries[entry];
    assert(e->is_ready);
    if (e->holders++ == 0)
        unkeep(p, entry);
}

bool ls_prefix_release(struct ls_prefix *p, uint32_t entry, uint32_t *block)
{
    struct ls_prefix_entry *e = &p->entries[entry];
    assert(e->holders > 0);
    if (--e->holders > 0)
        return false;
    if (e->is_ready) {
        keep(p, entry);
        return false;
    }
    *block = e->block;
    drop(p, entry);
    return true;
}

void ls_prefix_forget(struct ls_prefix *p, uint32_t entry)
{
    assert(!p->entries[entry].is_ready && p->entries[entry].holders == 1);
    drop(p, entry);
}

uint32_t ls_prefix_evict(struct ls_prefix *p)
{
    const uint32_t entry = p->oldest;
    if (entry == LS_PREFIX_NONE)
        return LS_PREFIX_NONE;
    const uint32_t block = p->entries[entry].block;
    unkeep(p, entry);
    drop(p, entry);
    return block;
}
