/* Trees of digests, and the form of a certificate: what is written reads back, and what is not
 * in order is refused by name. */
#include "jobs/certificate.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 2, ROOM = 8192 };

/* --- the tree --------------------------------------------------------------------------------
 */

static void node(unsigned char out[LS_LEAF], const unsigned char *a, const unsigned char *b)
{
    unsigned char both[1 + 2 * LS_LEAF] = { 1 };
    memcpy(both + 1, a, LS_LEAF);
    memcpy(both + 1 + LS_LEAF, b, LS_LEAF);
    crypto_generichash(out, LS_LEAF, both, sizeof both, NULL, 0);
}

/* The definition, by recursion. */
static void root_of(unsigned char out[LS_LEAF], unsigned char (*leaves)[LS_LEAF], uint64_t n)
{
    unsigned char left[LS_LEAF], right[LS_LEAF];
    uint64_t k = 1;
    if (n == 0)
        crypto_generichash(out, LS_LEAF, NULL, 0, NULL, 0);
    if (n == 1)
        memcpy(out, leaves[0], LS_LEAF);
    if (n < 2)
        return;
    while (2 * k < n)
        k *= 2;
    root_of(left, leaves, k);
    root_of(right, leaves + k, n - k);
    node(out, left, right);
}

static void tree_is_its_definition(void **state)
{
    unsigned char leaves[70][LS_LEAF], expected[LS_LEAF], got[LS_LEAF];
    struct ls_merkle tree = { .n = 0 };
    (void)state;
    for (unsigned i = 0; i <= 70; i++) {
        root_of(expected, leaves, i);
        ls_merkle_root(&tree, got);
        assert_memory_equal(got, expected, LS_LEAF);
        if (i == 70)
            break;
        ls_leaf_of(leaves[i], &i, sizeof i);
        ls_merkle_add(&tree, leaves[i]);
    }
}

static void leaf_of_pieces_is_that_of_the_whole(void **state)
{
    static const unsigned char text[] = "0123456789";
    unsigned char whole[1 + 10] = { 0 }, expected[LS_LEAF], got[LS_LEAF];
    (void)state;
    memcpy(whole + 1, text, 10);
    crypto_generichash(expected, LS_LEAF, whole, sizeof whole, NULL, 0);
    ls_leaf_of(got, text, 10);
    assert_memory_equal(got, expected, LS_LEAF);
    ls_leaf_of_two(got, text, 4, text + 4, 6);
    assert_memory_equal(got, expected, LS_LEAF);
}

/* --- the form --------------------------------------------------------------------------------
 */

/* Bytes as they are made, padded before with nothing, so that reading past them is seen. */
struct made {
    unsigned char *bytes;
    uint64_t n, parts, blocks; /* bytes; where parts and blocks begin */
};

static uint64_t put_part(unsigned char *at, enum ls_cert_kind kind, const char *name)
{
    struct ls_cert_part part = { .kind = kind, .name = name, .n_name = (uint32_t)strlen(name) };
    memset(part.digest, 7, LS_LEAF);
    ls_cert_part_put(at, &part);
    return ls_cert_part_bytes(part.n_name);
}

static uint64_t put_block(unsigned char *at, uint64_t line, uint32_t choice, uint32_t n_choices,
                          uint32_t n_positions, struct ls_merkle *blocks)
{
    struct ls_merkle tree = { .n = 0 };
    struct ls_cert_block b = { .line = line,
                               .choice = choice,
                               .n_choices = n_choices,
                               .n_prompt = n_positions ? 1 : 0,
                               .n_positions = n_positions };
    unsigned char *const tokens = at + LS_CERT_BLOCK;
    unsigned char *const leaves = tokens + ls_cert_token_bytes(n_positions);
    const uint64_t n = ls_cert_leaf_bytes(n_positions, LAYERS);
    memset(tokens, 0, ls_cert_token_bytes(n_positions));
    for (uint32_t i = 0; i < n_positions; i++)
        tokens[4 * i] = (unsigned char)(i + 1);
    for (uint64_t i = 0; i < n; i += LS_LEAF) {
        ls_leaf_of(leaves + i, &i, sizeof i);
        ls_merkle_add(&tree, leaves + i);
    }
    memset(b.line_digest, (int)line, LS_LEAF);
    ls_merkle_root(&tree, b.leaves_root);
    ls_cert_block_put(at, &b, tokens);
    ls_merkle_add(blocks, b.digest);
    return LS_CERT_BLOCK + ls_cert_token_bytes(n_positions) + n;
}

