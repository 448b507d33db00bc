/* The frame reader: every check of the wire's rule, one fault at a time and in its order. */
#include "tensor/dtype.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TABLE = 32,
    ROWS = 3,
    WIDTH = 5,
    PAYLOAD = TABLE + ROWS * WIDTH * 2,
    MAX_PAYLOAD = 4096
};
enum { MAX_FRAME = LS_FRAME_HEADER + MAX_PAYLOAD + LS_FRAME_TAG };

/* One sealed frame with both ends of its link, and the receiver's expectation that it meets. */
struct setup {
    unsigned char bytes[MAX_FRAME + 64];
    uint64_t n;
    struct ls_frame frame;
    struct ls_frame_link sender, receiver;
    struct ls_frame_expect expect;
};

static void fill(struct setup *s)
{
    memset(s, 0, sizeof *s);
    s->sender = (struct ls_frame_link){
        .source = 2, .destination = 5, .next_sequence = 77, .max_frame_bytes = MAX_FRAME
    };
    for (int i = 0; i < LS_RUN_ID; i++)
        s->sender.run_id[i] = (uint8_t)(0x10 + i);
    s->receiver = s->sender;
    s->frame = (struct ls_frame){ .kind = LS_KIND_STEP,
                                  .id = 0x1122334455667788u,
                                  .nonce = 0x99aabbccddeeff01u,
                                  .step = 0x55667788u,
                                  .rows = ROWS,
                                  .dtype = LS_DTYPE_F16,
                                  .ndim = 2,
                                  .dims = { ROWS, WIDTH },
                                  .table_bytes = TABLE,
                                  .tensor_bytes = ROWS * WIDTH * 2,
                                  .payload_bytes = PAYLOAD };
    s->expect = (struct ls_frame_expect){ .kinds = 1u << LS_KIND_STEP,
                                          .check_id = true,
                                          .id = s->frame.id,
                                          .check_nonce = true,
                                          .nonce = s->frame.nonce,
                                          .check_rows = true,
                                          .rows = ROWS,
                                          .dtype = LS_DTYPE_F16,
                                          .ndim = 2,
                                          .dims = { 0, WIDTH },
                                          .min_dim0 = 1,
                                          .max_dim0 = 8,
                                          .min_table = 16,
                                          .max_table = 64 };
    for (int i = 0; i < PAYLOAD; i++)
        s->bytes[LS_FRAME_HEADER + i] = (unsigned char)(i * 7 + 1);
}

static void seal(struct setup *s)
{
    s->n = ls_frame_seal(s->bytes, &s->frame, &s->sender);
}

/* Opens; a failure must leave link and frame alone and say something. */
static ls_status open_frame(struct setup *s)
{
    struct ls_frame out, untouched;
    struct ls_err err = { .status = LS_OK };
    memset(&out, 0xa5, sizeof out);
    untouched = out;
    struct ls_frame_link before = s->receiver;
    ls_status status = ls_frame_open(&out, s->bytes, s->n, &s->receiver, &s->expect, &err);
    if (status) {
        assert_memory_equal(&s->receiver, &before, sizeof before);
        assert_memory_equal(&out, &untouched, sizeof out);
        assert_int_equal(err.status, status);
        assert_true(strlen(err.text) > 10);
    } else {
        before.next_sequence++;
        assert_memory_equal(&s->receiver, &before, sizeof before);
    }
    return status;
}

static void assert_opens_as(struct setup *s, ls_status want, const char *what)
{
    ls_status got = open_frame(s);
    if (got != want)
        fail_msg("%s: got %s, want %s", what, ls_status_name(got), ls_status_name(want));
}

static void put(unsigned char *p, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(value >> (8 * i));
}

/* offset and size of each field, as docs and frame.h draw them */
struct field {
    const char *name;
    int at, size;
};

