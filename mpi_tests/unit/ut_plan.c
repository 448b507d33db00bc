/* The plan: sizes against memory and wishes, byte forms, reports. */
#include "base/alloc.h"
#include "model/weights.h"
#include "pipeline/plan.h"
#include "pipeline/rehearsal.h"
#include "pipeline/report.h"
#include "pipeline/scheduler.h"
#include "wire/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- forming -------------------------------------------------------------------------------
 */

struct model {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    struct ls_rank_report reports[8];
    struct ls_run_wish wish;
};

static struct ls_plan plan; /* large */

static void open_model(struct model *m, const char *fixture)
{
    char dir[4096];
    const struct ls_arch_wish wish = { .context = 0 };
    memset(m, 0, sizeof *m);
    ls_arena_init(&m->arena);
    snprintf(dir, sizeof dir, "%s/families/%s", LS_FIXTURES, fixture);
    assert_int_equal(ls_arch_load(&m->arch, dir, &wish, &m->arena, NULL), LS_OK);
    assert_int_equal(ls_checkpoint_open(&m->ckpt, dir, NULL), LS_OK);
    for (int r = 0; r < 8; r++) {
        snprintf(m->reports[r].host, LS_MAX_HOST, "node%d", r);
        m->reports[r].cores = 3 + r;
        m->reports[r].memory_bytes = 8ull << 30;
    }
}

static void close_model(struct model *m)
{
    ls_checkpoint_close(m->ckpt);
    ls_arena_finish(&m->arena);
}

static ls_status form(struct model *m, int n_ranks, struct ls_err *err)
{
    return ls_plan_form(&plan, &m->arch, m->ckpt, &m->wish, m->reports, n_ranks, err);
}

static void automatic_sizes(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    assert_int_equal(form(&m, 3, NULL), LS_OK);
    const struct ls_step_limits *lim = &plan.limits;
    assert_int_equal(plan.n_stages, 3);
    assert_int_equal(plan.window, 6);
    assert_int_equal(plan.budget, 128);
    assert_int_equal(plan.chunk, 128);
    assert_int_equal(plan.stages[2].threads, 5);
    assert_int_equal(lim->n_slots, 64);
    assert_int_equal(lim->n_blocks, 64 * 256 / 32);
    assert_int_equal(lim->context, 256);
    assert_int_equal(plan.logit_rows, 128);
    uint64_t kv = 0;
    for (int s = 0; s < 3; s++)
        kv += plan.stages[s].kv_bytes;
    uint64_t block = 0;
    for (int l = 0; l < m.arch.n_layers; l++)
        block += ls_kv_block_bytes(&m.arch, l);
    assert_int_equal(kv, lim->n_blocks * block);
    assert_int_equal(form(&m, 1, NULL), LS_OK); /* without stages that wait for each other */
    assert_int_equal(plan.budget, 512);
    assert_int_equal(plan.chunk, 256);
    close_model(&m);
}

static void wishes_are_kept(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    m.wish = (struct ls_run_wish){ .threads = 2,
                                   .budget = 9,
                                   .chunk = 400,
                                   .window = 7,
                                   .max_sequences = 5,
                                   .layers = "0-0,1-4" };
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    assert_int_equal(plan.stages[0].threads, 2);
    assert_int_equal(plan.stages[0].last_layer, 1);
    assert_int_equal(plan.budget, 9);
    assert_int_equal(plan.chunk, 9); /* a chunk is never more than a step */
    assert_int_equal(plan.window, 7);
    assert_int_equal(plan.limits.n_slots, 5);
    assert_int_equal(plan.limits.max_rows, 5);
    assert_int_equal(plan.logit_rows, 9);
    m.wish.kv_bytes = 40 * (plan.stages[1].kv_bytes / plan.limits.n_blocks);
    m.wish.max_sequences = 50;
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    assert_int_equal(plan.limits.n_blocks, 40);
    assert_int_equal(plan.limits.n_slots, 40);
    close_model(&m);
}

