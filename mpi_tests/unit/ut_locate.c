/* The locator with arms made up by the test: what it asks for, and what it makes of the
 * answers; distances between values; files of probes. */
#include "model_rig.h"

#include "parity/locate.h"
#include "parity/probe_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, N = 3, WIDTH = 4, REQUESTS = 2 };

/* What an arm has: the first layer whose output is its own, and where. */
struct fake {
    int number;       /* 1, 2 */
    int bad_layer;    /* LAYERS: the head; -1: none */
    uint32_t bad_row; /* from here on */
    bool extra_op;    /* has a norm of queries */
    bool only_whole;  /* differs only where the whole prompt is given */
    bool other_token; /* of request 1 */
    bool no_rows;     /* of request 1 */
    int asked[3];     /* questions by kind */
};

static bool differs(const struct fake *f, int layer, uint32_t row, uint32_t n)
{
    return f->bad_layer >= 0 && layer >= f->bad_layer && row >= f->bad_row &&
           (!f->only_whole || n == N);
}

static void put(struct ls_probe_writer *w, size_t i, const char *name, enum ls_dtype dtype,
                uint32_t rows, uint32_t columns, const void *data)
{
    struct ls_probe_tensor shape = { .dtype = dtype, .rows = rows, .columns = columns };
    snprintf(shape.name, sizeof shape.name, "%s", name);
    for (uint32_t r = 0; r < rows; r++)
        ls_probe_put(w, i, &shape, r, 0, columns,
                     (const char *)data + (size_t)r * columns * ls_dtype_bytes(dtype));
}

static void put_values(struct ls_probe_writer *w, size_t i, const char *name, uint32_t rows,
                       const struct fake *f, int layer, uint32_t n)
{
    float x[N * WIDTH];
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < WIDTH; c++)
            x[r * WIDTH + c] = 1 + (float)(differs(f, layer, r, n) && c == 2) * 0x1p-7f;
    put(w, i, name, LS_DTYPE_F32, rows, WIDTH, x);
}

static void put_rows(struct ls_probe_writer *w, size_t base, size_t request, struct fake *f)
{
    char name[LS_PROBE_NAME];
    int32_t ids[N] = { 5, 6, 7 };
    unsigned char digests[N][32] = { { 0 } };
    if (request == 1 && f->other_token)
        ids[1] = 9;
    for (uint32_t r = 0; r < N; r++)
        digests[r][31] = request == 1 && differs(f, LAYERS, r, N);
    snprintf(name, sizeof name, "ids.%zu", request);
    put(w, base, name, LS_DTYPE_I32, N, 1, ids);
    snprintf(name, sizeof name, "rows.%zu", request);
    if (!f->no_rows || request == 0)
        put(w, base + 1, name, LS_DTYPE_U8, N, 32, digests);
}

static ls_status answer(void *arg, const struct ls_probe_wish *wish, const char *path,
                        struct ls_err *err)
{
    struct fake *const f = arg;
    struct ls_probe_writer w;
    char name[LS_PROBE_NAME];
    const uint32_t n = wish->n ? wish->n : N;
    f->asked[wish->kind]++;
    assert_int_equal(ls_probe_writer_open(&w, path, LS_N_OPS, err), LS_OK);
    if (wish->kind == LS_PROBE_ROWS)
        for (size_t i = 0; i < REQUESTS; i++)
            put_rows(&w, 2 * i, i, f);
    for (int k = 0; wish->kind == LS_PROBE_LAYERS && k <= LAYERS; k++) {
        snprintf(name, sizeof name, "hidden_states.%d", k);
        put_values(&w, (size_t)k, name, n, f, k - 1, n);
    }
    if (wish->kind == LS_PROBE_OPERATIONS) {
        assert_int_equal(wish->request, 1);
        put_values(&w, LS_OP_Q, "q", n, f, -1, n);
        if (f->extra_op)
            put_values(&w, LS_OP_Q_NORM, "q_norm", n, f, -1, n);
        put_values(&w, LS_OP_ATTENTION, "attention", n, f, wish->layer, n);
        put_values(&w, LS_OP_HIDDEN, "hidden", n, f, wish->layer, n);
    }
    return ls_probe_writer_close(&w, err);
}

static ls_status run(struct ls_location *out, struct fake *a, struct fake *b,
                     const char *folder, struct ls_err *err)
{
    const struct ls_locate_config config = { .arms = { { answer, a }, { answer, b } },
                                             .folder = folder,
                                             .n_requests = REQUESTS,
                                             .n_layers = LAYERS,
                                             .dtype = { LS_FMT_BF16, LS_FMT_BF16 } };
    return ls_locate(out, &config, err);
}

/* --- the locator -----------------------------------------------------------------------------
 */

