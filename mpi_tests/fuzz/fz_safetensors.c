/* The safetensors reader: whatever the bytes are, it stays inside them, and what it accepts is
 * a cover of the data by sorted, well-formed tensors. */
#include "base/size.h"
#include "tensor/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void check_tensor(const struct ls_tensor *t, const uint8_t *data, size_t size)
{
    uint64_t bytes = ls_dtype_bytes(t->dtype);
    bool empty = false, fits = true;
    must(bytes > 0 && t->n_dims >= 0 && t->n_dims <= LS_MAX_DIMS && *t->name);
    for (int d = 0; d < t->n_dims; d++) {
        empty |= t->dims[d] == 0;
        fits = fits && ls_mul_u64(bytes, t->dims[d], &bytes);
    }
    must(t->bytes == (empty ? 0 : bytes) && (empty || fits));
    must(t->data >= data && t->bytes <= (uint64_t)(data + size - t->data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_arena arena;
    struct ls_tensor *tensors;
    struct ls_err err;
    size_t n;
    uint64_t total = 0;
    ls_arena_init(&arena);
    if (!ls_safetensors_parse(data, size, &arena, &tensors, &n, &err)) {
        uint64_t header = 0;
        for (size_t i = 0; i < n; i++) {
            check_tensor(&tensors[i], data, size);
            must(!i || strcmp(tensors[i - 1].name, tensors[i].name) < 0);
            total += tensors[i].bytes;
        }
        for (int i = 8; i-- > 0;)
            header = header << 8 | data[i];
        must(total == size - 8 - header);
    } else {
        must(err.status != LS_OK && *err.text);
    }
    ls_arena_finish(&arena);
    return 0;
}
