#include "stage/pace.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "model/weights.h"
#include "stage/stage.h"

#include <string.h>

enum {
    CHUNK = 256,   /* tokens of a prompt at once, the last of the points */
    N_CHUNKS = 3,  /* of the prompt whose keys are looked at */
    MAX_ROWS = 64, /* that decode, and whose logits are computed at once */
    N_SLOTS = MAX_ROWS + 1,
    REPEATS = 3,
    LEAST_CONTEXT = 32
};

const uint32_t ls_pace_rows[LS_PACE_POINTS] = { 1, 4, 16, MAX_ROWS, CHUNK };

struct measuring {
    struct ls_pace *pace;
    struct ls_stage_config config;
    struct ls_stage *stage;
    struct ls_step step;
    void *hidden_in; /* [CHUNK][inbound width]; NULL: the model is one piece */
    float *logits;   /* [MAX_ROWS][vocab] */
    uint32_t length[N_SLOTS], n_blocks;
    bool digests;
    double run_us, head_us; /* of the last step */
    struct ls_err *err;
};

/* --- steps -------------------------------------------------------------------------------- */

static void add_event(struct measuring *m, enum ls_event_kind kind, uint32_t slot,
                      uint32_t value)
{
    m->step.events[m->step.n_events++] = (struct ls_step_event){ kind, slot, value };
}

static void add_row(struct measuring *m, uint32_t slot, uint32_t count, bool logits)
{
    const uint32_t first = m->length[slot], end = first + count;
    if (first == 0)
        add_event(m, LS_EVENT_OPEN, slot, 0);
    for (uint32_t b = (uint32_t)ls_ceil_div(first, LS_KV_BLOCK); b * LS_KV_BLOCK < end; b++)
        add_event(m, LS_EVENT_ASSIGN, slot, m->n_blocks++);
    m->step.rows[m->step.n_rows++] = (struct ls_step_row){ .slot = slot,
                                                           .first_pos = first,
                                                           .count = count,
                                                           .n_send = logits,
                                                           .n_digest = logits && m->digests,
                                                           .nan_layer = LS_NO_LAYER };
    for (uint32_t i = 0; i < count; i++, m->step.n_tokens++)
        m->step.tokens[m->step.n_tokens] =
            (int32_t)((first * 977u + slot * 131u + i) % (uint32_t)m->config.arch->vocab);
    m->length[slot] = end;
}

static void begin_step(struct measuring *m)
{
    m->step.id++;
    m->step.n_rows = m->step.n_events = m->step.n_tokens = 0;
}

static ls_status run_step(struct measuring *m)
{
    uint64_t begin = ls_now_us();
    ls_status s = ls_stage_run(m->stage, &m->step, m->hidden_in, NULL, m->err);
    m->run_us = (double)(ls_now_us() - begin);
    const uint32_t n = s ? 0 : ls_step_n_logits(&m->step);
    begin = ls_now_us();
    if (n)
        ls_stage_logits(m->stage, &m->step, 0, n, m->logits);
    m->head_us = (double)(ls_now_us() - begin);
    return s;
}

/* --- what is measured --------------------------------------------------------------------- */

static double keys_us(const struct measuring *m, uint32_t first, uint32_t count)
{
    double us = 0;
    for (int l = m->config.first_layer; l < m->config.last_layer; l++)
        us += ls_pace_attention(m->pace, first, count, m->config.arch->layers[l].window);
    return us;
}

/* Keys that the tokens of a step look at, over the measured layers. */
static double n_keys(const struct measuring *m, uint32_t first, uint32_t count)
{
    struct ls_pace one = { .prompt_key_us = 1, .decode_key_us = 1 };
    const struct measuring counting = { .pace = &one, .config = m->config };
    return keys_us(&counting, first, count);
}

static double least(double a, double b)
{
    return a < b || b <= 0 ? a : b;
}

static double above_zero(double x)
{
    return x > 0 ? x : 0;
}

/* A long prompt in chunks: the first is without many keys, the later ones tell what keys cost.
 * Then a token alone behind it, and one alone with no keys. */
