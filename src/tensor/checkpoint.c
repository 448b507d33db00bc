#include "tensor/checkpoint.h"

#include "base/le.h"
#include "tensor/folder.h"
#include "tensor/mapping.h"
#include "tensor/shard_index.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX_BYTES = 256 << 20, MAX_PATH = 4096 };

struct ls_checkpoint {
    struct ls_arena arena;   /* names, headers, the list of tensors */
    const char **files;      /* [n_files], sorted */
    struct ls_mapping *maps; /* [n_files] */
    int n_files;
    bool indexed;              /* the files are those of an index */
    struct ls_tensor *tensors; /* [n_tensors], sorted by name */
    size_t n_tensors;
};

/* What is known of one shard while the folder is being checked. */
struct shard {
    struct ls_tensor *tensors;
    size_t n;
};

static ls_status join(char path[MAX_PATH], const char *dir, const char *file,
                      struct ls_err *err)
{
    const int n = snprintf(path, MAX_PATH, "%s/%s", dir, file);
    if (n < 0 || n >= MAX_PATH)
        return ls_fail(err, LS_E_IO, "%s: the path is longer than %d bytes", file,
                       MAX_PATH - 1);
    return LS_OK;
}

static ls_status read_index(const char *dir, struct ls_index *index, struct ls_arena *arena,
                            struct ls_err *err)
{
    char path[MAX_PATH];
    char *text = NULL;
    size_t n = 0;
    ls_status s = join(path, dir, LS_INDEX_FILE, err);
    if (!s)
        s = ls_file_read(path, MAX_INDEX_BYTES, &text, &n, err);
    if (s)
        return s;
    s = ls_index_parse(index, text, n, arena, err);
    ls_free(text);
    return s ? ls_fail_prefix(err, LS_INDEX_FILE) : LS_OK;
}

/* Which files, and with an index (else NULL in *index) what they should hold. */
static ls_status choose_files(struct ls_checkpoint *c, const char *dir, struct ls_index *index,
                              struct ls_err *err)
{
    static const char *single[] = { LS_WEIGHTS_FILE };
    struct ls_folder folder;
    ls_status s = ls_folder_list(&folder, dir, &c->arena, err);
    if (!s)
        s = ls_folder_check_weights(&folder, err);
    if (!s && folder.has_index)
        s = read_index(dir, index, &c->arena, err);
    if (s)
        return s;
    c->indexed = folder.has_index;
    c->files = folder.has_index ? index->shards : single;
    c->n_files = folder.has_index ? index->n_shards : 1;
    s = ls_folder_check_strays(&folder, c->files, c->n_files, err);
    if (s)
        return s;
    c->maps = ls_arena_take(&c->arena, (uint64_t)c->n_files * sizeof *c->maps);
    return c->maps ? LS_OK
                   : ls_fail(err, LS_E_MEMORY, "out of memory for %d files", c->n_files);
}

/* The first tensor that the index puts into file i; NULL without an index. */
static const char *first_in_shard(const struct ls_index *index, int i)
{
    for (size_t e = 0; e < index->n_entries; e++)
        if (index->entries[e].shard == i)
            return index->entries[e].tensor;
    return NULL;
}

static ls_status open_shard(struct ls_checkpoint *c, const char *dir, int i,
                            const struct ls_index *index, struct shard *shard,
                            struct ls_err *err)
{
    const char *needs = first_in_shard(index, i);
    char path[MAX_PATH];
    ls_status s = join(path, dir, c->files[i], err);
    if (!s)
        s = ls_mapping_open(&c->maps[i], path, err);
    if (s)
        return needs ? ls_fail_prefix(err, "tensor '%.200s'", needs) : s;
    s = ls_safetensors_parse(c->maps[i].base, c->maps[i].size, &c->arena, &shard->tensors,
                             &shard->n, err);
    if (s)
        return ls_fail_prefix(err, "%s", c->files[i]);
    /* The header's pages are not needed again. */
    ls_mapping_release(&c->maps[i], c->maps[i].base, c->maps[i].size);
    for (size_t t = 0; t < shard->n; t++)
        shard->tensors[t].shard = i;
    return LS_OK;
}

