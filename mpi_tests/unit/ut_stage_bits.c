/* Bits: a chain of stages with random cuts, chunks, company, threads, kernels and block
 * placement gives the bytes of one plain stage. Usage: ut_stage_bits [seed [draws]]. */
#include "stage_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 20260301;
static int n_draws = 6; /* of each fixture and dtype */

/* One fixture in one dtype, with the plain run's answer. */
struct bits_case {
    const char *fixture;
    bool f32;
};

struct answers {
    struct rig_model model;
    struct rig_reference ref;
    uint32_t n[RIG_PROMPTS];
    const int32_t *ids[RIG_PROMPTS];
    float *logits[RIG_PROMPTS], *again[RIG_PROMPTS];
    unsigned char digest[RIG_PROMPTS][32];
};

static void answers_open(struct answers *a, const struct bits_case *of)
{
    rig_open(&a->model, of->fixture, of->f32, 0);
    rig_reference_open(&a->ref, of->fixture);
    for (int i = 0; i < RIG_PROMPTS; i++) {
        a->ids[i] = rig_ids(&a->ref, i, &a->n[i]);
        size_t floats = (size_t)a->n[i] * (size_t)a->model.arch.vocab;
        a->logits[i] = test_malloc(floats * sizeof(float));
        a->again[i] = test_malloc(floats * sizeof(float));
        rig_plain_run(&a->model, a->ids[i], a->n[i], a->logits[i], a->digest[i]);
    }
}

static void answers_close(struct answers *a)
{
    for (int i = 0; i < RIG_PROMPTS; i++) {
        test_free(a->logits[i]);
        test_free(a->again[i]);
    }
    rig_reference_close(&a->ref);
    rig_close(&a->model);
}

/* Any allowed cut of the layers into 1..8 stages. */
static void draw_cuts(struct rig_layout *l, const struct ls_arch *arch, struct rig_random *r)
{
    uint32_t often = 1 + rig_below(r, 4); /* a cut in every so many places */
    l->n_stages = 1;
    for (int at = 1; at < arch->n_layers && l->n_stages < RIG_MAX_STAGES; at++)
        if (ls_cut_allowed(arch, at, NULL) && rig_below(r, often) == 0)
            l->cuts[l->n_stages++] = at;
    l->cuts[l->n_stages] = arch->n_layers;
}

static const struct ls_kernels *draw_kernels(struct rig_random *r)
{
    const struct ls_kernels *k = NULL;
    while (!k)
        k = ls_kernels_of((enum ls_cpu_path)rig_below(r, LS_N_CPU_PATHS));
    return k;
}

static struct rig_layout draw_layout(const struct rig_model *m, struct rig_random *r)
{
    struct rig_layout l = { .n_stages = 0 };
    draw_cuts(&l, &m->arch, r);
    l.n_threads = 1 + (int)rig_below(r, 4);
    l.kernels = draw_kernels(r);
    l.limits = rig_limits(m, 1 + rig_below(r, 100), 1 + rig_below(r, RIG_MAX_SEQUENCES));
    l.max_logit_rows = 1 + rig_below(r, l.limits.max_tokens);
    return l;
}

/* Some of the four prompts, side by side. */
static int draw_company(struct rig_sequence *seqs, int *prompt_of, struct answers *a,
                        struct rig_random *r)
{
    int n = 1 + (int)rig_below(r, RIG_PROMPTS);
    int first = (int)rig_below(r, RIG_PROMPTS);
    for (int i = 0; i < n; i++) {
        int p = prompt_of[i] = (first + i) % RIG_PROMPTS;
        seqs[i] =
            (struct rig_sequence){ .ids = a->ids[p], .n = a->n[p], .logits = a->again[p] };
        memset(a->again[p], 0xff,
               (size_t)a->n[p] * (size_t)a->model.arch.vocab * sizeof(float));
    }
    return n;
}

static void compare(const struct answers *a, const struct rig_sequence *seqs,
                    const int *prompt_of, int n, const char *what)
{
    size_t vocab = (size_t)a->model.arch.vocab;
    for (int i = 0; i < n; i++) {
        int p = prompt_of[i];
        if (memcmp(a->logits[p], a->again[p], a->n[p] * vocab * sizeof(float)))
            fail_msg("prompt %d: other bits with %s", p, what);
        if (memcmp(a->digest[p], seqs[i].digest, 32))
            fail_msg("prompt %d: other digest with %s", p, what);
    }
}

static void one_draw(struct answers *a, int draw, struct rig_random *r)
{
    struct rig_sequence seqs[RIG_PROMPTS];
    int prompt_of[RIG_PROMPTS];
    struct rig_chain chain;
    char what[256];
    struct rig_layout layout = draw_layout(&a->model, r);
    int n = draw_company(seqs, prompt_of, a, r);
    struct rig_play play = {
        .sequences = seqs, .n_sequences = n, .random = r, .max_chunk = 1 + rig_below(r, 70)
    };
    snprintf(what, sizeof what,
             "seed %llu draw %d: %d stages (%d %d %d %d), %d threads, %s, budget %u, slots %u, "
             "chunk %u, %d sequences",
             (unsigned long long)seed, draw, layout.n_stages, layout.cuts[1], layout.cuts[2],
             layout.cuts[3], layout.cuts[4], layout.n_threads, layout.kernels->name,
             layout.limits.max_tokens, layout.limits.n_slots, play.max_chunk, n);
    rig_chain_open(&chain, &a->model, &layout);
    rig_play(&chain, &play);
    rig_chain_close(&chain);
    compare(a, seqs, prompt_of, n, what);
    if (play.allocs)
        fail_msg("%llu allocations in steps with %s", (unsigned long long)play.allocs, what);
}

static void bits(void **state)
{
    const struct bits_case *of = *state;
    struct answers a;
    struct rig_random r = { .key = seed };
    answers_open(&a, of);
    for (int draw = 0; draw < n_draws; draw++)
        one_draw(&a, draw, &r);
    answers_close(&a);
}

/* Every fixture whose layers or numbers differ in kind. */
static const struct bits_case cases[] = {
    { "llama-f32", false },
    { "llama-bf16", false },
    { "llama-bf16", true },
    { "llama-f16", false },
    { "llama-bias", false },
    { "mistral", false },
    { "mistral", true },
    { "qwen2-window", false },
    { "qwen3", false },
    { "qwen3", true },
    { "smollm3", false },
    { "gemma2", false },
    { "gemma3", true },
    { "olmo2", false },
    { "cohere2", false },
    { "glm4", false },
    { "phi3", false },
    { "mixtral", false },
    { "mixtral", true },
    { "qwen3_moe", false },
    { "qwen2_moe", false },
    { "glm4_moe", false },
    { "gpt_oss", false },
    { "gpt_oss", true },
    { "llama4", false },
    { "gemma4", false },
    { "gemma4", true },
    { "gemma4-moe", false },
    { "glm4_moe-groups", false },
    { "llama4-two", false },
    { "gemma4-odd", false },
    { "gpt_oss-mxfp4", false },
};

enum { N_CASES = sizeof cases / sizeof *cases };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[N_CASES];
    char names[N_CASES][64];
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    if (argc > 2)
        n_draws = atoi(argv[2]);
    printf("seed %llu, %d draws of each\n", (unsigned long long)seed, n_draws);
    for (size_t i = 0; i < N_CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s%s", cases[i].fixture,
                 cases[i].f32 ? " as f32" : "");
        tests[i] = (struct CMUnitTest){ .name = names[i],
                                        .test_func = bits,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    }
    return _cmocka_run_group_tests("bits", tests, N_CASES, NULL, NULL);
}
