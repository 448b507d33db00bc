#include "parity/replay.h"

#include "base/size.h"
#include "model/weights.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

enum { LOGIT_ROWS = 8 /* computed at a time */ };

struct sequence {
    uint32_t done, n_blocks;
    bool open;
};

struct ls_replay {
    struct ls_replay_config cfg;
    struct ls_stage *stage;
    struct ls_step_limits limits;
    struct ls_step step;
    struct sequence *sequences; /* [n_sequences] */
    float *logits;              /* [LOGIT_ROWS][vocab]; with the last layer */
};

/* --- model -----------------------------------------------------------------------------------
 */

ls_status ls_replay_model_open(struct ls_replay_model *model, const char *folder,
                               const struct ls_arch_wish *wish, struct ls_err *err)
{
    size_t n_unused;
    *model = (struct ls_replay_model){ .ckpt = NULL };
    ls_arena_init(&model->arena);
    ls_status s = ls_arch_load(&model->arch, folder, wish, &model->arena, err);
    if (!s)
        s = ls_checkpoint_open(&model->ckpt, folder, err);
    return s ? s : ls_weights_check(&model->arch, model->ckpt, &n_unused, NULL, err);
}

void ls_replay_model_finish(struct ls_replay_model *model)
{
    ls_checkpoint_close(model->ckpt);
    ls_arena_finish(&model->arena);
    model->ckpt = NULL;
}

/* --- creation --------------------------------------------------------------------------------
 */

static struct ls_step_limits limits_of(const struct ls_replay_config *cfg)
{
    const uint32_t n = cfg->n_sequences;
    const uint32_t blocks = (uint32_t)ls_ceil_div(cfg->positions, LS_KV_BLOCK);
    return (struct ls_step_limits){ .max_rows = n,
                                    .max_events = n * (blocks + 2),
                                    .max_tokens = cfg->max_tokens,
                                    .n_slots = n,
                                    .n_blocks = n * blocks,
                                    .max_blocks_per_slot = blocks,
                                    .context = cfg->positions,
                                    .leaves = cfg->leaves };
}

static bool has_head(const struct ls_replay *r)
{
    return r->cfg.last_layer == r->cfg.arch->n_layers;
}

static ls_status make_tables(struct ls_replay *r, struct ls_err *err)
{
    void *sequences = NULL, *logits = NULL;
    const uint64_t rows = has_head(r) ? LOGIT_ROWS : 0;
    ls_status s = ls_alloc(&sequences, r->cfg.n_sequences * sizeof *r->sequences,
                           "sequences of a replay", err);
    r->sequences = sequences;
    if (!s)
        s = ls_alloc(&logits, rows * (uint64_t)r->cfg.arch->vocab * sizeof *r->logits,
                     "logits of a replay", err);
    r->logits = logits;
    return s ? s : ls_step_init(&r->step, &r->limits, 1, err);
}

ls_status ls_replay_create(struct ls_replay **out, const struct ls_replay_config *config,
                           struct ls_err *err)
{
    void *memory;
    ls_status s = ls_alloc(&memory, sizeof(struct ls_replay), "a replay", err);
    if (s)
        return s;
    struct ls_replay *const r = memory;
    r->cfg = *config;
    r->limits = limits_of(config);
    const struct ls_stage_config stage = { .arch = config->arch,
                                           .ckpt = config->ckpt,
                                           .kernels = config->kernels,
                                           .first_layer = config->first_layer,
                                           .last_layer = config->last_layer,
                                           .n_threads = config->n_threads,
                                           .limits = r->limits,
                                           .max_logit_rows = has_head(r) ? LOGIT_ROWS : 0,
                                           .tap = config->tap };
    s = make_tables(r, err);
    if (!s)
        s = ls_stage_create(&r->stage, &stage, err);
    if (s)
        ls_replay_destroy(r);
    else
        *out = r;
    return s;
}

void ls_replay_destroy(struct ls_replay *r)
{
    if (!r)
        return;
    ls_stage_destroy(r->stage);
    ls_step_finish(&r->step);
    ls_free(r->sequences);
    ls_free(r->logits);
    ls_free(r);
}

/* --- a run -----------------------------------------------------------------------------------
 */

