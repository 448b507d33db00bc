#include "parity/probe.h"

#include "model/tap.h"
#include "parity/probe_file.h"
#include "parity/replay.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 64 /* tokens of a step */ };

struct probe {
    const struct ls_probe_config *cfg;
    struct ls_probe_writer file;
    struct ls_replay *replay;
    uint32_t n; /* positions of the prompt in progress */
};

bool ls_probe_at_last_only(enum ls_op op)
{
    return op == LS_OP_SCORES || op == LS_OP_HEAD || op == LS_OP_LOGITS;
}

/* --- what is wanted --------------------------------------------------------------------------
 */

static uint64_t wanted_ops(const struct ls_probe_config *cfg)
{
    const uint64_t ends = (uint64_t)1 << LS_OP_FINAL_NORM | (uint64_t)1 << LS_OP_HEAD |
                          (uint64_t)1 << LS_OP_LOGITS;
    switch (cfg->kind) {
    case LS_PROBE_ROWS:
        return 0;
    case LS_PROBE_LAYERS:
        return (uint64_t)1 << LS_OP_EMBEDDING | (uint64_t)1 << LS_OP_HIDDEN |
               (uint64_t)1 << LS_OP_FINAL_NORM;
    default:
        return cfg->layer == cfg->arch->n_layers ? ends
                                                 : (((uint64_t)1 << LS_N_OPS) - 1) & ~ends;
    }
}

/* Tensors of the file by number: of rows, two for each prompt; of layers, the hidden states,
 * then the final norm and the two of the prompt; of operations, by operation. */
static size_t n_tensors(const struct ls_probe_config *cfg)
{
    if (cfg->kind == LS_PROBE_ROWS)
        return 2 * cfg->n_prompts;
    return cfg->kind == LS_PROBE_LAYERS ? (size_t)cfg->arch->n_layers + 4 : LS_N_OPS;
}

static size_t hidden_of(const struct ls_tap_value *v, char name[LS_PROBE_NAME])
{
    const int k = v->op == LS_OP_EMBEDDING ? 0 : v->layer + 1;
    if (v->op == LS_OP_FINAL_NORM)
        snprintf(name, LS_PROBE_NAME, "final_norm");
    else
        snprintf(name, LS_PROBE_NAME, "hidden_states.%d", k);
    return (size_t)k;
}

static void take(void *arg, const struct ls_tap_value *v)
{
    struct probe *const t = arg;
    struct ls_probe_tensor shape = { .dtype = v->dtype,
                                     .rows = t->n,
                                     .columns = (uint64_t)v->width };
    size_t i = (size_t)v->op;
    uint64_t row = (uint64_t)v->pos;
    if (t->cfg->kind == LS_PROBE_LAYERS) {
        i = hidden_of(v, shape.name);
    } else {
        if (v->layer != t->cfg->layer || (ls_probe_at_last_only(v->op) && row + 1 != t->n))
            return;
        snprintf(shape.name, sizeof shape.name, "%s", ls_op_name(v->op));
    }
    if (ls_probe_at_last_only(v->op)) {
        shape.rows = 1;
        row = 0;
    }
    ls_probe_put(&t->file, i, &shape, row, (uint64_t)v->first, (uint64_t)v->count, v->at);
}

/* --- runs ------------------------------------------------------------------------------------
 */

static void put_rows(struct probe *t, size_t base, size_t number, uint32_t at, uint32_t count,
                     unsigned char (*digests)[LS_REPLAY_DIGEST],
                     const struct ls_probe_prompt *prompt)
{
    struct ls_probe_tensor rows = { .dtype = LS_DTYPE_U8,
                                    .rows = prompt->n,
                                    .columns = LS_REPLAY_DIGEST };
    struct ls_probe_tensor ids = { .dtype = LS_DTYPE_I32, .rows = prompt->n, .columns = 1 };
    snprintf(rows.name, sizeof rows.name, "rows.%zu", number);
    snprintf(ids.name, sizeof ids.name, "ids.%zu", number);
    ls_probe_put(&t->file, base, &ids, at, 0, count, prompt->tokens + at);
    ls_probe_put(&t->file, base + 1, &rows, at, 0, (uint64_t)count * LS_REPLAY_DIGEST, digests);
}

