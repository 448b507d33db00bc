/* Rope frequencies against numbers that a separate program computed from the reference's
 * formulas in libm's doubles. Both are within a few 2^-52 of the exact value before the one
 * rounding to binary32, so they agree but for ties: 1 ulp is the bound. */
#include "model_rig.h"

#include "model/arch.h"
#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAIRS = 8 };

struct expected {
    const char *config; /* what is added to the plain config */
    int context;        /* 0: the config's own */
    int n_pairs;
    float freq[MAX_PAIRS];
    float factor;
    bool needs_context;
};

#define LONG_LISTS                                                                             \
    "\"short_factor\":[1.0,1.05,1.1,1.2,1.3,1.5],\"long_factor\":[1.1,1.4,2.0,2.9,3.5,4.0]"

static const struct expected llama[] = {
    { "\"rope_theta\":500000.0",
      0,
      8,
      { 0x1p+0f, 0x1.8d275ep-3f, 0x1.34119p-5f, 0x1.ddee9cp-8f, 0x1.72ba44p-10f, 0x1.1f91fp-12f,
        0x1.be2188p-15f, 0x1.5a0f4ep-17f },
      1,
      false },
    { "\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}",
      0,
      8,
      { 0x1p-2f, 0x1.43d136p-4f, 0x1.99999ap-6f, 0x1.030dc4p-7f, 0x1.47ae14p-9f,
        0x1.9e7c6ep-11f, 0x1.0624dep-12f, 0x1.4b96bep-14f },
      1,
      false },
    { "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":10000.0,\"factor\":4.0,"
      "\"beta_fast\":4.0,\"beta_slow\":1.0,\"original_max_position_embeddings\":64}",
      0,
      8,
      { 0x1p+0f, 0x1.e5b9d2p-3f, 0x1.99999ap-5f, 0x1.030dc4p-7f, 0x1.47ae14p-9f,
        0x1.9e7c6ep-11f, 0x1.0624dep-12f, 0x1.4b96bep-14f },
      0x1.237d38p+0f,
      false },
    { "\"rope_theta\":150000.0,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
      "\"truncate\":false,\"mscale\":0.707,\"mscale_all_dim\":1.2,"
      "\"original_max_position_embeddings\":4096}",
      0,
      8,
      { 0x1p+0f, 0x1.cda7f4p-3f, 0x1.a0432ap-5f, 0x1.0121d8p-7f, 0x1.eaf666p-11f,
        0x1.312650p-13f, 0x1.132518p-15f, 0x1.f02e5p-18f },
      0x1.e1ffa4p-1f,
      false },
    { "\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":10000.0,\"factor\":8.0,"
      "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":"
      "32}",
      0,
      8,
      { 0x1p+0f, 0x1.888f82p-4f, 0x1.99999ap-7f, 0x1.030dc4p-8f, 0x1.47ae14p-10f,
        0x1.9e7c6ep-12f, 0x1.0624dep-13f, 0x1.4b96bep-15f },
      1,
      false },
    { "\"max_position_embeddings\":48,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0}",
      0,
      8,
      { 0x1p+0f, 0x1.43d136p-2f, 0x1.99999ap-4f, 0x1.030dc4p-5f, 0x1.47ae14p-7f, 0x1.9e7c6ep-9f,
        0x1.0624dep-10f, 0x1.4b96bep-12f },
      1,
      true },
    { "\"max_position_embeddings\":48,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0}",
      70,
      8,
      { 0x1p+0f, 0x1.2713dap-2f, 0x1.541ec2p-4f, 0x1.8809dp-6f, 0x1.c3e1b6p-8f, 0x1.046e12p-9f,
        0x1.2c2f08p-11f, 0x1.5a0178p-13f },
      1,
      true },
    { "\"max_position_embeddings\":160,\"original_max_position_embeddings\":40,\"head_dim\":12,"
      "\"rope_scaling\":{\"type\":\"longrope\"," LONG_LISTS "}",
      40,
      6,
      { 0x1p+0f, 0x1.a437a4p-3f, 0x1.59abfap-5f, 0x1.111112p-7f, 0x1.b270aap-10f,
        0x1.447878p-12f },
      0x1.2c463ap+0f,
      true },
    { "\"max_position_embeddings\":160,\"original_max_position_embeddings\":40,\"head_dim\":12,"
      "\"rope_scaling\":{\"type\":\"longrope\"," LONG_LISTS "}",
      41,
      6,
      { 0x1.d1745ep-1f, 0x1.3b29bcp-3f, 0x1.7c3d2cp-6f, 0x1.c3f8fp-9f, 0x1.42ba18p-11f,
        0x1.e6b4b4p-14f },
      0x1.2c463ap+0f,
      true },
};

