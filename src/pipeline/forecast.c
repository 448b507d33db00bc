#include "pipeline/forecast.h"

#include "base/alloc.h"
#include "base/size.h"
#include "model/weights.h"
#include "pipeline/control.h"
#include "stage/stage.h"

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

/* One table's rows are looked at as a run will: how much around them comes into memory is the
 * kernel's choice. */
static void look(const struct ls_tensor *t, uint64_t row_bytes,
                 const struct ls_sequence *sequences, uint64_t n)
{
    volatile unsigned char seen = 0;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < sequences[i].n_prompt; k++) {
            const unsigned char *const row =
                (const unsigned char *)t->data + (uint64_t)sequences[i].tokens[k] * row_bytes;
            seen = seen ^ row[0] ^ row[row_bytes - 1];
        }
}

ls_status ls_forecast_table(uint64_t *bytes, const struct ls_arch *arch,
                            const struct ls_checkpoint *ckpt,
                            const struct ls_sequence *sequences, uint64_t n, struct ls_err *err)
{
    const struct ls_tensor *const tables[2] = { ls_weights_table(arch, ckpt, LS_ROLE_EMBED),
                                                ls_weights_table(arch, ckpt,
                                                                 LS_ROLE_PER_LAYER_EMBED) };
    uint64_t before = 0, after = 0;
    ls_status s = n ? ls_checkpoint_resident_bytes(ckpt, &before, err) : LS_OK;
    for (int i = 0; !s && i < 2; i++) {
        if (tables[i] && n)
            look(tables[i], tables[i]->bytes / (uint64_t)arch->vocab, sequences, n);
        else if (tables[i])
            after += tables[i]->bytes;
    }
    if (!s && n)
        s = ls_checkpoint_resident_bytes(ckpt, &after, err);
    for (int i = 0; n && i < 2; i++)
        if (tables[i])
            ls_checkpoint_release(ckpt, tables[i]);
    if (!s)
        *bytes = after - before;
    return s;
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
