/* Attention of every fast path against ref, bit for bit: random head sizes, groups, windows
 * that begin and end inside a block, shuffled block ids, unwritten positions and freed blocks
 * full of NaN, sinks, soft caps; any split over queries and heads. kv_store is compared on the
 * way. */
#include "kt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_QUERIES = 40, MAX_GROUP = 8 };

/* One random case: what it holds and where. */
struct scene {
    struct ls_attn a;
    int window; /* keys a query sees at most */
    int n_keys; /* positions written */
    enum kt_values kind;
    int32_t first_visible[MAX_QUERIES];
    float sinks[MAX_GROUP];
    char text[160];
};

static void pick(struct scene *s, int round)
{
    static const int dims[] = { 64, 128, 16, 80, 96, 256, 1, 7, 33, 40, 129, 272, 520 };
    struct ls_attn *a = &s->a;
    *a = (struct ls_attn){ .n_queries = 1, .scale = 0.125f };
    a->k_dim = dims[kt_int(0, kt_int(0, 1) ? 12 : 1)];
    a->v_dim = kt_int(0, 2) ? a->k_dim : dims[kt_int(0, 12)];
    a->n_group = kt_int(1, MAX_GROUP);
    a->d = (enum ls_fmt)kt_int(0, LS_N_FMT - 1);
    s->n_keys = round % 4 ? kt_int(1, 130) : kt_int(1, 900);
    if (kt_int(0, 1))
        a->n_queries = kt_int(1, s->n_keys < MAX_QUERIES ? s->n_keys : MAX_QUERIES);
    if (round % 50 == 49) { /* long enough for smaller groups of rows */
        s->n_keys = kt_int(4070, 4200);
        a->n_queries = kt_int(1, 4);
        a->k_dim = a->v_dim = 16;
    }
    a->first_pos = s->n_keys - a->n_queries;
    s->window = kt_int(0, 1) && round % 50 != 49 ? kt_int(1, 300) : s->n_keys;
    s->kind = round % 16 == 5 ? KT_WILD : round % 16 == 6 ? KT_SMALL : KT_PLAIN;
    a->softcap = kt_int(0, 3) ? 0.0f : 30.0f;
    if (kt_int(0, 3) == 0)
        a->scale = 1.0f / sqrtf((float)a->k_dim);
    for (int i = 0; i < a->n_queries; i++) {
        int first = a->first_pos + i + 1 - s->window;
        s->first_visible[i] = first > 0 ? first : 0;
    }
    for (int g = 0; g < MAX_GROUP; g++)
        s->sinks[g] = 4.0f * kt_value(s->kind, LS_FMT_F32);
    a->first_visible = s->first_visible;
    a->sinks = kt_int(0, 3) ? NULL : s->sinks;
    snprintf(s->text, sizeof s->text,
             "attention k_dim %d v_dim %d group %d queries %d at %d window %d D %d values %d",
             a->k_dim, a->v_dim, a->n_group, a->n_queries, a->first_pos, s->window, a->d,
             s->kind);
}

/* A pool in which everything that no query may see holds NaN: positions after the last one in
 * the last block, blocks before the window (their id is out of the pool), positions before it.
 */
static void make_pool(struct scene *s)
{
    struct ls_attn *a = &s->a;
    int n_blocks = (s->n_keys + LS_KV_BLOCK - 1) / LS_KV_BLOCK, seen = s->first_visible[0];
    size_t k_bytes = ls_kv_k_bytes(a->d, a->k_dim), v_bytes = ls_kv_v_bytes(a->d, a->v_dim);
    a->block_stride = (k_bytes + v_bytes + 63) / 64 * 64;
    char *pool = kt_buffer((size_t)n_blocks * a->block_stride);
    uint32_t *blocks = kt_buffer((size_t)n_blocks * sizeof *blocks);
    float *k = kt_floats((size_t)a->k_dim), *v = kt_floats((size_t)a->v_dim);
    memset(pool, 0xff, (size_t)n_blocks * a->block_stride); /* NaN in every format */
    for (int b = 0; b < n_blocks; b++)
        blocks[b] = (uint32_t)b;
    for (int b = n_blocks - 1; b > 0; b--) {
        int other = kt_int(0, b);
        uint32_t id = blocks[b];
        blocks[b] = blocks[other];
        blocks[other] = id;
    }
    for (int j = seen; j < s->n_keys; j++) {
        char *block = pool + blocks[j / LS_KV_BLOCK] * a->block_stride;
        kt_fill_floats(k, (size_t)a->k_dim, s->kind, a->d);
        kt_fill_floats(v, (size_t)a->v_dim, s->kind, a->d);
        ls_kernels_ref.kv_store(block, block + k_bytes, k, v, j % LS_KV_BLOCK, a->k_dim,
                                a->v_dim, a->d);
    }
    for (int b = 0; b < seen / LS_KV_BLOCK; b++)
        blocks[b] = 0x7fffffffu;
    a->blocks = blocks;
    a->k_pool = pool;
    a->v_pool = pool + k_bytes;
}