static int ulps(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return abs(x - y);
}

static void pinned_frequencies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof llama / sizeof *llama; i++) {
        const struct expected *e = &llama[i];
        char config[2048];
        struct ls_err err = { 0 };
        struct ls_arena arena;
        struct ls_arch arch;
        const struct ls_arch_wish wish = { .context = e->context };
        snprintf(config, sizeof config,
                 "{\"model_type\":\"llama\",\"vocab_size\":320,\"hidden_size\":48,"
                 "\"intermediate_size\":80,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
                 "\"num_key_value_heads\":1,%s}",
                 e->config);
        ls_arena_init(&arena);
        if (ls_arch_parse(&arch, config, strlen(config), NULL, 0, &wish, &arena, &err))
            fail_msg("%s", err.text);
        assert_int_equal(arch.n_ropes, 1);
        assert_int_equal(arch.ropes[0].n_pairs, e->n_pairs);
        assert_int_equal(arch.rope_needs_context, e->needs_context);
        assert_in_range(ulps(arch.ropes[0].attention_factor, e->factor), 0, 1);
        for (int p = 0; p < e->n_pairs; p++)
            if (ulps(arch.ropes[0].freq[p], e->freq[p]) > 1)
                fail_msg("case %zu, pair %d: %a, expected %a", i, p,
                         (double)arch.ropes[0].freq[p], (double)e->freq[p]);
        ls_arena_finish(&arena);
    }
}

/* The plain kind over many bases and sizes, against libm's long doubles. */
static void plain_frequencies(void **state)
{
    (void)state;
    static const double bases[] = { 1.5, 10, 10000, 50000, 500000, 1e6, 5e6, 1e7, 1e15 };
    static const int dims[] = { 2, 4, 6, 24, 64, 80, 96, 128, 256, 512 };
    float freq[256], factor;
    struct ls_err err;
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            const struct ls_rope_settings r = { .theta = bases[b], .partial = 1 };
            assert_int_equal(ls_rope_frequencies(&r, dims[d], 1, 1, freq, &factor, &err),
                             LS_OK);
            for (int i = 0; i < dims[d] / 2; i++) {
                const long double exact =
                    powl((long double)bases[b], -2.0L * (long double)i / dims[d]);
                assert_in_range(ulps(freq[i], (float)exact), 0, 1);
            }
            assert_true(factor == 1.0f);
        }
}

/* Rope kinds that depend on a length do so at its edge, and the others never. */
static void context_edges(void **state)
{
    (void)state;
    float a[8], b[8], factor;
    struct ls_err err;
    const struct ls_rope_settings dynamic = {
        .kind = LS_ROPE_DYNAMIC, .theta = 1e4, .partial = 1, .factor = 2
    };
    const struct ls_rope_settings linear = {
        .kind = LS_ROPE_LINEAR, .theta = 1e4, .partial = 1, .factor = 2
    };
    assert_int_equal(ls_rope_frequencies(&dynamic, 16, 48, 1, a, &factor, &err), LS_OK);
    assert_int_equal(ls_rope_frequencies(&dynamic, 16, 48, 48, b, &factor, &err), LS_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(ls_rope_frequencies(&dynamic, 16, 48, 49, b, &factor, &err), LS_OK);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(ls_rope_frequencies(&linear, 16, 48, 48, a, &factor, &err), LS_OK);
    assert_int_equal(ls_rope_frequencies(&linear, 16, 48, 4800, b, &factor, &err), LS_OK);
    assert_memory_equal(a, b, sizeof a);
    rig_expect(ls_rope_frequencies(&dynamic, 2, 48, 48, a, &factor, &err), &err, LS_E_FORMAT,
               "dynamic", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_frequencies),
        cmocka_unit_test(plain_frequencies),
        cmocka_unit_test(context_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
