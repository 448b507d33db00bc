/* Slots and block tables: every fault of events and rows is refused and changes nothing; random
 * steps agree with a slow second account. */
#include "base/philox.h"
#include "kernels/kernels.h"
#include "stage/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 4, BLOCKS = 10, PER_SLOT = 4, EVENTS = 12 };

static const struct ls_step_limits limits = { .max_rows = SLOTS,
                                              .max_events = EVENTS,
                                              .max_tokens = 256,
                                              .n_slots = SLOTS,
                                              .n_blocks = BLOCKS,
                                              .max_blocks_per_slot = PER_SLOT,
                                              .context = PER_SLOT * LS_KV_BLOCK };

struct setup {
    struct ls_tables tables;
    void *block;
    struct ls_step step;
};

static void setup_open(struct setup *s)
{
    struct ls_carve c = { .base = NULL };
    ls_tables_carve(&s->tables, &c, &limits);
    assert_int_equal(ls_alloc(&s->block, ls_carve_bytes(&c), "tables", NULL), LS_OK);
    c = (struct ls_carve){ .base = s->block };
    s->tables = (struct ls_tables){ .n_checked = 0 };
    ls_tables_carve(&s->tables, &c, &limits);
    assert_int_equal(ls_step_init(&s->step, &limits, 0, NULL), LS_OK);
}

static void setup_close(struct setup *s)
{
    ls_free(s->block);
    ls_step_finish(&s->step);
}

static void event(struct setup *s, uint32_t kind, uint32_t slot, uint32_t value)
{
    s->step.events[s->step.n_events++] = (struct ls_step_event){ kind, slot, value };
}

static void row(struct setup *s, uint32_t slot, uint32_t first_pos, uint32_t count)
{
    s->step.rows[s->step.n_rows++] =
        (struct ls_step_row){ .slot = slot, .first_pos = first_pos, .count = count };
    s->step.n_tokens += count;
}

static ls_status apply(struct setup *s)
{
    ls_status status = ls_tables_apply(&s->tables, &s->step, NULL);
    if (!status)
        ls_tables_advance(&s->tables, &s->step);
    s->step.n_events = s->step.n_rows = s->step.n_tokens = 0;
    return status;
}

/* What must not move when a step is refused. The ordinal of the last look is no state. */
struct account {
    struct ls_slot slots[SLOTS];
    uint32_t blocks[SLOTS * PER_SLOT];
    uint32_t users[BLOCKS], whole[BLOCKS];
};

static struct account account_of(const struct ls_tables *t)
{
    struct account a;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < SLOTS; i++) {
        const struct ls_slot *slot = &t->slots[i];
        a.slots[i].open = slot->open;
        a.slots[i].length = slot->length;
        a.slots[i].live_first = slot->live_first;
        a.slots[i].n_blocks = slot->n_blocks;
        a.slots[i].nan_layer = slot->nan_layer;
    }
    memcpy(a.blocks, t->blocks, sizeof a.blocks);
    memcpy(a.users, t->users, sizeof a.users);
    memcpy(a.whole, t->whole, sizeof a.whole);
    return a;
}

/* Slot 0: 70 positions in blocks 3, 1, 7, trimmed to 32; slot 1: 5 positions in block 0. */
static void prepare(struct setup *s)
{
    setup_open(s);
    event(s, LS_EVENT_OPEN, 0, 0);
    event(s, LS_EVENT_ASSIGN, 0, 3);
    event(s, LS_EVENT_ASSIGN, 0, 1);
    event(s, LS_EVENT_ASSIGN, 0, 7);
    event(s, LS_EVENT_OPEN, 1, 0);
    event(s, LS_EVENT_ASSIGN, 1, 0);
    row(s, 0, 0, 70);
    row(s, 1, 0, 5);
    assert_int_equal(apply(s), LS_OK);
    event(s, LS_EVENT_TRIM, 0, 32);
    row(s, 1, 5, 1);
    assert_int_equal(apply(s), LS_OK);
    assert_int_equal(s->tables.users[3], 0);
}

static void expect_refused(struct setup *s, const char *why)
{
    struct account before = account_of(&s->tables), after;
    if (apply(s) != LS_E_SHAPE)
        fail_msg("accepted: %s", why);
    after = account_of(&s->tables);
    if (memcmp(&before, &after, sizeof before))
        fail_msg("refused, but the tables have changed: %s", why);
}

