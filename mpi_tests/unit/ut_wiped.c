/* When a key is destroyed no copy of it is left in the process's memory, and its page was
 * cleared before the system got it back. What is sought lies here masked, so that the search
 * does not find itself. */
#include "pipeline/secret_file.h"
#include "wire/keys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MASK = 0xa5,
    LARGEST = 64 << 20, /* bytes of a mapping that is searched: a sanitizer's tables are more */
};

struct sought {
    unsigned char masked[LS_SECRET_LINE];
    size_t n;
};

static struct ls_err err;
static const struct sought *watched; /* in what goes back to the system */
static int n_unmapped, n_left;

static struct sought masked(const void *bytes, size_t n)
{
    struct sought s = { .n = n };
    for (size_t i = 0; i < n; i++)
        s.masked[i] = ((const volatile unsigned char *)bytes)[i] ^ MASK;
    return s;
}

static int count(const struct sought *s, const volatile unsigned char *begin, size_t n)
{
    int found = 0;
    for (size_t at = 0; at + s->n <= n; at++) {
        size_t i = 0;
        while (i < s->n && (begin[at + i] ^ MASK) == s->masked[i])
            i++;
        found += i == s->n;
    }
    return found;
}

/* libsodium's calls come here. By then it has made all of the region readable. */
int munmap(void *begin, size_t n)
{
    if (watched) {
        n_unmapped++;
        n_left += count(watched, begin, n);
    }
    return (int)syscall(SYS_munmap, begin, n);
}

static int copies(const struct sought *s)
{
    int found = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        uintptr_t begin, end;
        char rights[5];
        assert_int_equal(sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, rights),
                         3);
        if (!strncmp(rights, "rw", 2) && end - begin <= LARGEST)
            found += count(s, (const volatile unsigned char *)begin, end - begin);
    }
    fclose(maps);
    return found;
}

static void watch(const struct sought *s)
{
    watched = s;
    n_unmapped = n_left = 0;
}

static void assert_gone(const struct sought *s)
{
    watched = NULL;
    assert_int_not_equal(n_unmapped, 0);
    assert_int_equal(n_left, 0);
    assert_int_equal(copies(s), 0);
}

static void the_search_finds(void **state)
{
    (void)state;
    struct sought s;
    unsigned char *const copy = malloc(LS_SECRET_BYTES);
    unsigned char *const page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(copy && page != MAP_FAILED);
    randombytes_buf(copy, LS_SECRET_BYTES);
    memcpy(page + 7, copy, LS_SECRET_BYTES);
    s = masked(copy, LS_SECRET_BYTES);
    assert_int_equal(copies(&s), 2);
    watch(&s);
    munmap(page, 4096);
    assert_int_equal(n_left, 1);
    watched = NULL;
    sodium_memzero(copy, LS_SECRET_BYTES);
    assert_int_equal(copies(&s), 0);
    free(copy);
}

static void secrets_of_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/ut_wiped_XXXXXX", path[64], line[LS_SECRET_LINE + 1];
    struct ls_secret *secret = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    assert_int_equal(ls_secret_create(&secret, &err), LS_OK);
    const struct sought bytes = masked(ls_secret_bytes(secret), LS_SECRET_BYTES);
    ls_secret_print(secret, line);
    const struct sought text = masked(line, LS_SECRET_LINE);
    sodium_memzero(line, sizeof line);
    assert_int_equal(ls_secret_write_file(secret, path, "a test", &err), LS_OK);
    assert_int_equal(copies(&bytes), 1);
    assert_int_equal(copies(&text), 0);
    watch(&bytes);
    ls_secret_destroy(secret);
    assert_gone(&bytes);
    for (int by_fd = 0; by_fd < 2; by_fd++) {
        const ls_status s = by_fd ? ls_secret_read_fd(&secret, open(path, O_RDONLY), &err)
                                  : ls_secret_read_file(&secret, path, &err);
        assert_int_equal(s, LS_OK);
        assert_int_equal(copies(&text), 0);
        assert_int_equal(copies(&bytes), 1);
        watch(&bytes);
        ls_secret_destroy(secret);
        assert_gone(&bytes);
    }
    unlink(path);
    rmdir(folder);
}

static void the_secret_handed_over(void **state)
{
    (void)state;
    uint8_t name[LS_SECRET_NAME];
    struct ls_secret *secret = NULL, *fetched = NULL;
    assert_int_equal(ls_secret_create(&secret, &err), LS_OK);
    const struct sought bytes = masked(ls_secret_bytes(secret), LS_SECRET_BYTES);
    assert_int_equal(ls_secret_publish(secret, name, &err), LS_OK);
    assert_int_equal(ls_secret_fetch(&fetched, name, &err), LS_OK);
    ls_secret_withdraw(name);
    assert_int_equal(copies(&bytes), 2);
    watch(&bytes);
    ls_secret_destroy(secret);
    ls_secret_destroy(fetched);
    assert_gone(&bytes);
}

static void the_copy_of_a_handshake(void **state)
{
    (void)state;
    struct ls_secret *secret = NULL;
    struct ls_handshake *ends[2];
    assert_int_equal(ls_secret_create(&secret, &err), LS_OK);
    const struct sought bytes = masked(ls_secret_bytes(secret), LS_SECRET_BYTES);
    for (uint32_t r = 0; r < 2; r++) {
        const struct ls_pair pair = {
            .self = r, .peer = 1 - r, .level = LS_LEVEL_SEALED, .suite = LS_SUITE_CHACHA20
        };
        assert_int_equal(ls_handshake_create(&ends[r], secret, &pair, &err), LS_OK);
    }
    assert_int_equal(copies(&bytes), 3);
    for (int r = 0; r < 2; r++)
        assert_int_equal(
            ls_handshake_finish(ends[r], ls_handshake_hello(ends[1 - r]), LS_HELLO_BYTES, &err),
            LS_OK);
    watch(&bytes);
    ls_handshake_destroy(ends[0]);
    ls_handshake_destroy(ends[1]);
    ls_secret_destroy(secret);
    assert_gone(&bytes);
}

static void the_keys_of_links(void **state)
{
    (void)state;
    for (enum ls_suite suite = LS_SUITE_AES256GCM; suite <= LS_SUITE_CHACHA20; suite++) {
        unsigned char key[LS_KEY_BYTES], next[LS_KEY_BYTES];
        struct ls_seal *seal = NULL;
        if (!(ls_suites_here() >> suite & 1))
            continue;
        randombytes_buf(key, sizeof key);
        ls_secret_derive(next, key, "lockstep next epoch", NULL, 0);
        const struct sought now = masked(key, sizeof key), later = masked(next, sizeof next);
        assert_int_equal(ls_seal_create(&seal, LS_LEVEL_SEALED, suite, key, &err), LS_OK);
        sodium_memzero(key, sizeof key);
        sodium_memzero(next, sizeof next);
        assert_int_not_equal(copies(&now), 0);
        assert_int_not_equal(copies(&later), 0);
        watch(&now);
        ls_seal_destroy(seal);
        assert_gone(&now);
        assert_int_equal(copies(&later), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds),       cmocka_unit_test(secrets_of_files),
        cmocka_unit_test(the_secret_handed_over), cmocka_unit_test(the_copy_of_a_handshake),
        cmocka_unit_test(the_keys_of_links),
    };
    return ls_suites_here() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
