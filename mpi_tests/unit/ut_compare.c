/* Comparison of two sets of tensors: npy reader, values and steps of each type, reports. */
#include "parity/compare.h"
#include "parity/element.h"
#include "parity/npy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/ut_compare.XXXXXX";
static struct ls_err err;

static char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *const path = paths[next++ & 3];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *head, size_t n_head, const void *data,
                       size_t n_data)
{
    FILE *const f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, n_head, f), n_head);
    assert_int_equal(fwrite(data, 1, n_data, f), n_data);
    assert_int_equal(fclose(f), 0);
}

/* An npy image in buf; returns its size. */
static size_t make_npy(char *buf, const char *dict, const void *data, size_t n)
{
    const size_t length = strlen(dict);
    memcpy(buf, "\x93NUMPY\x01\x00", 8);
    buf[8] = (char)(length & 255);
    buf[9] = (char)(length >> 8);
    memcpy(buf + 10, dict, length);
    memcpy(buf + 10 + length, data, n);
    return 10 + length + n;
}

static void write_npy(const char *name, const char *dict, const void *data, size_t n)
{
    static char buf[1 << 20];
    write_file(name, buf, make_npy(buf, dict, data, n), "", 0);
}

/* One safetensors file with tensor x of [rows][2] and nothing else. */
static void write_safetensors(const char *name, const char *dtype, int rows, const void *data,
                              size_t n)
{
    char head[256];
    const int length = snprintf(head + 8, sizeof head - 8,
                                "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d,2],"
                                "\"data_offsets\":[0,%zu]}}",
                                dtype, rows, n);
    const uint64_t length64 = (uint64_t)length;
    memcpy(head, &length64, 8);
    write_file(name, head, 8 + (size_t)length, data, n);
}

static ls_status compare(struct ls_comparison *c, const char *a, const char *b)
{
    struct ls_dump *x = NULL, *y = NULL;
    ls_status s = ls_dump_open(&x, path_of(a), &err);
    if (!s)
        s = ls_dump_open(&y, path_of(b), &err);
    if (!s)
        s = ls_compare(c, x, y, &err);
    ls_dump_close(x);
    ls_dump_close(y);
    return s;
}

static void npy_headers(void **state)
{
    (void)state;
    static const struct {
        const char *dict;
        int n_dims; /* -1: refused */
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n", 2 },
        { "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}", 1 },
        { "{\"descr\":\"<f8\",\"fortran_order\":False,\"shape\":()}", 0 },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", -1 },
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 1), }", -1 },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", -1 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", -1 },
        { "{'descr': '<f4', 'fortran_order': False}", -1 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), 'x': 1}", -1 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551617,), }", -1 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387906,), }", -1 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", -1 },
        { "{'descr': '<f4", -1 },
        { "", -1 },
    };
    const double data = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[256];
        struct ls_tensor t = { .name = "t" };
        const size_t n = make_npy(buf, cases[i].dict, &data, 8);
        const ls_status s = ls_npy_parse(&t, buf, n, &err);
        assert_int_equal(s, cases[i].n_dims < 0 ? LS_E_FORMAT : LS_OK);
        if (!s)
            assert_int_equal(t.n_dims, cases[i].n_dims);
        for (size_t cut = 0; cut < n && !s; cut++) {
            char *const part = malloc(cut ? cut : 1); /* so that a sanitizer sees the end */
            memcpy(part, buf, cut);
            assert_int_equal(ls_npy_parse(&t, part, cut, &err), LS_E_FORMAT);
            free(part);
        }
    }
}

static void elements(void **state)
{
    (void)state;
    const uint16_t half[] = { 0x3c00, 0xbc01, 0x0001, 0x7c00, 0x7e00, 0x7bff };
    assert_true(ls_element_value(half, LS_DTYPE_F16, 0) == 1);
    assert_true(ls_element_value(half, LS_DTYPE_F16, 1) == -1.0009765625);
    assert_true(ls_element_value(half, LS_DTYPE_F16, 2) == 0x1p-24);
    assert_true(isinf(ls_element_value(half, LS_DTYPE_F16, 3)));
    assert_true(isnan(ls_element_value(half, LS_DTYPE_F16, 4)));
    assert_true(ls_element_value(half, LS_DTYPE_F16, 5) == 65504);
    const uint16_t brain[] = { 0x3f80, 0xc000 };
    assert_true(ls_element_value(brain, LS_DTYPE_BF16, 1) == -2);
    assert_int_equal(ls_element_ulps(brain, half, LS_DTYPE_BF16, 0), 0x0380);
    const int8_t byte = -3;
    assert_true(ls_element_value(&byte, LS_DTYPE_I8, 0) == -3);
    const float a[] = { 0.0f, -0x1p-149f }, b[] = { -0.0f, 0x1p-149f };
    assert_int_equal(ls_element_ulps(a, b, LS_DTYPE_F32, 0), 0);
    assert_int_equal(ls_element_ulps(a, b, LS_DTYPE_F32, 1), 2);
}

