#include "pipeline/forecast.h"

#include "base/alloc.h"
#include "base/size.h"
#include "model/weights.h"
#include "pipeline/control.h"
#include "stage/stage.h"

#include <stdlib.h>

/* Each layer's blocks are one piece, used from its beginning. */
static uint64_t kv_bytes(const struct ls_plan *plan, const struct ls_arch *arch,
                         const struct ls_stage_plan *sp, uint32_t n_blocks)
{
    uint64_t bytes = 0;
    for (int l = sp->first_layer; l < sp->last_layer; l++) {
        const uint64_t block = ls_kv_block_bytes(arch, l);
        uint64_t next = 0;
        bytes += ls_alloc_resident(plan->limits.n_blocks * block, 0, n_blocks * block, &next);
    }
    return bytes;
}

static uint64_t scratch_bytes(const struct ls_plan *plan, const struct ls_arch *arch,
                              const struct ls_stage_plan *sp, const struct ls_rehearsal *run)
{
    const struct ls_stage_config stage = { .arch = arch,
                                           .first_layer = sp->first_layer,
                                           .last_layer = sp->last_layer,
                                           .n_threads = sp->threads,
                                           .limits = plan->limits,
                                           .max_logit_rows = plan->logit_rows };
    return ls_stage_used_scratch_bytes(&stage, run->max_tokens, run->max_logit_rows);
}

/* Linux maps so much of a file around a byte that is read. */
enum { FILE_WINDOW = 65536 };

static uint64_t rows_bytes(const struct ls_tensor *t, const unsigned char *used, uint64_t vocab)
{
    const uint64_t row = t->bytes / vocab;
    uint64_t windows = 0, next = 0; /* the first window that is not counted yet */
    for (uint64_t i = 0; i < vocab; i++) {
        const uint64_t first = i * row / FILE_WINDOW,
                       end = ((i + 1) * row - 1) / FILE_WINDOW + 1;
        if (!used[i] || end <= next)
            continue;
        windows += end - ls_max_u64(first, next);
        next = end;
    }
    return ls_min_u64(windows * FILE_WINDOW, t->bytes);
}

uint64_t ls_forecast_table(const struct ls_arch *arch, const struct ls_checkpoint *ckpt,
                           const struct ls_sequence *sequences, uint64_t n)
{
    static const enum ls_role roles[] = { LS_ROLE_EMBED, LS_ROLE_PER_LAYER_EMBED };
    const uint64_t vocab = (uint64_t)arch->vocab;
    uint64_t bytes = 0;
    unsigned char *used = n ? calloc(vocab, 1) : NULL;
    for (uint64_t i = 0; used && i < n; i++)
        for (uint32_t t = 0; t < sequences[i].n_prompt; t++)
            used[sequences[i].tokens[t]] = 1;
    for (int i = 0; i < 2; i++) {
        const struct ls_tensor *const t = ls_weights_table(arch, ckpt, roles[i]);
        if (t)
            bytes += used ? rows_bytes(t, used, vocab) : t->bytes;
    }
    free(used);
    return bytes;
}

void ls_forecast_of(struct ls_forecast *out, const struct ls_forecast_terms *t, int rank)
{
    const struct ls_stage_plan *const sp = &t->plan->stages[rank];
    const bool owns = sp->weights_rank == rank;
    *out = (struct ls_forecast){ .base_bytes = t->base_bytes,
                                 .weights_bytes = owns ? sp->weights_bytes : 0,
                                 .kv_bytes = sp->kv_bytes,
                                 .scratch_bytes = sp->scratch_bytes,
                                 .link_bytes = sp->link_bytes };
    if (rank == 0)
        out->base_bytes += t->tokenizer_bytes;
    if (owns)
        out->load_bytes =
            ls_weights_load_bytes(t->arch, t->ckpt, sp->first_layer, sp->last_layer);
    if (sp->first_layer == 0)
        out->table_bytes = t->table_bytes;
    if (t->run) {
        const int n_others = rank == 0 ? ls_plan_n_ranks(t->plan) - 1 : 1;
        out->kv_bytes = kv_bytes(t->plan, t->arch, sp, t->run->max_blocks);
        out->scratch_bytes = scratch_bytes(t->plan, t->arch, sp, t->run);
        out->link_bytes = t->run->link_bytes[rank] + ls_control_bytes(n_others);
    }
    const uint64_t used =
        out->table_bytes + out->kv_bytes + out->scratch_bytes + out->link_bytes;
    out->peak_bytes = out->base_bytes + ls_max_u64(out->weights_bytes + used, out->load_bytes);
}