/* Every tensor of a shard stands in the index, for this shard. */
static ls_status check_indexed(const struct ls_checkpoint *c, const struct ls_index *index,
                               const struct shard *shard, int i, struct ls_err *err)
{
    for (size_t t = 0; t < shard->n; t++) {
        const char *name = shard->tensors[t].name;
        const struct ls_index_entry *e = ls_index_find(index, name);
        if (!e)
            return ls_fail(err, LS_E_FORMAT,
                           "%s: tensor '%.200s' is in the file, but not in " LS_INDEX_FILE,
                           c->files[i], name);
        if (e->shard != i)
            return ls_fail(err, LS_E_FORMAT,
                           "%s: tensor '%.200s' is in this file, but " LS_INDEX_FILE
                           " puts it into %s",
                           c->files[i], name, c->files[e->shard]);
    }
    return LS_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct ls_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Every tensor of the index was found in its shard. Runs after check_indexed, so that a count
 * that agrees means the sets do. */
static ls_status check_complete(const struct ls_checkpoint *c, const struct ls_index *index,
                                struct ls_err *err)
{
    for (size_t i = 0; i < index->n_entries; i++)
        if (!ls_checkpoint_find(c, index->entries[i].tensor))
            return ls_fail(err, LS_E_FORMAT,
                           "%s: tensor '%.200s' is missing, " LS_INDEX_FILE " puts it there",
                           c->files[index->entries[i].shard], index->entries[i].tensor);
    return LS_OK;
}

static ls_status merge(struct ls_checkpoint *c, const struct shard *shards, struct ls_err *err)
{
    size_t n = 0;
    for (int i = 0; i < c->n_files; i++)
        n += shards[i].n;
    if (!n)
        return ls_fail(err, LS_E_FORMAT, "%s: holds no tensor", c->files[0]);
    c->tensors = ls_arena_take(&c->arena, n * sizeof *c->tensors);
    if (!c->tensors)
        return ls_fail(err, LS_E_MEMORY, "out of memory for %zu tensors", n);
    for (int i = 0; i < c->n_files; i++) {
        memcpy(c->tensors + c->n_tensors, shards[i].tensors, shards[i].n * sizeof *c->tensors);
        c->n_tensors += shards[i].n;
    }
    qsort(c->tensors, n, sizeof *c->tensors, by_name);
    return LS_OK;
}

static ls_status open_files(struct ls_checkpoint *c, const char *dir, struct ls_err *err)
{
    struct ls_index index = { 0 };
    ls_status s = choose_files(c, dir, &index, err);
    if (s)
        return s;
    struct shard *shards = ls_arena_take(&c->arena, (uint64_t)c->n_files * sizeof *shards);
    if (!shards)
        return ls_fail(err, LS_E_MEMORY, "out of memory for %d files", c->n_files);
    for (int i = 0; i < c->n_files && !s; i++)
        s = open_shard(c, dir, i, &index, &shards[i], err);
    for (int i = 0; i < c->n_files && !s && index.entries; i++)
        s = check_indexed(c, &index, &shards[i], i, err);
    if (!s)
        s = merge(c, shards, err);
    if (!s)
        s = check_complete(c, &index, err);
    return s;
}

ls_status ls_checkpoint_open(struct ls_checkpoint **out, const char *dir, struct ls_err *err)
{
    void *p;
    struct ls_err local;
    struct ls_err *e = err ? err : &local;
    ls_status s = ls_alloc(&p, sizeof(struct ls_checkpoint), "checkpoint", e);
    if (s)
        return s;
    struct ls_checkpoint *c = p;
    ls_arena_init(&c->arena);
    s = open_files(c, dir, e);
    if (s) {
        ls_fail_prefix(e, "checkpoint %.300s", dir);
        ls_checkpoint_close(c);
        return s;
    }
    *out = c;
    return LS_OK;
}

void ls_checkpoint_close(struct ls_checkpoint *ckpt)
{
    if (!ckpt)
        return;
    for (int i = 0; i < ckpt->n_files && ckpt->maps; i++)
        ls_mapping_close(&ckpt->maps[i]);
    ls_arena_finish(&ckpt->arena);
    ls_free(ckpt);
}

size_t ls_checkpoint_n_tensors(const struct ls_checkpoint *ckpt)
{
    return ckpt->n_tensors;
}

const struct ls_tensor *ls_checkpoint_tensor(const struct ls_checkpoint *ckpt, size_t i)
{
    return &ckpt->tensors[i];
}

const struct ls_tensor *ls_checkpoint_find(const struct ls_checkpoint *ckpt, const char *name)
{
    const struct ls_tensor key = { .name = name };
    return bsearch(&key, ckpt->tensors, ckpt->n_tensors, sizeof key, by_name);
}

const char *ls_checkpoint_file_of(const struct ls_checkpoint *ckpt, const struct ls_tensor *t)
{
    return ckpt->files[t->shard];
}

const char *ls_checkpoint_list(const struct ls_checkpoint *ckpt)
{
    return ckpt->indexed ? LS_INDEX_FILE : ckpt->files[0];
}

void ls_checkpoint_release(const struct ls_checkpoint *ckpt, const struct ls_tensor *t)
{
    ls_mapping_release(&ckpt->maps[t->shard], t->data, t->bytes);
}

ls_status ls_checkpoint_resident_bytes(const struct ls_checkpoint *ckpt, uint64_t *bytes,
                                       struct ls_err *err)
{
    uint64_t total = 0;
    ls_status s = ls_mapping_resident(ckpt->maps, ckpt->n_files, &total, err);
    if (!s)
        *bytes = total;
    return s;
}

static void digest_u64(crypto_generichash_state *state, uint64_t v)
{
    unsigned char le[8];
    ls_le_put(le, v, sizeof le);
    crypto_generichash_update(state, le, sizeof le);
}

void ls_checkpoint_digest(const struct ls_checkpoint *ckpt, int with_bytes,
                          unsigned char digest[32])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 32);
    digest_u64(&state, ckpt->n_tensors);
    for (size_t i = 0; i < ckpt->n_tensors; i++) {
        const struct ls_tensor *t = &ckpt->tensors[i];
        digest_u64(&state, strlen(t->name));
        crypto_generichash_update(&state, (const unsigned char *)t->name, strlen(t->name));
        digest_u64(&state, t->dtype);
        digest_u64(&state, (uint64_t)t->n_dims);
        for (int d = 0; d < t->n_dims; d++)
            digest_u64(&state, t->dims[d]);
        digest_u64(&state, t->bytes);
        if (with_bytes) {
            crypto_generichash_update(&state, t->data, t->bytes);
            ls_checkpoint_release(ckpt, t);
        }
    }
    crypto_generichash_final(&state, digest, 32);
}
