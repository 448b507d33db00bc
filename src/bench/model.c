#include "bench/model.h"

#include "base/alloc.h"
#include "base/size.h"
#include "model/weights.h"
#include "stage/stage.h"

#include <string.h>

enum {
    MAX_BATCH = 256,
    BUDGET = 512,     /* tokens of a step */
    BEFORE = 128,     /* positions of each sequence before decoding */
    LONGEST = 2048,   /* prompt */
    LOGIT_ROWS = 128, /* at a time */
};

static const char *const phase_names[LS_N_PHASES] = {
    [LS_PHASE_ROWS] = "rows",         [LS_PHASE_QKV] = "q, k, v",
    [LS_PHASE_CACHE] = "rope, cache", [LS_PHASE_ATTENTION] = "attention",
    [LS_PHASE_ATTN_OUT] = "o",        [LS_PHASE_FFN_IN] = "gate, up",
    [LS_PHASE_FFN_OUT] = "down",      [LS_PHASE_EXPERTS] = "experts",
    [LS_PHASE_HEAD] = "head"
};

struct bench {
    const struct ls_model_bench *b;
    struct ls_stage_config config;
    struct ls_stage *stage;
    struct ls_step_limits lim;
    struct ls_step step;
    struct ls_forward_times times;
    float *logits;       /* [LOGIT_ROWS][vocab] */
    uint32_t next_block; /* never given back but by closing all slots */
    uint32_t length[MAX_BATCH];
    bool open[MAX_BATCH];
    double weights[LS_N_PHASES]; /* elements of the matrices of each phase */
    ls_status status;            /* of the first step that failed */
    struct ls_err err;
};

/* --- steps -----------------------------------------------------------------------------------
 */

static void event(struct bench *x, enum ls_event_kind kind, uint32_t slot, uint32_t value)
{
    x->step.events[x->step.n_events++] = (struct ls_step_event){ kind, slot, value };
}

static void begin_step(struct bench *x)
{
    x->step.id++;
    x->step.n_rows = x->step.n_events = x->step.n_tokens = 0;
}

/* Closes every slot with the next step and starts the pool anew. */
static void close_all(struct bench *x)
{
    for (uint32_t s = 0; s < MAX_BATCH; s++) {
        if (x->open[s])
            event(x, LS_EVENT_CLOSE, s, 0);
        x->open[s] = false;
    }
    x->next_block = 0;
}

static void add_row(struct bench *x, uint32_t slot, uint32_t count, uint32_t n_send)
{
    struct ls_step *const step = &x->step;
    if (!x->open[slot]) {
        event(x, LS_EVENT_OPEN, slot, 0);
        x->open[slot] = true;
        x->length[slot] = 0;
    }
    const uint32_t end = x->length[slot] + count;
    for (uint32_t held = (uint32_t)ls_ceil_div(x->length[slot], LS_KV_BLOCK);
         held * LS_KV_BLOCK < end; held++)
        event(x, LS_EVENT_ASSIGN, slot, x->next_block++);
    step->rows[step->n_rows++] = (struct ls_step_row){ .slot = slot,
                                                       .first_pos = x->length[slot],
                                                       .count = count,
                                                       .n_send = n_send,
                                                       .nan_layer = LS_NO_LAYER };
    for (uint32_t i = 0; i < count; i++)
        step->tokens[step->n_tokens++] =
            (int32_t)((x->next_block * 977u + i * 131u) % (uint32_t)x->b->arch->vocab);
    x->length[slot] = end;
}

static void run_step(struct bench *x)
{
    if (!x->status)
        x->status = ls_stage_run(x->stage, &x->step, NULL, NULL, &x->err);
    const uint32_t n = x->status ? 0 : ls_step_n_logits(&x->step);
    for (uint32_t at = 0; at < n; at += LOGIT_ROWS)
        ls_stage_logits(x->stage, &x->step, at, n - at < LOGIT_ROWS ? n : at + LOGIT_ROWS,
                        x->logits);
}

/* --- what is measured ------------------------------------------------------------------------
 */

struct case_of {
    struct bench *x;
    uint32_t tokens; /* of the prompt; or the batch */
    bool all_logits;
    void (*before)(void *arg); /* or NULL */
    void (*run)(void *arg);
    double logits; /* rows of them */
    bool phases;   /* to be told apart */
};

static void prompt(void *arg)
{
    const struct case_of *const c = arg;
    struct bench *const x = c->x;
    for (uint32_t at = 0; at < c->tokens; at += BUDGET) {
        const uint32_t n = c->tokens - at < BUDGET ? c->tokens - at : BUDGET;
        begin_step(x);
        if (at == 0)
            close_all(x);
        add_row(x, 0, n, c->all_logits ? n : at + n == c->tokens);
        run_step(x);
    }
}

