#include "jobs/leaf_file.h"

#include "base/alloc.h"
#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t row_bytes(const struct ls_leaf_file *f)
{
    return ((size_t)f->n_layers + 1) * LS_LEAF;
}

/* --- opening ---------------------------------------------------------------------------------
 */

/* Finds the whole requests of an earlier run; what follows them is cut. */
static ls_status take_up(struct ls_leaf_file *f, struct ls_err *err)
{
    const off_t size = lseek(f->fd, 0, SEEK_END);
    uint64_t at = 0, first = 0;
    while (size >= 0 && (uint64_t)size - at >= LS_CERT_BLOCK) {
        unsigned char head[LS_CERT_BLOCK];
        struct ls_cert_block b;
        uint64_t bytes;
        ls_status s = ls_read_at(f->fd, head, sizeof head, at, f->path, err);
        if (s)
            return s;
        if (!ls_cert_block_get(&b, head, f->n_layers, &bytes) || bytes > (uint64_t)size - at)
            break;
        first = b.choice == 0 ? at : first;
        at += bytes;
        if (b.choice + 1 != b.n_choices)
            continue;
        s = ls_line_index_put(&f->index, b.line, first, err);
        if (s)
            return s;
        f->end = at;
    }
    if (size >= 0 && !ftruncate(f->fd, (off_t)f->end))
        return LS_OK;
    return ls_fail(err, ls_io_status(errno), "%s: %s", f->path, strerror(errno));
}

ls_status ls_leaf_file_open(struct ls_leaf_file *f, const char *folder, int n_layers,
                            bool resume, struct ls_err *err)
{
    void *row;
    *f = (struct ls_leaf_file){ .fd = -1, .n_layers = n_layers };
    f->index.fd = f->spool.fd = -1;
    if (asprintf(&f->path, "%s/leaves", folder) < 0) {
        f->path = NULL;
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of the leaves");
    }
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | (resume ? 0 : O_TRUNC), 0666);
    if (f->fd < 0)
        return ls_fail(err, ls_io_status(errno), "cannot make %s: %s", f->path,
                       strerror(errno));
    ls_status s = ls_alloc(&row, row_bytes(f), "leaves of a position", err);
    if (s)
        return s;
    f->row = row;
    s = ls_spool_open(&f->spool, folder, row_bytes(f), err);
    if (!s)
        s = ls_line_index_open(&f->index, folder, err);
    return s ? s : take_up(f, err);
}

void ls_leaf_file_close(struct ls_leaf_file *f)
{
    if (!f->path)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->spool.folder)
        ls_spool_close(&f->spool);
    ls_line_index_close(&f->index);
    ls_out_finish(&f->block);
    ls_free(f->row);
    free(f->path);
    *f = (struct ls_leaf_file){ .fd = -1 };
}

/* --- adding ----------------------------------------------------------------------------------
 */

ls_status ls_leaf_file_put(struct ls_leaf_file *f, struct ls_spooled *leaves,
                           const unsigned char *row, struct ls_err *err)
{
    return ls_spool_put(&f->spool, leaves, row, err);
}

/* The tokens of the positions: the prompt's and those that were fed back. */
static void put_tokens(struct ls_out *out, const struct ls_choice *c, uint32_t n)
{
    static const unsigned char zeros[8];
    const uint32_t n_prompt = c->prompt->n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t =
            (uint32_t)(i < n_prompt ? c->prompt->tokens[i] : c->tokens.data[i - n_prompt]);
        const unsigned char le[4] = { (unsigned char)t, (unsigned char)(t >> 8),
                                      (unsigned char)(t >> 16), (unsigned char)(t >> 24) };
        ls_out_add(out, le, sizeof le);
    }
    ls_out_add(out, zeros, ls_cert_token_bytes(n) - (uint64_t)n * sizeof(int32_t));
}

