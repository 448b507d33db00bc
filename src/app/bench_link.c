#include "app/bench_link.h"

#include "app/bench_cipher.h"
#include "app/launch.h"
#include "app/link_wish.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "comm/raw.h"
#include "pipeline/channel.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

enum {
    START_S = 120,
    WAIT_S = 60,             /* for a peer */
    STREAM_BYTES = 64 << 20, /* of one repeat, at least DEPTH messages */
    MAX_MESSAGES = 256,
    PING_BYTES = 1 << 20, /* of one repeat, at least one round trip */
    MAX_PINGS = 20,
    N_SIZES = 6,
    LABEL = 64,
    DRAWN = 1 << 20, /* bytes */
};

static const struct {
    uint64_t bytes;
    const char *name;
} sizes[N_SIZES] = { { 1 << 10, "1 KiB" }, { 16 << 10, "16 KiB" }, { 256 << 10, "256 KiB" },
                     { 1 << 20, "1 MiB" }, { 4 << 20, "4 MiB" },   { 64 << 20, "64 MiB" } };

/* In the order of measuring: the first one is what plain is set beside. */
static const struct arm {
    const char *name;
    bool raw; /* MPI's own calls */
    enum ls_level level;
    enum ls_pack pack;
} arms[] = {
    { .name = "MPI", .raw = true },
    { .name = "plain", .level = LS_LEVEL_PLAIN },
    { .name = "plain, lz4", .level = LS_LEVEL_PLAIN, .pack = LS_PACK_LZ4 },
    { .name = "signed", .level = LS_LEVEL_SIGNED },
    { .name = "signed, lz4", .level = LS_LEVEL_SIGNED, .pack = LS_PACK_LZ4 },
    { .name = "sealed", .level = LS_LEVEL_SEALED },
    { .name = "sealed, lz4", .level = LS_LEVEL_SEALED, .pack = LS_PACK_LZ4 },
};

enum figure {
    ONE_WAY,
    STREAM,
    SEALS,
    OPENS,
    OF_CIPHER,
    REACHED,
    CIPHER,
    OPENING,
    PACKER,
    PACKED,
    N_FIGURES
};

static const struct {
    const char *name, *unit;
    double scale;
    bool packing; /* only told where tensors are packed */
} figures[N_FIGURES] = {
    [ONE_WAY] = { "one way", "us", 1, false },
    [STREAM] = { "stream", "GB/s", 1e9, false },
    [SEALS] = { "  cipher alone, sender", "GB/s", 1e9, false },
    [OPENS] = { "  cipher alone, receiver", "GB/s", 1e9, false },
    [OF_CIPHER] = { "  of the slower one", "of rate", 1, false },
    [REACHED] = { "  of cipher behind MPI", "of rate", 1, false },
    [CIPHER] = { "  in the cipher", "of time", 1, false },
    [OPENING] = { "  in the cipher, receiver", "of time", 1, false },
    [PACKER] = { "  in the packer", "of time", 1, true },
    [PACKED] = { "  packed to", "of size", 1, true },
};

/* One end of what is measured. */
struct linking {
    const struct ls_link_bench *b;
    struct ls_comm *world; /* without links */
    struct ls_link_wish wish;
    const struct arm *arm;
    int rank, first, second; /* this rank; the pair: first sends first */
    uint64_t n;              /* bytes of a message */
    unsigned char
        *pattern; /* [LS_RAW_DEPTH + 1][largest]: a hidden state, as far as statistics go */
    bool fill;    /* write each message before it is sent: a packer shrinks no noise */
    struct ls_comm *comm; /* of this arm */
    struct ls_keyring *keyring;
    struct ls_team *team;
    struct ls_channel out, in;
    double values[N_FIGURES][LS_BENCH_MAX_REPEATS]; /* of the sender, but: */
    struct {
        double opening[LS_BENCH_MAX_REPEATS], opens[LS_BENCH_MAX_REPEATS];
    } receiver;
    double cipher[LS_N_LEVELS]; /* bytes a second of libsodium's own, at this size, where it is
                                   slower: sealing or opening */
    double mpi_stream;          /* bytes a second */
    bool quiet;
};

/* --- one message -----------------------------------------------------------------------------
 */