/* Sequences of BEFORE positions, for decoding to go on from. */
static void prepare_decode(const struct case_of *c)
{
    struct bench *const x = c->x;
    for (uint32_t slot = 0; slot < c->tokens;) {
        begin_step(x);
        if (slot == 0)
            close_all(x);
        for (; slot < c->tokens && x->step.n_tokens + BEFORE <= BUDGET; slot++)
            add_row(x, slot, BEFORE, 0);
        run_step(x);
    }
}

static void before_decode(void *arg)
{
    const struct case_of *const c = arg;
    if (c->x->length[0] == 2 * BEFORE)
        prepare_decode(c);
}

static void decode(void *arg)
{
    const struct case_of *const c = arg;
    struct bench *const x = c->x;
    begin_step(x);
    for (uint32_t slot = 0; slot < c->tokens; slot++)
        add_row(x, slot, 1, 1);
    run_step(x);
}

/* --- what the machine allows -----------------------------------------------------------------
 */

/* From the shapes; of experts nothing is said, which and how many weights they read depends on
 * the tokens. */
static void count_weights(struct bench *x, const struct ls_arch *arch)
{
    for (int l = 0; l < arch->n_layers; l++) {
        const struct ls_layer *const layer = &arch->layers[l];
        const double q = (double)layer->n_heads * layer->head_dim;
        const double kv = (double)layer->n_kv_heads * layer->head_dim;
        x->weights[LS_PHASE_QKV] += (q + 2 * kv) * arch->hidden;
        x->weights[LS_PHASE_ATTN_OUT] += q * arch->hidden;
        if (layer->ffn == LS_FFN_EXPERTS)
            continue;
        x->weights[LS_PHASE_FFN_IN] += 2.0 * layer->intermediate * arch->hidden;
        x->weights[LS_PHASE_FFN_OUT] += (double)layer->intermediate * arch->hidden;
    }
    x->weights[LS_PHASE_HEAD] = (double)arch->vocab * arch->hidden;
}

/* Seconds that `rows` rows of a phase's products take at least: arithmetic or reading. */
static double least_seconds(const struct bench *x, enum ls_forward_phase phase, double rows,
                            double passes)
{
    const struct ls_model_bench *const b = x->b;
    const enum ls_fmt d = b->arch->dtype;
    const double flop = 2 * x->weights[phase] * rows;
    const double bytes = x->weights[phase] * (double)ls_fmt_bytes(d) * passes;
    const double arithmetic = flop / ls_peak_of(b->peaks, b->kernels, d, d);
    const double reading = bytes / b->peaks->memory;
    return arithmetic > reading ? arithmetic : reading;
}

/* How often the weights must be read. */
static double passes_of(const struct case_of *c)
{
    return (double)ls_ceil_div(c->tokens, BUDGET);
}

static double least_of_all(const struct bench *x, double rows, double logits, double passes)
{
    double s = 0;
    for (int p = 0; p < LS_N_PHASES; p++)
        s += least_seconds(x, (enum ls_forward_phase)p, p == LS_PHASE_HEAD ? logits : rows,
                           passes);
    return s;
}

/* --- results ---------------------------------------------------------------------------------
 */

static void add(const struct bench *x, const char *name, double bound,
                const struct ls_rate *rate)
{
    ls_results_add(
        x->b->results,
        &(struct ls_result){
            .part = "model", .name = name, .unit = "tokens/s", .scale = 1, .bound = bound },
        rate);
}

/* Runs of the case more, phase by phase: tokens/s that each alone would allow. */
static void add_phases(struct bench *x, const char *name, struct case_of *c)
{
    enum { RUNS = LS_BENCH_MIN_REPEATS };
    double rates[LS_N_PHASES][RUNS];
    const double tokens = c->tokens, passes = passes_of(c);
    for (int i = 0; i < RUNS; i++) {
        if (c->before)
            c->before(c);
        memset(&x->times, 0, sizeof x->times);
        c->run(c);
        for (int p = 0; p < LS_N_PHASES; p++)
            rates[p][i] = x->times.ns[p] ? 1e9 * tokens / (double)x->times.ns[p] : 0;
    }
    for (int p = 0; p < LS_N_PHASES; p++) {
        char line[96];
        struct ls_rate rate;
        if (rates[p][0] <= 0)
            continue;
        const double least = least_seconds(x, (enum ls_forward_phase)p,
                                           p == LS_PHASE_HEAD ? c->logits : tokens, passes);
        ls_rate_of(&rate, rates[p], RUNS);
        snprintf(line, sizeof line, "  %s: %s", name, phase_names[p]);
        add(x, line, least > 0 ? tokens / least : 0, &rate);
    }
}

static bool wanted(const struct bench *x, char name[64], const char *what, uint32_t tokens)
{
    snprintf(name, 64, "x%d %s %u", x->b->n_threads, what, tokens);
    return !x->status && ls_results_wants(x->b->results, name);
}

