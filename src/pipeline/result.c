#include "pipeline/result.h"

#include "base/guard.h"
#include "pipeline/bytes.h"
#include "tensor/dtype.h"

#include <inttypes.h>

enum { HEAD_BYTES = 8, SENT_BYTES = 12, ROW_BYTES = 8 + LS_DIGEST_BYTES };

uint64_t ls_result_max_table(const struct ls_step_limits *lim, uint32_t logit_rows)
{
    return HEAD_BYTES + (uint64_t)SENT_BYTES * logit_rows + (uint64_t)ROW_BYTES * lim->max_rows;
}

struct ls_result_group ls_result_group(const struct ls_step *step, uint32_t logit_rows,
                                       uint32_t begin)
{
    uint32_t n = ls_step_n_logits(step);
    struct ls_result_group g = { .begin = begin };
    g.end = n - begin > logit_rows ? begin + logit_rows : n;
    g.last = g.end == n;
    g.n_sent = ls_step_n_sent(step, g.begin, g.end);
    g.table_bytes =
        HEAD_BYTES + SENT_BYTES * g.n_sent + (g.last ? ROW_BYTES * step->n_rows : 0);
    return g;
}

uint64_t ls_result_leaf_bytes(const struct ls_result_group *g, const struct ls_step *step,
                              const struct ls_step_limits *lim, int n_layers)
{
    return g->last ? ls_step_leaf_bytes(lim, step->n_tokens, n_layers + 1) : 0;
}

void ls_result_encode(unsigned char *out, const struct ls_step *step,
                      const struct ls_logit_place *places, const struct ls_result_group *g,
                      const struct ls_stage *stage)
{
    struct ls_writer w = { .at = out, .left = g->table_bytes };
    ls_put_u32(&w, g->n_sent);
    ls_put_u32(&w, g->last ? step->n_rows : 0);
    for (uint32_t i = g->begin; i < g->end; i++) {
        if (!places[i].sent)
            continue;
        const struct ls_step_row *row = &step->rows[places[i].row];
        ls_put_u32(&w, row->slot);
        ls_put_u32(&w, places[i].pos);
        ls_put_i32(&w, row->nan_layer);
    }
    for (uint32_t i = 0; g->last && i < step->n_rows; i++) {
        unsigned char digest[LS_DIGEST_BYTES] = { 0 };
        if (stage)
            ls_stage_digest(stage, step->rows[i].slot, digest);
        ls_put_u32(&w, step->rows[i].slot);
        ls_put_i32(&w, step->rows[i].nan_layer);
        ls_put_bytes(&w, digest, sizeof digest);
    }
}

void ls_result_expect(struct ls_frame_expect *expect, const struct ls_step *step,
                      const struct ls_result_group *g, uint32_t vocab)
{
    *expect = (struct ls_frame_expect){ .kinds = 1u << LS_KIND_RESULT,
                                        .check_id = true,
                                        .id = step->id,
                                        .check_nonce = true,
                                        .nonce = step->nonce,
                                        .check_rows = true,
                                        .rows = g->n_sent,
                                        .min_table = g->table_bytes,
                                        .max_table = g->table_bytes };
    if (g->n_sent == 0)
        return;
    expect->dtype = LS_DTYPE_F32;
    expect->ndim = 2;
    expect->min_dim0 = expect->max_dim0 = g->n_sent;
    expect->dims[1] = vocab;
}

static ls_status check_nan_layer(int32_t nan_layer, int n_layers, uint64_t step_id,
                                 struct ls_err *err)
{
    if (!LS_GUARD("result-layer") || (nan_layer >= LS_NO_LAYER && nan_layer < n_layers))
        return LS_OK;
    return ls_fail(err, LS_E_SHAPE, "result of step %" PRIu64 ": NaN layer %d of %d layers",
                   step_id, nan_layer, n_layers);
}

static ls_status decode_sent(struct ls_reader *r, const struct ls_step *step,
                             const struct ls_logit_place *places,
                             const struct ls_result_group *g, int n_layers, int32_t *nan_layer,
                             struct ls_err *err)
{
    for (uint32_t i = g->begin; i < g->end; i++) {
        if (!places[i].sent)
            continue;
        uint32_t slot = ls_get_u32(r), pos = ls_get_u32(r);
        uint32_t expected = step->rows[places[i].row].slot;
        *nan_layer = ls_get_i32(r);
        if (LS_GUARD("result-place") && (slot != expected || pos != places[i].pos))
            return ls_fail(err, LS_E_SHAPE,
                           "result of step %" PRIu64
                           ": logits of slot %u position %u, expected "
                           "slot %u position %u",
                           step->id, slot, pos, expected, places[i].pos);
        ls_status s = check_nan_layer(*nan_layer, n_layers, step->id, err);
        if (s)
            return s;
        nan_layer++;
    }
    return LS_OK;
}

ls_status ls_result_decode(const unsigned char *table, const struct ls_step *step,
                           const struct ls_logit_place *places, const struct ls_result_group *g,
                           int n_layers, int32_t *nan_layer, struct ls_result_row *rows,
                           struct ls_err *err)
{
    struct ls_reader r = { .at = table, .left = g->table_bytes };
    uint32_t n_sent = ls_get_u32(&r), n_rows = ls_get_u32(&r);
    uint32_t expected_rows = g->last ? step->n_rows : 0;
    if (LS_GUARD("result-counts") && (n_sent != g->n_sent || n_rows != expected_rows))
        return ls_fail(err, LS_E_SHAPE,
                       "result of step %" PRIu64 ": %u logits rows and %u step rows, expected "
                       "%u and %u",
                       step->id, n_sent, n_rows, g->n_sent, expected_rows);
    ls_status s = decode_sent(&r, step, places, g, n_layers, nan_layer, err);
    for (uint32_t i = 0; !s && i < n_rows; i++) {
        uint32_t slot = ls_get_u32(&r);
        rows[i].nan_layer = ls_get_i32(&r);
        ls_get_bytes(&r, rows[i].digest, sizeof rows[i].digest);
        if (LS_GUARD("result-row") && slot != step->rows[i].slot)
            return ls_fail(err, LS_E_SHAPE,
                           "result of step %" PRIu64 ": row %u is slot %u, expected %u",
                           step->id, i, slot, step->rows[i].slot);
        s = check_nan_layer(rows[i].nan_layer, n_layers, step->id, err);
    }
    if (!s && !ls_reader_done(&r))
        s = ls_fail(err, LS_E_SHAPE, "result of step %" PRIu64 ": table of another size",
                    step->id);
    return s;
}
