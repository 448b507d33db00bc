/* Links of the self backend, in a process that never starts MPI. */
#include "base/alloc.h"
#include "comm/comm.h"

#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct ls_err err;

static struct ls_comm *create(void)
{
    struct ls_comm *comm = NULL;
    assert_int_equal(ls_comm_create(&comm, LS_COMM_SELF, &err), LS_OK);
    return comm;
}

static struct ls_link *open_link(struct ls_comm *comm, enum ls_direction direction,
                                 int n_buffers, uint64_t bytes)
{
    struct ls_link *link = NULL;
    assert_int_equal(
        ls_comm_open(comm, &link, 0, LS_TAG_STEP, direction, n_buffers, bytes, &err), LS_OK);
    return link;
}

static void send_text(struct ls_link *link, const char *text)
{
    char *buffer = ls_link_buffer(link);
    assert_non_null(buffer);
    memcpy(buffer, text, strlen(text));
    assert_int_equal(ls_link_send(link, strlen(text), &err), LS_OK);
}

static void expect_text(struct ls_link *link, const char *text)
{
    void *bytes = NULL;
    uint64_t n = 0;
    assert_int_equal(ls_link_poll(link, &bytes, &n, &err), LS_OK);
    assert_non_null(bytes);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, n);
}

static void expect_nothing(struct ls_link *link)
{
    void *bytes = "";
    uint64_t n = 1;
    assert_int_equal(ls_link_poll(link, &bytes, &n, &err), LS_OK);
    assert_null(bytes);
    assert_int_equal(n, 0);
}

static void one_rank_without_mpi(void **state)
{
    (void)state;
    char host[256];
    struct ls_comm *comm = create();
    assert_int_equal(ls_comm_rank(comm), 0);
    assert_int_equal(ls_comm_size(comm), 1);
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(ls_comm_host(comm), host);
    assert_string_equal(ls_comm_backend_name(comm), "self");
    ls_comm_destroy(comm);
    ls_comm_destroy(NULL);
}

static void messages_arrive_in_order(void **state)
{
    (void)state;
    for (int receiver_first = 0; receiver_first < 2; receiver_first++) {
        struct ls_comm *comm = create();
        struct ls_link *in = NULL, *out;
        if (receiver_first)
            in = open_link(comm, LS_RECV, 2, 16);
        out = open_link(comm, LS_SEND, 3, 16);
        send_text(out, "one");
        send_text(out, "three");
        if (!in)
            in = open_link(comm, LS_RECV, 2, 16);
        expect_text(in, "one");
        expect_text(in, "one");
        assert_false(ls_link_idle(in));
        assert_int_equal(ls_link_return(in, &err), LS_OK);
        expect_text(in, "three");
        assert_false(ls_link_idle(out));
        assert_int_equal(ls_link_return(in, &err), LS_OK);
        expect_nothing(in);
        assert_true(ls_link_idle(in));
        assert_true(ls_link_idle(out));
        assert_int_equal(ls_link_return(in, NULL), LS_E_INTERNAL);
        ls_comm_destroy(comm);
    }
}

static void the_receiver_gets_the_senders_buffer(void **state)
{
    (void)state;
    struct ls_comm *comm = create();
    struct ls_link *out = open_link(comm, LS_SEND, 2, 64);
    struct ls_link *in = open_link(comm, LS_RECV, 2, 64);
    void *buffer = ls_link_buffer(out), *bytes;
    uint64_t n;
    assert_int_equal((uintptr_t)buffer % LS_ALIGN, 0);
    assert_int_equal(ls_link_send(out, 64, &err), LS_OK);
    assert_int_equal(ls_link_poll(in, &bytes, &n, &err), LS_OK);
    assert_ptr_equal(bytes, buffer);
    assert_ptr_not_equal(ls_link_buffer(out), buffer);
    ls_comm_destroy(comm);
}

static void a_full_ring_gives_no_buffer_then_recovers(void **state)
{
    (void)state;
    struct ls_comm *comm = create();
    struct ls_link *out = open_link(comm, LS_SEND, 2, 8);
    struct ls_link *in = open_link(comm, LS_RECV, 2, 8);
    uint64_t allocated = ls_alloc_count();
    for (int lap = 0; lap < 100; lap++) {
        send_text(out, "a");
        send_text(out, "b");
        assert_null(ls_link_buffer(out));
        assert_int_equal(ls_link_send(out, 1, NULL), LS_E_INTERNAL);
        assert_int_equal(ls_comm_progress(comm, &err), LS_OK);
        assert_null(ls_link_buffer(out));
        expect_text(in, "a");
        assert_null(ls_link_buffer(out));
        assert_int_equal(ls_link_return(in, &err), LS_OK);
        assert_non_null(ls_link_buffer(out));
        expect_text(in, "b");
        assert_int_equal(ls_link_return(in, &err), LS_OK);
    }
    assert_int_equal(ls_alloc_count(), allocated);
    struct ls_comm_counts counts;
    ls_comm_get_counts(comm, &counts);
    assert_int_equal(counts.sent_messages, 200);
    assert_int_equal(counts.received_messages, 200);
    assert_int_equal(counts.sent_bytes, 200);
    assert_int_equal(counts.received_bytes, 200);
    ls_comm_destroy(comm);
}

