/* Taps: every value of a run is handed out whole and once, is the same for any number of
 * threads, chunks and cuts, and looking changes no bit. Usage: ut_tap [fixture]. */
#include "stage_rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT = 2 };

/* What was seen of one value. */
struct seen {
    atomic_int elements, width;
    atomic_uint_fast64_t sum; /* over elements, in any order */
};

struct recorder {
    const struct ls_arch *arch;
    uint32_t positions;
    struct seen *seen; /* [ops][layers + 1][positions] */
};

static struct seen *seen_of(const struct recorder *r, int op, int layer, uint32_t pos)
{
    const size_t layers = (size_t)r->arch->n_layers + 1;
    return &r->seen[((size_t)op * layers + (size_t)layer) * r->positions + pos];
}

static uint64_t mixed(uint64_t element, uint32_t bits)
{
    uint64_t x = (element << 32 | bits) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void record(void *arg, const struct ls_tap_value *v)
{
    const struct recorder *r = arg;
    struct seen *seen = seen_of(r, (int)v->op, v->layer, (uint32_t)v->pos);
    uint64_t sum = 0;
    for (int i = 0; i < v->count; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)v->at + (size_t)i * sizeof bits, sizeof bits);
        sum += mixed((uint64_t)(v->first + i), bits);
    }
    atomic_fetch_add(&seen->sum, sum);
    atomic_fetch_add(&seen->elements, v->count);
    atomic_store(&seen->width, v->width);
}

static void recorder_open(struct recorder *r, const struct rig_model *m, uint32_t n)
{
    const size_t values = (size_t)LS_N_OPS * ((size_t)m->arch.n_layers + 1) * n;
    *r = (struct recorder){ .arch = &m->arch, .positions = n };
    r->seen = test_calloc(values, sizeof *r->seen);
}

/* One sequence through a chain with a tap on everything. */
static void play(struct recorder *r, const struct rig_model *m, struct rig_layout layout,
                 struct rig_sequence *seq, struct rig_random *random)
{
    const struct ls_tap tap = { .ops = UINT64_MAX, .take = record, .arg = r };
    struct rig_play play = {
        .sequences = seq, .n_sequences = 1, .random = random, .max_chunk = 23
    };
    struct rig_chain chain;
    layout.tap = &tap;
    rig_chain_open(&chain, m, &layout);
    rig_play(&chain, &play);
    rig_chain_close(&chain);
}

/* --- what must be there ----------------------------------------------------------------------
 */

static bool expected_of_ends(const struct ls_arch *arch, int op, int l)
{
    if (op == LS_OP_EMBEDDING || op == LS_OP_PER_LAYER_INPUT)
        return l == 0 && (op == LS_OP_EMBEDDING || arch->per_layer_width);
    return l == arch->n_layers &&
           (op == LS_OP_FINAL_NORM || op == LS_OP_HEAD || op == LS_OP_LOGITS);
}

static bool expected_of_heads(const struct ls_arch *arch, int op, int l)
{
    const struct ls_layer *layer = &arch->layers[l];
    const bool own_kv = layer->kv_source == l, turns = layer->rope >= 0;
    const bool normed = arch->qk_norm == LS_QK_PER_HEAD || arch->qk_norm == LS_QK_ALL_HEADS;
    const bool turned = turns && arch->qk_norm == LS_QK_AFTER_ROPE;
    switch (op) {
    case LS_OP_K:
        return own_kv;
    case LS_OP_V:
        return own_kv && !layer->v_is_k;
    case LS_OP_V_NORM:
        return own_kv && arch->v_norm;
    case LS_OP_Q_NORM:
    case LS_OP_K_NORM:
        return normed && (op == LS_OP_Q_NORM || own_kv);
    case LS_OP_Q_ROPE:
    case LS_OP_K_ROPE:
        return turns && (op == LS_OP_Q_ROPE || own_kv);
    case LS_OP_Q_NORM_TURNED:
    case LS_OP_K_NORM_TURNED:
        return turned && (op == LS_OP_Q_NORM_TURNED || own_kv);
    default:
        return true;
    }
}

static bool expected_of_layer(const struct ls_arch *arch, int op, int l)
{
    const struct ls_layer *layer = &arch->layers[l];
    const bool experts = layer->ffn == LS_FFN_EXPERTS, post = arch->residual == LS_RES_POST;
    switch (op) {
    case LS_OP_ATTN_NORM:
        return !post;
    case LS_OP_FFN_NORM:
        return !post && arch->residual != LS_RES_PARALLEL;
    case LS_OP_ATTN_POST_NORM:
    case LS_OP_FFN_POST_NORM:
        return post || arch->residual == LS_RES_BOTH;
    case LS_OP_GATE:
    case LS_OP_UP:
    case LS_OP_ACTIVATION:
        return layer->intermediate > 0;
    case LS_OP_SHARED_OUT:
        return experts && layer->intermediate > 0;
    case LS_OP_ROUTER_NORM:
    case LS_OP_EXPERT_NORM:
        return experts && arch->experts.beside_dense;
    default:
        return op < LS_OP_ROUTER || op > LS_OP_EXPERT_OUT || experts;
    }
}

