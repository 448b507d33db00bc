/* Fuzz target: a packed tensor. Bytes 0 and 1: the size that is expected; byte 2: the element's
 * size; the rest is the block. Whatever comes, nothing outside buffers of exactly the expected
 * size is touched; what unpacks packs again to the same bytes. */
#include "wire/pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

static void try_block(const uint8_t *block, size_t packed, size_t n, unsigned element)
{
    unsigned char *bytes = malloc(n > packed ? n : packed + 1), *scratch = malloc(n + 1);
    unsigned char *clear = malloc(n + 1);
    require(bytes && scratch && clear);
    memcpy(bytes, block, packed);
    if (ls_pack_open(bytes, n, bytes, packed, element, scratch, NULL) == LS_OK) {
        memcpy(clear, bytes, n);
        uint64_t again = ls_pack_apply(bytes, n, element, scratch);
        if (again)
            require(ls_pack_open(bytes, n, bytes, again, element, scratch, NULL) == LS_OK);
        require(memcmp(bytes, clear, n) == 0);
    }
    free(clear);
    free(scratch);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    unsigned element = 1u << data[2] % 4;
    size_t n = (data[0] | (size_t)data[1] << 8) / element * element;
    try_block(data + 3, size - 3, n, element);
    return 0;
}