static void a_message_longer_than_the_buffer_is_too_large(void **state)
{
    (void)state;
    struct ls_comm *comm = create();
    struct ls_link *out = open_link(comm, LS_SEND, 2, 9);
    struct ls_link *in = open_link(comm, LS_RECV, 2, 8);
    void *bytes = NULL;
    uint64_t n;
    assert_int_equal(ls_link_send(out, 10, NULL), LS_E_INTERNAL);
    assert_int_equal(ls_link_send(out, 8, &err), LS_OK);
    assert_int_equal(ls_link_poll(in, &bytes, &n, &err), LS_OK);
    assert_int_equal(n, 8);
    assert_int_equal(ls_link_return(in, &err), LS_OK);
    assert_int_equal(ls_link_send(out, 9, &err), LS_OK);
    for (int again = 0; again < 2; again++)
        assert_int_equal(ls_link_poll(in, &bytes, &n, &err), LS_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "link from rank 0 to rank 0, tag 2"));
    ls_comm_destroy(comm);
}

static void open_refuses_what_cannot_be(void **state)
{
    (void)state;
    struct ls_comm *comm = create();
    struct ls_link *link = NULL;
    static const struct {
        int peer, n_buffers;
        uint64_t bytes;
        ls_status want;
    } cases[] = {
        { -1, 1, 8, LS_E_INTERNAL },        { 1, 1, 8, LS_E_INTERNAL },
        { 0, 0, 8, LS_E_INTERNAL },         { 0, LS_MAX_BUFFERS + 1, 8, LS_E_INTERNAL },
        { 0, 1, 0, LS_E_REFUSED },          { 0, 1, 0x80000000u, LS_E_REFUSED },
        { 0, 1, UINT64_MAX, LS_E_REFUSED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int d = 0; d < 2; d++) {
            assert_int_equal(ls_comm_open(comm, &link, cases[i].peer, LS_TAG_STEP,
                                          d ? LS_RECV : LS_SEND, cases[i].n_buffers,
                                          cases[i].bytes, NULL),
                             cases[i].want);
            assert_null(link);
        }
    struct ls_link *out = open_link(comm, LS_SEND, 1, 8);
    assert_int_equal(ls_comm_open(comm, &link, 0, LS_TAG_STEP, LS_SEND, 1, 8, NULL),
                     LS_E_INTERNAL);
    void *bytes;
    uint64_t n;
    assert_int_equal(ls_link_poll(out, &bytes, &n, NULL), LS_E_INTERNAL);
    assert_int_equal(ls_link_return(out, NULL), LS_E_INTERNAL);
    struct ls_link *in = open_link(comm, LS_RECV, 1, 8);
    assert_null(ls_link_buffer(in));
    assert_int_equal(ls_link_send(in, 1, NULL), LS_E_INTERNAL);
    ls_comm_destroy(comm);
}

/* Messages that are kept while others come: each is shown once, buffers go back in order. */
static void held_messages_stay_until_they_are_returned(void **state)
{
    (void)state;
    struct ls_comm *comm = NULL;
    assert_int_equal(ls_comm_create(&comm, LS_COMM_SELF, NULL), LS_OK);
    struct ls_link *out = open_link(comm, LS_SEND, 3, 8), *in = open_link(comm, LS_RECV, 3, 8);
    unsigned char *shown[3];
    void *bytes;
    uint64_t n;
    assert_int_equal(ls_link_hold(in, NULL), LS_E_INTERNAL);
    for (unsigned char i = 0; i < 3; i++) {
        unsigned char *buffer = ls_link_buffer(out);
        buffer[0] = i;
        assert_int_equal(ls_link_send(out, 1, NULL), LS_OK);
        assert_int_equal(ls_link_poll(in, &bytes, &n, NULL), LS_OK);
        shown[i] = bytes;
        assert_int_equal(ls_link_hold(in, NULL), LS_OK);
        assert_int_equal(ls_link_n_held(in), i + 1);
    }
    assert_null(ls_link_buffer(out));
    assert_int_equal(ls_link_poll(in, &bytes, &n, NULL), LS_OK);
    assert_null(bytes);
    for (unsigned char i = 0; i < 3; i++) {
        assert_int_equal(shown[i][0], i);
        assert_false(ls_link_idle(in));
        assert_int_equal(ls_link_return(in, NULL), LS_OK);
        assert_ptr_equal(ls_link_buffer(out), shown[i]);
        shown[i][0] = 9;
        assert_int_equal(ls_link_send(out, 1, NULL), LS_OK);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ls_link_poll(in, &bytes, &n, NULL), LS_OK);
        assert_ptr_equal(bytes, shown[i]);
        assert_int_equal(ls_link_return(in, NULL), LS_OK);
    }
    assert_true(ls_link_idle(in));
    ls_comm_destroy(comm);
}

static void idling_counts_and_ends(void **state)
{
    (void)state;
    unsigned count = 0;
    for (unsigned i = 1; i < 5000; i++) {
        ls_comm_idle(&count);
        assert_int_equal(count, i);
    }
    count = 1u << 31;
    ls_comm_idle(&count);
    assert_int_equal(count, 1u << 31);
}

static void mpi_was_never_started(void **state)
{
    (void)state;
    int initialized = 1;
    MPI_Initialized(&initialized);
    assert_false(initialized);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_without_mpi),
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(the_receiver_gets_the_senders_buffer),
        cmocka_unit_test(a_full_ring_gives_no_buffer_then_recovers),
        cmocka_unit_test(held_messages_stay_until_they_are_returned),
        cmocka_unit_test(a_message_longer_than_the_buffer_is_too_large),
        cmocka_unit_test(open_refuses_what_cannot_be),
        cmocka_unit_test(idling_counts_and_ends),
        cmocka_unit_test(mpi_was_never_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