static bool expected(const struct ls_arch *arch, int op, int l)
{
    if (op <= LS_OP_PER_LAYER_INPUT || op >= LS_OP_FINAL_NORM)
        return expected_of_ends(arch, op, l);
    if (l == arch->n_layers)
        return false;
    if (op >= LS_OP_PER_LAYER_GATED && op <= LS_OP_PER_LAYER_RESIDUAL)
        return arch->per_layer_width > 0;
    return expected_of_heads(arch, op, l) && expected_of_layer(arch, op, l);
}

static void check_whole(const struct recorder *r, const char *fixture)
{
    for (int op = 0; op < LS_N_OPS; op++)
        for (int l = 0; l <= r->arch->n_layers; l++)
            for (uint32_t pos = 0; pos < r->positions; pos++) {
                struct seen *s = seen_of(r, op, l, pos);
                const bool there = atomic_load(&s->width) > 0;
                if (op == LS_OP_Q_TEMPERED)
                    continue;
                if (there != expected(r->arch, op, l) ||
                    atomic_load(&s->elements) != atomic_load(&s->width))
                    fail_msg("%s: %s of layer %d, position %u: %d elements of %d, expected %s",
                             fixture, ls_op_name((enum ls_op)op), l, pos,
                             atomic_load(&s->elements), atomic_load(&s->width),
                             expected(r->arch, op, l) ? "all" : "none");
            }
}

static void check_same(const struct recorder *a, const struct recorder *b, const char *fixture)
{
    for (int op = 0; op < LS_N_OPS; op++)
        for (int l = 0; l <= a->arch->n_layers; l++)
            for (uint32_t pos = 0; pos < a->positions; pos++)
                if (atomic_load(&seen_of(a, op, l, pos)->sum) !=
                    atomic_load(&seen_of(b, op, l, pos)->sum))
                    fail_msg("%s: %s of layer %d, position %u: other values in parts", fixture,
                             ls_op_name((enum ls_op)op), l, pos);
}

/* The last values are the results. */
static void check_logits(const struct recorder *r, const float *logits)
{
    for (uint32_t pos = 0; pos < r->positions; pos++) {
        uint64_t sum = 0;
        for (int i = 0; i < r->arch->vocab; i++) {
            uint32_t bits;
            memcpy(&bits, logits + (size_t)pos * (size_t)r->arch->vocab + i, sizeof bits);
            sum += mixed((uint64_t)i, bits);
        }
        assert_true(sum == atomic_load(&seen_of(r, LS_OP_LOGITS, r->arch->n_layers, pos)->sum));
    }
}

/* --- fixtures --------------------------------------------------------------------------------
 */

/* Three threads, two stages where the model can be cut, small chunks. */
static struct rig_layout in_parts(const struct rig_model *m)
{
    struct rig_layout layout = rig_plain(m, 23);
    layout.limits = rig_limits(m, 23, 1);
    layout.n_threads = 3;
    layout.max_logit_rows = 7;
    for (int at = m->arch.n_layers - 1; at > 0 && layout.n_stages == 1; at--)
        if (ls_cut_allowed(&m->arch, at, NULL)) {
            layout.n_stages = 2;
            layout.cuts[1] = at;
            layout.cuts[2] = m->arch.n_layers;
        }
    return layout;
}

static void taps(void **state)
{
    const char *fixture = *state;
    struct rig_model m;
    struct rig_reference ref;
    struct recorder whole, parts;
    uint32_t n;
    rig_open(&m, fixture, false, 0);
    rig_reference_open(&ref, fixture);
    const int32_t *ids = rig_ids(&ref, PROMPT, &n);
    const size_t floats = (size_t)n * (size_t)m.arch.vocab;
    float *logits = test_malloc(floats * sizeof *logits);
    float *tapped = test_malloc(floats * sizeof *logits);
    unsigned char digest[32];
    struct rig_sequence seq = { .ids = ids, .n = n, .logits = tapped };
    struct rig_random random = { .key = 20260302 };
    recorder_open(&whole, &m, n);
    recorder_open(&parts, &m, n);
    rig_plain_run(&m, ids, n, logits, digest);
    play(&whole, &m, rig_plain(&m, n), &seq, NULL);
    assert_memory_equal(digest, seq.digest, 32);
    seq = (struct rig_sequence){ .ids = ids, .n = n, .logits = tapped };
    play(&parts, &m, in_parts(&m), &seq, &random);
    assert_memory_equal(digest, seq.digest, 32);
    check_whole(&whole, fixture);
    check_whole(&parts, fixture);
    check_same(&whole, &parts, fixture);
    check_logits(&whole, logits);
    test_free(whole.seen);
    test_free(parts.seen);
    test_free(logits);
    test_free(tapped);
    rig_reference_close(&ref);
    rig_close(&m);
}

static const char *const fixtures[] = {
    "llama-f16", "qwen2-window", "mistral",   "qwen3",      "gemma2",          "gemma3",
    "olmo2",     "cohere2",      "granite",   "mixtral",    "glm4_moe-groups", "gpt_oss",
    "llama4",    "gemma4",       "qwen2_moe", "gemma4-moe", "gemma4-odd",
};

enum { N = sizeof fixtures / sizeof *fixtures };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        if (argc < 2 || !strcmp(argv[1], fixtures[i]))
            tests[n++] = (struct CMUnitTest){ .name = fixtures[i],
                                              .test_func = taps,
                                              .initial_state = (void *)(uintptr_t)fixtures[i] };
    return _cmocka_run_group_tests("taps", tests, n, NULL, NULL);
}
