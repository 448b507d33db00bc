/* Links over MPI, under 1 to 5 ranks, over shared memory and over TCP: order, floods in both
 * directions on both sides of the eager limit, limits, full rings, ends. The test initialises
 * MPI itself, so that it can make and destroy a comm per scenario. */
#include "base/alloc.h"
#include "base/clock.h"
#include "check.h"
#include "comm/backend.h"
#include "comm/launcher.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>

enum { MAX_RANKS = 8 };

static struct ls_comm *comm;
static struct ls_err err;
static int rank, size;

static void begin(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(ls_comm_create(&comm, LS_COMM_MPI, &err) == LS_OK);
    rank = check_rank = ls_comm_rank(comm);
    size = ls_comm_size(comm);
    CHECK(size <= MAX_RANKS);
    if (rank == 0)
        printf("%s\n", name);
}

static void end(void)
{
    ls_comm_destroy(comm);
    comm = NULL;
}

static struct ls_link *open_link(int peer, int tag, enum ls_direction direction, int n_buffers,
                                 uint64_t bytes)
{
    struct ls_link *link = NULL;
    CHECK(ls_comm_open(comm, &link, peer, (enum ls_tag)tag, direction, n_buffers, bytes,
                       &err) == LS_OK);
    return link;
}

/* Every byte of a message depends on who sent it to whom, its number and its place. */
static unsigned char byte_of(int from, int to, int number, uint64_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (uint64_t)from * 7 + (uint64_t)to * 13 +
                           (uint64_t)number * 17);
}

static bool try_send(struct ls_link *link, int to, int number, uint64_t n)
{
    unsigned char *buffer = ls_link_buffer(link);
    if (!buffer)
        return false;
    CHECK(ls_link_buffer(link) == buffer);
    for (uint64_t i = 0; i < n; i++)
        buffer[i] = byte_of(rank, to, number, i);
    CHECK(ls_link_send(link, n, &err) == LS_OK);
    return true;
}

static bool try_receive(struct ls_link *link, int from, int number, uint64_t want)
{
    void *bytes;
    uint64_t n;
    CHECK(ls_link_poll(link, &bytes, &n, &err) == LS_OK);
    if (!bytes)
        return false;
    CHECK(n == want);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i++)
        wrong += ((unsigned char *)bytes)[i] != byte_of(from, rank, number, i);
    CHECK(wrong == 0);
    memset(bytes, 0xee, n);
    CHECK(ls_link_return(link, &err) == LS_OK);
    return true;
}

typedef uint64_t length_fn(int number, uint64_t bytes);

/* Lengths differ from message to message, the first and the largest being exactly `bytes`. */
static uint64_t mixed(int number, uint64_t bytes)
{
    return number % 3 == 0 ? bytes : number % 3 == 1 ? bytes - bytes / 3 : bytes / 1000;
}

/* Every length from `bytes` downwards. */
static uint64_t descending(int number, uint64_t bytes)
{
    return bytes - (uint64_t)number;
}

/* All ranks send to all ranks, themselves included, all at once. */
static void flood(uint64_t bytes, int n_messages, int n_buffers, length_fn *length_of)
{
    struct ls_link *send[MAX_RANKS], *recv[MAX_RANKS];
    int sent[MAX_RANKS] = { 0 }, received[MAX_RANKS] = { 0 };
    begin("flood");
    for (int r = 0; r < size; r++) {
        send[r] = open_link(r, LS_TAG_STEP, LS_SEND, n_buffers, bytes);
        recv[r] = open_link(r, LS_TAG_STEP, LS_RECV, n_buffers, bytes);
    }
    uint64_t allocated = ls_alloc_count();
    unsigned idle = 0;
    for (int left = 2 * size * n_messages; left > 0;) {
        int before = left;
        for (int r = 0; r < size; r++) {
            while (sent[r] < n_messages &&
                   try_send(send[r], r, sent[r], length_of(sent[r], bytes)))
                sent[r]++, left--;
            while (received[r] < n_messages &&
                   try_receive(recv[r], r, received[r], length_of(received[r], bytes)))
                received[r]++, left--;
        }
        CHECK(ls_comm_progress(comm, &err) == LS_OK);
        idle = left < before ? 0 : idle;
        if (left == before)
            ls_comm_idle(&idle);
    }
    CHECK(ls_alloc_count() == allocated);
    end();
}

/* The value of one of MPI's own settings, 0 where its component is not in use. */
static uint64_t setting(const char *name)
{
    int index, n = 0;
    uint64_t value = 0;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS)
        return 0;
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &n) == MPI_SUCCESS && n == 1);
    CHECK(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS); /* a size_t */
    MPI_T_cvar_handle_free(&handle);
    return value;
}

/* Every length around the sizes at which this MPI changes how it sends, all ranks to all ranks:
 * over shared memory, or without it over TCP. The sizes count MPI's headers, which are not ours
 * to know: lengths some way below are tried, too. */