/* A fully windowed model never needs the blocks of a whole context. */
static void windowed_cache_is_small(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "mistral");
    assert_int_equal(ls_plan_all_window(&m.arch), 12);
    m.wish.chunk = 4;
    m.wish.max_sequences = 10;
    assert_int_equal(form(&m, 1, NULL), LS_OK);
    assert_int_equal(ls_scheduler_worst_blocks(&plan, 12, 256), 2);
    assert_int_equal(plan.limits.n_blocks, 20);
    assert_int_equal(plan.limits.max_blocks_per_slot, 8);
    close_model(&m);
    open_model(&m, "qwen2-window"); /* some layers see everything */
    assert_int_equal(ls_plan_all_window(&m.arch), 0);
    close_model(&m);
}

static void refuse(struct model *m, int n_ranks, ls_status status, const char *why)
{
    struct ls_err err = { .status = LS_OK };
    assert_int_equal(form(m, n_ranks, &err), status);
    if (!strstr(err.text, why))
        fail_msg("%s: not in: %s", why, err.text);
    memset(&m->wish, 0, sizeof m->wish);
}

/* Layers 3, 4 and 5 of gemma4 read what layers 1 and 2 keep. */
static void shared_caches_stay_together(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "gemma4");
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    assert_int_equal(plan.stages[1].first_layer, 1);
    refuse(&m, 3, LS_E_REFUSED,
           "into 2 stages only: layer 3 reads the keys and values of "
           "layer 1; start at most 2");
    snprintf(m.wish.layers, sizeof m.wish.layers, "0-2,3-5");
    refuse(&m, 2, LS_E_REFUSED, "stage 1 cannot begin at layer 3: layer 3 reads");
    snprintf(m.wish.layers, sizeof m.wish.layers, "0-0,1-5");
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    plan.stages[0].last_layer = plan.stages[1].first_layer = 2;
    assert_int_equal(ls_plan_check(&plan, &m.arch, 2, NULL), LS_E_REFUSED);
    close_model(&m);
}

/* What a refusal advises is enough, and what is a little less is not. */
static void advice_helps(void **state)
{
    (void)state;
    static const char *const names[] = { "llama-f32", "mistral", "gemma3" };
    struct ls_err err;
    for (int i = 0; i < 3 * 3; i++) {
        struct model m;
        open_model(&m, names[i / 3]);
        const int n_ranks = i % 3 + 1;
        m.wish.kv_bytes = 1;
        assert_int_equal(form(&m, n_ranks, &err), LS_E_MEMORY);
        const char *advice = strstr(err.text, "at least ");
        assert_non_null(advice);
        assert_null(strstr(err.text, "lower context"));
        const uint64_t kib = strtoull(advice + 9, NULL, 10);
        m.wish.kv_bytes = (kib - 1) * 1024;
        assert_int_equal(form(&m, n_ranks, &err), LS_E_MEMORY);
        advice = strstr(err.text, "lower context to ");
        if (advice) {
            const int32_t context = m.arch.context;
            m.arch.context = atoi(advice + 17);
            assert_true(m.arch.context > 0 && m.arch.context < context);
            assert_int_equal(form(&m, n_ranks, &err), LS_OK);
            m.arch.context = context;
        }
        m.wish.kv_bytes = kib * 1024;
        assert_int_equal(form(&m, n_ranks, &err), LS_OK);
        close_model(&m);
    }
}

static void refusals(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    refuse(&m, 6, LS_E_REFUSED, "6 ranks but the model has only 5 layers");
    m.wish.stages = 2;
    refuse(&m, 3, LS_E_REFUSED, "2 wanted, but 3 ranks were started");
    m.wish.budget = -1;
    refuse(&m, 1, LS_E_USAGE, "budget: -1");
    m.wish.window = 1000000;
    refuse(&m, 1, LS_E_USAGE, "window: 1000000, expected 1 to 256");
    m.wish.threads = 5000;
    refuse(&m, 1, LS_E_USAGE, "threads: 5000");
    m.wish.kv_bytes = 1;
    refuse(&m, 1, LS_E_MEMORY, "kv-memory allows 1 byte; raise kv-memory to at least");
    m.reports[1].memory_bytes = 100000;
    refuse(&m, 2, LS_E_MEMORY, "rank 1 on node1: layers");
    m.reports[1].memory_bytes = 8ull << 30;
    m.wish.budget = 1 << 20;
    m.arch.hidden *= 64; /* only the size of the frames */
    refuse(&m, 2, LS_E_MEMORY, "rank 0 on node0");
    for (int r = 0; r < 2; r++)
        m.reports[r].memory_bytes = 0; /* unknown: nothing is refused for memory */
    m.wish.budget = 1 << 20;
    refuse(&m, 2, LS_E_REFUSED, "one may hold 2 GiB; lower budget");
    close_model(&m);
}