static float *scratch_for(const struct scene *s)
{
    int most = s->window < s->n_keys ? s->window : s->n_keys;
    return kt_floats(ls_attn_scratch_floats(most));
}

/* The queries in up to three calls, the heads of the group in one or two. */
static void in_parts(const struct ls_kernels *k, const struct scene *s, float *o)
{
    int n = s->a.n_queries, heads = s->a.n_group;
    int i1 = kt_int(0, n), g1 = kt_int(0, 2) ? heads : kt_int(1, heads);
    int cut[3] = { 0, i1, n }, head[3] = { 0, g1, heads };
    for (int c = 0; c < 4; c++) {
        int i = cut[c / 2], g = head[c % 2];
        struct ls_attn part = s->a;
        part.q = s->a.q + (size_t)i * s->a.ldq + (size_t)(g * s->a.k_dim);
        part.o = o + (size_t)i * s->a.ldo + (size_t)(g * s->a.v_dim);
        part.n_queries = cut[c / 2 + 1] - i;
        part.n_group = head[c % 2 + 1] - g;
        part.first_pos = s->a.first_pos + i;
        part.first_visible = s->first_visible + i;
        part.sinks = s->a.sinks ? s->a.sinks + g : NULL;
        if (part.n_queries && part.n_group)
            k->attention(&part, scratch_for(s));
    }
}

static void one_round(int round, const struct kt_table *table, int n_tables)
{
    struct scene s;
    pick(&s, round);
    make_pool(&s);
    s.a.ldq = (size_t)(s.a.n_group * s.a.k_dim + kt_int(0, 5));
    s.a.ldo = (size_t)(s.a.n_group * s.a.v_dim + kt_int(0, 5));
    size_t n_q = (size_t)(s.a.n_queries - 1) * s.a.ldq + (size_t)(s.a.n_group * s.a.k_dim);
    size_t n_o = (size_t)(s.a.n_queries - 1) * s.a.ldo + (size_t)(s.a.n_group * s.a.v_dim);
    float *q = kt_floats(n_q), *want = kt_floats(n_o);
    kt_fill_floats(q, n_q, s.kind, s.a.d);
    s.a.q = q;
    s.a.o = want;
    ls_kernels_ref.attention(&s.a, scratch_for(&s));
    if (s.kind == KT_PLAIN)
        for (int i = 0; i < s.a.n_group * s.a.v_dim; i++)
            kt_check(isfinite(want[i]), "%s: output %d is %a", s.text, i, (double)want[i]);
    for (int t = 0; t < n_tables; t++) {
        float *got = kt_floats(n_o);
        in_parts(table[t].k, &s, got);
        kt_equal(s.text, table[t].label, want, got, n_o);
    }
    kt_release(s.text);
}

/* kv_store: the same bytes, and none beside the slot. */
static void store_round(const struct kt_table *table, int n_tables)
{
    int k_dim = kt_int(1, 200), v_dim = kt_int(1, 200), slot = kt_int(0, LS_KV_BLOCK - 1);
    enum ls_fmt d = (enum ls_fmt)kt_int(0, LS_N_FMT - 1);
    size_t k_bytes = ls_kv_k_bytes(d, k_dim), v_bytes = ls_kv_v_bytes(d, v_dim);
    float *k = kt_floats((size_t)k_dim), *v = kt_floats((size_t)v_dim);
    char *want_k = kt_buffer(k_bytes), *want_v = kt_buffer(v_bytes);
    kt_fill_floats(k, (size_t)k_dim, KT_WILD, LS_FMT_F32);
    kt_fill_floats(v, (size_t)v_dim, KT_WILD, LS_FMT_F32);
    ls_kernels_ref.kv_store(want_k, want_v, k, v, slot, k_dim, v_dim, d);
    for (int t = 0; t < n_tables; t++) {
        char *got_k = kt_buffer(k_bytes), *got_v = kt_buffer(v_bytes);
        table[t].k->kv_store(got_k, got_v, k, v, slot, k_dim, v_dim, d);
        kt_equal_bytes("kv_store K", table[t].label, want_k, got_k, k_bytes);
        kt_equal_bytes("kv_store V", table[t].label, want_v, got_v, v_bytes);
    }
    kt_release("kv_store");
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_attention", argc, argv);
    int n_tables = kt_tables(table);
    for (int round = 0; round < (kt_is_long() ? 5000 : 500); round++)
        one_round(round, table, kt_tables_in(round, n_tables));
    for (int round = 0; round < 200; round++)
        store_round(table, n_tables);
    return kt_finish();
}
