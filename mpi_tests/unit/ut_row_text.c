/* What rows are written with: numbers, strings, lines in and the buffer that orders them. */
#include "job_rig.h"

#include "base/philox.h"
#include "jobs/float_text.h"
#include "jobs/id_set.h"
#include "jobs/lines.h"
#include "jobs/out.h"
#include "jobs/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- numbers ---------------------------------------------------------------------------------
 */

static void is_text(double x, const char *expected)
{
    char text[LS_FLOAT_TEXT];
    int n = ls_float_text(text, x);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
}

/* Expected texts are Python's repr of the same numbers. */
static void known_floats(void **state)
{
    (void)state;
    is_text(0, "0.0");
    is_text(-0.0, "-0.0");
    is_text(1, "1.0");
    is_text(-9999, "-9999.0");
    is_text(0.1, "0.1");
    is_text(0.1 + 0.2, "0.30000000000000004");
    is_text(-1.2345678901234567, "-1.2345678901234567");
    is_text(1e15, "1000000000000000.0");
    is_text(1234567890123456, "1234567890123456.0");
    is_text(1e16, "1e+16");
    is_text(0.0001, "0.0001");
    is_text(0.00001, "1e-05");
    is_text(0.00012345, "0.00012345");
    is_text(1.5e-7, "1.5e-07");
    is_text(5e-324, "5e-324");
    is_text(2.2250738585072014e-308, "2.2250738585072014e-308");
    is_text(1.7976931348623157e308, "1.7976931348623157e+308");
    is_text(123456.789, "123456.789");
    is_text(9007199254740992, "9007199254740992.0");
    is_text(ldexp(1, -44), "5.684341886080802e-14");
    is_text(ldexp(1, 122), "5.316911983139664e+36");
    is_text(1e23, "1e+23");
    is_text(9.5e-3, "0.0095");
}

static int n_digits(const char *text)
{
    int n = 0, zeros = 0, started = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        started |= *text != '0';
        n += started;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return n - zeros > 0 ? n - (zeros < n ? zeros : n) : 1;
}

static void check_float(double x)
{
    char text[LS_FLOAT_TEXT], other[64];
    ls_float_text(text, x);
    if (strtod(text, NULL) != x)
        fail_msg("%s reads back as another number than %a", text, x);
    for (int n = 1; n < n_digits(text); n++) {
        snprintf(other, sizeof other, "%.*e", n - 1, x);
        if (strtod(other, NULL) == x)
            fail_msg("%s for %a, but %s is shorter", text, x, other);
    }
}

static void random_floats(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 60000; i++) {
        union {
            uint64_t u;
            double d;
        } bits;
        bits.u = (uint64_t)(ls_philox_uniform(3, 2 * i) * 0x1p53) << 11 ^
                 (uint64_t)(ls_philox_uniform(3, 2 * i + 1) * 0x1p53);
        if (isfinite(bits.d))
            check_float(bits.d);
        check_float(-ls_philox_uniform(4, i) * 20);
        check_float((double)(float)(ls_philox_uniform(5, i) * 1e-3));
    }
    for (int e = -1074; e < 1024; e++)
        check_float(ldexp(1, e));
}

static void written(const char *expected, size_t n, const char *in)
{
    struct ls_out o = { 0 };
    ls_out_string(&o, in, n);
    ls_out_add(&o, "", 1);
    assert_false(o.failed);
    assert_string_equal(o.data, expected);
    ls_out_finish(&o);
}