/* Three lines: two choices, an error row, one choice. */
static struct made make(const unsigned char *secret)
{
    unsigned char room[ROOM], leaf[LS_LEAF];
    struct ls_merkle parts = { .n = 0 }, blocks = { .n = 0 };
    struct ls_cert_head h = { .n_layers = LAYERS,
                              .vocab = 10,
                              .hidden = 4,
                              .context = 8,
                              .profile = "exact-1",
                              .n_lines = 3,
                              .n_blocks = 4,
                              .n_positions = 6,
                              .n_parts = 2 };
    struct made m = { .parts = LS_CERT_HEAD };
    uint64_t at = LS_CERT_HEAD, n;
    n = put_part(room + at, LS_CERT_TENSOR, "a.weight");
    ls_leaf_of(leaf, room + at, n);
    ls_merkle_add(&parts, leaf);
    at += n;
    n = put_part(room + at, LS_CERT_FILE, "config.json");
    ls_leaf_of(leaf, room + at, n);
    ls_merkle_add(&parts, leaf);
    at += n;
    m.blocks = at;
    at += put_block(room + at, 1, 0, 2, 3, &blocks);
    at += put_block(room + at, 1, 1, 2, 2, &blocks);
    at += put_block(room + at, 2, 0, 0, 0, &blocks);
    at += put_block(room + at, 3, 0, 1, 1, &blocks);
    h.parts_bytes = m.blocks - m.parts;
    h.blocks_bytes = at - m.blocks;
    ls_merkle_root(&parts, h.parts_root);
    ls_merkle_root(&blocks, h.blocks_root);
    ls_cert_head_put(room, &h, secret);
    m.n = at;
    m.bytes = malloc(at);
    assert_non_null(m.bytes);
    memcpy(m.bytes, room, at);
    return m;
}

static void what_is_written_reads_back(void **state)
{
    static const unsigned char secret[32] = { 1, 2, 3 };
    struct ls_cert cert;
    struct ls_cert_part part;
    struct ls_cert_block b;
    uint64_t at = 0;
    bool is_signed;
    unsigned char key[LS_CERT_KEY];
    struct made m = make(secret);
    (void)state;
    assert_int_equal(ls_cert_parse(&cert, m.bytes, m.n, NULL), LS_OK);
    assert_string_equal(cert.head.profile, "exact-1");
    assert_true(cert.head.vocab == 10 && cert.head.n_lines == 3);
    assert_true(ls_cert_next_part(&cert, &at, &part) && part.kind == LS_CERT_TENSOR);
    assert_memory_equal(part.name, "a.weight", part.n_name);
    assert_true(ls_cert_next_part(&cert, &at, &part) && !ls_cert_next_part(&cert, &at, &part));
    at = 0;
    for (int i = 0; i < 4; i++) {
        assert_true(ls_cert_next_block(&cert, &at, &b));
        assert_true(ls_cert_block_head_holds(&b) && ls_cert_block_leaves_hold(&cert, &b));
        if (i == 1)
            assert_int_equal(ls_cert_token(&b, 1), 2);
    }
    assert_false(ls_cert_next_block(&cert, &at, &b));
    assert_int_equal(ls_cert_check(&cert, &is_signed), LS_CERT_SOUND);
    assert_true(is_signed);
    ls_cert_public_key(key, secret);
    assert_memory_equal(key, cert.head.key, LS_CERT_KEY);
    free(m.bytes);
}