static void finds_the_first_difference(void **state)
{
    (void)state;
    float x[20000], y[20000];
    for (int i = 0; i < 20000; i++)
        x[i] = y[i] = (float)i / 3;
    struct ls_comparison c;
    write_safetensors("a.safetensors", "F32", 10000, x, sizeof x);
    assert_int_equal(compare(&c, "a.safetensors", "a.safetensors"), LS_OK);
    assert_true(c.equal && c.n_tensors == 1 && c.n_elements == 20000 && !c.has_first);
    y[15001] = nextafterf(y[15001], 1e9f);
    y[17000] += 3;
    write_safetensors("b.safetensors", "F32", 10000, y, sizeof y);
    assert_int_equal(compare(&c, "a.safetensors", "b.safetensors"), LS_OK);
    assert_true(!c.equal && c.n_different == 2 && c.n_different_tensors == 1);
    assert_true(c.has_first && c.first_position == 7500 && c.first_element == 1);
    assert_string_equal(c.first_name, "x");
    assert_true(c.max_abs == 3 && fabs(c.rms - sqrt(9.0 / 20000)) < 1e-6);
    assert_true(c.max_ulp == 3 * 2048);
}

static void special_values(void **state)
{
    (void)state;
    const float x[] = { 0.0f, NAN, INFINITY, INFINITY },
                y[] = { -0.0f, 1, INFINITY, -INFINITY };
    struct ls_comparison c;
    write_npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", x, sizeof x);
    write_npy("b.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", y, sizeof y);
    assert_int_equal(compare(&c, "a.npy", "b.npy"), LS_OK);
    assert_true(!c.equal && c.n_different == 3 && c.n_nan == 1 && isinf(c.max_abs));
    assert_true(c.first_position == 0);
    assert_true(c.n_zero == 1 && c.n_measured == 1 && c.has_distance && c.has_ulp);
}

/* What cannot be measured is not 0. */
static void unmeasured_values(void **state)
{
    (void)state;
    static const uint32_t bits[] = { 0x7fc00001, 0x7fc00002, 0x80000000, 0, 0x3f800000 };
    static const struct {
        int a[2], b[2];
        uint64_t n_nan, n_nan_bits, n_zero;
        bool has_distance, has_ulp;
    } cases[] = {
        { { 4, 4 }, { 4, 4 }, 0, 0, 0, true, true },
        { { 0, 4 }, { 4, 4 }, 1, 0, 0, false, false },
        { { 0, 4 }, { 1, 4 }, 0, 1, 0, false, false },
        { { 2, 4 }, { 3, 4 }, 0, 0, 1, false, false },
        { { 2, 0 }, { 3, 1 }, 0, 1, 1, false, false },
        { { 2, 3 }, { 3, 4 }, 0, 0, 1, true, true },
    };
    const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    struct ls_comparison c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t a[2], b[2];
        for (int e = 0; e < 2; e++) {
            a[e] = bits[cases[i].a[e]];
            b[e] = bits[cases[i].b[e]];
        }
        write_npy("a.npy", header, a, sizeof a);
        write_npy("b.npy", header, b, sizeof b);
        assert_int_equal(compare(&c, "a.npy", "b.npy"), LS_OK);
        if (c.n_nan != cases[i].n_nan || c.n_nan_bits != cases[i].n_nan_bits ||
            c.n_zero != cases[i].n_zero || c.has_distance != cases[i].has_distance ||
            c.has_ulp != cases[i].has_ulp)
            fail_msg("case %zu: %d %d", i, c.has_distance, c.has_ulp);
    }
}