static void bench_case(struct bench *x, const char *name, struct case_of *c)
{
    struct ls_rate rate;
    ls_measure(&rate, &(struct ls_work){ .before = c->before,
                                         .run = c->run,
                                         .arg = c,
                                         .amount = c->tokens,
                                         .seconds = x->b->seconds,
                                         .by_cpu_time = x->b->results->by_cpu_time &&
                                                        x->b->n_threads == 1 });
    add(x, name, c->tokens / least_of_all(x, c->tokens, c->logits, passes_of(c)), &rate);
    if (c->phases)
        add_phases(x, name, c);
}

static void bench_prompts(struct bench *x)
{
    static const uint32_t lengths[] = { 32, 128, 512, LONGEST };
    char name[64];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const uint32_t n = lengths[i];
        struct case_of c = {
            .x = x, .tokens = n, .run = prompt, .logits = 1, .phases = n == 512
        };
        if (n <= x->lim.context && wanted(x, name, "prefill", n))
            bench_case(x, name, &c);
    }
    struct case_of c = { .x = x,
                         .tokens = x->lim.context < 512 ? x->lim.context : 512,
                         .all_logits = true,
                         .run = prompt,
                         .phases = true };
    c.logits = c.tokens;
    if (wanted(x, name, "scoring", c.tokens))
        bench_case(x, name, &c);
}

static void bench_decoding(struct bench *x)
{
    char name[64];
    for (uint32_t batch = 1; batch <= MAX_BATCH && 2 * BEFORE <= x->lim.context; batch *= 2) {
        struct case_of c = { .x = x,
                             .tokens = batch,
                             .before = before_decode,
                             .run = decode,
                             .logits = batch,
                             .phases = batch == 1 || batch == 64 };
        if (!wanted(x, name, "decode, batch", batch))
            continue;
        prepare_decode(&c);
        bench_case(x, name, &c);
    }
}

/* --- the whole -------------------------------------------------------------------------------
 */

static ls_status make(struct bench *x, struct ls_err *err)
{
    const struct ls_model_bench *const b = x->b;
    void *logits = NULL;
    const uint32_t context = (uint32_t)ls_min_u64(LONGEST, (uint64_t)b->arch->context);
    const uint32_t per_slot = (uint32_t)ls_ceil_div(context, LS_KV_BLOCK);
    x->lim = (struct ls_step_limits){
        .max_rows = MAX_BATCH,
        .max_events = 4 * MAX_BATCH + BUDGET,
        .max_tokens = BUDGET,
        .n_slots = MAX_BATCH,
        .n_blocks = MAX_BATCH * (2 * BEFORE / LS_KV_BLOCK) + per_slot,
        .max_blocks_per_slot = per_slot,
        .context = context,
    };
    x->config = (struct ls_stage_config){ .arch = b->arch,
                                          .ckpt = b->ckpt,
                                          .kernels = b->kernels,
                                          .last_layer = b->arch->n_layers,
                                          .n_threads = b->n_threads,
                                          .limits = x->lim,
                                          .max_logit_rows = LOGIT_ROWS,
                                          .times = &x->times };
    ls_status s = ls_step_init(&x->step, &x->lim, 1, err);
    if (!s)
        s = ls_alloc(&logits, (uint64_t)LOGIT_ROWS * (uint64_t)b->arch->vocab * sizeof(float),
                     "logits", err);
    x->logits = logits;
    return s;
}

static void before_load(void *arg)
{
    struct bench *const x = arg;
    ls_stage_destroy(x->stage);
    x->stage = NULL;
}

static void load(void *arg)
{
    struct bench *const x = arg;
    if (!x->status)
        x->status = ls_stage_create(&x->stage, &x->config, &x->err);
}

/* The last one stays. */
static void bench_load(struct bench *x)
{
    struct ls_rate rate;
    char name[48];
    const struct ls_model_bench *const b = x->b;
    snprintf(name, sizeof name, "x%d load, from the page cache", b->n_threads);
    if (!ls_results_wants(b->results, name)) {
        load(x);
        return;
    }
    ls_measure(&rate, &(struct ls_work){ .before = before_load,
                                         .run = load,
                                         .arg = x,
                                         .amount = (double)ls_weights_bytes(
                                             b->arch, b->ckpt, 0, b->arch->n_layers) });
    ls_results_add(
        b->results,
        &(struct ls_result){ .part = "model", .name = name, .unit = "MB/s", .scale = 1e6 },
        &rate);
}

ls_status ls_bench_model(const struct ls_model_bench *b, struct ls_err *err)
{
    void *memory = NULL;
    ls_status s = ls_alloc(&memory, sizeof(struct bench), "benchmark of the model", err);
    if (s)
        return s;
    struct bench *const x = memory;
    x->b = b;
    s = make(x, err);
    if (!s) {
        bench_load(x);
        count_weights(x, b->arch);
        bench_prompts(x);
        bench_decoding(x);
        s = x->status ? ls_fail(err, x->status, "%s", x->err.text) : LS_OK;
    }
    ls_stage_destroy(x->stage);
    ls_step_finish(&x->step);
    ls_free(x->logits);
    ls_free(x);
    return s;
}