static void little_memory_lowers_the_cache(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    m.wish.budget = 8;
    assert_int_equal(form(&m, 1, NULL), LS_OK);
    const struct ls_stage_plan *sp = &plan.stages[0];
    uint64_t block = sp->kv_bytes / plan.limits.n_blocks;
    uint64_t fixed = sp->weights_bytes + ls_stage_work_bytes(sp);
    m.reports[0].memory_bytes = fixed + 100 * block;
    assert_int_equal(form(&m, 1, NULL), LS_OK);
    assert_true(plan.limits.n_blocks >= 70 && plan.limits.n_blocks <= 80);
    m.reports[0].memory_bytes = fixed + 5 * block; /* less than one context of 8 blocks */
    refuse(&m, 1, LS_E_MEMORY, "the cache of one sequence of 256 tokens needs");
    m.wish.budget = 8;
    m.wish.kv_bytes = 90 * block;
    refuse(&m, 1, LS_E_MEMORY, "do not fit into the");
    close_model(&m);
}

/* Memory that each rank needs for these layers of a plan, and not a layer more. */
static uint64_t memory_for(const struct model *m, int first, int last)
{
    uint64_t bytes = 0, worst = ls_scheduler_worst_blocks(&plan, 0, plan.limits.context);
    for (int l = first; l < last; l++)
        bytes += ls_weights_bytes(&m->arch, m->ckpt, l, l + 1) +
                 worst * ls_kv_block_bytes(&m->arch, l) / 80 * 100 + 100;
    return bytes;
}

/* The ranks' memory decides when it is scarce; and what is too little says what would do. */
static void memory_decides_layers(void **state)
{
    (void)state;
    struct model m;
    struct ls_err err;
    open_model(&m, "llama-f32"); /* 5 layers */
    m.wish.budget = 8;
    m.wish.threads = 1;
    assert_int_equal(form(&m, 3, NULL), LS_OK);
    const int cuts[4] = { 0, 1, 4, 5 }; /* not what equal ranks would get */
    assert_true(plan.stages[1].last_layer - plan.stages[1].first_layer < 3);
    for (int r = 0; r < 3; r++)
        m.reports[r].memory_bytes =
            ls_stage_work_bytes(&plan.stages[r]) + memory_for(&m, cuts[r], cuts[r + 1]) + 20000;
    assert_int_equal(form(&m, 3, &err), LS_OK);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(plan.stages[r].first_layer, cuts[r]);
        assert_int_equal(plan.stages[r].last_layer, cuts[r + 1]);
    }
    uint64_t one_layer = memory_for(&m, 4, 5); /* the last one, with the head, is the largest */
    for (int r = 0; r < 3; r++)
        m.reports[r].memory_bytes = 3 * ls_stage_work_bytes(&plan.stages[0]) + one_layer;
    while (!form(&m, 3, &err)) /* rank 0 keeps what it needs for its links to the others */
        for (int r = 1; r < 3; r++)
            m.reports[r].memory_bytes -= 1000;
    assert_int_equal(form(&m, 3, &err), LS_E_MEMORY);
    if (!strstr(err.text, "and one rank each would do"))
        fail_msg("%s", err.text);
    for (int r = 0; r < 3; r++)
        m.reports[r].memory_bytes = 10000;
    assert_int_equal(form(&m, 3, &err), LS_E_MEMORY);
    assert_non_null(strstr(err.text, "no number of hosts"));
    close_model(&m);
}

/* Ranks of more cores get more layers. */
static void speed_decides_layers(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    m.reports[0].cores = 1;
    m.reports[1].cores = 16;
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    assert_int_equal(plan.stages[0].last_layer, 1);
    close_model(&m);
}