static ls_status wait_a_little(struct linking *x, unsigned *idle, uint64_t since_us,
                               struct ls_err *err)
{
    const int peer = x->rank == x->first ? x->second : x->first;
    if (ls_now_us() - since_us > 1000000u * (uint64_t)WAIT_S)
        return ls_fail(err, LS_E_LINK, "rank %d: nothing from rank %d for %d s", x->rank, peer,
                       WAIT_S);
    ls_comm_idle(idle);
    return ls_comm_progress(x->comm, err);
}

static ls_status send_one(struct linking *x, uint64_t n, struct ls_err *err)
{
    const uint64_t begin_us = ls_now_us();
    unsigned idle = 0;
    unsigned char *at;
    struct ls_frame frame = { .kind = LS_KIND_STEP,
                              .dtype = LS_DTYPE_BF16,
                              .ndim = 1,
                              .dims = { (uint32_t)(n / 2) },
                              .tensor_bytes = n };
    while (!(at = ls_channel_payload(&x->out, n))) {
        const ls_status s = wait_a_little(x, &idle, begin_us, err);
        if (s)
            return s;
    }
    if (x->fill)
        memcpy(at, x->pattern, n);
    return ls_channel_send(&x->out, &frame, at, err);
}

static ls_status receive_one(struct linking *x, uint64_t n, struct ls_err *err)
{
    const uint64_t begin_us = ls_now_us();
    const uint32_t dim = (uint32_t)(n / 2);
    const struct ls_frame_expect expect = { .kinds = 1u << LS_KIND_STEP,
                                            .dtype = LS_DTYPE_BF16,
                                            .ndim = 1,
                                            .min_dim0 = dim,
                                            .max_dim0 = dim };
    unsigned idle = 0;
    for (;;) {
        struct ls_frame frame;
        unsigned char *payload;
        bool found;
        ls_status s = ls_channel_receive(&x->in, &expect, &found, &frame, &payload, err);
        if (!s && !found)
            s = wait_a_little(x, &idle, begin_us, err);
        if (!s && payload)
            return ls_channel_return(&x->in, err);
        if (s)
            return s;
    }
}

/* --- one repeat ------------------------------------------------------------------------------
 */

static int n_pings(uint64_t n)
{
    const uint64_t fit = PING_BYTES / n;
    return fit < 1 ? 1 : fit > MAX_PINGS ? MAX_PINGS : (int)fit;
}

static int n_messages(uint64_t n)
{
    const uint64_t fit = STREAM_BYTES / n;
    return fit < LS_RAW_DEPTH ? LS_RAW_DEPTH : fit > MAX_MESSAGES ? MAX_MESSAGES : (int)fit;
}

static struct ls_raw raw_of(const struct linking *x, int count)
{
    const bool begins = x->rank == x->first;
    return (struct ls_raw){ .comm = x->world,
                            .peer = begins ? x->second : x->first,
                            .begins = begins,
                            .count = count,
                            .n = x->n,
                            .buffer = x->pattern };
}

static ls_status to_and_fro(struct linking *x, uint64_t n, struct ls_err *err)
{
    const bool begins = x->rank == x->first;
    const ls_status s = begins ? send_one(x, n, err) : receive_one(x, n, err);
    if (s)
        return s;
    return begins ? receive_one(x, n, err) : send_one(x, n, err);
}

static ls_status ping(struct linking *x, struct ls_err *err)
{
    const struct ls_raw raw = raw_of(x, n_pings(x->n));
    ls_status s = x->arm->raw ? ls_raw_ping(&raw, err) : LS_OK;
    for (int i = 0; !s && !x->arm->raw && i < raw.count; i++)
        s = to_and_fro(x, x->n, err);
    return s;
}

/* One way; the last element back says that all of it has been opened. */
static ls_status stream(struct linking *x, struct ls_err *err)
{
    const bool begins = x->rank == x->first;
    const struct ls_raw raw = raw_of(x, n_messages(x->n));
    if (x->arm->raw)
        return ls_raw_stream(&raw, err);
    ls_status s = LS_OK;
    for (int i = 0; !s && i < raw.count; i++)
        s = begins ? send_one(x, x->n, err) : receive_one(x, x->n, err);
    if (!s)
        s = begins ? receive_one(x, 2, err) : send_one(x, 2, err);
    return s;
}

