/* Layers to stages: splits against brute force, and the user's own ranges. */
#include "base/philox.h"
#include "pipeline/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_LAYERS = 70 };

struct draw {
    uint64_t key, index;
};

static uint32_t below(struct draw *d, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(d->key, d->index++) * n);
}

/* --- splitting -----------------------------------------------------------------------------
 */

struct problem {
    uint64_t cost[MAX_LAYERS], embed, head;
    int n_layers, n_stages;
};

static uint64_t stage_cost(const struct problem *p, int begin, int end)
{
    uint64_t sum = (begin == 0 ? p->embed : 0) + (end == p->n_layers ? p->head : 0);
    for (int l = begin; l < end; l++)
        sum += p->cost[l];
    return sum;
}

/* The best largest stage over all cuts of layers [begin, n_layers) into `stages`. */
static uint64_t brute_force(const struct problem *p, int begin, int stages)
{
    if (stages == 1)
        return stage_cost(p, begin, p->n_layers);
    uint64_t best = UINT64_MAX;
    for (int end = begin + 1; end <= p->n_layers - stages + 1; end++) {
        uint64_t first = stage_cost(p, begin, end), rest = brute_force(p, end, stages - 1);
        uint64_t most = first > rest ? first : rest;
        best = most < best ? most : best;
    }
    return best;
}

/* Checks that every layer is covered once and no stage is empty; returns the largest stage. */
static uint64_t split(const struct problem *p)
{
    int32_t first[MAX_LAYERS + 1];
    struct ls_err err = { .status = LS_OK };
    assert_int_equal(
        ls_plan_split(p->cost, p->n_layers, p->embed, p->head, p->n_stages, first, &err),
        LS_OK);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[p->n_stages], p->n_layers);
    uint64_t most = 0;
    for (int s = 0; s < p->n_stages; s++) {
        assert_true(first[s + 1] > first[s]);
        uint64_t cost = stage_cost(p, first[s], first[s + 1]);
        most = cost > most ? cost : most;
    }
    return most;
}

static void splits_are_the_best(void **state)
{
    (void)state;
    struct draw d = { .key = 5 };
    for (int i = 0; i < 3000; i++) {
        struct problem p = { .n_layers = 1 + (int)below(&d, 9) };
        p.n_stages = 1 + (int)below(&d, (uint32_t)p.n_layers);
        uint32_t range = below(&d, 2) ? 4 : 1000;
        for (int l = 0; l < p.n_layers; l++)
            p.cost[l] = below(&d, range);
        p.embed = below(&d, 2) * below(&d, range);
        p.head = below(&d, 2) * below(&d, 3 * range);
        assert_int_equal(split(&p), brute_force(&p, 0, p.n_stages));
    }
}

static void every_pair_is_covered(void **state)
{
    (void)state;
    struct problem p = { .embed = 0 };
    for (p.n_layers = 1; p.n_layers <= MAX_LAYERS; p.n_layers++) {
        for (int l = 0; l < p.n_layers; l++)
            p.cost[l] = 100;
        for (p.n_stages = 1; p.n_stages <= p.n_layers; p.n_stages++) {
            uint64_t even = (uint64_t)(p.n_layers + p.n_stages - 1) / (uint64_t)p.n_stages;
            assert_int_equal(split(&p), 100 * even);
        }
    }
}

/* An even share, not a full first stage and an idle last one. */
static void equal_layers_are_shared_evenly(void **state)
{
    (void)state;
    static const int pairs[][2] = { { 61, 2 }, { 30, 4 }, { 36, 5 }, { 10, 4 }, { 32, 6 } };
    uint64_t cost[MAX_LAYERS];
    for (int l = 0; l < MAX_LAYERS; l++)
        cost[l] = 7;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int32_t first[MAX_LAYERS + 1];
        int layers = pairs[i][0], stages = pairs[i][1];
        assert_int_equal(ls_plan_split(cost, layers, 0, 0, stages, first, NULL), LS_OK);
        for (int s = 0; s < stages; s++) {
            int n = first[s + 1] - first[s];
            assert_true(n == layers / stages || n == layers / stages + 1);
        }
    }
}

