/* No plan makes a message that MPI cannot count: whatever is asked for, it is refused or every
 * frame of every link holds at most INT_MAX bytes. */
#include "pipeline/channel.h"
#include "pipeline/plan.h"
#include "wire/parts.h"

#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_RANKS = 3 };

struct model {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    struct ls_rank_report reports[N_RANKS]; /* memory unknown: nothing is refused for it */
};

static struct ls_plan plan; /* large */

static void open_model(struct model *m)
{
    char dir[4096];
    const struct ls_arch_wish wish = { .context = 0 };
    memset(m, 0, sizeof *m);
    ls_arena_init(&m->arena);
    snprintf(dir, sizeof dir, "%s/families/llama-f32", LS_FIXTURES);
    assert_int_equal(ls_arch_load(&m->arch, dir, &wish, &m->arena, NULL), LS_OK);
    assert_int_equal(ls_checkpoint_open(&m->ckpt, dir, NULL), LS_OK);
    for (int r = 0; r < N_RANKS; r++)
        m->reports[r] = (struct ls_rank_report){ .host = "node", .cores = 2 };
}

static void close_model(struct model *m)
{
    ls_checkpoint_close(m->ckpt);
    ls_arena_finish(&m->arena);
}

/* What a link of this plan is opened with (links.c). */
static void check_link(uint64_t payload, int n_payloads)
{
    const uint64_t frame = ls_channel_frame_bytes(payload, (uint64_t)plan.frame_bytes);
    const uint64_t count = ls_parts_count(payload, frame);
    assert_true(frame >= 1 && frame <= INT_MAX);
    assert_true(ls_channel_frame_bytes(payload, 0) <= INT_MAX); /* a link within a process */
    assert_true(ls_parts_bytes(payload, frame, 0) + LS_PARTS_GAP <= frame);
    assert_true(count >= 1 && count <= LS_CHANNEL_PARTS);
    assert_true((uint64_t)n_payloads * count <= LS_MAX_BUFFERS);
}

/* The largest payload of the plan's links. */
static uint64_t check_links(const struct model *m)
{
    uint64_t largest = ls_plan_result_payload(&plan, &m->arch);
    check_link(largest, ls_plan_result_sends(&plan, N_RANKS - 1));
    check_link(largest, ls_plan_result_receives(&plan));
    for (int s = 0; s < plan.n_stages; s++) {
        const int first = plan.stages[s].first_layer;
        const uint64_t payload = ls_plan_step_payload(&plan, &m->arch, first);
        const unsigned __int128 hidden =
            first ? (unsigned __int128)plan.budget * (unsigned)m->arch.hidden * sizeof(float)
                  : 0;
        assert_true(payload >= hidden); /* nothing has wrapped around */
        check_link(payload, ls_plan_step_buffers(&plan));
        largest = payload > largest ? payload : largest;
    }
    return largest;
}

/* Hidden states from a few bytes to 2^53, in every size of frame. */
static void every_plan_counts_in_an_int(void **state)
{
    (void)state;
    static const int32_t budgets[] = { 1, 512, 4096, 65536, 1 << 20 };
    static const int32_t frames[] = { 4096, 256 * 1024, 3 * 4096, 1 << 29, 1 << 30 };
    static const int32_t widths[] = { 64, 511, 512, 4096, 65536, 1 << 20, INT32_MAX };
    static const int32_t windows[] = { 1, 64, 256 };
    struct model m;
    uint64_t largest = 0;
    int n_formed = 0, n_refused = 0;
    open_model(&m);
    for (int i = 0; i < 5 * 5 * 7 * 3; i++) {
        const struct ls_run_wish wish = { .budget = budgets[i % 5],
                                          .frame_bytes = frames[i / 5 % 5],
                                          .window = windows[i / 175] };
        struct ls_err err = { .status = LS_OK };
        m.arch.hidden = widths[i / 25 % 7];
        ls_status s = ls_plan_form(&plan, &m.arch, m.ckpt, &wish, m.reports, N_RANKS, &err);
        if (s) {
            assert_int_equal(s, LS_E_REFUSED);
            if (!strstr(err.text, "one may hold 2 GiB; lower budget"))
                fail_msg("%s", err.text);
            assert_true((uint64_t)wish.budget * (uint64_t)m.arch.hidden * 4 > INT_MAX / 2);
            n_refused++;
            continue;
        }
        const uint64_t here = check_links(&m);
        largest = here > largest ? here : largest;
        n_formed++;
    }
    printf("%d plans, %d refused; the largest payload has %" PRIu64 " bytes\n", n_formed,
           n_refused, largest);
    assert_true(n_formed > 100 && n_refused > 100);
    assert_true(largest > INT_MAX / 2 && largest <= INT_MAX);
    close_model(&m);
}

/* Cutting itself knows no such limit: every byte once, offsets beyond 32 bits. */
static void large_payloads_are_cut_in_64_bits(void **state)
{
    (void)state;
    static const uint64_t gib = 1ull << 30;
    static const uint64_t sizes[] = { 2 * gib - 1, 2 * gib,     4 * gib - 1,
                                      4 * gib,     5 * gib + 7, 13 * gib };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t n = sizes[i], frame = ls_channel_frame_bytes(n, 4096);
        const uint64_t count = ls_parts_count(n, frame);
        uint64_t sum = 0;
        for (uint64_t part = 0; part < count; part++) {
            assert_int_equal(sum, part * (frame - LS_PARTS_GAP));
            sum += ls_parts_bytes(n, frame, part);
        }
        assert_true(sum == n && frame <= INT_MAX && count <= LS_CHANNEL_PARTS);
        assert_true(ls_channel_bytes(n, 4096) >= n + count * LS_PARTS_GAP);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_counts_in_an_int),
        cmocka_unit_test(large_payloads_are_cut_in_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
