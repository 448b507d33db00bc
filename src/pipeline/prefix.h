/* KV blocks by the token prefix that they hold: which ones can be shared.
 *
 * Layer: pipeline; a part of the scheduler, without I/O, clock or thread. An entry stands for
 * one full block of a prompt, named by a digest over all tokens from position 0 to the block's
 * end. Its life: claimed by the sequence that will compute it; ready when it was computed on
 * every stage; held by any number of sequences; and, held by none, kept until its memory is
 * wanted, the longest unused first. All memory is the caller's arena. */
#ifndef LS_PIPELINE_PREFIX_H
#define LS_PIPELINE_PREFIX_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_PREFIX_DIGEST = 32 };
#define LS_PREFIX_NONE UINT32_MAX

struct ls_prefix_entry {
    unsigned char digest[LS_PREFIX_DIGEST];
    uint32_t block;        /* its id; NONE while it is claimed and not assigned */
    uint32_t holders;      /* sequences */
    uint32_t next;         /* in its bucket, or in the list of free entries */
    uint32_t older, newer; /* among those that nobody holds */
    uint32_t claim;        /* grows with every use of this entry, so that an old one is known */
    bool is_ready;
};

struct ls_prefix {
    struct ls_prefix_entry *entries; /* [n_entries] */
    uint32_t *buckets;               /* [n_buckets], a power of two: first entry or NONE */
    uint32_t n_entries, n_buckets;
    uint32_t first_free;     /* entry, or NONE */
    uint32_t oldest, newest; /* of those that nobody holds, or NONE */
    uint32_t n_kept;         /* their number */
};

/* For a pool of n_blocks. False when memory is exhausted. */
bool ls_prefix_init(struct ls_prefix *p, struct ls_arena *arena, uint32_t n_blocks);

/* Digest of a prefix that is a block longer; zeros are the empty prefix. tokens [32]. */
void ls_prefix_extend(unsigned char digest[LS_PREFIX_DIGEST], const int32_t *tokens);

/* The entry of this digest, claimed or ready, or NONE. */
uint32_t ls_prefix_find(const struct ls_prefix *p,
                        const unsigned char digest[LS_PREFIX_DIGEST]);
/* A new entry, with one holder; NONE when there is one already, or no room for more. */
uint32_t ls_prefix_claim(struct ls_prefix *p, const unsigned char digest[LS_PREFIX_DIGEST]);
/* One holder more of a ready entry. */
void ls_prefix_hold(struct ls_prefix *p, uint32_t entry);
/* One holder less. True: the entry is gone and its block is free (NONE: it had none), since it
 * was never computed; false: others hold it, or it is kept. */
bool ls_prefix_release(struct ls_prefix *p, uint32_t entry, uint32_t *block);
/* Takes a claimed entry out, so that nobody waits for it; its block stays the claimer's. */
void ls_prefix_forget(struct ls_prefix *p, uint32_t entry);
/* The block of the entry that nobody has held for longest; the entry is gone. NONE: all are
 * held. */
uint32_t ls_prefix_evict(struct ls_prefix *p);

#endif