static void equal_is_one_question(void **state)
{
    struct rig_folder folder;
    struct ls_location l;
    struct ls_err err;
    struct fake a = { .number = 1, .bad_layer = -1 }, b = { .number = 2, .bad_layer = -1 };
    (void)state;
    rig_folder_make(&folder);
    assert_int_equal(run(&l, &a, &b, folder.path, &err), LS_OK);
    assert_int_equal(l.apart, LS_APART_NOT);
    assert_int_equal(a.asked[LS_PROBE_ROWS], 1);
    assert_int_equal(a.asked[LS_PROBE_LAYERS] + a.asked[LS_PROBE_OPERATIONS], 0);
    ls_location_finish(&l);
    rig_folder_remove(&folder);
}

static void layer_and_operation(void **state)
{
    struct rig_folder folder;
    struct ls_location l;
    struct ls_err err;
    struct fake a = { .number = 1, .bad_layer = -1 };
    struct fake b = { .number = 2, .bad_layer = 1, .bad_row = 1 };
    (void)state;
    rig_folder_make(&folder);
    assert_int_equal(run(&l, &a, &b, folder.path, &err), LS_OK);
    assert_int_equal(l.apart, LS_APART_OP);
    assert_int_equal(l.request, 1);
    assert_int_equal(l.position, 1);
    assert_int_equal(l.layer, 1);
    assert_int_equal(l.op, LS_OP_ATTENTION);
    assert_int_equal(l.gap.row, 1);
    assert_int_equal(l.gap.column, 2);
    assert_true(l.gap.has_ulps && l.gap.ulps == 1 && l.gap.ulp_of == LS_FMT_BF16);
    assert_int_equal(l.growth[1].gap.n_different, 0);
    assert_int_equal(l.growth[2].gap.n_different, 1);
    assert_false(l.growth[3].compared); /* no arm wrote a final norm */
    assert_false(l.looks_ahead);
    ls_location_finish(&l);
    rig_folder_remove(&folder);
}

static void an_operation_of_one_arm(void **state)
{
    struct rig_folder folder;
    struct ls_location l;
    struct ls_err err;
    struct fake a = { .number = 1, .bad_layer = -1, .extra_op = true };
    struct fake b = { .number = 2, .bad_layer = 0 };
    (void)state;
    rig_folder_make(&folder);
    assert_int_equal(run(&l, &a, &b, folder.path, &err), LS_OK);
    assert_int_equal(l.op, LS_OP_Q_NORM);
    assert_int_equal(l.only_in, 1);
    ls_location_finish(&l);
    rig_folder_remove(&folder);
}

static void later_tokens(void **state)
{
    struct rig_folder folder;
    struct ls_location l;
    struct ls_err err;
    struct fake a = { .number = 1, .bad_layer = -1 };
    struct fake b = { .number = 2, .bad_layer = 0, .only_whole = true };
    (void)state;
    rig_folder_make(&folder);
    assert_int_equal(run(&l, &a, &b, folder.path, &err), LS_OK);
    assert_true(l.looks_ahead);
    assert_int_equal(l.op, LS_OP_ATTENTION);
    assert_int_equal(b.asked[LS_PROBE_OPERATIONS], 2);
    ls_location_finish(&l);
    rig_folder_remove(&folder);
}

static void tokens_and_missing_rows(void **state)
{
    struct rig_folder folder;
    struct ls_location l;
    struct ls_err err;
    struct fake a = { .number = 1, .bad_layer = -1 };
    struct fake b = { .number = 2, .bad_layer = -1, .other_token = true };
    (void)state;
    rig_folder_make(&folder);
    assert_int_equal(run(&l, &a, &b, folder.path, &err), LS_OK);
    assert_int_equal(l.apart, LS_APART_TOKENS);
    assert_int_equal(l.position, 1);
    assert_int_equal(l.tokens[0], 6);
    assert_int_equal(l.tokens[1], 9);
    ls_location_finish(&l);
    b = (struct fake){ .number = 2, .bad_layer = -1, .no_rows = true };
    rig_expect(run(&l, &a, &b, folder.path, &err), &err, LS_E_FORMAT, "arm 2", "request 1",
               NULL);
    rig_folder_remove(&folder);
}

/* --- distances -------------------------------------------------------------------------------
 */

