/* Files of differences: with their digest made right again, so that what stands behind it is
 * reached; what is accepted lies inside the image, and every row can be asked for. */
#include "parity/store.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct ls_store *store, size_t size)
{
    struct ls_err err;
    for (size_t e = 0; e < store->n; e++) {
        const struct ls_store_place *const place = &store->entries[e];
        if (place->first + place->n > store->n_rows || place->n > place->rows)
            abort();
        for (size_t k = 0; k < place->n; k++) {
            const struct ls_store_row_place *const row = &store->rows[place->first + k];
            if (row->off + row->bytes > size || row->row >= place->rows)
                abort();
            if (place->columns > 4096)
                continue;
            float *const out = calloc(place->columns, sizeof *out);
            float *const scratch = malloc(2 * place->columns * sizeof *scratch);
            if (out && scratch)
                ls_store_apply(store, place, row, out, scratch, &err);
            free(out);
            free(scratch);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_arena arena;
    struct ls_store store;
    struct ls_err err = { .status = LS_OK };
    uint8_t *const image = malloc(size ? size : 1);
    if (!image)
        return 0;
    if (size)
        memcpy(image, data, size);
    if (size > 32)
        crypto_generichash(image + size - 32, 32, image, size - 32, NULL, 0);
    ls_arena_init(&arena);
    const ls_status s = ls_store_parse(&store, image, size, &arena, &err);
    if (!s)
        ask(&store, size);
    else if (s != err.status || !*err.text)
        abort();
    ls_arena_finish(&arena);
    free(image);
    return 0;
}
