#include "stage/stage.h"

#include "base/carve.h"
#include "base/mutant.h"
#include "model/forward.h"
#include "stage/kv_pool.h"
#include "stage/tables.h"
#include "tensor/merkle.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "digests are over little-endian rows");

/* One logits call, as the team sees it. */
struct delivery {
    const struct ls_step *step;
    uint32_t begin, end; /* logits of the step */
    float *out;          /* [sent][vocab] */
};

struct ls_stage {
    struct ls_stage_config cfg;
    struct ls_team *team;
    struct ls_weights weights;
    struct ls_kv_pool pool;
    struct ls_forward *forward;
    struct ls_tables tables;
    struct ls_span *spans;             /* [max_rows] */
    int32_t *span_nan;                 /* [max_rows] */
    struct ls_logit_place *places;     /* [max_tokens] of the last step; last stage */
    uint32_t *wanted;                  /* [max_logit_rows]; last stage */
    crypto_generichash_state *digests; /* [n_slots]; last stage */
    unsigned char *leaves;             /* [own layers, and the logits][max_tokens][LS_LEAF], a
                                          step's tokens close together; with limits.leaves */
    struct ls_tap tap;                 /* that makes them */
    uint32_t n_tokens;                 /* of the last step */
    struct delivery delivery;          /* of the logits call in progress */
    struct ls_stage_counts counts;
};

static bool is_last(const struct ls_stage_config *cfg)
{
    return cfg->last_layer == cfg->arch->n_layers;
}

/* --- creation --------------------------------------------------------------------------------
 */

static struct ls_forward_config forward_config(const struct ls_stage_config *cfg)
{
    return (struct ls_forward_config){ .arch = cfg->arch,
                                       .kernels = cfg->kernels,
                                       .first_layer = cfg->first_layer,
                                       .last_layer = cfg->last_layer,
                                       .max_tokens = cfg->limits.max_tokens,
                                       .max_spans = cfg->limits.max_rows,
                                       .max_logit_rows = is_last(cfg) ? cfg->max_logit_rows : 0,
                                       .context = cfg->limits.context,
                                       .progress = cfg->progress,
                                       .progress_arg = cfg->progress_arg,
                                       .tap = cfg->tap,
                                       .times = cfg->times };
}

/* The stage and its tables in one block; `made` receives the arrays' places. */
static uint64_t carve(struct ls_stage **stage, struct ls_stage *made, char *base,
                      const struct ls_stage_config *cfg)
{
    struct ls_carve c = { .base = base };
    const struct ls_step_limits *lim = &cfg->limits;
    *stage = ls_carve_take(&c, 1, 1, sizeof **stage);
    ls_tables_carve(&made->tables, &c, lim);
    made->spans = ls_carve_take(&c, 1, lim->max_rows, sizeof *made->spans);
    made->span_nan = ls_carve_take(&c, 1, lim->max_rows, sizeof *made->span_nan);
    if (lim->leaves)
        made->leaves =
            ls_carve_take(&c, (uint64_t)(cfg->last_layer - cfg->first_layer + is_last(cfg)),
                          lim->max_tokens, LS_LEAF);
    if (is_last(cfg)) {
        made->places = ls_carve_take(&c, 1, lim->max_tokens, sizeof *made->places);
        made->wanted = ls_carve_take(&c, 1, cfg->max_logit_rows, sizeof *made->wanted);
        made->digests = ls_carve_take(&c, 1, lim->n_slots, sizeof *made->digests);
    }
    return ls_carve_bytes(&c);
}

static uint64_t scratch_bytes(const struct ls_stage_config *cfg)
{
    struct ls_stage *stage, made = { .cfg = *cfg };
    struct ls_forward_config forward = forward_config(cfg);
    uint64_t own = carve(&stage, &made, NULL, cfg), theirs, total;
    theirs = ls_forward_bytes(&forward, cfg->n_threads);
    return ls_add_u64(own, theirs, &total) ? total : UINT64_MAX;
}

uint64_t ls_stage_scratch_bytes(const struct ls_arch *arch, int first_layer, int last_layer,
                                int n_threads, const struct ls_step_limits *limits,
                                uint32_t max_logit_rows)
{
    const struct ls_stage_config cfg = { .arch = arch,
                                         .first_layer = first_layer,
                                         .last_layer = last_layer,
                                         .n_threads = n_threads,
                                         .limits = *limits,
                                         .max_logit_rows = max_logit_rows };
    return scratch_bytes(&cfg);
}

