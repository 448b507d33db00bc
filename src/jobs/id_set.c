#include "jobs/id_set.h"

#include "jobs/scratch_file.h"

#include <string.h>
#include <unistd.h>

#include <sodium.h>

enum {
    FIRST_SLOTS = 4096, /* of 16 bytes */
    PROBE = 16,         /* slots read at a time */
};

struct slot {
    uint64_t lo, hi; /* both 0: free */
};

void ls_id_set_init(struct ls_id_set *set, const char *folder)
{
    *set = (struct ls_id_set){ .folder = folder, .fd = -1 };
}

void ls_id_set_finish(struct ls_id_set *set)
{
    if (set->fd >= 0)
        close(set->fd);
    set->fd = -1;
}

void ls_id_digest(unsigned char digest[LS_ID_BYTES], const char *id, size_t n)
{
    static const unsigned char zeros[LS_ID_BYTES];
    crypto_generichash(digest, LS_ID_BYTES, (const unsigned char *)id, n, NULL, 0);
    if (!memcmp(digest, zeros, sizeof zeros))
        digest[0] = 1;
}

/* Where the digest is, or the free slot where it belongs. */
static ls_status find(const struct ls_id_set *set, struct slot want, uint64_t *at, bool *there,
                      struct ls_err *err)
{
    uint64_t first = want.lo & (set->n_slots - 1);
    for (uint64_t seen = 0; seen < set->n_slots;) {
        struct slot slots[PROBE];
        uint64_t n = set->n_slots - first < PROBE ? set->n_slots - first : PROBE;
        ls_status status = ls_read_at(set->fd, slots, n * sizeof slots[0],
                                      first * sizeof slots[0], set->folder, err);
        if (status)
            return status;
        for (uint64_t i = 0; i < n; i++) {
            *there = slots[i].lo == want.lo && slots[i].hi == want.hi;
            *at = first + i;
            if (*there || (!slots[i].lo && !slots[i].hi))
                return LS_OK;
        }
        seen += n;
        first = (first + n) & (set->n_slots - 1);
    }
    return ls_fail(err, LS_E_INTERNAL, "no free slot among %llu ids",
                   (unsigned long long)set->n_used);
}

static ls_status put(struct ls_id_set *set, struct slot s, bool *fresh, struct ls_err *err)
{
    uint64_t at;
    bool there;
    ls_status status = find(set, s, &at, &there, err);
    if (!status && !there)
        status = ls_scratch_write(set->fd, &s, sizeof s, at * sizeof s, set->folder, err);
    if (status)
        return status;
    set->n_used += !there;
    *fresh = !there;
    return LS_OK;
}

static ls_status copy_all(const struct ls_id_set *from, struct ls_id_set *to,
                          struct ls_err *err)
{
    struct slot slots[256];
    for (uint64_t at = 0; at < from->n_slots; at += 256) {
        ls_status status =
            ls_read_at(from->fd, slots, sizeof slots, at * sizeof slots[0], from->folder, err);
        bool fresh;
        for (int i = 0; !status && i < 256; i++)
            if (slots[i].lo || slots[i].hi)
                status = put(to, slots[i], &fresh, err);
        if (status)
            return status;
    }
    return LS_OK;
}

/* Four times the slots, in a file of its own; the old one goes. */
static ls_status grow(struct ls_id_set *set, struct ls_err *err)
{
    struct ls_id_set bigger = { .folder = set->folder,
                                .fd = -1,
                                .n_slots = set->n_slots ? 4 * set->n_slots : FIRST_SLOTS };
    ls_status status = ls_scratch_open(&bigger.fd, set->folder, err);
    if (!status && set->fd >= 0)
        status = copy_all(set, &bigger, err);
    if (status) {
        ls_id_set_finish(&bigger);
        return status;
    }
    ls_id_set_finish(set);
    *set = bigger;
    return LS_OK;
}

ls_status ls_id_set_add(struct ls_id_set *set, const unsigned char digest[LS_ID_BYTES],
                        bool *fresh, struct ls_err *err)
{
    struct slot slot;
    memcpy(&slot, digest, sizeof slot);
    if (2 * (set->n_used + 1) > set->n_slots) {
        ls_status status = grow(set, err);
        if (status)
            return status;
    }
    return put(set, slot, fresh, err);
}