static void floods_around_limits(void)
{
    enum { HEADERS = 160, ABOVE = 8 };
    static const char *const names[] = { "btl_vader_eager_limit", "btl_vader_max_send_size",
                                         "btl_tcp_eager_limit", "btl_tcp_max_send_size" };
    int provided;
    CHECK(MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
    const int first = setting(names[0]) ? 0 : 2;
    for (int i = first; i < first + 2; i++) {
        const uint64_t limit = setting(names[i]);
        if (rank == 0)
            printf("%s: %llu\n", names[i], (unsigned long long)limit);
        CHECK(limit > HEADERS && limit <= 1 << 20);
        flood(limit + ABOVE, HEADERS + ABOVE, 4, descending);
    }
    MPI_T_finalize();
}

/* A token goes round; each rank adds itself. */
static void ring(void)
{
    begin("ring");
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    struct ls_link *out = open_link(next, LS_TAG_CONTROL, LS_SEND, 1, 64);
    struct ls_link *in = open_link(previous, LS_TAG_CONTROL, LS_RECV, 1, 64);
    for (int lap = 0; lap < 200; lap++) {
        void *bytes = NULL;
        uint64_t n = 0, sum = 0;
        unsigned idle = 0;
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == (rank == 0)) {
                uint64_t *buffer;
                while (!(buffer = ls_link_buffer(out)))
                    CHECK(ls_comm_progress(comm, &err) == LS_OK);
                *buffer = sum + (uint64_t)rank + 1;
                CHECK(ls_link_send(out, sizeof *buffer, &err) == LS_OK);
                continue;
            }
            while (!bytes) {
                CHECK(ls_link_poll(in, &bytes, &n, &err) == LS_OK);
                if (!bytes)
                    ls_comm_idle(&idle);
            }
            CHECK(n == sizeof sum);
            memcpy(&sum, bytes, sizeof sum);
            CHECK(ls_link_return(in, &err) == LS_OK);
            CHECK(sum == (uint64_t)(rank ? rank * (rank + 1) / 2 : size * (size + 1) / 2));
        }
    }
    struct ls_comm_counts counts;
    ls_comm_get_counts(comm, &counts);
    CHECK(counts.sent_messages == 200 && counts.received_messages == 200);
    CHECK(counts.sent_bytes == 1600 && counts.received_bytes == 1600);
    end();
}

/* Two tags between the same ranks never mix, whatever the order of polling. */
static void tags_are_separate(void)
{
    begin("tags");
    struct ls_link *out[3], *in[3];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int t = 0; t < 3; t++) {
        out[t] = open_link(next, LS_TAG_CONTROL + t, LS_SEND, 4, 256);
        in[t] = open_link(previous, LS_TAG_CONTROL + t, LS_RECV, 4, 256);
    }
    for (int i = 0; i < 12; i++)
        CHECK(try_send(out[i % 3], next, i, 100));
    for (int i = 11; i >= 0; i--) {
        int tag = i % 3, number = tag + 3 * (3 - i / 3);
        while (!try_receive(in[tag], previous, number, 100))
            CHECK(ls_comm_progress(comm, &err) == LS_OK);
    }
    end();
}

/* The receiver opens late: the sender runs out of buffers, then recovers. */
static void full_ring_recovers(void)
{
    enum { BYTES = 1 << 20, MESSAGES = 7 };
    begin("full ring");
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    struct ls_link *out = open_link(next, LS_TAG_STEP, LS_SEND, 3, BYTES);
    int sent = 0, received = 0;
    while (try_send(out, next, sent, BYTES))
        sent++;
    CHECK(sent == 3 && !ls_link_idle(out));
    CHECK(ls_link_send(out, BYTES, NULL) == LS_E_INTERNAL);
    for (int i = 0; i < 1000; i++)
        CHECK(ls_comm_progress(comm, &err) == LS_OK && !ls_link_buffer(out));
    MPI_Barrier(MPI_COMM_WORLD);
    struct ls_link *in = open_link(previous, LS_TAG_STEP, LS_RECV, 2, BYTES);
    while (received < MESSAGES || !ls_link_idle(out)) {
        if (sent < MESSAGES && try_send(out, next, sent, BYTES))
            sent++;
        if (received < MESSAGES && try_receive(in, previous, received, BYTES))
            received++;
        CHECK(ls_comm_progress(comm, &err) == LS_OK);
    }
    CHECK(sent == MESSAGES);
    end();
}

/* A message longer than the buffer is refused, again and again, and not a byte of it is written
 * behind the buffer (where the first one lies: in a ring it follows the last). The end of the
 * comm stays bounded. */
