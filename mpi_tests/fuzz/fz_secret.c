/* Fuzz target: the text of a key file, and the hello of a peer that has no secret. */
#include "wire/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

/* What is accepted is 32 raw bytes, or prints as the one key line that the text must hold. */
static void try_key_file(const uint8_t *data, size_t size)
{
    struct ls_secret *secret = NULL;
    struct ls_err err = { .status = LS_OK };
    char line[LS_SECRET_LINE + 1];
    ls_status s = ls_secret_parse(&secret, data, size, &err);
    require(s == LS_OK || s == LS_E_FORMAT);
    require((s == LS_OK) == (secret != NULL));
    if (s)
        return;
    ls_secret_print(secret, line);
    bool found = size == LS_SECRET_BYTES;
    for (size_t i = 0; i + LS_SECRET_LINE <= size && !found; i++) {
        size_t same = 0;
        while (same < LS_SECRET_LINE && (data[i + same] | 0x20) == (line[same] | 0x20))
            same++;
        found = same == LS_SECRET_LINE;
    }
    require(found);
    ls_secret_destroy(secret);
}

static void try_hello(const uint8_t *data, size_t size)
{
    static struct ls_handshake *exchange;
    static const struct ls_pair pair = {
        .self = 1, .peer = 2, .level = LS_LEVEL_SEALED, .suite = LS_SUITE_CHACHA20
    };
    struct ls_secret *secret;
    if (!exchange) {
        require(ls_secret_create(&secret, NULL) == LS_OK);
        require(ls_handshake_create(&exchange, secret, &pair, NULL) == LS_OK);
        ls_secret_destroy(secret);
    }
    require(ls_handshake_finish(exchange, data, size, NULL) == LS_E_AUTH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_key_file(data, size);
    try_hello(data, size);
    return 0;
}
