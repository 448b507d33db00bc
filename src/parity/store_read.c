#include "parity/store.h"

#include "base/le.h"
#include "base/size.h"
#include "wire/pack.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum { HEAD = 44, TAIL = 17 + 32, ENTRY_HEAD = 28, ROW_HEAD = 13 };

struct reader {
    const unsigned char *at, *end; /* of the records */
    struct ls_store *store;
    struct ls_arena *arena;
    bool counting; /* first pass */
};

static ls_status broken(struct ls_err *err, const char *what)
{
    return ls_fail(err, LS_E_FORMAT, "not a whole file of differences: %s", what);
}

bool ls_store_is(const void *image, uint64_t size)
{
    return size >= 8 && !memcmp(image, "LSDIFF01", 8);
}

static ls_status read_entry(struct reader *r, struct ls_err *err)
{
    const uint64_t left = (uint64_t)(r->end - r->at);
    const uint64_t n = left < ENTRY_HEAD ? 0 : ls_le_get(r->at, 4);
    if (left < ENTRY_HEAD || n > LS_STORE_NAME || left - ENTRY_HEAD < n ||
        memchr(r->at + ENTRY_HEAD, 0, (size_t)n))
        return broken(err, "a torn entry");
    struct ls_store_place place = { .first_position = ls_le_get(r->at + 4, 8),
                                    .rows = ls_le_get(r->at + 12, 8),
                                    .columns = ls_le_get(r->at + 20, 8),
                                    .first = r->store->n_rows };
    uint64_t end, elements;
    if (place.columns < 1 || place.columns > LS_STORE_COLUMNS ||
        !ls_mul_u64(place.rows, place.columns * 4, &elements) ||
        !ls_add_u64(place.first_position, place.rows, &end))
        return broken(err, "an entry of impossible size");
    if (!r->counting) {
        place.name = ls_arena_text(r->arena, (const char *)r->at + ENTRY_HEAD, (size_t)n);
        if (!place.name)
            return ls_fail(err, LS_E_MEMORY, "no memory for the entries of a store");
        r->store->entries[r->store->n] = place;
    }
    r->store->n++;
    r->at += ENTRY_HEAD + n;
    return LS_OK;
}

static ls_status read_row(struct reader *r, struct ls_err *err)
{
    struct ls_store *const store = r->store;
    const uint64_t left = (uint64_t)(r->end - r->at);
    const uint64_t n = left < ROW_HEAD ? 0 : ls_le_get(r->at + 8, 4);
    if (left < ROW_HEAD || left - ROW_HEAD < n || r->at[12] > 1 || !store->n)
        return broken(err, "a torn row");
    if (!r->counting) {
        struct ls_store_place *const e = &store->entries[store->n - 1];
        const struct ls_store_row_place place = {
            .row = ls_le_get(r->at, 8),
            .off = (uint64_t)(r->at - store->image) + ROW_HEAD,
            .bytes = (uint32_t)n,
            .packed = r->at[12],
        };
        if (place.row >= e->rows || (e->n && place.row <= store->rows[store->n_rows - 1].row))
            return broken(err, "rows out of order");
        if (place.packed ? n >= e->columns * 4 : n != e->columns * 4)
            return broken(err, "a row of another length");
        store->rows[store->n_rows] = place;
        e->n++;
    }
    store->n_rows++;
    r->at += ROW_HEAD + n;
    return LS_OK;
}

static ls_status read_records(struct reader *r, const unsigned char *begin, struct ls_err *err)
{
    ls_status s = LS_OK;
    r->store->n = r->store->n_rows = 0;
    r->at = begin;
    while (!s && r->at < r->end) {
        const unsigned char kind = *r->at++;
        s = kind == 'E'   ? read_entry(r, err)
            : kind == 'R' ? read_row(r, err)
                          : broken(err, "an unknown record");
    }
    return s;
}

static ls_status check_tail(const unsigned char *image, uint64_t size, struct ls_err *err)
{
    unsigned char digest[32];
    const unsigned char *const tail = image + size - TAIL;
    crypto_generichash(digest, sizeof digest, image, size - 32, NULL, 0);
    if (tail[0] != 'Z' || memcmp(digest, tail + 17, 32) != 0)
        return broken(err, "its digest is not that of its bytes");
    return LS_OK;
}

ls_status ls_store_parse(struct ls_store *out, const void *image, uint64_t size,
                         struct ls_arena *arena, struct ls_err *err)
{
    struct ls_store store = { .image = image };
    struct reader r = { .store = &store, .arena = arena, .counting = true };
    if (!ls_store_is(image, size) || size < HEAD + TAIL)
        return broken(err, "too short");
    ls_status s = check_tail(image, size, err);
    if (s)
        return s;
    const uint64_t n = ls_le_get(store.image + 40, 4);
    if (n > size - HEAD - TAIL || memchr(store.image + HEAD, 0, (size_t)n))
        return broken(err, "the path of its reference");
    memcpy(store.digest, store.image + 8, 32);
    store.reference = ls_arena_text(arena, (const char *)store.image + HEAD, (size_t)n);
    r.end = store.image + size - TAIL;
    s = read_records(&r, store.image + HEAD + n, err);
    if (s)
        return s;
    if (store.n != ls_le_get(r.end + 1, 8) || store.n_rows != ls_le_get(r.end + 9, 8))
        return broken(err, "another number of records than it says");
    store.entries = ls_arena_take(arena, store.n * sizeof *store.entries);
    store.rows = ls_arena_take(arena, store.n_rows * sizeof *store.rows);
    if (!store.reference || !store.entries || !store.rows)
        return ls_fail(err, LS_E_MEMORY, "no memory for the entries of a store");
    r.counting = false;
    s = read_records(&r, store.image + HEAD + n, err);
    if (!s)
        *out = store;
    return s;
}

ls_status ls_store_apply(const struct ls_store *store, const struct ls_store_place *entry,
                         const struct ls_store_row_place *place, float *out, float *scratch,
                         struct ls_err *err)
{
    const size_t n = (size_t)entry->columns * sizeof *out;
    unsigned char *const bits = (unsigned char *)scratch;
    memcpy(bits, store->image + place->off, place->bytes);
    if (place->packed && ls_pack_open(bits, n, bits, place->bytes, sizeof *out, bits + n, err))
        return ls_fail(err, LS_E_FORMAT, "a kept row of '%.200s' cannot be unpacked",
                       entry->name);
    unsigned char *const to = (unsigned char *)out;
    for (size_t i = 0; i < n; i++)
        to[i] ^= bits[i];
    return LS_OK;
}