uint64_t ls_stage_used_scratch_bytes(const struct ls_stage_config *cfg, uint32_t n_tokens,
                                     uint32_t n_logit_rows)
{
    struct ls_stage *stage, made = { .cfg = *cfg };
    const struct ls_forward_config forward = forward_config(cfg);
    return carve(&stage, &made, NULL, cfg) +
           ls_forward_used_bytes(&forward, cfg->n_threads, n_tokens,
                                 is_last(cfg) ? n_logit_rows : 0);
}

/* --- leaves ----------------------------------------------------------------------------------
 */

static unsigned char *leaf_at(const struct ls_stage *stage, int layer, uint32_t token)
{
    const uint64_t row = (uint64_t)(layer - stage->cfg.first_layer) * stage->n_tokens + token;
    return stage->leaves + row * LS_LEAF;
}

static void take_leaf(void *arg, const struct ls_tap_value *value)
{
    const struct ls_stage *const stage = arg;
    const struct ls_span *const span = &stage->spans[value->span];
    const uint32_t token = span->token + (uint32_t)(value->pos - span->first_pos);
    assert(value->count == value->width);
    ls_leaf_of(leaf_at(stage, value->layer, token), value->at,
               (size_t)value->width * sizeof(float));
}

const unsigned char *ls_stage_leaves(const struct ls_stage *stage)
{
    assert(stage->leaves);
    return stage->leaves;
}

static void begin_leaves(struct ls_stage *stage, const struct ls_step *step)
{
    const int end = stage->cfg.last_layer;
    stage->n_tokens = step->n_tokens;
    if (stage->leaves && is_last(&stage->cfg))
        memset(leaf_at(stage, end, 0), 0, (size_t)step->n_tokens * LS_LEAF);
}

/* --- checks ----------------------------------------------------------------------------------
 */

static ls_status check_cut(const struct ls_arch *arch, int first_layer, struct ls_err *err)
{
    int reader = 0;
    if (ls_cut_allowed(arch, first_layer, &reader))
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "cut in front of layer %d: layer %d reads the keys and values of layer %d",
                   first_layer, reader, arch->layers[reader].kv_source);
}

static ls_status check_config(const struct ls_stage_config *cfg, struct ls_err *err)
{
    int n = cfg->arch->n_layers;
    if (cfg->first_layer < 0 || cfg->first_layer >= cfg->last_layer || cfg->last_layer > n)
        return ls_fail(err, LS_E_REFUSED,
                       "stage of layers [%d, %d), expected a range within 0..%d",
                       cfg->first_layer, cfg->last_layer, n);
    ls_status s = check_cut(cfg->arch, cfg->first_layer, err);
    if (!s)
        s = check_cut(cfg->arch, cfg->last_layer, err);
    if (!s)
        s = ls_step_limits_check(&cfg->limits, err);
    if (s)
        return s;
    if (cfg->limits.context > (uint32_t)cfg->arch->context)
        return ls_fail(err, LS_E_REFUSED, "step limits: context %u, the model's is %d",
                       cfg->limits.context, cfg->arch->context);
    if (is_last(cfg) && cfg->max_logit_rows < 1)
        return ls_fail(err, LS_E_REFUSED, "last stage: max_logit_rows is 0, expected 1..");
    if (sodium_init() < 0)
        return ls_fail(err, LS_E_INTERNAL, "libsodium cannot be initialised");
    return LS_OK;
}

static ls_status build(struct ls_stage *stage, struct ls_err *err)
{
    const struct ls_stage_config *cfg = &stage->cfg;
    struct ls_forward_config forward = forward_config(cfg);
#ifdef LS_MUTANTS
    ls_kernels_even_first = LS_MUTANT(EVEN_FIRST);
#endif
    ls_status s = ls_team_create(&stage->team, cfg->n_threads, err);
    if (!s)
        s = ls_weights_load(&stage->weights, cfg->arch, cfg->ckpt, cfg->first_layer,
                            cfg->last_layer, &cfg->weights, stage->team, err);
    if (!s)
        s = ls_kv_pool_init(&stage->pool, cfg->arch, cfg->first_layer, cfg->last_layer,
                            cfg->limits.n_blocks, err);
    if (!s)
        s = ls_forward_create(&stage->forward, &forward, &stage->weights, stage->pool.layers,
                              stage->team, err);
    return s;
}