/* Head and tokens behind *at; the leaves have been written there already. */
static ls_status put_block(struct ls_leaf_file *f, const struct ls_choice *c,
                           struct ls_cert_block *b, uint64_t *at, struct ls_err *err)
{
    struct ls_merkle tree = { .n = 0 };
    const size_t bytes = row_bytes(f);
    const uint64_t front = LS_CERT_BLOCK + ls_cert_token_bytes(b->n_positions);
    ls_status s = LS_OK;
    for (uint32_t i = 0; !s && i < b->n_positions; i++) {
        s = ls_spool_get(&f->spool, &c->leaves, i, f->row, err);
        if (!s)
            s = ls_write_at(f->fd, f->row, bytes, *at + front + i * bytes, f->path, err);
        for (size_t k = 0; !s && k < bytes; k += LS_LEAF)
            ls_merkle_add(&tree, f->row + k);
    }
    if (s)
        return s;
    unsigned char head[LS_CERT_BLOCK];
    ls_merkle_root(&tree, b->leaves_root);
    f->block.n = 0;
    ls_out_add(&f->block, head, sizeof head); /* its place */
    put_tokens(&f->block, c, b->n_positions);
    s = ls_out_check(&f->block, "a certificate's block", err);
    if (s)
        return s;
    unsigned char *const block = (unsigned char *)f->block.data;
    ls_cert_block_put(block, b, block + LS_CERT_BLOCK);
    s = ls_write_at(f->fd, block, front, *at, f->path, err);
    *at += front + b->n_positions * bytes;
    return s;
}

ls_status ls_leaf_file_add(struct ls_leaf_file *f, const struct ls_leaf_line *line,
                           const struct ls_choice *choices, uint32_t n_choices,
                           struct ls_err *err)
{
    uint64_t at = f->end;
    for (uint32_t i = 0; i < n_choices; i++) {
        const struct ls_choice *const c = &choices[i];
        struct ls_cert_block b = { .line = line->line,
                                   .choice = i,
                                   .n_choices = n_choices,
                                   .n_prompt = c->prompt->n,
                                   .n_positions = (uint32_t)c->leaves.n };
        memcpy(b.line_digest, line->digest, LS_LEAF);
        memcpy(b.row_digest, line->row_digest, LS_LEAF);
        const size_t fed = c->tokens.n ? c->tokens.n - 1 : 0;
        if (c->leaves.n != b.n_prompt + fed)
            return ls_fail(err, LS_E_INTERNAL,
                           "line %" PRIu64 ", choice %u: leaves of %zu positions, expected %zu",
                           line->line, i, c->leaves.n, b.n_prompt + fed);
        const ls_status s = put_block(f, c, &b, &at, err);
        if (s)
            return s;
    }
    const ls_status s = ls_line_index_put(&f->index, line->line, f->end, err);
    if (!s)
        f->end = at;
    return s;
}

ls_status ls_leaf_file_has(const struct ls_leaf_file *f, uint64_t line, bool *there,
                           struct ls_err *err)
{
    uint64_t off;
    return ls_line_index_get(&f->index, line, there, &off, err);
}

ls_status ls_leaf_file_sync(const struct ls_leaf_file *f, struct ls_err *err)
{
    if (!f->path || f->fd < 0 || !fdatasync(f->fd))
        return LS_OK;
    return ls_fail(err, ls_io_status(errno), "cannot make %s durable: %s", f->path,
                   strerror(errno));
}

/* --- reading back ----------------------------------------------------------------------------
 */

ls_status ls_leaf_file_next(struct ls_leaf_file *f, uint64_t line, uint64_t *off,
                            struct ls_cert_block *block, const unsigned char **bytes,
                            uint64_t *n, bool *more, struct ls_err *err)
{
    unsigned char head[LS_CERT_BLOCK];
    bool there;
    *more = false;
    if (!*off) { /* kept as one more than the offset, so that 0 is in front of the first */
        const ls_status s = ls_line_index_get(&f->index, line, &there, off, err);
        if (s || !there)
            return s ? s
                     : ls_fail(err, LS_E_REFUSED,
                               "%s lacks the leaves of line %" PRIu64 "; --fresh starts over",
                               f->path, line);
        ++*off;
    }
    const uint64_t at = *off - 1;
    if (at + LS_CERT_BLOCK > f->end)
        return LS_OK;
    ls_status s = ls_read_at(f->fd, head, sizeof head, at, f->path, err);
    if (s || !ls_cert_block_get(block, head, f->n_layers, n) || block->line != line)
        return s;
    if (!ls_out_room(&f->block, *n))
        return ls_fail(err, LS_E_MEMORY, "out of memory for the leaves of line %" PRIu64, line);
    s = ls_read_at(f->fd, f->block.data, *n, at, f->path, err);
    *bytes = (const unsigned char *)f->block.data;
    *off += *n;
    *more = !s;
    return s;
}
