/* Prefix reuse: which blocks a prompt takes from others, which it offers, and when it waits. */
#include "kernels/kernels.h"
#include "pipeline/scheduler_state.h"

#include <string.h>

enum { B = LS_KV_BLOCK };

/* Full blocks in front of the first position whose logits are wanted: those of other positions
 * may come from the cache, these are computed by whoever wants them. The last position of a
 * prompt is always among them. */
static uint32_t reusable_blocks(const struct ls_sequence *seq)
{
    uint32_t wanted = seq->n_send > seq->n_digest ? seq->n_send : seq->n_digest;
    wanted = wanted > 0 ? wanted : 1;
    return (seq->n_prompt - wanted) / B;
}

void ls_slot_start_prefix(struct slot *sl)
{
    sl->seen_blocks = 0;
    sl->waits_for = LS_PREFIX_NONE;
    memset(sl->seen_digest, 0, sizeof sl->seen_digest);
}

bool ls_slot_must_wait(struct ls_scheduler *s, struct slot *sl)
{
    const struct ls_prefix *p = &s->prefix;
    if (!s->reuse || sl->opened)
        return false;
    if (sl->waits_for != LS_PREFIX_NONE && p->entries[sl->waits_for].claim == sl->waits_since &&
        !p->entries[sl->waits_for].is_ready)
        return true;
    const uint32_t end = reusable_blocks(&sl->seq);
    sl->waits_for = LS_PREFIX_NONE;
    while (sl->seen_blocks < end) {
        unsigned char digest[LS_PREFIX_DIGEST];
        memcpy(digest, sl->seen_digest, sizeof digest);
        ls_prefix_extend(digest, sl->seq.tokens + (uint64_t)sl->seen_blocks * B);
        const uint32_t entry = ls_prefix_find(p, digest);
        if (entry == LS_PREFIX_NONE)
            return false;
        if (!p->entries[entry].is_ready) {
            sl->waits_for = entry;
            sl->waits_since = p->entries[entry].claim;
            return true;
        }
        memcpy(sl->seen_digest, digest, sizeof digest);
        sl->seen_blocks++;
    }
    return false;
}

uint32_t ls_slot_adopt(struct ls_scheduler *s, struct slot *sl, uint32_t most,
                       ls_slot_adopted *adopted, void *arg)
{
    unsigned char digest[LS_PREFIX_DIGEST] = { 0 };
    const uint32_t n_full = sl->seq.n_prompt / B;
    uint32_t end = reusable_blocks(&sl->seq), b = 0;
    end = end < most ? end : most;
    for (uint32_t i = 0; i < n_full; i++)
        sl->entry_of[i] = LS_PREFIX_NONE;
    for (; b < end; b++) {
        unsigned char longer[LS_PREFIX_DIGEST];
        memcpy(longer, digest, sizeof longer);
        ls_prefix_extend(longer, sl->seq.tokens + (uint64_t)b * B);
        const uint32_t entry = ls_prefix_find(&s->prefix, longer);
        if (entry == LS_PREFIX_NONE || !s->prefix.entries[entry].is_ready)
            break;
        ls_prefix_hold(&s->prefix, entry);
        sl->entry_of[b] = entry;
        sl->block_of[sl->end_block++] = s->prefix.entries[entry].block;
        sl->next_pos += B;
        adopted(arg, s, sl);
        memcpy(digest, longer, sizeof digest);
    }
    s->reused_blocks += b;
    sl->ready_blocks = b;
    /* what is left of the prompt will be there for others */
    for (uint32_t i = b; i < n_full; i++) {
        ls_prefix_extend(digest, sl->seq.tokens + (uint64_t)i * B);
        sl->entry_of[i] = ls_prefix_claim(&s->prefix, digest);
    }
    return b;
}

void ls_scheduler_computed(struct ls_scheduler *s, uint32_t slot, uint32_t end_pos, bool clean)
{
    struct slot *sl = &s->slots[slot];
    const uint32_t n_full = sl->seq.n_prompt / B;
    if (!s->reuse || !sl->opened)
        return;
    for (; sl->ready_blocks < n_full; sl->ready_blocks++) {
        const uint32_t b = sl->ready_blocks, entry = sl->entry_of[b];
        if (clean && (b + 1) * B > end_pos)
            return;
        if (entry == LS_PREFIX_NONE)
            continue;
        if (clean) {
            s->prefix.entries[entry].is_ready = true;
        } else {
            ls_prefix_forget(&s->prefix, entry);
            sl->entry_of[b] = LS_PREFIX_NONE;
        }
    }
}

void ls_slot_free_block(struct ls_scheduler *s, struct slot *sl, uint32_t b)
{
    uint32_t block = sl->block_of[b];
    const bool shared = s->reuse && b < sl->seq.n_prompt / B;
    const uint32_t entry = shared ? sl->entry_of[b] : LS_PREFIX_NONE;
    if (shared)
        sl->entry_of[b] = LS_PREFIX_NONE;
    if (entry == LS_PREFIX_NONE || ls_prefix_release(&s->prefix, entry, &block))
        s->free_blocks[s->n_free_blocks++] = block;
}

void ls_slot_end_prefix(struct ls_scheduler *s, struct slot *sl)
{
    if (!s->reuse || !sl->opened)
        return;
    for (uint32_t b = sl->end_block; b < sl->seq.n_prompt / B; b++)
        if (sl->entry_of[b] != LS_PREFIX_NONE)
            ls_prefix_forget(&s->prefix, sl->entry_of[b]);
}

uint32_t ls_scheduler_take_block(struct ls_scheduler *s)
{
    if (s->n_free_blocks > 0) {
        const uint32_t taken = s->lim.n_blocks - s->n_free_blocks + 1;
        s->touched_blocks = taken > s->touched_blocks ? taken : s->touched_blocks;
        return ls_stack_take(s, s->free_blocks, &s->n_free_blocks);
    }
    const uint32_t block = ls_prefix_evict(&s->prefix);
    assert(block != LS_PREFIX_NONE);
    return block;
}
