/* The safetensors reader: what it accepts, and that every broken header is refused with the
 * tensor's name. */
#include "model_rig.h"

#include "tensor/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}"
#define B "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}"

struct parsed {
    struct ls_arena arena;
    struct ls_tensor *tensors;
    size_t n;
    struct ls_err err;
};

static ls_status parse(struct parsed *p, const void *bytes, size_t size)
{
    memset(p, 0, sizeof *p);
    ls_arena_init(&p->arena);
    return ls_safetensors_parse(bytes, size, &p->arena, &p->tensors, &p->n, &p->err);
}

static ls_status parse_image(struct parsed *p, struct rig_bytes image)
{
    ls_status s = parse(p, image.bytes, image.size);
    free(image.bytes);
    return s;
}

static void two_tensors(void **state)
{
    (void)state;
    struct parsed p;
    struct rig_bytes b = rig_image("{\"__metadata__\":{\"format\":\"pt\"}," B "," A "}  ", 20);
    assert_int_equal(parse(&p, b.bytes, b.size), LS_OK);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.tensors[0].name, "a");
    assert_int_equal(p.tensors[0].dtype, LS_DTYPE_BF16);
    assert_int_equal(p.tensors[0].n_dims, 2);
    assert_int_equal(p.tensors[0].dims[0], 2);
    assert_int_equal(p.tensors[0].dims[1], 3);
    assert_int_equal(p.tensors[0].bytes, 12);
    assert_ptr_equal(p.tensors[0].data, b.bytes + b.size - 20);
    assert_string_equal(p.tensors[1].name, "b");
    assert_ptr_equal(p.tensors[1].data, b.bytes + b.size - 8);
    ls_arena_finish(&p.arena);
    free(b.bytes);
}

static void empty_shapes(void **state)
{
    (void)state;
    struct parsed p;
    const char *header = "{\"none\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[0,0]},"
                         "\"huge\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,"
                         "4611686018427387904,0],\"data_offsets\":[0,0]},"
                         "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}";
    assert_int_equal(parse_image(&p, rig_image(header, 8)), LS_OK);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.tensors[2].n_dims, 0);
    assert_int_equal(p.tensors[2].bytes, 8);
    ls_arena_finish(&p.arena);
    assert_int_equal(parse_image(&p, rig_image("{}", 0)), LS_OK);
    assert_int_equal(p.n, 0);
    ls_arena_finish(&p.arena);
}

static void every_dtype(void **state)
{
    (void)state;
    for (int d = LS_DTYPE_NONE + 1; d < LS_N_DTYPES; d++) {
        char header[200];
        struct parsed p;
        const size_t bytes = 3 * ls_dtype_bytes((enum ls_dtype)d);
        const char *name = ls_dtype_name((enum ls_dtype)d);
        snprintf(header, sizeof header,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}", name,
                 bytes);
        assert_int_equal(parse_image(&p, rig_image(header, bytes)), LS_OK);
        assert_int_equal(p.tensors[0].dtype, d);
        assert_int_equal(ls_dtype_parse(name, strlen(name)), d);
        assert_int_equal(ls_dtype_parse(name, strlen(name) - 1), LS_DTYPE_NONE);
        ls_arena_finish(&p.arena);
    }
    assert_int_equal(ls_dtype_bytes(LS_DTYPE_NONE), 0);
    assert_int_equal(ls_dtype_bytes((enum ls_dtype)99), 0);
    assert_string_equal(ls_dtype_name((enum ls_dtype)99), "?");
}

struct broken {
    const char *header;
    size_t n_data;
    const char *says, *names;
};

static const struct broken headers[] = {
    { "{" A "," A "}", 12, "uplicate", "a" },
    { "{" A "," B "}", 19, "beyond the 19 data bytes", "'b'" },
    { "{" A "," B "}", 21, "1 bytes at the end", "" },
    { "{" B "}", 20, "12 bytes before it belong to none", "'b'" },
    { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16, "overlaps",
      "'b'" },
    { "{\"w\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
      "unknown dtype 'F33'", "'w'" },
    { "{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no dtype", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no shape", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "data_offsets", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "data_offsets",
      "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "no range",
      "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "no range",
      "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}", 8, "data_offsets",
      "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "need 12", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "dim 0", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8, "dim 0", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
      "overflows", "'w'" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8,
      "9 dims", "'w'" },
    { "{\"w\":[]}", 0, "not a JSON object", "'w'" },
    { "{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "empty name", "" },
    { "{\"__metadata__\":7}", 0, "__metadata__", "" },
    { "{\"__metadata__\":{\"n\":7}}", 0, "__metadata__", "'n'" },
    { "[]", 0, "not a JSON object", "" },
    { "{\"w\":", 0, "not valid JSON", "" },
    { "", 0, "not valid JSON", "" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8,
      "not valid JSON", "" },
};

static void broken_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const struct broken *h = &headers[i];
        struct parsed p;
        ls_status s = parse_image(&p, rig_image(h->header, h->n_data));
        rig_expect(s, &p.err, LS_E_FORMAT, h->says, h->names, NULL);
        assert_null(p.tensors);
        ls_arena_finish(&p.arena);
    }
}

static void header_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *says;
    } cases[] = {
        { 1ull << 63, "over the limit" },
        { UINT64_MAX, "over the limit" },
        { UINT64_MAX - 7, "over the limit" },
        { LS_SAFETENSORS_MAX_HEADER + 1ull, "over the limit" },
        { LS_SAFETENSORS_MAX_HEADER, "does not fit" },
        { 11, "does not fit" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[18] = { 0 };
        struct parsed p;
        for (int b = 0; b < 8; b++)
            bytes[b] = (unsigned char)(cases[i].length >> (8 * b));
        rig_expect(parse(&p, bytes, sizeof bytes), &p.err, LS_E_FORMAT, cases[i].says, NULL);
        ls_arena_finish(&p.arena);
    }
}

/* Every shorter file of a good one is refused, at whatever byte it ends. */
static void truncated_anywhere(void **state)
{
    (void)state;
    struct rig_bytes b = rig_image("{" A "," B "}", 20);
    for (size_t size = 0; size < b.size; size++) {
        struct parsed p;
        unsigned char *exact = malloc(size + 1);
        memcpy(exact, b.bytes, size);
        rig_expect(parse(&p, exact, size), &p.err, LS_E_FORMAT, NULL);
        ls_arena_finish(&p.arena);
        free(exact);
    }
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tensors),    cmocka_unit_test(empty_shapes),
        cmocka_unit_test(every_dtype),    cmocka_unit_test(broken_headers),
        cmocka_unit_test(header_lengths), cmocka_unit_test(truncated_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
