/* The plan of several pipelines: which rank is what, who shares weights, and how many fit. */
#include "model/weights.h"
#include "pipeline/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RANKS = 8 };

struct model {
    struct ls_arena arena;
    struct ls_arch arch; /* 5 layers */
    struct ls_checkpoint *ckpt;
    struct ls_rank_report reports[MAX_RANKS];
    struct ls_run_wish wish;
};

static struct ls_plan plan; /* large */

/* Ranks in a row on hosts of per_host ranks each. */
static void open_model(struct model *m, int per_host)
{
    const struct ls_arch_wish wish = { .context = 0 };
    memset(m, 0, sizeof *m);
    ls_arena_init(&m->arena);
    const char dir[] = LS_FIXTURES "/families/llama-f32";
    assert_int_equal(ls_arch_load(&m->arch, dir, &wish, &m->arena, NULL), LS_OK);
    assert_int_equal(ls_checkpoint_open(&m->ckpt, dir, NULL), LS_OK);
    for (int r = 0; r < MAX_RANKS; r++) {
        snprintf(m->reports[r].host, LS_MAX_HOST, "node%d", r / per_host);
        m->reports[r].cores = 2;
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

static void two_by_two(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, MAX_RANKS);
    m.wish.replicas = 2;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    assert_int_equal(plan.n_stages, 2);
    assert_int_equal(plan.n_replicas, 2);
    assert_int_equal(plan.window, 4);
    static const int first[4] = { 0, 3, 0, 3 }, last[4] = { 3, 5, 3, 5 };
    static const int owner[4] = { 0, 1, 0, 1 };
    for (int r = 0; r < 4; r++) {
        assert_int_equal(plan.stages[r].first_layer, first[r]);
        assert_int_equal(plan.stages[r].last_layer, last[r]);
        assert_int_equal(plan.stages[r].weights_rank, owner[r]);
        assert_int_equal(plan.stages[r].n_sharing, 2);
    }
    assert_true(plan.stages[0].link_bytes > plan.stages[2].link_bytes);
    m.wish.own_weights = 1;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(plan.stages[r].weights_rank, r);
        assert_int_equal(plan.stages[r].n_sharing, 1);
    }
    close_model(&m);
}

/* Only ranks of one host share. */
static void hosts_share(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, 2);
    m.wish.replicas = 4;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    assert_int_equal(plan.stages[1].weights_rank, 0);
    assert_int_equal(plan.stages[2].weights_rank, 2);
    assert_int_equal(plan.stages[3].weights_rank, 2);
    m.wish.replicas = 2;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    for (int r = 0; r < 4; r++)
        assert_int_equal(plan.stages[r].weights_rank, r);
    close_model(&m);
}

static void refuse(struct model *m, int n_ranks, int stages, int replicas, const char *why)
{
    struct ls_err err;
    m->wish.stages = stages;
    m->wish.replicas = replicas;
    assert_int_not_equal(form(m, n_ranks, &err), LS_OK);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void counts_must_fit(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, 1);
    refuse(&m, 4, 0, 3, "4 ranks cannot be divided into 3 pipelines");
    refuse(&m, 4, 3, 2, "2 of 3 stages are 6 ranks, but 4 ranks were started");
    refuse(&m, 4, 2, 0, "2 wanted, but 4 ranks were started");
    refuse(&m, 4, 3, LS_REPLICAS_AUTO, "3 wanted, but 4 ranks were started");
    refuse(&m, 8, 0, 1, "only 5 layers");
    refuse(&m, 4, 0, -2, "expected 1 to");
    m.wish.stages = 2;
    m.wish.replicas = LS_REPLICAS_AUTO;
    assert_int_equal(form(&m, 8, NULL), LS_OK);
    assert_int_equal(plan.n_replicas, 4);
    close_model(&m);
}

/* auto: no cut while memory holds the whole model, then as few as it takes. */
static void memory_decides(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, 1);
    m.wish.replicas = LS_REPLICAS_AUTO;
    m.wish.max_sequences = 1;
    m.wish.budget = 8;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    assert_int_equal(plan.n_replicas, 4);
    assert_int_equal(plan.n_stages, 1);
    struct ls_plan *whole = &plan;
    uint64_t need = 0;
    for (int r = 0; r < 4; r++) {
        const struct ls_stage_plan *sp = &whole->stages[r];
        uint64_t n = sp->weights_bytes + sp->kv_bytes + ls_stage_work_bytes(sp);
        need = n > need ? n : need;
    }
    for (int r = 0; r < 4; r++)
        m.reports[r].memory_bytes = need - plan.stages[0].weights_bytes / 8;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    assert_int_equal(plan.n_stages, 2);
    assert_int_equal(plan.n_replicas, 2);
    struct ls_err err;
    for (int r = 0; r < 4; r++)
        m.reports[r].memory_bytes = 100000;
    assert_int_equal(form(&m, 4, &err), LS_E_MEMORY);
    close_model(&m);
}

/* Four ranks of one host that share hold the model once. */
static void shared_weights_count_once(void **state)
{
    (void)state;
    struct model m;
    open_model(&m, MAX_RANKS);
    m.wish.replicas = 4;
    m.wish.max_sequences = 1;
    m.wish.budget = 8;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    const struct ls_stage_plan *sp = &plan.stages[0];
    const uint64_t memory =
        sp->kv_bytes * 5 / 4 + ls_stage_work_bytes(sp) + sp->weights_bytes / 4 + 4096;
    for (int r = 0; r < 4; r++)
        m.reports[r].memory_bytes = memory;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    m.wish.own_weights = 1;
    assert_int_equal(form(&m, 4, NULL), LS_E_MEMORY);
    close_model(&m);
}

static void contradictions(void **state)
{
    (void)state;
    struct model m;
    static struct ls_plan good;
    open_model(&m, MAX_RANKS);
    m.wish.replicas = 2;
    assert_int_equal(form(&m, 4, NULL), LS_OK);
    assert_int_equal(ls_plan_check(&plan, &m.arch, 4, NULL), LS_OK);
    good = plan;
    int32_t *const fields[] = { &plan.n_replicas,
                                &plan.stages[2].last_layer,
                                &plan.stages[2].weights_rank,
                                &plan.stages[3].weights_rank,
                                &plan.stages[3].weights_rank,
                                &plan.stages[0].weights_rank,
                                &plan.stages[2].n_sharing,
                                &plan.stages[3].threads };
    static const int32_t values[] = { 1, 4, 3, 0, -1, 2, 1, 0 };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        plan = good;
        *fields[i] = values[i];
        if (!ls_plan_check(&plan, &m.arch, 4, NULL))
            fail_msg("field %d", (int)i);
    }
    close_model(&m);
}

static void it_travels(void **state)
{
    (void)state;
    struct model m;
    static struct ls_plan got;
    static unsigned char bytes[LS_PLAN_BYTES];
    open_model(&m, 3);
    m.wish.replicas = 3;
    assert_int_equal(form(&m, 6, NULL), LS_OK);
    const size_t n = ls_plan_encode(&plan, bytes);
    assert_int_equal(ls_plan_decode(&got, bytes, n, NULL), LS_OK);
    assert_memory_equal(&got, &plan, sizeof plan);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_by_two),      cmocka_unit_test(hosts_share),
        cmocka_unit_test(counts_must_fit), cmocka_unit_test(memory_decides),
        cmocka_unit_test(contradictions),  cmocka_unit_test(shared_weights_count_once),
        cmocka_unit_test(it_travels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