ls_status ls_stage_create(struct ls_stage **out, const struct ls_stage_config *config,
                          struct ls_err *err)
{
    struct ls_stage *stage, made = { .cfg = *config };
    void *block;
    ls_status s = check_config(config, err);
    if (!s)
        s = ls_alloc(&block, carve(&stage, &made, NULL, config), "tables of the stage", err);
    if (s)
        return s;
    carve(&stage, &made, block, config);
    *stage = made;
    if (stage->leaves) {
        assert(!config->tap);
        stage->tap = (struct ls_tap){ .ops = UINT64_C(1) << LS_OP_HIDDEN,
                                      .take = take_leaf,
                                      .arg = stage };
        stage->cfg.tap = &stage->tap;
    }
    s = build(stage, err);
    if (s) {
        ls_stage_destroy(stage);
        return s;
    }
    stage->counts.weights_bytes = stage->weights.bytes;
    if (config->weights.kind == LS_WEIGHTS_ADOPTED)
        stage->counts.shared_bytes = stage->weights.bytes;
    stage->counts.kv_bytes = stage->pool.bytes;
    stage->counts.scratch_bytes = scratch_bytes(config);
    *out = stage;
    return LS_OK;
}

int ls_stage_weights_fd(const struct ls_stage *stage)
{
    return stage->weights.shared.fd;
}

void ls_stage_destroy(struct ls_stage *stage)
{
    if (!stage)
        return;
    ls_forward_destroy(stage->forward);
    ls_kv_pool_finish(&stage->pool);
    ls_weights_finish(&stage->weights);
    ls_team_destroy(stage->team);
    ls_free(stage); /* the first array of its block */
}

/* --- a step ----------------------------------------------------------------------------------
 */

static ls_status check_tokens(const struct ls_stage *stage, const struct ls_step *step,
                              struct ls_err *err)
{
    int vocab = stage->cfg.arch->vocab;
    if (stage->cfg.first_layer != 0)
        return LS_OK;
    assert(step->tokens);
    for (uint32_t t = 0; t < step->n_tokens; t++)
        if (step->tokens[t] < 0 || step->tokens[t] >= vocab)
            return ls_fail(err, LS_E_SHAPE, "step token %u: id %d, expected 0..%d", t,
                           step->tokens[t], vocab - 1);
    return LS_OK;
}

/* Only stages in front of this one can have seen NaN so far. */
static ls_status check_nan_layers(const struct ls_stage *stage, const struct ls_step *step,
                                  struct ls_err *err)
{
    for (uint32_t i = 0; i < step->n_rows; i++)
        if (step->rows[i].nan_layer >= stage->cfg.first_layer)
            return ls_fail(err, LS_E_SHAPE,
                           "step row %u: NaN layer %d, expected one before this stage's %d", i,
                           step->rows[i].nan_layer, stage->cfg.first_layer);
    return LS_OK;
}

static void fill_spans(struct ls_stage *stage, const struct ls_step *step)
{
    uint32_t token = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct ls_step_row *r = &step->rows[i];
        stage->spans[i] =
            (struct ls_span){ .token = token,
                              .count = r->count,
                              .first_pos = (int32_t)r->first_pos,
                              .live_first = (int32_t)stage->tables.slots[r->slot].live_first,
                              .blocks = ls_tables_blocks(&stage->tables, r->slot) };
        token += r->count;
    }
}

static void open_digests(struct ls_stage *stage, const struct ls_step *step)
{
    for (uint32_t i = 0; i < step->n_events && stage->digests; i++)
        if (step->events[i].kind == LS_EVENT_OPEN)
            crypto_generichash_init(&stage->digests[step->events[i].slot], NULL, 0, 32);
}

static int32_t earlier(int32_t a, int32_t b)
{
    if (a == LS_NO_LAYER || b == LS_NO_LAYER)
        return a == LS_NO_LAYER ? b : a;
    return a < b ? a : b;
}

static void keep_nan(struct ls_stage *stage, struct ls_step *step)
{
    for (uint32_t i = 0; i < step->n_rows; i++) {
        struct ls_step_row *r = &step->rows[i];
        struct ls_slot *slot = &stage->tables.slots[r->slot];
        r->nan_layer = earlier(r->nan_layer, stage->span_nan[i]);
        slot->nan_layer = earlier(slot->nan_layer, r->nan_layer);
    }
}

ls_status ls_stage_run(struct ls_stage *stage, struct ls_step *step, const void *hidden_in,
                       void *hidden_out, struct ls_err *err)
{
    ls_status s = ls_step_check(step, &stage->cfg.limits, err);
    if (!s)
        s = check_tokens(stage, step, err);
    if (!s)
        s = check_nan_layers(stage, step, err);
    if (!s)
        s = ls_tables_apply(&stage->tables, step, err);
    if (s)
        return s;
    assert(stage->cfg.first_layer == 0 || hidden_in);
    assert(is_last(&stage->cfg) || hidden_out);
    open_digests(stage, step);
    fill_spans(stage, step);
    begin_leaves(stage, step);
    if (stage->places)
        ls_step_logit_places(step, stage->places);
    const struct ls_forward_io io = { .spans = stage->spans,
                                      .n_spans = step->n_rows,
                                      .n_tokens = step->n_tokens,
                                      .tokens = step->tokens,
                                      .hidden_in = hidden_in,
                                      .hidden_out = hidden_out,
                                      .span_nan_layer = stage->span_nan };
    if (!ls_forward_run(stage->forward, &io))
        return ls_fail(err, LS_E_DRAINED, "step given up between layers");
    keep_nan(stage, step);
    ls_tables_advance(&stage->tables, step);
    stage->counts.steps++;
    stage->counts.tokens += step->n_tokens;
    return LS_OK;
}