static void splits_that_cannot_be(void **state)
{
    (void)state;
    uint64_t cost[3] = { 1, 1, 1 };
    int32_t first[8];
    struct ls_err err = { .status = LS_OK };
    assert_int_equal(ls_plan_split(cost, 3, 0, 0, 4, first, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "4 ranks but the model has only 3 layers"));
    assert_int_equal(ls_plan_split(cost, 3, 0, 0, 0, first, &err), LS_E_REFUSED);
    cost[1] = UINT64_MAX;
    assert_int_equal(ls_plan_split(cost, 3, 0, 0, 2, first, &err), LS_E_REFUSED);
}

/* --- ranks that are not equal --------------------------------------------------------------
 */

struct over {
    uint64_t cost[12], bytes[12];
    struct ls_split_rank ranks[5];
    int n_layers, n_stages;
};

/* The best slowest stage of layers [begin, n_layers) over ranks [stage, n_stages); HUGE_VAL
 * when none fits. */
static double brute_force_over(const struct over *o, int begin, int stage)
{
    double best = HUGE_VAL;
    uint64_t cost = 0, bytes = 0;
    if (stage >= 5)
        return best;
    for (int end = begin + 1; end <= o->n_layers; end++) {
        cost += o->cost[end - 1];
        bytes += o->bytes[end - 1];
        bool is_end = end == o->n_layers, is_last = stage == o->n_stages - 1;
        if (bytes > o->ranks[stage].room_bytes || is_end != is_last)
            continue;
        double time = (double)cost / o->ranks[stage].speed;
        double rest = is_last ? 0 : brute_force_over(o, end, stage + 1);
        double most = time > rest ? time : rest;
        best = most < best ? most : best;
    }
    return best;
}

static double slowest(const struct over *o, const int32_t *first)
{
    double most = 0;
    assert_int_equal(first[0], 0);
    assert_int_equal(first[o->n_stages], o->n_layers);
    for (int s = 0; s < o->n_stages; s++) {
        uint64_t cost = 0, bytes = 0;
        assert_true(first[s] < first[s + 1]);
        for (int l = first[s]; l < first[s + 1]; l++) {
            cost += o->cost[l];
            bytes += o->bytes[l];
        }
        assert_true(bytes <= o->ranks[s].room_bytes);
        double time = (double)cost / o->ranks[s].speed;
        most = time > most ? time : most;
    }
    return most;
}

static void unequal_splits_are_the_best(void **state)
{
    (void)state;
    struct draw d = { .key = 77 };
    int n_fit = 0;
    for (int i = 0; i < 3000; i++) {
        struct over o;
        int32_t first[6];
        o.n_layers = 1 + (int)below(&d, 12);
        o.n_stages = 1 + (int)below(&d, o.n_layers < 5 ? (uint32_t)o.n_layers : 5);
        for (int l = 0; l < o.n_layers; l++) {
            o.cost[l] = below(&d, 50);
            o.bytes[l] = 1 + below(&d, 20);
        }
        for (int s = 0; s < o.n_stages; s++)
            o.ranks[s] = (struct ls_split_rank){ .room_bytes = 10 + below(&d, 100),
                                                 .speed = 1 + below(&d, 4) };
        double best = brute_force_over(&o, 0, 0);
        struct ls_err err;
        ls_status status =
            ls_plan_split_over(o.cost, o.bytes, o.n_layers, o.ranks, o.n_stages, first, &err);
        assert_int_equal(status, best == HUGE_VAL ? LS_E_MEMORY : LS_OK);
        if (status)
            continue;
        n_fit++;
        assert_true(slowest(&o, first) == best);
    }
    assert_true(n_fit > 1000);
}

/* Memory of 3, 2 and 1 parts, all of it needed: layers in the same proportion; with memory to
 * spare, the speeds decide. */
