/* Logits kept as differences: what is written reads back, an equal set costs nothing, and every
 * damaged byte is noticed. */
#include "base/philox.h"
#include "parity/dump.h"
#include "parity/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { COLUMNS = 33, ROWS = 5 };

static char folder[] = "/tmp/ut_store.XXXXXX";
static struct ls_err err;
static float reference[ROWS + 2][COLUMNS], arm[ROWS + 2][COLUMNS];

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *const path = paths[next++ & 3];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* One safetensors file with the tensor x [rows][COLUMNS]. */
static void write_reference(int rows)
{
    char header[160];
    const size_t bytes = (size_t)rows * sizeof reference[0];
    int n = snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]}}",
                     rows, COLUMNS, bytes);
    const uint64_t length = (uint64_t)n;
    FILE *const f = fopen(path_of("reference.safetensors"), "wb");
    assert_non_null(f);
    fwrite(&length, 8, 1, f);
    fwrite(header, 1, (size_t)n, f);
    fwrite(reference, 1, bytes, f);
    assert_int_equal(fclose(f), 0);
}

static void fill(void)
{
    for (int i = 0; i < (ROWS + 2) * COLUMNS; i++)
        reference[i / COLUMNS][i % COLUMNS] = (float)ls_philox_uniform(7, (uint64_t)i) - 0.5f;
    memcpy(arm, reference, sizeof arm);
}

static void digest_of_reference(unsigned char digest[32])
{
    struct ls_dump *d;
    assert_int_equal(ls_dump_open(&d, path_of("reference.safetensors"), &err), LS_OK);
    assert_int_equal(ls_dump_digest(d, digest, &err), LS_OK);
    ls_dump_close(d);
}

/* The arm's rows against those that the reference has; an entry y that it has not. */
static void write_store(int rows, int partners, bool alone)
{
    unsigned char digest[32];
    struct ls_store_writer *w;
    digest_of_reference(digest);
    assert_int_equal(
        ls_store_create(&w, path_of("arm.diff"), "reference.safetensors", digest, &err), LS_OK);
    assert_int_equal(ls_store_entry(w, "x", 0, (uint64_t)rows, COLUMNS, &err), LS_OK);
    for (int r = 0; r < rows; r++)
        assert_int_equal(
            ls_store_row(w, (uint64_t)r, arm[r], r < partners ? reference[r] : NULL, &err),
            LS_OK);
    if (alone) {
        assert_int_equal(ls_store_entry(w, "y", 4, 1, COLUMNS, &err), LS_OK);
        assert_int_equal(ls_store_row(w, 0, arm[1], NULL, &err), LS_OK);
    }
    assert_int_equal(ls_store_close(w, &err), LS_OK);
}

static void expect_rows(int rows, bool alone)
{
    struct ls_dump *d;
    struct ls_tensor t;
    assert_int_equal(ls_dump_open(&d, path_of("arm.diff"), &err), LS_OK);
    assert_int_equal(ls_dump_n(d), 1 + alone);
    assert_int_equal(ls_dump_view(d, 0, &t, &err), LS_OK);
    assert_int_equal(t.dims[0], rows);
    assert_int_equal(t.dims[1], COLUMNS);
    assert_memory_equal(t.data, arm, t.bytes);
    ls_dump_release(d, t.data, t.bytes); /* also of rows that were made anew */
    if (alone) {
        assert_int_equal(ls_dump_view(d, 1, &t, &err), LS_OK);
        assert_memory_equal(t.data, arm[1], sizeof arm[1]);
        assert_int_equal(ls_dump_entry(d, 1)->first_position, 4);
    }
    ls_dump_close(d);
}

static long size_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(path_of(name), &st), 0);
    return (long)st.st_size;
}