static ls_status measure_keys(struct measuring *m, uint32_t chunk)
{
    double first = 0, later = 0, alone = 0, behind = 0;
    ls_status s = LS_OK;
    for (int round = 0; !s && round < 2; round++) { /* the first one warms up */
        begin_step(m);
        if (m->length[0])
            add_event(m, LS_EVENT_CLOSE, 0, 0);
        m->length[0] = m->n_blocks = 0;
        for (int c = 0; !s && c < N_CHUNKS; c++) {
            if (c)
                begin_step(m);
            add_row(m, 0, chunk, false);
            s = run_step(m);
            if (c == 0)
                first = m->run_us;
            later = m->run_us;
        }
    }
    const double more = n_keys(m, chunk * (N_CHUNKS - 1), chunk) - n_keys(m, 0, chunk);
    if (more > 0)
        m->pace->prompt_key_us = above_zero(later - first) / more;
    for (int i = 0; !s && i < 2 * REPEATS; i++) {
        begin_step(m);
        add_row(m, i % 2, 1, false);
        s = run_step(m);
        if (i % 2)
            alone = least(m->run_us, alone);
        else
            behind = least(m->run_us, behind);
    }
    const double keys = n_keys(m, m->length[0] - 1, 1);
    m->pace->decode_key_us = above_zero(behind - alone) / keys;
    m->pace->run_us[LS_PACE_POINTS - 1] =
        above_zero(first - keys_us(m, 0, chunk)) / chunk * CHUNK;
    return s;
}

/* Rows that decode, each a sequence of its own. */
static ls_status measure_rows(struct measuring *m, int point)
{
    const uint32_t n = ls_pace_rows[point];
    double run = 0, head = 0;
    ls_status s = LS_OK;
    for (int i = 0; !s && i < REPEATS; i++) {
        double keys = 0;
        begin_step(m);
        for (uint32_t slot = 1; slot <= n; slot++) {
            keys += keys_us(m, m->length[slot], 1);
            add_row(m, slot, 1, true);
        }
        s = run_step(m);
        run = least(above_zero(m->run_us - keys), run);
        head = least(m->head_us, head);
    }
    m->pace->run_us[point] = run;
    m->pace->head_us[point] = head;
    return s;
}

static ls_status measure(struct measuring *m)
{
    const uint32_t fits = m->config.limits.context / N_CHUNKS - REPEATS;
    ls_status s = measure_keys(m, fits < CHUNK ? fits : CHUNK);
    for (int p = 0; !s && p < LS_PACE_POINTS - 1; p++)
        s = measure_rows(m, p);
    const double rows = (double)CHUNK / MAX_ROWS;
    m->pace->head_us[LS_PACE_POINTS - 1] = m->pace->head_us[LS_PACE_POINTS - 2] * rows;
    return s;
}

/* --- the stage ---------------------------------------------------------------------------- */

/* Enough for a long prompt and for rows that decode. */
static struct ls_step_limits limits_of(const struct ls_arch *arch)
{
    const uint32_t wanted = CHUNK * N_CHUNKS + 8 * REPEATS;
    const uint32_t context =
        (uint32_t)arch->context < wanted ? (uint32_t)arch->context : wanted;
    const uint32_t per_slot = (uint32_t)ls_ceil_div(context, LS_KV_BLOCK);
    return (struct ls_step_limits){ .max_rows = N_SLOTS,
                                    .max_events = 3 * N_SLOTS + 2 * per_slot,
                                    .max_tokens = CHUNK,
                                    .n_slots = N_SLOTS,
                                    .n_blocks = 2 * per_slot + 2 * N_SLOTS,
                                    .max_blocks_per_slot = per_slot,
                                    .context = context };
}

/* Numbers of size 0.5 to 1 with random signs, so that experts are chosen as they would be. */
static void fill_hidden(struct measuring *m, uint64_t n)
{
    static const uint32_t half[LS_N_FMT] = {
        [LS_FMT_F32] = 0x3f000000, [LS_FMT_F16] = 0x3800, [LS_FMT_BF16] = 0x3f00
    };
    static const int mantissa[LS_N_FMT] = {
        [LS_FMT_F32] = 23, [LS_FMT_F16] = 10, [LS_FMT_BF16] = 7
    };
    const enum ls_fmt fmt = m->config.arch->dtype;
    const size_t bytes = ls_fmt_bytes(fmt);
    uint32_t x = 1;
    for (uint64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        const uint32_t sign = x >> 31 << (8 * bytes - 1);
        const uint32_t value = sign | half[fmt] | (x >> 8 & ((1u << mantissa[fmt]) - 1));
        memcpy((char *)m->hidden_in + i * bytes, &value, bytes);
    }
}

