/* Mutation builds only: with the even element first, every path changes its products and its
 * attention, all of them to the same bits; switched off again, nothing is left of it. */
#include "kt.h"

#include <string.h>

enum { M = 9, K = 300, N = 20, LDY = 32 };

static void product(const struct ls_kernels *k, enum ls_fmt fmt, float *y, const float *x,
                    const void *w)
{
    k->matmul[fmt][fmt](y, LDY, x, K, w, M, K, 0, 2);
}

static void products(const struct kt_table *table, int n_tables, enum ls_fmt fmt)
{
    float *x = kt_floats(M * K), *plain = kt_floats(M * LDY), *even = kt_floats(M * LDY);
    void *raw = kt_buffer(N * K * ls_fmt_bytes(fmt));
    void *w = kt_buffer(ls_packed_bytes(fmt, N, K));
    kt_fill_floats(x, M * K, KT_PLAIN, fmt);
    kt_fill(raw, N * K, KT_PLAIN, fmt);
    ls_pack(fmt, w, raw, K, N, K, 0, 2);
    product(&ls_kernels_ref, fmt, plain, x, w);
    ls_kernels_even_first = 1;
    product(&ls_kernels_ref, fmt, even, x, w);
    kt_check(memcmp(plain, even, M * LDY * sizeof *even), "even first changes products");
    for (int t = 0; t < n_tables; t++) {
        float *got = kt_floats(M * LDY);
        ls_kernels_even_first = 1;
        product(table[t].k, fmt, got, x, w);
        kt_equal("products, even first", table[t].label, even, got, M * LDY);
        ls_kernels_even_first = 0;
        product(table[t].k, fmt, got, x, w);
        kt_equal("products, odd first", table[t].label, plain, got, M * LDY);
    }
    kt_release("products");
}

static void scores(const struct kt_table *table, int n_tables)
{
    enum { DIM = 64, KEYS = 20 };
    const uint32_t id = 0;
    const int32_t first = 0;
    float *q = kt_floats(DIM), *o[2] = { kt_floats(DIM), kt_floats(DIM) }, *x = kt_floats(DIM);
    char *k = kt_buffer(ls_kv_k_bytes(LS_FMT_F32, DIM));
    char *v = kt_buffer(ls_kv_v_bytes(LS_FMT_F32, DIM));
    float *scratch = kt_floats(ls_attn_scratch_floats(KEYS)), *got = kt_floats(DIM);
    kt_fill_floats(q, DIM, KT_PLAIN, LS_FMT_F32);
    for (int j = 0; j < KEYS; j++) {
        kt_fill_floats(x, DIM, KT_PLAIN, LS_FMT_F32);
        ls_kernels_ref.kv_store(k, v, x, x, j, DIM, DIM, LS_FMT_F32);
    }
    struct ls_attn a = { .q = q,
                         .n_queries = 1,
                         .n_group = 1,
                         .k_dim = DIM,
                         .v_dim = DIM,
                         .first_pos = KEYS - 1,
                         .first_visible = &first,
                         .blocks = &id,
                         .k_pool = k,
                         .v_pool = v,
                         .scale = 1.0f,
                         .d = LS_FMT_F32 };
    for (int even = 0; even < 2; even++) {
        a.o = o[even];
        ls_kernels_even_first = even;
        ls_kernels_ref.attention(&a, scratch);
        for (int t = 0; t < n_tables; t++) {
            a.o = got;
            table[t].k->attention(&a, scratch);
            kt_equal("attention", table[t].label, o[even], got, DIM);
        }
    }
    ls_kernels_even_first = 0;
    kt_check(memcmp(o[0], o[1], DIM * sizeof *got), "even first changes attention");
    kt_release("attention");
}

int main(int argc, char **argv)
{
    struct kt_table table[8];
    kt_start("kt_mutant", argc, argv);
    int n_tables = kt_tables(table);
    while (n_tables && strstr(table[n_tables - 1].label, "-O0"))
        n_tables--; /* these have a switch of their own */
    for (int fmt = 0; fmt < LS_N_FMT; fmt++)
        products(table, n_tables, (enum ls_fmt)fmt);
    scores(table, n_tables);
    return kt_finish();
}