static void round_trips(void **state)
{
    (void)state;
    fill();
    write_reference(ROWS);
    write_store(ROWS, ROWS, false);
    assert_true(size_of("arm.diff") < 200); /* equal: no row */
    expect_rows(ROWS, false);
    arm[0][3] += 0.25f;
    arm[3][0] = -arm[3][0];
    write_store(ROWS, ROWS, true);
    expect_rows(ROWS, true);
    write_store(ROWS - 2, ROWS, false); /* fewer rows than the reference */
    expect_rows(ROWS - 2, false);
    write_store(ROWS + 2, ROWS, false); /* more */
    expect_rows(ROWS + 2, false);
}

/* One bit anywhere in the file, and the file cut anywhere. */
static void notices_damage(void **state)
{
    static unsigned char image[8192];
    (void)state;
    fill();
    write_reference(ROWS);
    arm[2][2] = 9;
    write_store(ROWS, ROWS, true);
    FILE *const f = fopen(path_of("arm.diff"), "rb");
    const size_t n = fread(image, 1, sizeof image, f);
    fclose(f);
    struct ls_arena arena;
    struct ls_store store;
    ls_arena_init(&arena);
    assert_int_equal(ls_store_parse(&store, image, n, &arena, &err), LS_OK);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        image[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(ls_store_parse(&store, image, n, &arena, &err), LS_E_FORMAT);
        image[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t k = 0; k < n; k++)
        assert_int_equal(ls_store_parse(&store, image, k, &arena, &err), LS_E_FORMAT);
    ls_arena_finish(&arena);
}

/* A reference that is another one, that is not there, or that is a store itself. */
static void knows_its_reference(void **state)
{
    unsigned char digest[32] = { 0 };
    struct ls_dump *d;
    struct ls_store_writer *w;
    (void)state;
    fill();
    write_reference(ROWS);
    write_store(ROWS, ROWS, false);
    reference[1][1] += 1;
    write_reference(ROWS);
    assert_int_equal(ls_dump_open(&d, path_of("arm.diff"), &err), LS_E_FORMAT);
    assert_non_null(strstr(err.text, "is not the one that it was made with"));
    assert_int_equal(ls_store_create(&w, path_of("two.diff"), "arm.diff", digest, &err), LS_OK);
    assert_int_equal(ls_store_close(w, &err), LS_OK);
    reference[1][1] -= 1;
    write_reference(ROWS);
    assert_int_equal(ls_dump_open(&d, path_of("two.diff"), &err), LS_E_FORMAT);
    assert_int_equal(ls_store_create(&w, path_of("self.diff"), "self.diff", digest, &err),
                     LS_OK);
    assert_int_equal(ls_store_close(w, &err), LS_OK);
    assert_int_equal(ls_dump_open(&d, path_of("self.diff"), &err), LS_E_FORMAT);
    unlink(path_of("reference.safetensors"));
    assert_int_equal(ls_dump_open(&d, path_of("arm.diff"), &err), LS_E_IO);
}

/* A store that claims rows that nobody has is refused before memory is taken for them. */
static void lacks_rows(void **state)
{
    unsigned char digest[32];
    struct ls_store_writer *w;
    struct ls_dump *d;
    struct ls_tensor t;
    (void)state;
    fill();
    write_reference(ROWS);
    digest_of_reference(digest);
    assert_int_equal(
        ls_store_create(&w, path_of("arm.diff"), "reference.safetensors", digest, &err), LS_OK);
    assert_int_equal(ls_store_entry(w, "x", 0, (uint64_t)1 << 40, COLUMNS, &err), LS_OK);
    assert_int_equal(ls_store_close(w, &err), LS_OK);
    assert_int_equal(ls_dump_open(&d, path_of("arm.diff"), &err), LS_OK);
    assert_int_equal(ls_dump_view(d, 0, &t, &err), LS_E_FORMAT);
    assert_non_null(strstr(err.text, "lacks rows"));
    ls_dump_close(d);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "reference.safetensors", "arm.diff", "two.diff",
                                         "self.diff" };
    (void)state;
    for (int i = 0; i < 4; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(notices_damage),
        cmocka_unit_test(knows_its_reference),
        cmocka_unit_test(lacks_rows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