static ls_status make(struct measuring *m)
{
    const struct ls_arch *arch = m->config.arch;
    const int first = m->config.first_layer;
    void *p = NULL;
    const uint64_t width = (uint64_t)ls_inbound_width(arch, first ? first : 1);
    ls_status s = ls_step_init(&m->step, &m->config.limits, 1, m->err);
    if (!s && first)
        s = ls_alloc(&m->hidden_in, CHUNK * width * ls_fmt_bytes(arch->dtype), "hidden states",
                     m->err);
    if (!s && first)
        fill_hidden(m, CHUNK * width);
    if (!s)
        s = ls_alloc(&p, MAX_ROWS * (uint64_t)arch->vocab * sizeof(float), "logits", m->err);
    m->logits = p;
    const uint64_t begin = ls_now_us();
    if (!s)
        s = ls_stage_create(&m->stage, &m->config, m->err);
    if (!s)
        m->pace->load_bytes_per_us =
            (double)ls_weights_bytes(arch, m->config.ckpt, first, arch->n_layers) /
            (double)(ls_now_us() - begin + 1);
    return s;
}

static int last_cut(const struct ls_arch *arch)
{
    int l = arch->n_layers - 1;
    while (l > 0 && !ls_cut_allowed(arch, l, NULL))
        l--;
    return l;
}

ls_status ls_pace_measure(struct ls_pace *pace, const struct ls_arch *arch,
                          const struct ls_checkpoint *ckpt, int cpu_path, int n_threads,
                          bool digests, struct ls_err *err)
{
    int n_failed = 0;
    if (arch->context < LEAST_CONTEXT)
        return ls_fail(err, LS_E_REFUSED, "a context of %d is too short to measure the pace in",
                       arch->context);
    const unsigned saved = ls_fp_enter();
    const struct ls_kernels *const kernels =
        ls_kernels_choose((enum ls_cpu_path)cpu_path, &n_failed);
    ls_fp_leave(saved);
    if (!kernels)
        return ls_fail(err, LS_E_COMPUTE, "no kernels: the self-test of every path fails here");
    const int first = last_cut(arch);
    *pace =
        (struct ls_pace){ .n_threads = n_threads,
                          .first_layer = first,
                          .unit_bytes = ls_weights_bytes(arch, ckpt, first, arch->n_layers) -
                                        ls_weights_head_bytes(arch, ckpt) };
    struct measuring m = { .pace = pace,
                           .config = { .arch = arch,
                                       .ckpt = ckpt,
                                       .kernels = kernels,
                                       .first_layer = first,
                                       .last_layer = arch->n_layers,
                                       .n_threads = n_threads,
                                       .limits = limits_of(arch),
                                       .max_logit_rows = MAX_ROWS },
                           .digests = digests,
                           .err = err };
    ls_status s = make(&m);
    if (!s)
        s = measure(&m);
    ls_stage_destroy(m.stage);
    ls_step_finish(&m.step);
    ls_free(m.hidden_in);
    ls_free(m.logits);
    return s;
}

/* --- what follows ------------------------------------------------------------------------- */

/* Between the points a straight line, behind the last one in proportion. */
static double at(const double us[LS_PACE_POINTS], uint32_t n)
{
    int i = 0;
    if (n == 0)
        return 0;
    while (i < LS_PACE_POINTS - 1 && ls_pace_rows[i] < n)
        i++;
    const double x = ls_pace_rows[i];
    if (i == 0 || n >= x)
        return us[i] * (n > x ? n / x : 1);
    const double low = ls_pace_rows[i - 1];
    return us[i - 1] + (us[i] - us[i - 1]) * (n - low) / (x - low);
}

double ls_pace_run(const struct ls_pace *pace, uint32_t n_tokens)
{
    return at(pace->run_us, n_tokens);
}

double ls_pace_head(const struct ls_pace *pace, uint32_t n_rows)
{
    return at(pace->head_us, n_rows);
}

double ls_pace_attention(const struct ls_pace *pace, uint32_t first_pos, uint32_t count,
                         int window)
{
    const double each = count > 1 ? pace->prompt_key_us : pace->decode_key_us;
    double keys = first_pos + (count + 1) / 2.0; /* of a token, on average */
    if (window > 0 && keys > window)
        keys = window;
    return each * keys * count;
}