/* A head that few rows need weighs less, so its stage gets more layers. */
static void few_logits_decide_layers(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    const uint64_t head = ls_weights_head_bytes(&m.arch, m.ckpt);
    const uint64_t last = ls_weights_bytes(&m.arch, m.ckpt, 4, 5);
    const uint64_t layer = ls_weights_bytes(&m.arch, m.ckpt, 3, 4);
    assert_int_equal(last, layer + head);
    m.reports[0].cores = 5;
    m.reports[1].cores = 6;
    m.wish.few_logits = 1;
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    const int few = plan.stages[0].last_layer;
    m.wish.few_logits = 0;
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    printf("layers of %llu bytes, head of %llu: %d and %d on the first stage\n",
           (unsigned long long)layer, (unsigned long long)head, few, plan.stages[0].last_layer);
    assert_true(few < plan.stages[0].last_layer);
    close_model(&m);
}

/* What is used of a block: pages; of a large one, large pages behind the first. */
static void residence_is_in_pages(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    uint64_t next = 0;
    assert_int_equal(ls_alloc_resident(mib, 0, 5000, &next), 8192);
    assert_int_equal(ls_alloc_resident(mib, 5000, 8000, &next), 0);
    assert_int_equal(ls_alloc_resident(mib, 8000, 9000, &next), 4096);
    next = 0;
    assert_int_equal(ls_alloc_resident(16 * mib, 0, mib + 1, &next), mib + 4096);
    next = 0;
    assert_int_equal(ls_alloc_resident(16 * mib, 0, 2 * mib + 1, &next), 4 * mib);
    assert_int_equal(ls_alloc_resident(16 * mib, 5 * mib, 5 * mib + 1, &next), 2 * mib);
}

/* Steps of one row take 1 ms in all layers; logits, keys and tokens' choice nothing. */
static void rehearsals_add_up(void **state)
{
    (void)state;
    struct model m;
    struct ls_rehearsal run;
    const int32_t tokens[40] = { 0 };
    const struct ls_sequence seq = {
        .tokens = tokens, .n_prompt = 40, .max_new = 10, .n_send = 1
    };
    struct ls_pace pace = { .n_threads = 1 };
    for (int i = 0; i < LS_PACE_POINTS; i++)
        pace.run_us[i] = 1000.0 * ls_pace_rows[i];
    assert_true(ls_pace_run(&pace, 10) > 9999 && ls_pace_run(&pace, 10) < 10001);
    assert_true(ls_pace_run(&pace, 512) > 511999 && ls_pace_run(&pace, 512) < 512001);
    open_model(&m, "llama-f32");
    for (int n = 1; n <= 2; n++) {
        const double work[2] = { 1.0 / n, 1.0 / n };
        m.wish.threads = 1;
        assert_int_equal(form(&m, n, NULL), LS_OK);
        const struct ls_rehearsal_config config = { .plan = &plan,
                                                    .arch = &m.arch,
                                                    .sequences = &seq,
                                                    .n = 1,
                                                    .pace = &pace,
                                                    .work = work,
                                                    .share = 1 };
        assert_int_equal(ls_rehearse(&run, &config, NULL), LS_OK);
        assert_int_equal(run.tokens, 49); /* the last one is never fed back */
        assert_int_equal(run.max_blocks, 2);
        printf("%d stages: %.6f s\n", n, run.seconds);
        if (n == 1)
            assert_true(run.seconds > 0.048999 && run.seconds < 0.049001);
        else /* a prompt's two parts may overlap; single tokens never do, and pay for hops */
            assert_true(run.seconds > 0.029 && run.seconds < 0.052);
        assert_true(run.busy_s[0] > 0.0489 / n && run.busy_s[0] < 0.0492 / n);
        ls_rehearsal_finish(&run);
    }
    close_model(&m);
}

static void check_finds_contradictions(void **state)
{
    (void)state;
    struct model m;
    static struct ls_plan good;
    open_model(&m, "llama-f32");
    assert_int_equal(form(&m, 3, NULL), LS_OK);
    good = plan;
    int32_t *const fields[] = { &plan.n_stages,
                                &plan.stages[1].first_layer,
                                &plan.stages[2].last_layer,
                                &plan.stages[0].threads,
                                &plan.budget,
                                &plan.window };
    static const int32_t values[] = { 2, 0, 4, 0, 7, 0 };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        plan = good;
        *fields[i] = values[i];
        assert_int_not_equal(ls_plan_check(&plan, &m.arch, 3, NULL), LS_OK);
    }
    plan = good;
    plan.limits.context = 128;
    assert_int_not_equal(ls_plan_check(&plan, &m.arch, 3, NULL), LS_OK);
    close_model(&m);
}

