/* Key files: who may read and write one, and how a secret gets from rank to rank of a host. */
#include "pipeline/secret_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct ls_err err;
static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ut_secret_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path_of("key"));
    unlink(path_of("fifo"));
    return rmdir(folder);
}

static struct ls_secret *make(void)
{
    struct ls_secret *secret = NULL;
    assert_int_equal(ls_secret_create(&secret, &err), LS_OK);
    return secret;
}

static void assert_same(const struct ls_secret *a, const struct ls_secret *b)
{
    assert_memory_equal(ls_secret_bytes(a), ls_secret_bytes(b), LS_SECRET_BYTES);
}

static void a_written_file_reads_back_and_stays(void **state)
{
    (void)state;
    struct ls_secret *secret = make(), *other = make(), *got = NULL;
    struct stat st;
    mode_t mask = umask(0);
    assert_int_equal(ls_secret_write_file(secret, path_of("key"), "a test", &err), LS_OK);
    umask(mask);
    assert_int_equal(stat(path_of("key"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(ls_secret_write_file(other, path_of("key"), "again", &err), LS_E_IO);
    assert_int_equal(ls_secret_read_file(&got, path_of("key"), &err), LS_OK);
    assert_same(secret, got);
    ls_secret_destroy(got);
    ls_secret_destroy(other);
    ls_secret_destroy(secret);
}

static void only_private_regular_files_are_read(void **state)
{
    (void)state;
    struct ls_secret *secret = make(), *got = NULL;
    assert_int_equal(ls_secret_write_file(secret, path_of("key"), "a test", &err), LS_OK);
    for (mode_t mode = 0; mode < 01000; mode++) {
        bool good = mode == 0600 || mode == 0400;
        if (!(mode & 0400)) /* root could read it, others not */
            continue;
        assert_int_equal(chmod(path_of("key"), mode), 0);
        assert_int_equal(ls_secret_read_file(&got, path_of("key"), &err),
                         good ? LS_OK : LS_E_REFUSED);
        if (good)
            ls_secret_destroy(got);
    }
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(ls_secret_read_file(&got, path_of("fifo"), &err), LS_E_REFUSED);
    assert_int_equal(ls_secret_read_file(&got, folder, &err), LS_E_REFUSED);
    assert_int_equal(ls_secret_read_file(&got, path_of("absent"), &err), LS_E_IO);
    ls_secret_destroy(secret);
}

static void files_of_others_are_refused(void **state)
{
    (void)state;
    struct ls_secret *secret = make(), *got = NULL;
    if (geteuid() != 0) {
        print_message("not root: the owner cannot be changed\n");
        ls_secret_destroy(secret);
        skip();
    }
    assert_int_equal(ls_secret_write_file(secret, path_of("key"), "a test", &err), LS_OK);
    assert_int_equal(chown(path_of("key"), 65534, 65534), 0);
    assert_int_equal(ls_secret_read_file(&got, path_of("key"), &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "65534"));
    ls_secret_destroy(secret);
}

static void descriptors_are_read_to_their_end_and_closed(void **state)
{
    (void)state;
    struct ls_secret *got = NULL;
    unsigned char raw[LS_SECRET_BYTES];
    int ends[2];
    for (int i = 0; i < LS_SECRET_BYTES; i++)
        raw[i] = (unsigned char)i;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], raw, sizeof raw), sizeof raw);
    close(ends[1]);
    assert_int_equal(ls_secret_read_fd(&got, ends[0], &err), LS_OK);
    assert_memory_equal(ls_secret_bytes(got), raw, sizeof raw);
    ls_secret_destroy(got);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    assert_int_equal(ls_secret_read_fd(&got, ends[0], &err), LS_E_IO);
    int null = open("/dev/null", O_RDONLY);
    assert_int_equal(ls_secret_read_fd(&got, null, &err), LS_E_REFUSED);
    close(null);
}

static void a_published_secret_is_fetched_until_it_is_withdrawn(void **state)
{
    (void)state;
    struct ls_secret *secret = make(), *got = NULL;
    uint8_t name[LS_SECRET_NAME], other[LS_SECRET_NAME];
    assert_int_equal(ls_secret_publish(secret, name, &err), LS_OK);
    assert_int_equal(ls_secret_fetch(&got, name, &err), LS_OK);
    assert_same(secret, got);
    ls_secret_destroy(got);
    memcpy(other, name, sizeof other);
    other[0] ^= 1;
    assert_int_equal(ls_secret_fetch(&got, other, &err), LS_E_REFUSED);
    ls_secret_withdraw(name);
    assert_int_equal(ls_secret_fetch(&got, name, &err), LS_E_REFUSED);
    ls_secret_destroy(secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_file_reads_back_and_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(only_private_regular_files_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(files_of_others_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_are_read_to_their_end_and_closed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_published_secret_is_fetched_until_it_is_withdrawn,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
