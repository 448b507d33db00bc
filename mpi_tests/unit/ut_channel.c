/* Payloads of several frames, sealed and opened by teams of every size, over a link within this
 * process whose buffers are changed on the way: whichever thread finds what is wrong, the frame
 * that is wrong is the one that is refused, for its own reason, and no later one counts. */
#include "base/alloc.h"
#include "pipeline/channel.h"
#include "tensor/dtype.h"
#include "wire/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FRAME = 4096, N_FRAMES = 9, N_PAYLOADS = 2, MAX_TEAM = 5 };
enum { PAYLOAD = N_FRAMES * (FRAME - LS_PARTS_GAP) - 100 };

/* Both ends of a sealed link. */
struct ends {
    struct ls_comm *comm;
    struct ls_team *teams[MAX_TEAM + 1]; /* by size */
    struct ls_channel out, in;
    unsigned char *sent; /* the first frame of the payload sent last */
    uint32_t id;         /* of the next payload */
};

static struct ls_err err;

static void open_end(struct ends *e, struct ls_channel *ch, enum ls_direction direction)
{
    static const unsigned char key[LS_KEY_BYTES] = { 1, 2, 3 };
    const enum ls_suite suite = ls_suite_choose(ls_suites_here());
    *ch = (struct ls_channel){ .frame = { .run_id = { 7 }, .max_frame_bytes = FRAME },
                               .max_frames = N_FRAMES };
    assert_int_equal(ls_seal_create(&ch->seal, LS_LEVEL_SEALED, suite, key, &err), LS_OK);
    assert_int_equal(ls_comm_open(e->comm, &ch->link, 0, LS_TAG_STEP, direction,
                                  N_PAYLOADS * N_FRAMES, FRAME, &err),
                     LS_OK);
    assert_int_equal(
        ls_packer_init(&ch->packer, LS_PACK_NONE, direction == LS_RECV, PAYLOAD, &err), LS_OK);
}

static int setup(void **state)
{
    struct ends *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_int_equal(ls_comm_create(&e->comm, LS_COMM_SELF, &err), LS_OK);
    for (int n = 1; n <= MAX_TEAM; n++)
        assert_int_equal(ls_team_create(&e->teams[n], n, &err), LS_OK);
    open_end(e, &e->out, LS_SEND);
    open_end(e, &e->in, LS_RECV);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct ends *e = *state;
    ls_channel_close(&e->out);
    ls_channel_close(&e->in);
    ls_comm_destroy(e->comm);
    for (int n = 1; n <= MAX_TEAM; n++)
        ls_team_destroy(e->teams[n]);
    free(e);
    return 0;
}

static unsigned char byte_at(uint32_t id, uint64_t i)
{
    return (unsigned char)(i * 7 + i / 251 + id);
}

static void send_payload(struct ends *e, uint32_t n)
{
    struct ls_frame frame = { .kind = LS_KIND_STEP,
                              .id = e->id,
                              .step = e->id,
                              .dtype = LS_DTYPE_F32,
                              .ndim = 1,
                              .dims = { n / 4 },
                              .tensor_bytes = n };
    unsigned char *payload = ls_channel_payload(&e->out, n);
    assert_non_null(payload);
    e->sent = payload - LS_FRAME_HEADER;
    for (uint64_t i = 0; i < n; i++)
        payload[i] = byte_at(e->id, i);
    assert_int_equal(ls_channel_send(&e->out, &frame, payload, &err), LS_OK);
    e->id++;
}

/* Receives payload `id` of n bytes, with teams of the sizes that `sizes` lists by turns. */
static ls_status receive(struct ends *e, uint32_t id, uint32_t n, const char *sizes)
{
    const struct ls_frame_expect expect = { .kinds = 1u << LS_KIND_STEP,
                                            .check_id = true,
                                            .id = id,
                                            .dtype = LS_DTYPE_F32,
                                            .ndim = 1,
                                            .min_dim0 = n / 4,
                                            .max_dim0 = n / 4 };
    struct ls_frame frame;
    unsigned char *payload = NULL;
    for (int turn = 0; !payload; turn++) {
        bool found;
        e->in.team = e->teams[sizes[(size_t)turn % strlen(sizes)] - '0'];
        ls_status s = ls_channel_receive(&e->in, &expect, &found, &frame, &payload, &err);
        if (s)
            return s;
        assert_true(found);
    }
    assert_int_equal(frame.payload_bytes, n);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(payload[i], byte_at(id, i));
    return ls_channel_return(&e->in, &err);
}

static const char *const all_sizes[] = { "1", "2", "3", "4", "5", "1253", "41" };
enum { N_SIZES = sizeof all_sizes / sizeof *all_sizes };