static void other_types_and_shapes_are_never_equal(void **state)
{
    (void)state;
    const float x[] = { 1, 2, 3, 4 };
    const double wide[] = { 1, 2, 3, 4 }, off[] = { 1, 2, 3, 5 };
    struct ls_comparison c;
    write_safetensors("a.safetensors", "F32", 2, x, sizeof x);
    write_safetensors("b.safetensors", "F64", 2, wide, sizeof wide);
    assert_int_equal(compare(&c, "a.safetensors", "b.safetensors"), LS_OK);
    assert_true(!c.equal && c.n_mismatched == 1 && c.n_different == 0);
    assert_true(c.has_distance && c.max_abs == 0 && !c.has_ulp);
    assert_non_null(strstr(c.first_mismatch, "'x' has another type in B"));
    write_safetensors("b.safetensors", "F64", 2, off, sizeof off);
    assert_int_equal(compare(&c, "a.safetensors", "b.safetensors"), LS_OK);
    assert_true(c.n_different == 1 && c.has_distance && c.max_abs == 1 && !c.has_ulp);
    write_safetensors("b.safetensors", "F32", 1, x, sizeof x / 2);
    assert_int_equal(compare(&c, "a.safetensors", "b.safetensors"), LS_OK);
    assert_true(!c.equal && c.n_tensors == 0);
    assert_non_null(strstr(c.first_mismatch, "another shape"));
    write_safetensors("a.safetensors", "F8_E4M3", 2, "abcd", 4);
    write_safetensors("b.safetensors", "F8_E4M3", 2, "abdd", 4);
    assert_int_equal(compare(&c, "a.safetensors", "b.safetensors"), LS_OK);
    assert_true(!c.equal && c.first_position == 1 && c.first_element == 0);
    assert_true(!c.has_distance && !c.has_ulp);
}

static void write_index(const char *text)
{
    mkdir(path_of("dump"), 0777);
    write_file("dump/index.json", text, strlen(text), "", 0);
}

static void folders_have_names_and_positions(void **state)
{
    (void)state;
    const float x[] = { 1, 2, 3, 4 };
    struct ls_comparison c;
    write_index("{\"r\":{\"file\":\"l.safetensors\",\"tensor\":\"x\",\"first_position\":5,"
                "\"rows\":2},\"s\":{\"file\":\"l.npy\",\"tensor\":null,\"first_position\":0,"
                "\"rows\":1}}");
    write_safetensors("dump/l.safetensors", "F32", 2, x, sizeof x);
    write_npy("dump/l.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)}", x,
              sizeof x);
    assert_int_equal(compare(&c, "dump", "dump"), LS_OK);
    assert_true(c.equal && c.n_tensors == 2 && c.n_elements == 8);
    write_safetensors("a.safetensors", "F32", 2, x, sizeof x);
    assert_int_equal(compare(&c, "dump", "a.safetensors"), LS_OK);
    assert_true(!c.equal && c.n_only_a == 2 && c.n_only_b == 1);
    assert_non_null(strstr(c.first_mismatch, "'r' is only in A"));
}

static void broken_folders_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index, *part;
    } cases[] = {
        { "[1]", "not an object" },
        { "{", "index.json: " },
        { "{\"r\":{\"file\":\"../a.npy\",\"tensor\":null,\"first_position\":0,\"rows\":1}}",
          "names the file '../a.npy'" },
        { "{\"r\":{\"file\":\"a/b\",\"tensor\":null,\"first_position\":0,\"rows\":1}}", "a/b" },
        { "{\"r\":{\"file\":\"l.npy\",\"tensor\":3,\"first_position\":0,\"rows\":1}}",
          "'r' is not" },
        { "{\"r\":{\"file\":\"l.npy\",\"tensor\":null,\"first_position\":-1,\"rows\":1}}",
          "'r'" },
        { "{\"r\":{\"file\":\"l.npy\",\"tensor\":null,\"first_position\":0,\"rows\":3}}",
          "has 1 rows, index.json says 3" },
        { "{\"r\":{\"file\":\"l.safetensors\",\"tensor\":\"y\",\"first_position\":0,\"rows\":2}"
          "}",
          "no tensor 'y'" },
        { "{\"r\":{\"file\":\"gone\",\"tensor\":\"y\",\"first_position\":0,\"rows\":2}}",
          "gone" },
        { "{\"r\":1,\"r\":2}", "duplicate" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ls_comparison c;
        write_index(cases[i].index);
        assert_int_not_equal(compare(&c, "dump", "dump"), LS_OK);
        if (!strstr(err.text, cases[i].part))
            fail_msg("'%s', expected '%s' in it", err.text, cases[i].part);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {
        "a.safetensors", "b.safetensors",     "a.npy", "b.npy", "dump/index.json",
        "dump/l.npy",    "dump/l.safetensors"
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    rmdir(path_of("dump"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_headers),
        cmocka_unit_test(elements),
        cmocka_unit_test(finds_the_first_difference),
        cmocka_unit_test(special_values),
        cmocka_unit_test(unmeasured_values),
        cmocka_unit_test(other_types_and_shapes_are_never_equal),
        cmocka_unit_test(folders_have_names_and_positions),
        cmocka_unit_test(broken_folders_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
