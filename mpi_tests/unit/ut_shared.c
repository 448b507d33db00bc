/* Memory shared between processes: what a reader accepts, and that nobody can change it. */
#include "base/shared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 3 * 4096 + 5 };

static void refused(struct ls_shared *made, uint64_t n, const char *why)
{
    struct ls_shared got;
    struct ls_err err;
    assert_int_equal(ls_shared_adopt(&got, (uint32_t)getpid(), made->fd, n, &err),
                     LS_E_REFUSED);
    assert_non_null(strstr(err.text, why));
    assert_null(got.bytes);
    ls_shared_finish(&got);
}

static void another_process_reads(void **state)
{
    (void)state;
    struct ls_shared made;
    struct ls_err err;
    int status = 0;
    assert_int_equal(ls_shared_create(&made, N, "a test", &err), LS_OK);
    memset(made.bytes, 7, N);
    refused(&made, N, "not frozen");
    assert_int_equal(ls_shared_freeze(&made, &err), LS_OK);
    refused(&made, N - 1, "has not the");
    const uint32_t maker = (uint32_t)getpid();
    const pid_t child = fork();
    if (child == 0) {
        struct ls_shared got;
        if (ls_shared_adopt(&got, maker, made.fd, N, NULL))
            _exit(1);
        int good = got.bytes[0] == 7 && got.bytes[N - 1] == 7;
        ls_shared_finish(&got);
        _exit(good ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ls_shared_finish(&made);
    assert_null(made.bytes);
}

static void frozen_is_frozen(void **state)
{
    (void)state;
    struct ls_shared made;
    assert_int_equal(ls_shared_create(&made, N, "a test", NULL), LS_OK);
    made.bytes[0] = 1;
    assert_int_equal(ls_shared_freeze(&made, NULL), LS_OK);
    assert_int_equal(pwrite(made.fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(made.fd, 1), -1);
    assert_ptr_equal(mmap(NULL, N, PROT_WRITE, MAP_SHARED, made.fd, 0), MAP_FAILED);
    assert_int_equal(mprotect(made.bytes, N, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(made.bytes[0], 1);
    ls_shared_finish(&made);
}

static void nothing_is_there(void **state)
{
    (void)state;
    struct ls_shared none = { .fd = 9999 };
    refused(&none, N, "/proc/");
    none.fd = -1;
    ls_shared_finish(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(another_process_reads),
                                        cmocka_unit_test(frozen_is_frozen),
                                        cmocka_unit_test(nothing_is_there) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