static void note(struct linking *x, int i, double ping_us, double stream_us,
                 const struct ls_channel *before, uint64_t opened_us)
{
    const double n = (double)x->n;
    const struct ls_packer *const now = &x->out.packer, *const then = &before->packer;
    const double raw = (double)(now->raw_bytes - then->raw_bytes);
    const double packed = (double)(now->packed_bytes - then->packed_bytes);
    x->values[ONE_WAY][i] = ping_us / (2 * n_pings(x->n));
    x->values[STREAM][i] = 1e6 * n * n_messages(x->n) / stream_us;
    x->values[CIPHER][i] =
        (double)(x->out.counts.crypto_us - before->counts.crypto_us) / stream_us;
    x->receiver.opening[i] = (double)(x->in.counts.crypto_us - opened_us) / stream_us;
    x->values[PACKER][i] = (double)(now->us - then->us) / stream_us;
    x->values[PACKED][i] = raw > 0 ? packed / raw : 1;
}

/* Right behind a stream, at both ends at a time: a core's clock depends on what the others do,
 * and changes. */
static void note_cipher(struct linking *x, int i)
{
    const uint64_t frame = (uint64_t)ls_options_number(&x->b->app->options, LS_OPT_FRAME);
    const uint64_t n = frame && frame < x->n ? frame : x->n;
    const bool opens = x->rank == x->second;
    unsigned char *const noise = x->pattern + sizes[N_SIZES - 1].bytes;
    double *const value = opens ? &x->receiver.opens[i] : &x->values[SEALS][i];
    if (x->arm->level != LS_LEVEL_PLAIN)
        *value = ls_bench_cipher_end(ls_suite_choose(ls_suites_here()), x->arm->level, opens,
                                     noise, noise + sizes[N_SIZES - 1].bytes, n);
}

static ls_status repeat(struct linking *x, struct ls_err *err)
{
    ls_status s = LS_OK;
    for (int i = 0; !s && i <= x->b->repeats; i++) {
        x->fill = i == 0 || x->arm->pack != LS_PACK_NONE;
        const uint64_t begin_us = ls_now_us();
        s = ping(x, err);
        const uint64_t middle_us = ls_now_us();
        const struct ls_channel before = x->out;
        const uint64_t opened_us = x->in.counts.crypto_us;
        if (!s)
            s = stream(x, err);
        if (i > 0)
            note(x, i - 1, (double)(middle_us - begin_us), (double)(ls_now_us() - middle_us),
                 &before, opened_us);
        if (!s && i > 0 && !x->arm->raw) {
            note_cipher(x, i - 1);
            s = to_and_fro(x, 2, err); /* one end took longer */
        }
    }
    return s;
}

/* --- one arm ---------------------------------------------------------------------------------
 */

static ls_status open_channels(struct linking *x, struct ls_err *err)
{
    struct ls_channel_config c = {
        .peer = x->rank == x->first ? x->second : x->first,
        .tag = LS_TAG_STEP,
        .direction = LS_RECV,
        .n_buffers = LS_RAW_DEPTH,
        .pack = x->arm->pack,
        .max_payload = x->n,
        .frame_bytes = ls_options_number(&x->b->app->options, LS_OPT_FRAME),
    };
    ls_status s = ls_channel_open(&x->in, x->keyring, &c, err);
    c.direction = LS_SEND;
    if (!s)
        s = ls_channel_open(&x->out, x->keyring, &c, err);
    x->in.team = x->out.team = x->team;
    return s;
}

/* Keys are made between all ranks, whether they are of the pair or not. */
static ls_status open_arm(struct linking *x, struct ls_err *err)
{
    struct ls_link_wish wish = x->wish;
    wish.level = x->arm->level;
    if (wish.level == LS_LEVEL_PLAIN) {
        wish.secret = NULL;
        wish.origin = LS_SECRET_NONE;
    }
    ls_status s = ls_comm_create(&x->comm, LS_COMM_MPI, err);
    if (!s)
        s = ls_keyring_create(&x->keyring, x->comm, &wish, err);
    x->quiet = s && x->rank != 0;
    return s;
}

static void close_arm(struct linking *x, ls_status s)
{
    ls_channel_close(&x->in);
    ls_channel_close(&x->out);
    ls_keyring_destroy(x->keyring);
    if (s && x->comm)
        ls_comm_set_failed(x->comm);
    ls_comm_destroy(x->comm);
    x->in = x->out = (struct ls_channel){ .link = NULL };
    x->keyring = NULL;
    x->comm = NULL;
}