/* A plan that another program made may name a packing that this build lacks. */
static void packing_needs_its_library(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, "llama-f32");
    assert_int_equal(form(&m, 2, NULL), LS_OK);
    for (int pack = LS_PACK_NONE; pack < LS_N_PACKS; pack++) {
        struct ls_err err = { 0 };
        const bool good = pack == LS_PACK_NONE || ls_pack_is_built();
        plan.pack = pack;
        assert_int_equal(ls_plan_check(&plan, &m.arch, 2, &err), good ? LS_OK : LS_E_REFUSED);
        assert_true(good || strstr(err.text, "this program was built without liblz4"));
    }
    close_model(&m);
}

/* --- byte forms ----------------------------------------------------------------------------
 */

static void wish_travels(void **state)
{
    (void)state;
    static unsigned char bytes[LS_WISH_BYTES];
    struct ls_run_wish wish = { .model = "a folder/with spaces",
                                .layers = "0-1,2-3",
                                .stages = 2,
                                .threads = 3,
                                .context = 4,
                                .budget = 5,
                                .chunk = 6,
                                .window = 7,
                                .max_sequences = 8,
                                .kv_bytes = 1ull << 40,
                                .cpu_path = 2,
                                .f32_activations = 1,
                                .check_bytes = 1,
                                .digests = 1,
                                .placement_seed = 99,
                                .few_logits = 1,
                                .silence_s = 10 };
    struct ls_run_wish got;
    size_t n = ls_wish_encode(&wish, bytes);
    assert_int_equal(ls_wish_decode(&got, bytes, n, NULL), LS_OK);
    assert_memory_equal(&got, &wish, sizeof wish);
    for (size_t k = 0; k < n; k++)
        assert_int_equal(ls_wish_decode(&got, bytes, k, NULL), LS_E_SHAPE);
    assert_int_equal(ls_wish_decode(&got, bytes, n + 1, NULL), LS_E_SHAPE);
    bytes[n - 3] = 2; /* a flag is 0 or 1 */
    assert_int_equal(ls_wish_decode(&got, bytes, n, NULL), LS_E_SHAPE);
    memset(wish.model, 'x', sizeof wish.model - 1); /* the longest path still fits */
    memset(wish.layers, '0', sizeof wish.layers - 1);
    n = ls_wish_encode(&wish, bytes);
    assert_int_equal(ls_wish_decode(&got, bytes, n, NULL), LS_OK);
    bytes[7] = 0; /* a zero byte inside a text */
    assert_int_equal(ls_wish_decode(&got, bytes, n, NULL), LS_E_SHAPE);
}

static void plan_travels(void **state)
{
    (void)state;
    struct model m;
    static struct ls_plan got;
    static unsigned char bytes[LS_PLAN_BYTES];
    unsigned char digest[32], other[32];
    open_model(&m, "llama-f32");
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    memset(plan.run_id, 7, sizeof plan.run_id);
    size_t n = ls_plan_encode(&plan, bytes);
    assert_int_equal(ls_plan_decode(&got, bytes, n, NULL), LS_OK);
    assert_memory_equal(&got, &plan, sizeof plan);
    for (size_t k = 0; k < n; k++)
        assert_int_equal(ls_plan_decode(&got, bytes, k, NULL), LS_E_SHAPE);
    for (size_t k = sizeof plan.run_id; k < n; k++) { /* every byte is under the digest */
        bytes[k] ^= 1;
        assert_int_equal(ls_plan_decode(&got, bytes, n, NULL), LS_E_SHAPE);
        bytes[k] ^= 1;
    }
    ls_plan_digest(&plan, digest);
    plan.run_id[0] = 9;
    ls_plan_digest(&plan, other);
    assert_memory_equal(digest, other, 32);
    plan.stages[3].threads++;
    ls_plan_digest(&plan, other);
    assert_memory_not_equal(digest, other, 32);
    close_model(&m);
}