static void strings(void **state)
{
    (void)state;
    written("\"\"", 0, "");
    written("\"a\\\"b\\\\c/\"", 6, "a\"b\\c/");
    written("\"\\n\\t\\r\\b\\f\\u0001\\u001f\\u0000\\u007f\"", 9, "\n\t\r\b\f\x01\x1f\0\x7f");
    written("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", 9,
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    written("\"\\u2028\\u2029\\u0085\"", 8, "\xe2\x80\xa8\xe2\x80\xa9\xc2\x85");
    written("\"a\xef\xbf\xbd"
            "b\xef\xbf\xbd\"",
            4,
            "a\xff"
            "b\xe2");
    written("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", 3, "\xed\xa0\x80");
}

static void not_numbers(void **state)
{
    (void)state;
    struct ls_out o = { 0 };
    ls_out_f64(&o, -INFINITY);
    ls_out_text(&o, " ");
    ls_out_f64(&o, INFINITY);
    ls_out_text(&o, " ");
    ls_out_f64(&o, NAN);
    ls_out_add(&o, "", 1);
    assert_string_equal(o.data, "-9999.0 9999.0 null");
    ls_out_finish(&o);
}

/* --- lines -----------------------------------------------------------------------------------
 */

static int pipe_of(const char *data, size_t n, char folder[256])
{
    rig_folder_new(folder);
    rig_write(rig_in(folder, "in"), data, n);
    int fd = open(rig_in(folder, "in"), O_RDONLY);
    assert_true(fd >= 0);
    return fd;
}

static void is_lines(const char *data, size_t n, const char *const *expected, size_t n_expected)
{
    char folder[256];
    struct ls_lines lines;
    struct ls_line line;
    bool more;
    int fd = pipe_of(data, n, folder);
    ls_lines_init(&lines, fd, "in");
    for (size_t i = 0; i < n_expected; i++) {
        assert_int_equal(ls_lines_next(&lines, &line, &more, NULL), LS_OK);
        assert_true(more);
        assert_int_equal(line.number, i + 1);
        assert_int_equal(line.n, strlen(expected[i]));
        assert_memory_equal(line.data, expected[i], line.n);
    }
    assert_int_equal(ls_lines_next(&lines, &line, &more, NULL), LS_OK);
    assert_false(more);
    ls_lines_finish(&lines);
    close(fd);
    rig_folder_drop(folder);
}

static void line_ends(void **state)
{
    (void)state;
    const char *abc[] = { "a", "b", "c" }, *gaps[] = { "", "a", "", "" };
    is_lines("a\nb\nc\n", 6, abc, 3);
    is_lines("a\r\nb\nc", 6, abc, 3);
    is_lines("\xef\xbb\xbf"
             "a\nb\r\nc\r",
             10, abc, 3);
    is_lines("\na\n\n\r\n", 6, gaps, 4);
    is_lines("", 0, NULL, 0);
    is_lines("\xef\xbb\xbf", 3, NULL, 0);
    const char *mark[] = { "a", "\xef\xbb\xbf"
                                "b" };
    is_lines("a\n\xef\xbb\xbf"
             "b",
             6, mark, 2);
}

/* Lines around every limit: a block, LS_MAX_LINE, with and without CR. */
static void long_lines(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1,
                                    262143,
                                    262144,
                                    262145,
                                    600000,
                                    LS_MAX_LINE - 1,
                                    LS_MAX_LINE,
                                    LS_MAX_LINE + 1,
                                    LS_MAX_LINE + 300000,
                                    5 };
    const size_t n = sizeof sizes / sizeof sizes[0];
    char folder[256];
    rig_folder_new(folder);
    FILE *f = fopen(rig_in(folder, "in"), "wb");
    char *a = malloc(2 * (size_t)LS_MAX_LINE);
    memset(a, 'a', 2 * (size_t)LS_MAX_LINE);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fwrite(a, 1, sizes[i], f), sizes[i]);
        fputs(i % 2 ? "\r\n" : "\n", f);
    }
    fclose(f);
    int fd = open(rig_in(folder, "in"), O_RDONLY);
    struct ls_lines lines;
    struct ls_line line;
    bool more;
    ls_lines_init(&lines, fd, "in");
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ls_lines_next(&lines, &line, &more, NULL), LS_OK);
        assert_true(more);
        assert_int_equal(line.number, i + 1);
        assert_int_equal(line.too_long, sizes[i] > LS_MAX_LINE);
        assert_int_equal(line.n, line.too_long ? 0 : sizes[i]);
    }
    assert_int_equal(ls_lines_next(&lines, &line, &more, NULL), LS_OK);
    assert_false(more);
    assert_true(lines.cap <= 4 * (size_t)LS_MAX_LINE);
    ls_lines_finish(&lines);
    close(fd);
    free(a);
    rig_folder_drop(folder);
}