/* Streams are set beside libsodium's cipher, and plain ones beside MPI's. */
static double bound_of(const struct linking *x, enum figure f)
{
    if (f != STREAM || x->arm->raw || x->arm->pack != LS_PACK_NONE)
        return 0;
    return x->arm->level == LS_LEVEL_PLAIN ? x->mpi_stream : x->cipher[x->arm->level];
}

/* Each end's one core does both, so a byte takes the time of both: beside what that allows. */
static void note_reached(struct linking *x)
{
    double(*const v)[LS_BENCH_MAX_REPEATS] = x->values;
    for (int i = 0; i < x->b->repeats && x->arm->level != LS_LEVEL_PLAIN; i++) {
        const double cipher = v[SEALS][i] < v[OPENS][i] ? v[SEALS][i] : v[OPENS][i];
        v[OF_CIPHER][i] = v[STREAM][i] / cipher;
        v[REACHED][i] = x->mpi_stream > 0 ? v[STREAM][i] * (1 / cipher + 1 / x->mpi_stream) : 0;
    }
}

static bool is_told(const struct linking *x, enum figure f)
{
    const bool keyed = x->arm->level != LS_LEVEL_PLAIN;
    if (f == REACHED)
        return keyed && x->arm->pack == LS_PACK_NONE && x->mpi_stream > 0;
    if (f == SEALS || f == OPENS || f == OF_CIPHER)
        return keyed && x->arm->pack == LS_PACK_NONE;
    if (f == CIPHER || f == OPENING)
        return keyed;
    return !figures[f].packing || x->arm->pack != LS_PACK_NONE;
}

static void add(struct linking *x, const char *label)
{
    note_reached(x);
    for (int f = 0; f < N_FIGURES; f++) {
        struct ls_rate rate;
        char name[96];
        if (!is_told(x, (enum figure)f))
            continue;
        ls_rate_of(&rate, x->values[f], x->b->repeats);
        snprintf(name, sizeof name, "%s: %s", label, figures[f].name);
        ls_results_add(x->b->results,
                       &(struct ls_result){ .part = "link",
                                            .name = name,
                                            .unit = figures[f].unit,
                                            .scale = figures[f].scale,
                                            .bound = bound_of(x, (enum figure)f) },
                       &rate);
        if (f == STREAM && x->arm->raw)
            x->mpi_stream = rate.median;
    }
}

static bool is_wanted(const struct linking *x, const char *size, char label[LABEL])
{
    snprintf(label, LABEL, "%d-%d %s %s", x->first, x->second, size, x->arm->name);
    return ls_results_wants(x->b->results, label) &&
           (x->arm->pack == LS_PACK_NONE || ls_pack_is_built());
}

static ls_status measure_arm(struct linking *x, const char *size, struct ls_err *err)
{
    char label[LABEL];
    const bool takes_part = x->rank == x->first || x->rank == x->second;
    if (!is_wanted(x, size, label))
        return LS_OK;
    ls_status s = x->arm->raw ? LS_OK : open_arm(x, err);
    if (!s && takes_part && !x->arm->raw)
        s = open_channels(x, err);
    if (!s && takes_part)
        s = repeat(x, err);
    if (!s)
        s = ls_raw_share(x->world, x->first, x->values, sizeof x->values, WAIT_S * 10, err);
    if (!s)
        s = ls_raw_share(x->world, x->second, &x->receiver, sizeof x->receiver, WAIT_S, err);
    memcpy(x->values[OPENING], x->receiver.opening, sizeof x->receiver.opening);
    memcpy(x->values[OPENS], x->receiver.opens, sizeof x->receiver.opens);
    close_arm(x, s);
    if (!s && x->rank == 0)
        add(x, label);
    return s;
}

/* --- all -------------------------------------------------------------------------------------
 */

/* Of every pair that passes steps or results on, every arm: neighbours, and the last stage with
 * rank 0. wanted: only says whether there is anything to measure. */