static const struct field fields[] = {
    { "magic", 0, 4 },           { "version", 4, 2 },      { "kind", 6, 1 },
    { "flags", 7, 1 },           { "run id", 8, 16 },      { "source", 24, 4 },
    { "destination", 28, 4 },    { "sequence", 32, 8 },    { "id", 40, 8 },
    { "nonce", 48, 8 },          { "step", 56, 4 },        { "rows", 60, 4 },
    { "dtype", 64, 1 },          { "ndim", 65, 1 },        { "reserved", 66, 2 },
    { "dims", 68, 16 },          { "table bytes", 84, 4 }, { "tensor bytes", 88, 8 },
    { "payload bytes", 96, 8 },  { "epoch", 104, 4 },      { "offset", 108, 8 },
    { "reserved end", 116, 12 },
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

static const struct field *field_named(const char *name)
{
    for (int i = 0; i < N_FIELDS; i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    fail_msg("no field %s", name);
    return NULL;
}

static void set_field(struct setup *s, const char *name, uint64_t value)
{
    const struct field *f = field_named(name);
    put(s->bytes + f->at, value, f->size < 8 ? f->size : 8);
}

static void bytes_lie_where_the_table_says(void **state)
{
    (void)state;
    struct setup s;
    unsigned char want[LS_FRAME_HEADER] = "LKS1\x01\x00\x01";
    fill(&s);
    seal(&s);
    assert_int_equal(s.n, LS_FRAME_HEADER + PAYLOAD + LS_FRAME_TAG);
    memcpy(want + 8, s.sender.run_id, 16);
    put(want + 24, 2, 4);
    put(want + 28, 5, 4);
    put(want + 32, 77, 8);
    put(want + 40, 0x1122334455667788u, 8);
    put(want + 48, 0x99aabbccddeeff01u, 8);
    put(want + 56, 0x55667788u, 4);
    put(want + 60, ROWS, 4);
    want[64] = LS_DTYPE_F16;
    want[65] = 2;
    put(want + 68, ROWS, 4);
    put(want + 72, WIDTH, 4);
    put(want + 84, TABLE, 4);
    put(want + 88, ROWS * WIDTH * 2, 8);
    put(want + 96, PAYLOAD, 8);
    assert_memory_equal(s.bytes, want, sizeof want);
    int covered = 0;
    for (int i = 0; i < N_FIELDS; i++) {
        assert_int_equal(fields[i].at, covered);
        covered += fields[i].size;
    }
    assert_int_equal(covered, LS_FRAME_HEADER);
}

static void sealed_frame_opens_to_the_same_fields(void **state)
{
    (void)state;
    struct setup s;
    struct ls_frame out;
    struct ls_err err;
    fill(&s);
    seal(&s);
    assert_int_equal(s.sender.next_sequence, 78);
    assert_int_equal(ls_frame_open(&out, s.bytes, s.n, &s.receiver, &s.expect, &err), LS_OK);
    assert_int_equal(s.receiver.next_sequence, 78);
    assert_memory_equal(out.run_id, s.sender.run_id, LS_RUN_ID);
    assert_int_equal(out.kind, LS_KIND_STEP);
    assert_int_equal(out.source, 2);
    assert_int_equal(out.destination, 5);
    assert_int_equal(out.sequence, 77);
    assert_int_equal(out.id, s.frame.id);
    assert_int_equal(out.nonce, s.frame.nonce);
    assert_int_equal(out.step, s.frame.step);
    assert_int_equal(out.rows, ROWS);
    assert_int_equal(out.dims[0], ROWS);
    assert_int_equal(out.dims[1], WIDTH);
    assert_int_equal(out.dims[3], 0);
    assert_int_equal(out.table_bytes, TABLE);
    assert_int_equal(out.payload_bytes, PAYLOAD);
}

static ls_status status_of_flip(const char *field, int bit, unsigned char flipped)
{
    if (!strcmp(field, "kind"))
        return flipped >= 1 && flipped < LS_N_KINDS ? LS_E_NOT_ALLOWED : LS_E_VERSION;
    if (!strcmp(field, "flags"))
        return flipped == LS_FLAG_MORE ? LS_E_SHAPE : LS_E_VERSION;
    if (!strcmp(field, "magic") || !strcmp(field, "version") || !strncmp(field, "reserved", 8))
        return LS_E_VERSION;
    if (!strcmp(field, "run id") || !strcmp(field, "source") || !strcmp(field, "destination"))
        return LS_E_WRONG_LINK;
    if (!strcmp(field, "sequence") || !strcmp(field, "epoch"))
        return LS_E_SEQUENCE;
    if (!strcmp(field, "payload bytes"))
        return (PAYLOAD ^ (bit < 32 ? 1u << bit : ~0u)) > MAX_PAYLOAD ? LS_E_TOO_LARGE
                                                                      : LS_E_SHAPE;
    return LS_E_SHAPE;
}

static void every_header_bit_has_its_status(void **state)
{
    (void)state;
    for (int i = 0; i < N_FIELDS; i++)
        for (int bit = 0; bit < 8 * fields[i].size; bit++) {
            struct setup s;
            fill(&s);
            seal(&s);
            unsigned char *byte = s.bytes + fields[i].at + bit / 8;
            *byte ^= (unsigned char)(1 << bit % 8);
            assert_opens_as(&s, status_of_flip(fields[i].name, bit, *byte), fields[i].name);
        }
}

static void a_tag_on_a_plain_link_is_refused(void **state)
{
    (void)state;
    for (int bit = 0; bit < 8 * LS_FRAME_TAG; bit++) {
        struct setup s;
        fill(&s);
        seal(&s);
        s.bytes[s.n - LS_FRAME_TAG + (uint64_t)bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_opens_as(&s, LS_E_AUTH, "tag");
    }
}

/* Zero bytes behind a plain frame look like its tag. */
static void more_bytes_than_the_header_claims_are_refused(void **state)
{
    (void)state;
    for (uint64_t more = 1; more <= 40; more++) {
        struct setup s;
        fill(&s);
        seal(&s);
        memset(s.bytes + s.n, 0, more);
        s.n += more;
        assert_opens_as(&s, LS_E_SHAPE, "bytes behind the tag");
    }
}

/* Exactly n bytes of memory, so that a sanitizer sees one byte too many. */
static void every_short_length_is_refused(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < LS_FRAME_HEADER + LS_FRAME_TAG; n++) {
        struct setup s;
        struct ls_frame out;
        struct ls_err err;
        fill(&s);
        seal(&s);
        unsigned char *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, s.bytes, n);
        assert_int_equal(ls_frame_open(&out, exact, n, &s.receiver, &s.expect, &err),
                         LS_E_AUTH);
        free(exact);
    }
}

static void empty_payload_is_a_frame_of_144_bytes(void **state)
{
    (void)state;
    struct setup s;
    fill(&s);
    s.frame = (struct ls_frame){ .kind = LS_KIND_DRAIN };
    s.expect = (struct ls_frame_expect){ .kinds = 1u << LS_KIND_DRAIN, .any_content = true };
    memset(s.bytes, 0xff, sizeof s.bytes);
    seal(&s);
    assert_int_equal(s.n, 144);
    s.receiver.max_frame_bytes = 144;
    assert_opens_as(&s, LS_OK, "empty");
}

static void the_link_limit_is_exact(void **state)
{
    (void)state;
    for (int over = -1; over <= 1; over++) {
        struct setup s;
        fill(&s);
        seal(&s);
        s.receiver.max_frame_bytes = s.n - (uint64_t)(int64_t)over;
        assert_opens_as(&s, over > 0 ? LS_E_TOO_LARGE : LS_OK, "limit");
    }
}

static void truncated_and_extended_frames_are_refused(void **state)
{
    (void)state;
    for (int cut = 1; cut <= PAYLOAD; cut++) {
        struct setup s;
        fill(&s);
        seal(&s);
        s.n -= (uint64_t)cut;
        memset(s.bytes + s.n - LS_FRAME_TAG, 0, LS_FRAME_TAG);
        assert_opens_as(&s, LS_E_SHAPE, "truncated");
    }
    for (int more = 1; more <= 64; more++) {
        struct setup s;
        fill(&s);
        seal(&s);
        s.n += (uint64_t)more;
        assert_opens_as(&s, LS_E_SHAPE, "extended");
    }
}

static void claimed_lengths_at_the_edges(void **state)
{
    (void)state;
    static const struct {
        uint64_t claim;
        ls_status want;
    } edges[] = {
        { 0, LS_E_SHAPE },
        { PAYLOAD - 1, LS_E_SHAPE },
        { PAYLOAD, LS_OK },
        { PAYLOAD + 1, LS_E_SHAPE },
        { MAX_PAYLOAD, LS_E_SHAPE },
        { MAX_PAYLOAD + 1, LS_E_TOO_LARGE },
        { UINT32_MAX, LS_E_TOO_LARGE },
        { (uint64_t)1 << 40, LS_E_TOO_LARGE },
        { UINT64_MAX - 143, LS_E_TOO_LARGE },
        { UINT64_MAX, LS_E_TOO_LARGE },
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        struct setup s;
        fill(&s);
        seal(&s);
        set_field(&s, "payload bytes", edges[i].claim);
        assert_opens_as(&s, edges[i].want, "claimed length");
    }
}

static void replay_gap_and_reorder_are_sequence_errors(void **state)
{
    (void)state;
    struct setup s;
    fill(&s);
    seal(&s);
    assert_opens_as(&s, LS_OK, "first");
    assert_opens_as(&s, LS_E_SEQUENCE, "replay");
    s.sender.next_sequence = 79;
    seal(&s);
    assert_opens_as(&s, LS_E_SEQUENCE, "gap");
    s.sender.next_sequence = 78;
    seal(&s);
    assert_opens_as(&s, LS_OK, "the expected one");
}

static void a_reflected_frame_is_on_the_wrong_link(void **state)
{
    (void)state;
    struct setup s;
    fill(&s);
    seal(&s);
    s.receiver.source = 5;
    s.receiver.destination = 2;
    assert_opens_as(&s, LS_E_WRONG_LINK, "reflected");
}

/* Faults in the order of the checks: with several at once, the earliest decides. */
static void break_at(struct setup *s, int check)
{
    switch (check) {
    case 0:
        s->receiver.max_frame_bytes = s->n - 1;
        break;
    case 1:
        s->bytes[s->n - 1] = 1;
        break;
    case 2:
        set_field(s, "version", 2);
        break;
    case 3:
        set_field(s, "source", 3);
        break;
    case 4:
        set_field(s, "sequence", 78);
        break;
    case 5:
        set_field(s, "kind", LS_KIND_STOP);
        break;
    case 6:
        set_field(s, "payload bytes", MAX_PAYLOAD + 1);
        break;
    default:
        set_field(s, "dtype", LS_DTYPE_BF16);
    }
}

static void the_earliest_fault_decides(void **state)
{
    (void)state;
    static const ls_status want[] = { LS_E_TOO_LARGE,  LS_E_AUTH,     LS_E_VERSION,
                                      LS_E_WRONG_LINK, LS_E_SEQUENCE, LS_E_NOT_ALLOWED,
                                      LS_E_TOO_LARGE,  LS_E_SHAPE };
    for (int a = 0; a < 8; a++)
        for (int b = a; b < 8; b++) {
            struct setup s;
            fill(&s);
            seal(&s);
            break_at(&s, b);
            break_at(&s, a);
            assert_opens_as(&s, want[a], "two faults");
        }
}

/* The rule in words, again: next stage, last stage to rank 0, all to rank 0, rank 0 to all. */
static void kinds_follow_the_table(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int from = 0; from < n + 1; from++)
            for (int to = 0; to < n + 1; to++) {
                int from_stage = from < n ? from : -1, to_stage = to < n ? to : -1;
                uint32_t kinds = ls_kinds_allowed(from, to, from_stage, to_stage, n);
                assert_int_equal(kinds >> LS_KIND_STEP & 1, to < n && to - from == 1);
                assert_int_equal(kinds >> LS_KIND_RESULT & 1, from == n - 1 && to == 0);
                assert_int_equal(kinds >> LS_KIND_ERROR & 1, to == 0);
                assert_int_equal(kinds >> LS_KIND_VOTE & 1, to == 0);
                assert_int_equal(kinds >> LS_KIND_STATS & 1, to == 0);
                assert_int_equal(kinds >> LS_KIND_PLAN & 1, from == 0);
                assert_int_equal(kinds >> LS_KIND_DRAIN & 1, from == 0);
                assert_int_equal(kinds >> LS_KIND_STOP & 1, from == 0);
                assert_int_equal(kinds >> LS_KIND_KV & 1, 0);
                assert_int_equal(kinds >> LS_KIND_WEIGHTS & 1, 0);
                assert_int_equal(kinds & 1, 0);
                assert_int_equal(kinds >> LS_N_KINDS, 0);
            }
    assert_int_equal(ls_kinds_allowed(-1, 0, 0, 0, 1), 0);
    assert_int_equal(ls_kinds_allowed(1, 2, -1, 0, 2), 0);
    /* from rank 0 to the first stage of another replica, and from nobody else */
    assert_int_equal(ls_kinds_allowed(0, 2, 0, 0, 2) >> LS_KIND_STEP & 1, 1);
    assert_int_equal(ls_kinds_allowed(1, 2, 1, 0, 2) >> LS_KIND_STEP & 1, 0);
    assert_int_equal(ls_kinds_allowed(2, 0, 0, 0, 2) >> LS_KIND_STEP & 1, 0);
}

static void kinds_have_names(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < LS_N_KINDS; kind++)
        assert_string_not_equal(ls_kind_name(kind), "unknown");
    assert_string_equal(ls_kind_name(0), "unknown");
    assert_string_equal(ls_kind_name(LS_N_KINDS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_lie_where_the_table_says),
        cmocka_unit_test(sealed_frame_opens_to_the_same_fields),
        cmocka_unit_test(every_header_bit_has_its_status),
        cmocka_unit_test(a_tag_on_a_plain_link_is_refused),
        cmocka_unit_test(more_bytes_than_the_header_claims_are_refused),
        cmocka_unit_test(every_short_length_is_refused),
        cmocka_unit_test(empty_payload_is_a_frame_of_144_bytes),
        cmocka_unit_test(the_link_limit_is_exact),
        cmocka_unit_test(truncated_and_extended_frames_are_refused),
        cmocka_unit_test(claimed_lengths_at_the_edges),
        cmocka_unit_test(replay_gap_and_reorder_are_sequence_errors),
        cmocka_unit_test(a_reflected_frame_is_on_the_wrong_link),
        cmocka_unit_test(the_earliest_fault_decides),
        cmocka_unit_test(kinds_follow_the_table),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