/* Each fault stands behind events that were already applied and must be taken back. */
static void faults_of_events(void **state)
{
    (void)state;
    static const struct {
        struct ls_step_event event;
        const char *why;
    } cases[] = {
        { { LS_EVENT_OPEN, 0, 0 }, "OPEN of an open slot" },
        { { LS_EVENT_ASSIGN, 3, 5 }, "ASSIGN to a closed slot" },
        { { LS_EVENT_ASSIGN, 0, 0 }, "ASSIGN of another slot's block" },
        { { LS_EVENT_ASSIGN, 0, 1 }, "ASSIGN of an own block" },
        { { LS_EVENT_ASSIGN, 0, 9 }, "ASSIGN of a block assigned in this step" },
        { { LS_EVENT_TRIM, 3, 0 }, "TRIM of a closed slot" },
        { { LS_EVENT_TRIM, 0, 0 }, "TRIM backwards" },
        { { LS_EVENT_TRIM, 0, 96 }, "TRIM past the length" },
        { { LS_EVENT_CLOSE, 3, 0 }, "CLOSE of a closed slot" },
        { { LS_EVENT_CLOSE, 2, 0 }, "CLOSE of a slot closed in this step" },
        { { LS_EVENT_ADOPT, 3, 3 }, "ADOPT to a closed slot" },
        { { LS_EVENT_ADOPT, 2, 3 }, "ADOPT to a slot closed in this step" },
        { { LS_EVENT_ADOPT, 0, 3 }, "ADOPT in the middle of a block" },
        { { LS_EVENT_ADOPT, 1, 3 }, "ADOPT behind blocks without positions" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup s;
        prepare(&s);
        event(&s, LS_EVENT_OPEN, 2, 0);
        event(&s, LS_EVENT_ASSIGN, 2, 8);
        event(&s, LS_EVENT_CLOSE, 2, 0);
        event(&s, LS_EVENT_TRIM, 0, 64);
        event(&s, LS_EVENT_ASSIGN, 0, 9);
        event(&s, LS_EVENT_CLOSE, 1, 0);
        event(&s, LS_EVENT_OPEN, 1, 0);
        event(&s, LS_EVENT_ASSIGN, 1, 8); /* these three were freed above */
        event(&s, LS_EVENT_ASSIGN, 1, 0);
        event(&s, LS_EVENT_ASSIGN, 1, 1);
        s.step.events[s.step.n_events++] = cases[i].event;
        row(&s, 1, 0, 1);
        expect_refused(&s, cases[i].why);
        event(&s, LS_EVENT_ASSIGN, 0, 3); /* free since the first trim, still so */
        row(&s, 0, 70, 58);
        row(&s, 1, 6, 26);
        assert_int_equal(apply(&s), LS_OK);
        setup_close(&s);
    }
}

static void too_many_blocks(void **state)
{
    (void)state;
    struct setup s;
    prepare(&s);
    event(&s, LS_EVENT_ASSIGN, 0, 4);
    event(&s, LS_EVENT_ASSIGN, 0, 5);
    row(&s, 0, 70, 1);
    expect_refused(&s, "a fifth block where the context has four");
    setup_close(&s);
}

static void faults_of_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t slot, first_pos, count;
        const char *why;
    } cases[] = {
        { 3, 0, 1, "closed slot" },           { 0, 69, 1, "a position again" },
        { 0, 71, 1, "a position left out" },  { 0, 38, 1, "position counted from live_first" },
        { 0, 70, 27, "one past the blocks" }, { 1, 6, 1, "a slot twice" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup s;
        prepare(&s);
        event(&s, LS_EVENT_OPEN, 2, 0);
        event(&s, LS_EVENT_ASSIGN, 2, 3);
        event(&s, LS_EVENT_TRIM, 0, 64);
        row(&s, 1, 6, 1);
        row(&s, cases[i].slot, cases[i].first_pos, cases[i].count);
        expect_refused(&s, cases[i].why);
        row(&s, 0, 70, 26);
        row(&s, 1, 6, 1);
        assert_int_equal(apply(&s), LS_OK);
        assert_int_equal(s.tables.slots[0].length, 96);
        setup_close(&s);
    }
}