static void unreadable_input(void **state)
{
    (void)state;
    struct ls_lines lines;
    struct ls_line line;
    struct ls_err err = { 0 };
    bool more;
    int fd = open("/", O_RDONLY);
    ls_lines_init(&lines, fd, "the input");
    assert_int_equal(ls_lines_next(&lines, &line, &more, &err), LS_E_IO);
    assert_non_null(strstr(err.text, "the input"));
    ls_lines_finish(&lines);
    close(fd);
}

/* --- ids and order ---------------------------------------------------------------------------
 */

static void ids_seen_twice(void **state)
{
    (void)state;
    char folder[256], id[32];
    struct ls_id_set set;
    bool fresh;
    unsigned char digest[LS_ID_BYTES];
    rig_folder_new(folder);
    ls_id_set_init(&set, folder);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 12000; i++) { /* grows twice */
            int n = snprintf(id, sizeof id, "id %d", i);
            ls_id_digest(digest, id, (size_t)n);
            assert_int_equal(ls_id_set_add(&set, digest, &fresh, NULL), LS_OK);
            assert_int_equal(fresh, pass == 0);
        }
    ls_id_digest(digest, "", 0);
    assert_int_equal(ls_id_set_add(&set, digest, &fresh, NULL), LS_OK);
    assert_true(fresh);
    assert_int_equal(set.n_used, 12001);
    ls_id_set_finish(&set);
    assert_int_equal(rmdir(folder), 0); /* it left nothing behind */
}

static void progress_texts(void **state)
{
    (void)state;
    struct ls_progress_state p;
    char text[LS_PROGRESS_TEXT];
    struct ls_progress_counts c = { .rows = 25, .running = 4, .tokens = 500 };
    ls_progress_init(&p, LS_PROGRESS_BAR, 2, 100, 0);
    ls_progress_text(text, &p, &c, 10000000);
    assert_string_equal(text, "[######------------------] 25 of 100 rows, 4 running, "
                              "50.0 tokens/s, ETA 0:30");
    /* an earlier run's rows took no time; what runs has part of its tokens behind it */
    c.resumed_rows = 5;
    ls_progress_text(text, &p, &c, 10000000);
    assert_non_null(strstr(text, ", ETA 0:38"));
    c.done_tokens = 400;
    ls_progress_text(text, &p, &c, 10000000);
    assert_non_null(strstr(text, ", ETA 0:28"));
    ls_progress_init(&p, LS_PROGRESS_PLAIN, 2, 0, 0);
    c.error_rows = 3;
    ls_progress_text(text, &p, &c, 0);
    assert_string_equal(text, "25 rows, 4 running, 0.0 tokens/s, 3 error rows");
    c = (struct ls_progress_counts){ .rows = 1 };
    ls_progress_init(&p, LS_PROGRESS_PLAIN, 2, 3601, 0);
    ls_progress_text(text, &p, &c, 2000000);
    assert_string_equal(text, "1 of 3601 rows, 0 running, 0.0 tokens/s, ETA 2:00:00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_floats),     cmocka_unit_test(random_floats),
        cmocka_unit_test(strings),          cmocka_unit_test(not_numbers),
        cmocka_unit_test(line_ends),        cmocka_unit_test(long_lines),
        cmocka_unit_test(unreadable_input), cmocka_unit_test(ids_seen_twice),
        cmocka_unit_test(progress_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
