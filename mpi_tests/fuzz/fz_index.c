/* The shard index: what is accepted is sorted, complete, and names plain files only. */
#include "tensor/shard_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_arena arena;
    struct ls_index index;
    struct ls_err err;
    ls_arena_init(&arena);
    if (!ls_index_parse(&index, (const char *)data, size, &arena, &err)) {
        must(index.n_entries > 0 && index.n_shards > 0);
        for (size_t i = 0; i < index.n_entries; i++) {
            const struct ls_index_entry *e = &index.entries[i];
            must(e->shard >= 0 && e->shard < index.n_shards);
            must(!i || strcmp(index.entries[i - 1].tensor, e->tensor) < 0);
            must(ls_index_find(&index, e->tensor) == e);
        }
        for (int i = 0; i < index.n_shards; i++) {
            must(!strchr(index.shards[i], '/') && index.shards[i][0] != '.');
            must(!i || strcmp(index.shards[i - 1], index.shards[i]) < 0);
        }
    } else {
        must(err.status != LS_OK && *err.text);
    }
    ls_arena_finish(&arena);
    return 0;
}
