#include "wire/secret.h"

#include "base/guard.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

struct ls_secret {
    unsigned char bytes[LS_SECRET_BYTES];
};

static ls_status allocate(struct ls_secret **out, struct ls_err *err)
{
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_REFUSED, "libsodium does not start");
    *out = sodium_malloc(sizeof **out);
    return *out ? LS_OK : ls_fail(err, LS_E_MEMORY, "no guarded memory for the job secret");
}

ls_status ls_secret_create(struct ls_secret **out, struct ls_err *err)
{
    struct ls_secret *secret;
    ls_status s = allocate(&secret, err);
    if (s)
        return s;
    randombytes_buf(secret->bytes, sizeof secret->bytes);
    *out = secret;
    return LS_OK;
}

void ls_secret_destroy(struct ls_secret *secret)
{
    sodium_free(secret);
}

const unsigned char *ls_secret_bytes(const struct ls_secret *secret)
{
    return secret->bytes;
}

void ls_secret_print(const struct ls_secret *secret, char line[LS_SECRET_LINE + 1])
{
    sodium_bin2hex(line, LS_SECRET_LINE + 1, secret->bytes, sizeof secret->bytes);
}

void ls_secret_derive(unsigned char out[LS_SECRET_BYTES],
                      const unsigned char key[LS_SECRET_BYTES], const char *label,
                      const struct ls_secret_part *parts, int n_parts)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, key, LS_SECRET_BYTES, LS_SECRET_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)label, strlen(label));
    for (int i = 0; i < n_parts; i++)
        crypto_generichash_update(&state, parts[i].bytes, parts[i].n);
    crypto_generichash_final(&state, out, LS_SECRET_BYTES);
    sodium_memzero(&state, sizeof state);
}

/* One line of the text, without its end: [begin, begin + n). */
struct line {
    const unsigned char *begin;
    size_t n;
};

static struct line next_line(const unsigned char *text, size_t n)
{
    const unsigned char *end = n ? memchr(text, '\n', n) : NULL;
    return (struct line){ .begin = text, .n = end ? (size_t)(end - text) : n };
}

/* Spaces, tabs and a carriage return at the end do not count. */
static struct line trimmed(struct line line)
{
    while (line.n > 0 && strchr(" \t\r", line.begin[line.n - 1]) &&
           line.begin[line.n - 1] != '\0')
        line.n--;
    return line;
}

static bool is_key(struct line line)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    if (line.n != LS_SECRET_LINE)
        return false;
    for (size_t i = 0; i < line.n; i++)
        if (!memchr(digits, line.begin[i], sizeof digits - 1))
            return false;
    return true;
}

/* The one line of the text that is not empty and not a comment. */
static ls_status find_key(struct line *key, const unsigned char *text, size_t n,
                          struct ls_err *err)
{
    int n_keys = 0, number = 0;
    for (size_t at = 0; at < n;) {
        struct line line = next_line(text + at, n - at);
        at += line.n + 1;
        number++;
        line = trimmed(line);
        if (line.n == 0 || line.begin[0] == '#')
            continue;
        if (n_keys++ > 0 && LS_GUARD("secret-once"))
            return ls_fail(err, LS_E_FORMAT, "key file, line %d: a second key", number);
        if (!is_key(line))
            return ls_fail(err, LS_E_FORMAT, "key file, line %d: not 64 hexadecimal digits",
                           number);
        *key = line;
    }
    return n_keys ? LS_OK
                  : ls_fail(err, LS_E_FORMAT, "key file: no line of 64 hexadecimal digits");
}

static bool is_constant(const unsigned char bytes[LS_SECRET_BYTES])
{
    unsigned char other = 0;
    for (int i = 1; i < LS_SECRET_BYTES; i++)
        other |= bytes[i] ^ bytes[0];
    return other == 0;
}

ls_status ls_secret_parse(struct ls_secret **out, const unsigned char *text, size_t n,
                          struct ls_err *err)
{
    struct ls_secret *secret = NULL;
    struct line key = { 0 };
    if (LS_GUARD("secret-size") && n > LS_SECRET_FILE_MAX)
        return ls_fail(err, LS_E_FORMAT, "key file: more than %d bytes", LS_SECRET_FILE_MAX);
    ls_status s = n == LS_SECRET_BYTES ? LS_OK : find_key(&key, text, n, err);
    if (!s)
        s = allocate(&secret, err);
    if (s)
        return s;
    if (n == LS_SECRET_BYTES)
        memcpy(secret->bytes, text, LS_SECRET_BYTES);
    else
        sodium_hex2bin(secret->bytes, LS_SECRET_BYTES, (const char *)key.begin, key.n, NULL,
                       NULL, NULL);
    if (LS_GUARD("secret-constant") && is_constant(secret->bytes)) {
        ls_secret_destroy(secret);
        return ls_fail(err, LS_E_FORMAT, "key file: the key is one byte, 32 times over");
    }
    *out = secret;
    return LS_OK;
}