static void proportions_are_exact(void **state)
{
    (void)state;
    uint64_t cost[12], bytes[12];
    int32_t first[4];
    struct ls_split_rank ranks[3] = { { 600, 1 }, { 400, 1 }, { 200, 1 } };
    for (int l = 0; l < 12; l++)
        cost[l] = bytes[l] = 100;
    assert_int_equal(ls_plan_split_over(cost, bytes, 12, ranks, 3, first, NULL), LS_OK);
    assert_true(first[1] == 6 && first[2] == 10 && first[3] == 12);
    ranks[2].room_bytes = 199;
    assert_int_equal(ls_plan_split_over(cost, bytes, 12, ranks, 3, first, NULL), LS_E_MEMORY);
    for (int s = 0; s < 3; s++)
        ranks[s] = (struct ls_split_rank){ UINT64_MAX, (uint32_t)(s + 1) };
    assert_int_equal(ls_plan_split_over(cost, bytes, 12, ranks, 3, first, NULL), LS_OK);
    assert_true(first[1] == 2 && first[2] == 6 && first[3] == 12);
    for (int s = 0; s < 3; s++)
        ranks[s].speed = 7;
    assert_int_equal(ls_plan_split_over(cost, bytes, 12, ranks, 3, first, NULL), LS_OK);
    assert_true(first[1] == 4 && first[2] == 8 && first[3] == 12);
}

/* --- the user's ranges ---------------------------------------------------------------------
 */

static void layers_as_text(void **state)
{
    (void)state;
    int32_t first[9];
    assert_int_equal(ls_plan_parse_layers("0-3,4-7", 8, 2, first, NULL), LS_OK);
    assert_true(first[0] == 0 && first[1] == 4 && first[2] == 8);
    assert_int_equal(ls_plan_parse_layers("0,1-6,7", 8, 3, first, NULL), LS_OK);
    assert_true(first[1] == 1 && first[2] == 7 && first[3] == 8);
    static const struct {
        const char *text;
        int stages;
        const char *why;
    } bad[] = {
        { "", 1, "cannot read a range at character 1" },
        { "0-7,", 1, "cannot read a range at character 5" },
        { "a-3", 1, "character 1" },
        { "0-", 1, "cannot read" },
        { "0-3;4-7", 2, "cannot read" },
        { "3-0,4-7", 2, "cannot read" },
        { "0 -3,4-7", 2, "cannot read" },
        { "-1-3,4-7", 2, "cannot read" },
        { "0-99999999999999999999", 1, "cannot read" },
        { "1-7", 1, "begins at layer 1, expected 0" },
        { "0-3,5-7", 2, "begins at layer 5, expected 4" },
        { "0-3,3-7", 2, "begins at layer 3, expected 4" },
        { "4-7,0-3", 2, "begins at layer 4, expected 0" },
        { "0-3,4-8", 2, "the model's last layer is 7" },
        { "0-3,4-6", 2, "layers 7 to 7 are on no stage" },
        { "0-3,4-7", 3, "2 ranges for 3 stages" },
        { "0-1,2-3,4-7", 2, "3 ranges for 2 stages" },
        { "0-7", 2, "1 range for 2 stages" },
        { "0-3,4-7", 1, "2 ranges for 1 stage;" },
        { "0-7", 9, "9 ranks but" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ls_err err = { .status = LS_OK };
        assert_int_not_equal(ls_plan_parse_layers(bad[i].text, 8, bad[i].stages, first, &err),
                             LS_OK);
        if (!strstr(err.text, bad[i].why))
            fail_msg("\"%s\" for %d stages: %s", bad[i].text, bad[i].stages, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_the_best),
        cmocka_unit_test(every_pair_is_covered),
        cmocka_unit_test(equal_layers_are_shared_evenly),
        cmocka_unit_test(splits_that_cannot_be),
        cmocka_unit_test(unequal_splits_are_the_best),
        cmocka_unit_test(proportions_are_exact),
        cmocka_unit_test(layers_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