/* --- logits ----------------------------------------------------------------------------------
 */

static void copy_sent(const struct ls_stage *stage, uint64_t first, uint64_t end)
{
    const struct delivery *d = &stage->delivery;
    size_t vocab = (size_t)stage->cfg.arch->vocab, sent = 0;
    for (uint32_t i = d->begin; i < d->end; i++) {
        if (!stage->places[i].sent)
            continue;
        if (i - d->begin >= first && i - d->begin < end)
            memcpy(d->out + sent * vocab, ls_forward_logits_row(stage->forward, i - d->begin),
                   vocab * sizeof(float));
        sent++;
    }
}

/* A slot has one row in a step, so whoever owns a step's row feeds the slot's digest in order.
 */
static void feed_digests(const struct ls_stage *stage, int member, int n_members)
{
    const struct delivery *d = &stage->delivery;
    size_t bytes = (size_t)stage->cfg.arch->vocab * sizeof(float);
    for (uint32_t i = d->begin; i < d->end; i++) {
        const struct ls_logit_place *place = &stage->places[i];
        if (!place->digested || place->row % (uint32_t)n_members != (uint32_t)member)
            continue;
        const void *row = ls_forward_logits_row(stage->forward, i - d->begin);
        crypto_generichash_update(&stage->digests[d->step->rows[place->row].slot], row, bytes);
    }
}

static void leaf_logits(const struct ls_stage *stage, uint64_t first, uint64_t end)
{
    const size_t bytes = (size_t)stage->cfg.arch->vocab * sizeof(float);
    for (uint64_t i = first; stage->leaves && i < end; i++)
        ls_leaf_of(leaf_at(stage, stage->cfg.last_layer,
                           stage->places[stage->delivery.begin + i].token),
                   ls_forward_logits_row(stage->forward, (uint32_t)i), bytes);
}

static void deliver_job(void *arg, int member, int n_members)
{
    const struct ls_stage *stage = arg;
    uint64_t first, end;
    ls_team_share(stage->delivery.end - stage->delivery.begin, member, n_members, &first, &end);
    copy_sent(stage, first, end);
    leaf_logits(stage, first, end);
    feed_digests(stage, member, n_members);
}

/* A fault for the negative controls: one bit of a row. */
static void spoil(const struct ls_stage *stage, const struct ls_step *step)
{
    float *const row = (float *)(uintptr_t)ls_forward_logits_row(stage->forward, 0);
    if (LS_MUTANT(DRIFT) ? stage->counts.steps % 2 : LS_MUTANT(NEIGHBOUR) && step->n_rows > 1)
        *row = -*row;
}

void ls_stage_logits(struct ls_stage *stage, const struct ls_step *step, uint32_t begin,
                     uint32_t end, float *out)
{
    assert(stage->places && begin <= end && end - begin <= stage->cfg.max_logit_rows);
    for (uint32_t i = begin; i < end; i++)
        stage->wanted[i - begin] = stage->places[i].token;
    const struct ls_logits_io io = { .n_rows = end - begin, .tokens = stage->wanted };
    ls_forward_logits(stage->forward, &io);
    spoil(stage, step);
    stage->delivery = (struct delivery){ .step = step, .begin = begin, .end = end, .out = out };
    ls_team_run(stage->team, deliver_job, stage);
    stage->counts.logits_rows += end - begin;
}

void ls_stage_digest(const struct ls_stage *stage, uint32_t slot, unsigned char digest[32])
{
    assert(stage->digests);
    crypto_generichash_state copy = stage->digests[slot];
    crypto_generichash_final(&copy, digest, 32);
}

int32_t ls_stage_nan_layer(const struct ls_stage *stage, uint32_t slot)
{
    return stage->tables.slots[slot].nan_layer;
}

struct ls_team *ls_stage_team(struct ls_stage *stage)
{
    return stage->team;
}

void ls_stage_get_counts(const struct ls_stage *stage, struct ls_stage_counts *counts)
{
    uint64_t mapped = 0;
    *counts = stage->counts;
    if (ls_checkpoint_resident_bytes(stage->cfg.ckpt, &mapped, NULL))
        mapped = 0;
    counts->resident_bytes = stage->weights.bytes - counts->shared_bytes + mapped;
}
