/* A file of differences read as the set that it stands for. */
#include "parity/dump_parts.h"

#include "base/size.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

ls_status ls_dump_digest(struct ls_dump *d, unsigned char digest[32], struct ls_err *err)
{
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, 32);
    for (size_t i = 0; i < d->n; i++) {
        enum { STEP = 8 << 20 };
        const struct ls_dump_entry *const e = &d->entries[i];
        struct ls_tensor t;
        const ls_status s = ls_dump_view(d, i, &t, err);
        if (s)
            return s;
        const uint64_t facts[3] = { e->first_position, (uint64_t)t.dtype, (uint64_t)t.n_dims };
        crypto_generichash_update(&hash, (const unsigned char *)e->name, strlen(e->name) + 1);
        crypto_generichash_update(&hash, (const unsigned char *)facts, sizeof facts);
        crypto_generichash_update(&hash, (const unsigned char *)t.dims,
                                  (size_t)t.n_dims * sizeof t.dims[0]);
        for (uint64_t at = 0; at < t.bytes; at += STEP) {
            const uint64_t n = ls_min_u64(STEP, t.bytes - at);
            crypto_generichash_update(&hash, t.data + at, n);
            ls_dump_release(d, t.data + at, n);
        }
    }
    crypto_generichash_final(&hash, digest, 32);
    return LS_OK;
}

/* The reference lies where the file says, seen from the file's folder. */
static ls_status open_base(struct ls_dump *d, struct ls_err *err)
{
    const char *const slash = strrchr(d->path, '/');
    const size_t n = slash ? (size_t)(slash - d->path) + 1 : 0;
    char path[8192];
    unsigned char digest[32];
    const int length =
        snprintf(path, sizeof path, "%.*s%s", (int)n, d->path, d->store.reference);
    if (length < 0 || (size_t)length >= sizeof path)
        return ls_fail(err, LS_E_FORMAT, "%s: the path of its reference is too long", d->path);
    ls_status s = ls_dump_open_as(&d->base, path, true, err);
    if (!s)
        s = ls_dump_digest(d->base, digest, err);
    if (!s && memcmp(digest, d->store.digest, 32) != 0)
        s = ls_fail(err, LS_E_FORMAT,
                    "%s: its reference %s is not the one that it was made with", d->path, path);
    return s;
}

ls_status ls_dump_open_kept(struct ls_dump *d, struct ls_err *err)
{
    if (d->is_base)
        return ls_fail(err, LS_E_FORMAT,
                       "%s: a file of differences cannot be the reference of another one",
                       d->path);
    ls_status s = ls_store_parse(&d->store, d->mapping.base, d->mapping.size, &d->arena, err);
    if (s)
        return ls_fail_prefix(err, "%s", d->path);
    for (size_t i = 0; !s && i < d->store.n; i++) {
        const struct ls_store_place *const p = &d->store.entries[i];
        const struct ls_dump_entry e = { .name = p->name,
                                         .file = d->path,
                                         .first_position = p->first_position,
                                         .rows = p->rows };
        s = ls_dump_add(d, &e, err);
    }
    return s ? s : open_base(d, err);
}

/* Every row without a partner must be kept; checked before memory is taken for them. */
static ls_status check_rows(const struct ls_dump *d, const struct ls_store_place *p,
                            uint64_t partners, struct ls_err *err)
{
    uint64_t alone = 0;
    for (size_t k = 0; k < p->n; k++)
        alone += d->store.rows[p->first + k].row >= partners;
    if (p->rows > partners && alone != p->rows - partners)
        return ls_fail(err, LS_E_FORMAT, "%s: '%.200s' lacks rows that the reference has not",
                       d->path, p->name);
    return LS_OK;
}

static ls_status make_rows(struct ls_dump *d, const struct ls_store_place *p,
                           const struct ls_tensor *base, uint64_t partners, struct ls_err *err)
{
    const uint64_t row_bytes = p->columns * sizeof(float);
    const uint64_t shared = ls_min_u64(partners, p->rows);
    ls_status s = check_rows(d, p, partners, err);
    ls_free(d->rows);
    ls_free(d->scratch);
    d->rows = d->scratch = NULL;
    if (!s)
        s = ls_alloc(&d->rows, p->rows * row_bytes, "rows of a store", err);
    if (!s)
        s = ls_alloc(&d->scratch, 2 * row_bytes, "a row of a store", err);
    if (!s && shared)
        memcpy(d->rows, base->data, shared * row_bytes);
    for (size_t k = 0; !s && k < p->n; k++) {
        const struct ls_store_row_place *const row = &d->store.rows[p->first + k];
        s = ls_store_apply(&d->store, p, row, (float *)d->rows + row->row * p->columns,
                           d->scratch, err);
    }
    return s;
}

ls_status ls_dump_view_kept(struct ls_dump *d, size_t i, struct ls_tensor *tensor,
                            struct ls_err *err)
{
    const struct ls_store_place *const p = &d->store.entries[i];
    const int64_t partner = ls_dump_find(d->base, p->name);
    struct ls_tensor base = { .n_dims = 0 };
    uint64_t partners = 0;
    ls_status s = partner < 0 ? LS_OK : ls_dump_view(d->base, (size_t)partner, &base, err);
    if (!s && base.n_dims == 2 && base.dims[1] == p->columns && base.dtype == LS_DTYPE_F32)
        partners = base.dims[0];
    if (!s && (p->n || partners < p->rows))
        s = make_rows(d, p, &base, partners, err);
    if (s)
        return s;
    *tensor = (struct ls_tensor){ .name = p->name,
                                  .dtype = LS_DTYPE_F32,
                                  .n_dims = 2,
                                  .dims = { p->rows, p->columns },
                                  .data = p->n ? d->rows : base.data,
                                  .bytes = p->rows * p->columns * sizeof(float) };
    return LS_OK;
}