/* Logits are computed where they or their digests are wanted. */
static ls_status run_prompt(struct probe *t, size_t number, struct ls_err *err)
{
    const struct ls_probe_config *const cfg = t->cfg;
    const struct ls_probe_prompt *const prompt = &cfg->prompts[number];
    const size_t base = cfg->kind == LS_PROBE_ROWS ? 2 * number : n_tensors(cfg) - 2;
    const bool operations = cfg->kind == LS_PROBE_OPERATIONS;
    ls_status s = LS_OK;
    t->n = prompt->n;
    ls_replay_restart(t->replay);
    for (uint32_t at = 0; !s && at < prompt->n; at += CHUNK) {
        unsigned char digests[CHUNK][LS_REPLAY_DIGEST];
        const uint32_t left = prompt->n - at;
        const struct ls_replay_row row = { .count = left < CHUNK ? left : CHUNK,
                                           .tokens = prompt->tokens + at };
        s = ls_replay_run(t->replay, &row, 1, NULL, NULL, err);
        if (s || (operations && cfg->layer < cfg->arch->n_layers))
            continue;
        ls_replay_logits(t->replay, digests);
        if (!operations)
            put_rows(t, base, number, at, row.count, digests, prompt);
    }
    return s;
}

static ls_status check(const struct ls_probe_config *cfg, uint32_t *longest, struct ls_err *err)
{
    *longest = 1;
    for (size_t i = 0; i < cfg->n_prompts; i++) {
        const uint32_t n = cfg->prompts[i].n;
        if (n < 1 || n > (uint32_t)cfg->arch->context)
            return ls_fail(err, LS_E_REQUEST, "prompt %zu has %u tokens, expected 1 to %d", i,
                           n, cfg->arch->context);
        *longest = n > *longest ? n : *longest;
    }
    if (cfg->kind == LS_PROBE_OPERATIONS && cfg->layer > cfg->arch->n_layers)
        return ls_fail(err, LS_E_USAGE, "layer %d, expected 0 to %d", cfg->layer,
                       cfg->arch->n_layers);
    return LS_OK;
}

static ls_status run(struct probe *t, uint32_t longest, struct ls_err *err)
{
    const struct ls_probe_config *const cfg = t->cfg;
    const struct ls_tap tap = { .ops = wanted_ops(cfg), .take = take, .arg = t };
    const struct ls_replay_config replay = { .arch = cfg->arch,
                                             .ckpt = cfg->ckpt,
                                             .kernels = cfg->kernels,
                                             .last_layer = cfg->arch->n_layers,
                                             .n_threads = cfg->n_threads,
                                             .n_sequences = 1,
                                             .positions = longest,
                                             .max_tokens = CHUNK,
                                             .tap = tap.ops ? &tap : NULL };
    ls_status s = ls_replay_create(&t->replay, &replay, err);
    for (size_t i = 0; !s && i < cfg->n_prompts; i++)
        s = run_prompt(t, i, err);
    ls_replay_destroy(t->replay);
    return s;
}

ls_status ls_probe_write(const char *path, const struct ls_probe_config *config,
                         struct ls_err *err)
{
    struct probe t = { .cfg = config };
    uint32_t longest;
    ls_status s = check(config, &longest, err);
    if (!s)
        s = ls_probe_writer_open(&t.file, path, n_tensors(config), err);
    if (s)
        return s;
    s = run(&t, longest, err);
    if (!s)
        return ls_probe_writer_close(&t.file, err);
    ls_probe_writer_abandon(&t.file);
    return s;
}