static bool is_sound(const struct ls_cert *cert)
{
    bool is_signed;
    struct ls_cert_block b;
    bool sound = ls_cert_check(cert, &is_signed) == LS_CERT_SOUND && is_signed;
    for (uint64_t at = 0; ls_cert_next_block(cert, &at, &b);)
        sound = sound && ls_cert_block_head_holds(&b) && ls_cert_block_leaves_hold(cert, &b);
    return sound;
}

static void every_flipped_bit_is_seen(void **state)
{
    static const unsigned char secret[32] = { 1, 2, 3 };
    struct made m = make(secret);
    (void)state;
    for (uint64_t bit = 0; bit < 8 * m.n; bit++) {
        struct ls_cert cert;
        struct ls_err err = { .status = LS_OK };
        m.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const ls_status s = ls_cert_parse(&cert, m.bytes, m.n, &err);
        assert_true(s ? s == LS_E_FORMAT && strstr(err.text, "certificate, byte ")
                      : !is_sound(&cert));
        m.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(m.bytes);
}

/* Sizes that lie: each in a copy of exactly the file's length, whose neighbour is not ours. */
static void refuse(struct made *m, uint64_t at, const unsigned char *value, size_t n)
{
    struct ls_cert cert;
    unsigned char kept[8];
    memcpy(kept, m->bytes + at, n);
    memcpy(m->bytes + at, value, n);
    assert_int_equal(ls_cert_parse(&cert, m->bytes, m->n, NULL), LS_E_FORMAT);
    memcpy(m->bytes + at, kept, n);
}

static void sizes_that_lie_are_refused(void **state)
{
    static const unsigned char large[8] = { 0xff, 0xff, 0, 0 }, zero[8] = { 0 };
    static const unsigned char huge[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct made m = make(NULL);
    struct ls_cert cert;
    (void)state;
    for (uint64_t n = 0; n < m.n; n++) {
        unsigned char *const part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, m.bytes, n);
        assert_int_equal(ls_cert_parse(&cert, part, n, NULL), LS_E_FORMAT);
        free(part);
    }
    refuse(&m, 12, zero, 4); /* layers */
    refuse(&m, 16, huge, 4); /* vocab */
    refuse(&m, 48, huge, 8); /* lines */
    refuse(&m, 88, huge, 8); /* bytes of the parts */
    refuse(&m, 96, huge, 8); /* bytes of the blocks */
    /* a name that ends behind the parts */
    refuse(&m, m.parts + ls_cert_part_bytes(8) + 4, (const unsigned char[8]){ 96 }, 4);
    refuse(&m, m.blocks + 20, large, 4); /* positions that end behind the blocks */
    refuse(&m, m.blocks + 16, large, 4); /* a longer prompt than positions */
    refuse(&m, m.blocks + 8, large, 4);  /* a choice that is none */
    assert_int_equal(ls_cert_parse(&cert, m.bytes, m.n, NULL), LS_OK);
    free(m.bytes);
}

/* The last positions reach behind the file, and the totals agree with that; or more follows. */
static void what_is_not_the_file_is_refused(void **state)
{
    struct made m = make(NULL);
    struct ls_cert cert;
    (void)state;
    unsigned char *const longer = calloc(1, m.n + 8);
    assert_non_null(longer);
    memcpy(longer, m.bytes, m.n);
    assert_int_equal(ls_cert_parse(&cert, longer, m.n + 8, NULL), LS_E_FORMAT);
    free(longer);
    const uint64_t last =
        m.n - LS_CERT_BLOCK - ls_cert_token_bytes(1) - ls_cert_leaf_bytes(1, LAYERS);
    m.bytes[last + 20] = 2;
    m.bytes[72] = 7;
    assert_int_equal(ls_cert_parse(&cert, m.bytes, m.n, NULL), LS_E_FORMAT);
    free(m.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_is_its_definition),
        cmocka_unit_test(leaf_of_pieces_is_that_of_the_whole),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(sizes_that_lie_are_refused),
        cmocka_unit_test(what_is_not_the_file_is_refused),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
