/* Certificates: what is accepted can be walked to its end within the bytes. */
#include "jobs/certificate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void walk(const struct ls_cert *cert, const uint8_t *data, size_t size)
{
    struct ls_cert_part part;
    struct ls_cert_block b;
    bool is_signed;
    uint64_t n = 0, n_positions = 0;
    for (uint64_t at = 0; ls_cert_next_part(cert, &at, &part); n++)
        must((const uint8_t *)part.name + part.n_name <= data + size);
    must(n == cert->head.n_parts);
    n = 0;
    for (uint64_t at = 0; ls_cert_next_block(cert, &at, &b); n++) {
        n_positions += b.n_positions;
        must(b.leaves + ls_cert_leaf_bytes(b.n_positions, cert->head.n_layers) <= data + size);
        ls_cert_block_head_holds(&b);
        ls_cert_block_leaves_hold(cert, &b);
        if (b.n_positions)
            ls_cert_token(&b, b.n_positions - 1);
    }
    must(n == cert->head.n_blocks && n_positions == cert->head.n_positions);
    ls_cert_check(cert, &is_signed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_cert cert;
    struct ls_err err;
    if (!ls_cert_parse(&cert, data, size, &err))
        walk(&cert, data, size);
    else
        must(err.status == LS_E_FORMAT && *err.text);
    return 0;
}