static void too_long_is_refused(uint64_t bytes)
{
    begin("too long");
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    struct ls_link *in = open_link(previous, LS_TAG_STEP, LS_RECV, 2, bytes);
    struct ls_link *out = open_link(next, LS_TAG_STEP, LS_SEND, 2, 2 * bytes);
    CHECK(try_send(out, next, 0, bytes));
    while (!try_receive(in, previous, 0, bytes))
        CHECK(ls_comm_progress(comm, &err) == LS_OK);
    /* a link to itself hands over, and has no buffer to receive in */
    const unsigned char *first = next == rank ? NULL : ls_link_slot(in, 0);
    CHECK(try_send(out, next, 1, 2 * bytes));
    void *message = NULL;
    uint64_t n, written = 0;
    ls_status s;
    while ((s = ls_link_poll(in, &message, &n, &err)) == LS_OK)
        CHECK(!message);
    CHECK(s == LS_E_TOO_LARGE && err.status == s && strstr(err.text, "longer than the buffer"));
    CHECK(ls_link_poll(in, &message, &n, NULL) == LS_E_TOO_LARGE);
    CHECK(ls_link_return(in, NULL) == LS_E_TOO_LARGE);
    for (uint64_t i = 0; first && i < bytes; i++)
        written += first[i] != 0xee;
    CHECK(written == 0);
    uint64_t start = ls_now_us();
    end();
    CHECK(ls_now_us() - start < 2 * LS_COMM_GRACE_US + 2000000u);
}

static void open_checks_its_limits(void)
{
    begin("open");
    struct ls_link *link = NULL;
    enum ls_tag tag = LS_TAG_STEP;
    CHECK(ls_comm_open(comm, &link, size, tag, LS_SEND, 1, 1, NULL) == LS_E_INTERNAL);
    CHECK(ls_comm_open(comm, &link, -1, tag, LS_SEND, 1, 1, NULL) == LS_E_INTERNAL);
    CHECK(ls_comm_open(comm, &link, 0, tag, LS_SEND, 0, 1, NULL) == LS_E_INTERNAL);
    CHECK(ls_comm_open(comm, &link, 0, tag, LS_SEND, LS_MAX_BUFFERS + 1, 1, NULL) ==
          LS_E_INTERNAL);
    CHECK(ls_comm_open(comm, &link, 0, tag, LS_SEND, 1, 0, NULL) == LS_E_REFUSED);
    CHECK(ls_comm_open(comm, &link, 0, tag, LS_RECV, 1, (uint64_t)INT_MAX + 1, &err) ==
          LS_E_REFUSED);
    CHECK(strstr(err.text, "2147483648 bytes"));
    CHECK(!link);
    CHECK(ls_comm_open(comm, &link, 0, tag, LS_RECV, 1, 8, NULL) == LS_OK && link);
    struct ls_link *again = NULL;
    CHECK(ls_comm_open(comm, &again, 0, tag, LS_RECV, 1, 8, NULL) == LS_E_INTERNAL && !again);
    CHECK(ls_link_send(link, 8, NULL) == LS_E_INTERNAL && !ls_link_buffer(link));
    CHECK(ls_link_return(link, NULL) == LS_E_INTERNAL);
    end();
}

/* Posted receives, small and large, that nobody will ever serve. */
static void destroy_with_posted_receives(void)
{
    begin("posted receives");
    for (int r = 0; r < size; r++) {
        open_link(r, LS_TAG_STEP, LS_RECV, 64, 512);
        open_link(r, LS_TAG_RESULT, LS_RECV, 2, 1 << 20);
    }
    uint64_t start = ls_now_us();
    end();
    CHECK(ls_now_us() - start < 2000000u);
}

/* A large send that its peer never receives, in a run that has failed. */
static void destroy_with_unreceived_sends(void)
{
    begin("unreceived sends");
    struct ls_link *out = open_link((rank + 1) % size, LS_TAG_STEP, LS_SEND, 2, 8 << 20);
    CHECK(try_send(out, (rank + 1) % size, 0, 8 << 20));
    ls_comm_set_failed(comm);
    uint64_t start = ls_now_us();
    end();
    CHECK(ls_now_us() - start < 2 * LS_COMM_GRACE_US + 2000000u);
}

int main(void)
{
    static const uint64_t sizes[] = { 1,     4096 - 64, 4096,    4096 + 64,
                                      65536, 65536 + 1, 1 << 20, 8 << 20 };
    int provided;
    struct ls_launch launch;
    ls_launch_look(&launch);
    ls_launch_settle(&launch);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    ring();
    tags_are_separate();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        flood(sizes[i], sizes[i] > 65536 ? 4 : 60, 2, mixed);
        flood(sizes[i], sizes[i] > 65536 ? 3 : 130, sizes[i] > 65536 ? 3 : 64, mixed);
    }
    floods_around_limits();
    full_ring_recovers();
    too_long_is_refused(64);
    too_long_is_refused(4000);
    too_long_is_refused(65536);
    too_long_is_refused(1 << 20);
    open_checks_its_limits();
    destroy_with_posted_receives();
    destroy_with_unreceived_sends();
    MPI_Finalize();
    if (rank == 0)
        printf("ok\n");
    return 0;
}