/* --- reports -------------------------------------------------------------------------------
 */

static void view_of(struct ls_rank_view *v, const char *host, int first_cpu, int n_cpus)
{
    memset(v, 0, sizeof *v);
    snprintf(v->report.host, sizeof v->report.host, "%s", host);
    v->report.memory_bytes = 1000;
    v->report.cores = n_cpus;
    for (int i = first_cpu; i < first_cpu + n_cpus; i++)
        v->cpus[i / 64] |= 1ull << (i % 64);
}

static void hosts_are_shared(void **state)
{
    (void)state;
    static struct ls_rank_view v[5];
    struct ls_rank_report r[5];
    view_of(&v[0], "a", 0, 8); /* two ranks with the same eight cores */
    view_of(&v[1], "a", 0, 8);
    view_of(&v[2], "b", 0, 4); /* bound to cores of their own */
    view_of(&v[3], "b", 62, 4);
    view_of(&v[4], "c", 0, 64); /* a container's quota */
    v[4].cpu_quota = 3;
    ls_views_share(v, 5, r);
    static const int cores[] = { 4, 4, 4, 4, 3 }, memory[] = { 500, 500, 500, 500, 1000 };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(r[i].cores, cores[i]);
        assert_int_equal(r[i].memory_bytes, memory[i]);
    }
    for (int i = 0; i < 5; i++)
        view_of(&v[i], "a", 0, 2); /* more ranks than cores */
    ls_views_share(v, 5, r);
    assert_int_equal(r[4].cores, 1);
}

static void reports_travel_and_must_agree(void **state)
{
    (void)state;
    static struct ls_rank_view v[3], got;
    unsigned char bytes[LS_VIEW_BYTES];
    struct ls_err err = { .status = LS_OK };
    for (int i = 0; i < 3; i++)
        view_of(&v[i], i == 2 ? "far" : "near", 0, 2);
    memset(v[2].text, 'x', sizeof v[2].text - 1);
    v[2].status = LS_E_IO;
    memset(v[2].report.host, 'h', sizeof v[2].report.host - 1);
    size_t n = ls_view_encode(&v[2], bytes);
    assert_int_equal(ls_view_decode(&got, bytes, n, &err), LS_OK);
    assert_memory_equal(&got, &v[2], sizeof got);
    for (size_t k = 0; k < n; k++)
        assert_int_equal(ls_view_decode(&got, bytes, k, &err), LS_E_SHAPE);
    bytes[0] = LS_N_STATUS;
    assert_int_equal(ls_view_decode(&got, bytes, n, &err), LS_E_SHAPE);
    assert_int_equal(ls_views_agree(v, 3, &err), LS_OK);
    v[2].report.checkpoint_digest[31] = 1;
    assert_int_equal(ls_views_agree(v, 3, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "rank 2 on h"));
    v[1].report.program_digest[0] = 1;
    assert_int_equal(ls_views_agree(v, 3, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "rank 1 on near runs another build"));
}

static void this_machine_can_be_read(void **state)
{
    (void)state;
    uint64_t mask[LS_CPU_WORDS];
    assert_true(ls_machine_cpus(mask) >= 1);
    assert_true(ls_machine_memory() > 1 << 20);
    assert_true(ls_machine_cpu_quota() >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automatic_sizes),
        cmocka_unit_test(wishes_are_kept),
        cmocka_unit_test(windowed_cache_is_small),
        cmocka_unit_test(shared_caches_stay_together),
        cmocka_unit_test(advice_helps),
        cmocka_unit_test(refusals),
        cmocka_unit_test(little_memory_lowers_the_cache),
        cmocka_unit_test(memory_decides_layers),
        cmocka_unit_test(speed_decides_layers),
        cmocka_unit_test(few_logits_decide_layers),
        cmocka_unit_test(residence_is_in_pages),
        cmocka_unit_test(rehearsals_add_up),
        cmocka_unit_test(check_finds_contradictions),
        cmocka_unit_test(packing_needs_its_library),
        cmocka_unit_test(wish_travels),
        cmocka_unit_test(plan_travels),
        cmocka_unit_test(hosts_are_shared),
        cmocka_unit_test(reports_travel_and_must_agree),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