static ls_status measure_pairs(struct linking *x, const char *size, bool *wanted,
                               struct ls_err *err)
{
    const int n = ls_comm_size(x->world), n_pairs = n > 2 ? n : 1;
    char label[LABEL];
    ls_status s = LS_OK;
    for (int p = 0; p < n_pairs; p++) {
        x->first = p;
        x->second = (p + 1) % n;
        x->mpi_stream = 0;
        for (size_t a = 0; !s && a < sizeof arms / sizeof arms[0]; a++) {
            x->arm = &arms[a];
            if (wanted)
                *wanted = *wanted || is_wanted(x, size, label);
            else
                s = measure_arm(x, size, err);
        }
    }
    return s;
}

/* The cipher's own rate on rank 0's core, while the others wait. */
static ls_status measure_size(struct linking *x, int i, struct ls_err *err)
{
    static const enum ls_level levels[] = { LS_LEVEL_SIGNED, LS_LEVEL_SEALED };
    const enum ls_suite suite = ls_suite_choose(ls_suites_here());
    unsigned char *const noise = x->pattern + sizes[N_SIZES - 1].bytes;
    unsigned char *const clear = noise + sizes[N_SIZES - 1].bytes;
    bool wanted = false;
    ls_status s = measure_pairs(x, sizes[i].name, &wanted, err);
    if (s || !wanted)
        return s;
    x->n = sizes[i].bytes;
    for (int l = 0; x->rank == 0 && l < 2; l++)
        x->cipher[levels[l]] = ls_bench_cipher(x->b->results, suite, levels[l], noise, clear,
                                               x->n, sizes[i].name, x->b->seconds);
    s = ls_raw_share(x->world, 0, x->cipher, sizeof x->cipher, 10 * WAIT_S, err);
    return s ? s : measure_pairs(x, sizes[i].name, NULL, err);
}

/* Numbers around 0 in bfloat16, as hidden states are: sums of twelve even ones. They repeat
 * after DRAWN bytes, far beyond what lz4 looks back. */
static void draw(unsigned char *pattern, uint64_t bytes)
{
    uint32_t x = 1;
    for (uint64_t i = 0; i < DRAWN / 2; i++) {
        float sum = -6;
        uint32_t bits;
        for (int k = 0; k < 12; k++) {
            x = x * 1664525u + 1013904223u;
            sum += (float)(x >> 8) / (float)(1 << 24);
        }
        memcpy(&bits, &sum, sizeof bits);
        pattern[2 * i] = (unsigned char)(bits >> 16);
        pattern[2 * i + 1] = (unsigned char)(bits >> 24);
    }
    for (uint64_t done = DRAWN; done < bytes; done += DRAWN)
        memcpy(pattern + done, pattern, DRAWN);
}

static ls_status measure(struct linking *x, struct ls_err *err)
{
    const uint64_t largest = sizes[N_SIZES - 1].bytes;
    void *memory;
    if (ls_comm_size(x->world) < 2)
        return ls_fail(err, LS_E_USAGE,
                       "bench link: one rank has no link; start several, or this command "
                       "without a launcher");
    if (!ls_pack_is_built())
        ls_app_warn(x->b->app, "built without lz4: packing is not measured");
    ls_status s = ls_alloc(&memory, (LS_RAW_DEPTH + 1) * largest, "messages to measure", err);
    if (s)
        return s;
    x->pattern = memory;
    draw(x->pattern, largest);
    for (int i = 0; !s && i < N_SIZES; i++)
        s = measure_size(x, i, err);
    ls_free(memory);
    return s;
}

ls_status ls_bench_link(const struct ls_link_bench *b, bool *quiet, struct ls_err *err)
{
    static struct linking x;
    struct ls_given_secret given;
    x.b = b;
    ls_secret_take_fd(&given, &b->app->options);
    /* a bad secret is told to the others when keys are made */
    ls_link_wish_of(&x.wish, &given, &b->app->options, err);
    ls_launch_limit("MPI has not started", START_S, LS_EXIT_FAILED);
    ls_status s = ls_comm_create(&x.world, LS_COMM_MPI, err);
    ls_launch_limit("", 0, 0);
    if (!s) {
        x.rank = ls_comm_rank(x.world);
        s = ls_team_create(&x.team, b->threads, err);
        if (!s)
            s = measure(&x, err);
        ls_team_destroy(x.team);
        if (s)
            ls_comm_set_failed(x.world);
        ls_comm_destroy(x.world);
    }
    ls_secret_destroy(given.secret);
    *quiet = x.quiet;
    return s;
}