/* Blocks 3, 1 and the first 6 positions of 7 were computed; 3 is free, and so not lost. */
static void adopting(void **state)
{
    (void)state;
    struct setup s;
    prepare(&s);
    event(&s, LS_EVENT_OPEN, 2, 0);
    event(&s, LS_EVENT_ADOPT, 2, 1);
    row(&s, 2, 32, 1);
    expect_refused(&s, "ADOPT of a second block as the first");
    event(&s, LS_EVENT_OPEN, 2, 0);
    event(&s, LS_EVENT_ADOPT, 2, 3);
    event(&s, LS_EVENT_ADOPT, 2, 1);
    event(&s, LS_EVENT_ADOPT, 2, 7);
    row(&s, 2, 96, 1);
    expect_refused(&s, "ADOPT of a block that is not whole");
    event(&s, LS_EVENT_OPEN, 2, 0);
    event(&s, LS_EVENT_ADOPT, 2, 3);
    event(&s, LS_EVENT_ADOPT, 2, 1);
    event(&s, LS_EVENT_ASSIGN, 2, 4);
    row(&s, 2, 0, 1);
    expect_refused(&s, "an adopted position again");
    event(&s, LS_EVENT_OPEN, 2, 0);
    event(&s, LS_EVENT_ADOPT, 2, 3);
    event(&s, LS_EVENT_ADOPT, 2, 1);
    event(&s, LS_EVENT_ASSIGN, 2, 4);
    row(&s, 2, 64, 32);
    assert_int_equal(apply(&s), LS_OK);
    assert_int_equal(s.tables.users[1], 2);
    assert_int_equal(s.tables.users[3], 1);
    event(&s, LS_EVENT_CLOSE, 0, 0); /* what it computed stays for its other holder */
    event(&s, LS_EVENT_OPEN, 3, 0);
    event(&s, LS_EVENT_ASSIGN, 3, 1);
    row(&s, 3, 0, 1);
    expect_refused(&s, "ASSIGN of a block that its adopter holds");
    event(&s, LS_EVENT_CLOSE, 0, 0);
    event(&s, LS_EVENT_CLOSE, 2, 0);
    event(&s, LS_EVENT_OPEN, 3, 0);
    event(&s, LS_EVENT_ADOPT, 3, 3);
    event(&s, LS_EVENT_ADOPT, 3, 1);
    event(&s, LS_EVENT_ADOPT, 3, 4);
    event(&s, LS_EVENT_ASSIGN, 3, 7);
    row(&s, 3, 96, 1);
    assert_int_equal(apply(&s), LS_OK);
    event(&s, LS_EVENT_CLOSE, 3, 0);
    event(&s, LS_EVENT_OPEN, 0, 0);
    event(&s, LS_EVENT_ASSIGN, 0, 3); /* overwritten from here on */
    row(&s, 0, 0, 1);
    assert_int_equal(apply(&s), LS_OK);
    event(&s, LS_EVENT_OPEN, 3, 0);
    event(&s, LS_EVENT_ADOPT, 3, 3);
    row(&s, 3, 32, 1);
    expect_refused(&s, "ADOPT of a block that was given to another sequence");
    setup_close(&s);
}

/* Holders of each block, from the tables; one that several hold has the same place in all. */
static void check_ownership(const struct ls_tables *t)
{
    uint32_t owned[BLOCKS] = { 0 };
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct ls_slot *slot = &t->slots[i];
        for (uint32_t b = slot->live_first / LS_KV_BLOCK; slot->open && b < slot->n_blocks;
             b++) {
            uint32_t id = ls_tables_blocks(t, i)[b];
            if (owned[id]++ > 0)
                assert_int_equal(t->whole[id], b + 1);
        }
    }
    assert_memory_equal(owned, t->users, sizeof owned);
}

static uint32_t below(uint64_t *at, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(42, (*at)++) * n);
}

/* Mostly sensible random steps: some pass, most are refused somewhere in the middle. */
static void random_steps(void **state)
{
    (void)state;
    struct setup s;
    uint64_t at = 0;
    int accepted = 0;
    setup_open(&s);
    for (int i = 0; i < 20000; i++) {
        for (uint32_t e = below(&at, 5); e > 0; e--) {
            uint32_t kind = below(&at, LS_N_EVENTS), slot = below(&at, SLOTS);
            uint32_t value = kind == LS_EVENT_ASSIGN  ? below(&at, BLOCKS)
                             : kind == LS_EVENT_ADOPT ? below(&at, BLOCKS)
                             : kind == LS_EVENT_TRIM  ? below(&at, PER_SLOT) * LS_KV_BLOCK
                                                      : 0;
            event(&s, kind, slot, value);
        }
        for (uint32_t r = below(&at, 3); r > 0; r--) {
            uint32_t slot = below(&at, SLOTS);
            row(&s, slot, s.tables.slots[slot].length, 1 + below(&at, 40));
        }
        struct account before = account_of(&s.tables), after;
        ls_status status = apply(&s);
        accepted += status == LS_OK;
        after = account_of(&s.tables);
        if (status && memcmp(&before, &after, sizeof before))
            fail_msg("step %d was refused and changed the tables", i);
        check_ownership(&s.tables);
    }
    assert_true(accepted > 1000 && accepted < 19000);
    setup_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_events), cmocka_unit_test(too_many_blocks),
        cmocka_unit_test(faults_of_rows),   cmocka_unit_test(adopting),
        cmocka_unit_test(random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