/* Frames of several payloads lie in the link; none is taken with another one's. */
static void payloads_come_as_they_were(void **state)
{
    struct ends *e = *state;
    static const uint32_t bytes[] = { PAYLOAD, 4, PAYLOAD - 2 * FRAME, 2 * FRAME, FRAME };
    for (int k = 0; k < N_SIZES; k++)
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++) {
            const uint32_t id = e->id, other = bytes[(b + 1) % 5];
            e->out.team = e->teams[1 + k % MAX_TEAM];
            send_payload(e, bytes[b]);
            send_payload(e, other);
            const uint64_t allocs = ls_alloc_count();
            assert_int_equal(receive(e, id, bytes[b], all_sizes[k]), LS_OK);
            assert_int_equal(receive(e, id + 1, other, all_sizes[k]), LS_OK);
            assert_int_equal(ls_alloc_count(), allocs);
        }
    assert_int_equal(e->in.counts.frames, e->out.counts.frames);
    assert_int_equal(e->in.counts.sealed, e->out.counts.sealed);
    assert_int_equal(e->in.counts.bytes, e->out.counts.bytes);
}

/* Keys change within a payload, and within what could be opened side by side. */
static void epochs_change_between_frames(void **state)
{
    struct ends *e = *state;
    for (int k = 0; k < N_SIZES; k++)
        for (uint64_t limit = 1; limit < 6; limit++) {
            ls_seal_set_epoch_limits(e->out.seal, limit, UINT64_MAX);
            e->out.team = e->teams[1 + (k + (int)limit) % MAX_TEAM];
            send_payload(e, PAYLOAD);
            assert_int_equal(receive(e, e->id - 1, PAYLOAD, all_sizes[k]), LS_OK);
            assert_int_equal(e->in.frame.epoch, e->out.frame.epoch);
        }
    assert_true(e->out.frame.epoch > N_SIZES * N_FRAMES);
}

static unsigned char *frame_at(const struct ends *e, int i)
{
    return e->sent + (uint64_t)i * FRAME;
}

static void flip(struct ends *e, int i, uint64_t at, unsigned char bit)
{
    frame_at(e, i)[at] ^= bit;
}

static void swap(struct ends *e, int i)
{
    unsigned char kept[FRAME];
    memcpy(kept, frame_at(e, i), FRAME);
    memcpy(frame_at(e, i), frame_at(e, i + 1), FRAME);
    memcpy(frame_at(e, i + 1), kept, FRAME);
}

enum { AT_FLAGS = 7, AT_EPOCH = 104, AT_PAYLOAD = LS_FRAME_HEADER + 9 };

/* Makes frame i wrong in way `how`; what that must be called. */
static ls_status spoil(struct ends *e, int how, int i)
{
    switch (how) {
    case 0:
        flip(e, i, AT_PAYLOAD, 4);
        return LS_E_AUTH;
    case 1:
        flip(e, i, AT_FLAGS, LS_FLAG_MORE);
        return LS_E_AUTH;
    case 2:
        flip(e, i, AT_EPOCH, 1);
        return LS_E_AUTH;
    case 3: /* and a later one too */
        flip(e, i, AT_PAYLOAD, 1);
        flip(e, N_FRAMES - 1, AT_PAYLOAD + 1, 1);
        return LS_E_AUTH;
    default:
        swap(e, i);
        return LS_E_SEQUENCE; /* both authentic */
    }
}

enum { N_WAYS = 5 };

static void one_wrong_frame(int how, int i, const char *sizes)
{
    void *state;
    setup(&state);
    struct ends *e = state;
    e->out.team = e->teams[3];
    send_payload(e, PAYLOAD);
    const ls_status want = spoil(e, how, i), got = receive(e, 0, PAYLOAD, sizes);
    if (got != want || e->in.counts.frames != (uint64_t)i || e->in.counts.refused[want] != 1)
        fail_msg("way %d, frame %d, teams of %s: %s behind %d good frames", how, i, sizes,
                 ls_status_name(got), (int)e->in.counts.frames);
    assert_int_equal(e->in.frame.next_sequence, i);
    assert_non_null(strstr(err.text, "link from rank 0 to rank 0"));
    teardown(&state);
}

static void the_wrong_frame_is_the_one_refused(void **state)
{
    (void)state;
    for (int how = 0; how < N_WAYS; how++)
        for (int i = 0; i < N_FRAMES - (how == N_WAYS - 1 ? 2 : 0); i++)
            for (int k = 0; k < N_SIZES; k++)
                one_wrong_frame(how, i, all_sizes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(payloads_come_as_they_were, setup, teardown),
        cmocka_unit_test_setup_teardown(epochs_change_between_frames, setup, teardown),
        cmocka_unit_test(the_wrong_frame_is_the_one_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