static void add_event(struct ls_replay *r, uint32_t kind, uint32_t slot, uint32_t value)
{
    r->step.events[r->step.n_events++] = (struct ls_step_event){ kind, slot, value };
}

/* The slots are let go with the next run, before anything else. */
void ls_replay_restart(struct ls_replay *r)
{
    for (uint32_t i = 0; i < r->cfg.n_sequences; i++) {
        if (r->sequences[i].open)
            add_event(r, LS_EVENT_CLOSE, i, 0);
        r->sequences[i] = (struct sequence){ .done = 0 };
    }
}

static void add_row(struct ls_replay *r, const struct ls_replay_row *row)
{
    const uint32_t i = row->sequence;
    struct sequence *const seq = &r->sequences[i];
    struct ls_step *const step = &r->step;
    if (!seq->open)
        add_event(r, LS_EVENT_OPEN, i, 0);
    seq->open = true;
    for (; seq->n_blocks * LS_KV_BLOCK < seq->done + row->count; seq->n_blocks++)
        add_event(r, LS_EVENT_ASSIGN, i, i * r->limits.max_blocks_per_slot + seq->n_blocks);
    const uint32_t n_logits = has_head(r) ? row->count : 0;
    step->rows[step->n_rows++] = (struct ls_step_row){ .slot = i,
                                                       .first_pos = seq->done,
                                                       .count = row->count,
                                                       .n_send = n_logits,
                                                       .n_digest = 0,
                                                       .nan_layer = LS_NO_LAYER };
    if (row->tokens)
        memcpy(step->tokens + step->n_tokens, row->tokens, row->count * sizeof *row->tokens);
    step->n_tokens += row->count;
    seq->done += row->count;
}

static ls_status check_rows(const struct ls_replay *r, const struct ls_replay_row *rows,
                            uint32_t n_rows, struct ls_err *err)
{
    uint64_t n_tokens = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct ls_replay_row *row = &rows[i];
        n_tokens += row->count;
        if (row->sequence >= r->cfg.n_sequences || row->count == 0 ||
            row->count > r->cfg.positions - r->sequences[row->sequence].done)
            return ls_fail(err, LS_E_SHAPE,
                           "replay: %u tokens of sequence %u, expected 1 to what is left of %u "
                           "positions of one of %u sequences",
                           row->count, row->sequence, r->cfg.positions, r->cfg.n_sequences);
    }
    if (n_rows == 0 || n_rows > r->limits.max_rows || n_tokens > r->limits.max_tokens)
        return ls_fail(err, LS_E_SHAPE,
                       "replay: a run of %u rows, expected 1 to %u with %u tokens together",
                       n_rows, r->limits.max_rows, r->limits.max_tokens);
    return LS_OK;
}

ls_status ls_replay_run(struct ls_replay *r, const struct ls_replay_row *rows, uint32_t n_rows,
                        const void *hidden_in, void *hidden_out, struct ls_err *err)
{
    ls_status s = check_rows(r, rows, n_rows, err);
    if (s)
        return s;
    r->step.n_rows = r->step.n_tokens = 0;
    for (uint32_t i = 0; i < n_rows; i++)
        add_row(r, &rows[i]);
    s = ls_stage_run(r->stage, &r->step, hidden_in, hidden_out, err);
    r->step.n_events = 0;
    r->step.id++;
    return s;
}

void ls_replay_logits(struct ls_replay *r, unsigned char (*digests)[LS_REPLAY_DIGEST])
{
    const size_t bytes = (size_t)r->cfg.arch->vocab * sizeof *r->logits;
    assert(has_head(r));
    for (uint32_t begin = 0, end; begin < r->step.n_tokens; begin = end) {
        end = r->step.n_tokens - begin > LOGIT_ROWS ? begin + LOGIT_ROWS : r->step.n_tokens;
        ls_stage_logits(r->stage, &r->step, begin, end, r->logits);
        for (uint32_t i = begin; digests && i < end; i++)
            crypto_generichash(digests[i], LS_REPLAY_DIGEST,
                               (const unsigned char *)r->logits + (i - begin) * bytes, bytes,
                               NULL, 0);
    }
}

const unsigned char *ls_replay_leaves(const struct ls_replay *r)
{
    return ls_stage_leaves(r->stage);
}