static void ulps(void **state)
{
    static const struct {
        float x, y;
        enum ls_fmt d;
        bool held;
        uint64_t ulps;
    } cases[] = {
        { 1, 1 + 0x1p-23f, LS_FMT_F32, true, 1 },
        { 0.0f, -0.0f, LS_FMT_F32, true, 0 },
        { -1, 1, LS_FMT_BF16, true, 2 * 0x3f80 },
        { 1, 1 + 0x1p-7f, LS_FMT_BF16, true, 1 },
        { 1, 1 + 0x1p-8f, LS_FMT_BF16, false, 0 },
        { 1, 1 + 0x1p-10f, LS_FMT_F16, true, 1 },
        { 0, 0x1p-24f, LS_FMT_F16, true, 1 },
        { 0x1p-15f, 0x1p-14f, LS_FMT_F16, true, 512 },
        { 1, 1 + 0x1p-11f, LS_FMT_F16, false, 0 },
        { 65504, 65536, LS_FMT_F16, false, 0 },
        { 0, 0x1p-25f, LS_FMT_F16, false, 0 },
        { 0x1p-14f, -0x1p-14f, LS_FMT_F16, true, 2048 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t n = 0;
        assert_int_equal(ls_gap_ulps(cases[i].x, cases[i].y, cases[i].d, &n), cases[i].held);
        if (cases[i].held)
            assert_int_equal(n, cases[i].ulps);
    }
}

static struct ls_tensor tensor(const float *x, uint64_t rows, uint64_t columns)
{
    return (struct ls_tensor){ .name = "x",
                               .dtype = LS_DTYPE_F32,
                               .n_dims = 2,
                               .dims = { rows, columns },
                               .data = (const unsigned char *)x,
                               .bytes = rows * columns * sizeof *x };
}

static void gaps(void **state)
{
    const float a[6] = { 1, 2, 3, 4, NAN, 0 }, b[6] = { 1, 2, 3.5f, 4, 1, -0.0f };
    const struct ls_tensor x = tensor(a, 3, 2), y = tensor(b, 3, 2), narrow = tensor(b, 3, 1);
    struct ls_gap gap;
    (void)state;
    ls_gap_measure(&gap, &x, &y, 2, LS_FMT_F32);
    assert_int_equal(gap.n, 4);
    assert_int_equal(gap.n_different, 1);
    assert_true(gap.row == 1 && gap.column == 0 && gap.a == 3 && gap.b == 3.5);
    assert_true(gap.max_abs == 0.5 && gap.rms == 0.25 && gap.relative == sqrt(0.25 / 30));
    ls_gap_measure(&gap, &x, &y, UINT64_MAX, LS_FMT_F32);
    assert_int_equal(gap.n_different, 3); /* -0 is other bits */
    assert_int_equal(gap.n_unmeasured, 1);
    assert_true(gap.max_abs == 0.5);
    assert_false(ls_gap_same_shape(&x, &narrow));
    ls_gap_measure(&gap, &x, &narrow, 3, LS_FMT_F32);
    assert_int_equal(gap.n, 3);
}

/* --- files -----------------------------------------------------------------------------------
 */

static void files(void **state)
{
    struct rig_folder folder;
    struct ls_probe_writer w;
    struct ls_probe_file f;
    struct ls_err err;
    char path[4096];
    const float x[3] = { 1, 2, 3 };
    const struct ls_probe_tensor shape = {
        .name = "t", .dtype = LS_DTYPE_F32, .rows = 2, .columns = 3
    };
    (void)state;
    rig_folder_make(&folder);
    rig_path(&folder, "f", path);
    assert_int_equal(ls_probe_writer_open(&w, path, 2, &err), LS_OK);
    ls_probe_put(&w, 1, &shape, 1, 0, 3, x);
    ls_probe_put(&w, 1, &shape, 0, 1, 1, x);
    assert_int_equal(ls_probe_writer_close(&w, &err), LS_OK);
    assert_int_equal(ls_probe_file_open(&f, path, &err), LS_OK);
    const struct ls_tensor *const t = ls_probe_file_find(&f, "t");
    const float expected[6] = { 0, 1, 0, 1, 2, 3 };
    assert_non_null(t);
    assert_memory_equal(t->data, expected, sizeof expected);
    assert_null(ls_probe_file_find(&f, "u"));
    ls_probe_file_finish(&f);
    assert_int_equal(ls_probe_writer_open(&w, folder.path, 1, &err), LS_E_IO);
    rig_put_text(&folder, "f", "not a tensor");
    rig_expect(ls_probe_file_open(&f, path, &err), &err, LS_E_FORMAT, path, NULL);
    ls_probe_file_finish(&f);
    rig_folder_remove(&folder);
}

static void full_disk(void **state)
{
    struct ls_probe_writer w;
    struct ls_err err;
    const float x[1] = { 1 };
    const struct ls_probe_tensor shape = {
        .name = "t", .dtype = LS_DTYPE_F32, .rows = 1, .columns = 1
    };
    (void)state;
    assert_int_equal(ls_probe_writer_open(&w, "/dev/full", 1, &err), LS_OK);
    ls_probe_put(&w, 0, &shape, 0, 0, 1, x);
    w.path = "nothing"; /* a device must not be removed */
    assert_int_not_equal(ls_probe_writer_close(&w, &err), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_is_one_question),
        cmocka_unit_test(layer_and_operation),
        cmocka_unit_test(an_operation_of_one_arm),
        cmocka_unit_test(later_tokens),
        cmocka_unit_test(tokens_and_missing_rows),
        cmocka_unit_test(ulps),
        cmocka_unit_test(gaps),
        cmocka_unit_test(files),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
