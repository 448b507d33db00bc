/* What the files of the plan share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_PLAN_PARTS_H
#define LS_PIPELINE_PLAN_PARTS_H

#include "pipeline/plan.h"

enum { LS_PLAN_MAX_BLOCKS = 1 << 28 };
enum { LS_SIZE_TEXT = 32, LS_KV_SHARE_PERCENT = 80 /* of what weights and scratch leave */ };

/* "1.50 GiB", for messages. Returns text. */
const char *ls_plan_size_text(uint64_t bytes, char text[LS_SIZE_TEXT]);

/* Bytes of one KV block in every layer of the stage. */
uint64_t ls_plan_block_bytes(const struct ls_arch *arch, const struct ls_stage_plan *sp);

/* Scratch of every stage, from its layers and threads and the plan's limits. */
void ls_plan_fill_scratch(struct ls_plan *plan, const struct ls_arch *arch);

/* Gives every stage its layers: as the user wrote them; or so that the slowest stage is as fast
 * as can be within what each rank's memory holds. Threads and limits are there already. When
 * nothing fits the layers are those of equal ranks, and the sizes will say what is missing. */
ls_status ls_plan_place_layers(struct ls_plan *plan, const struct ls_arch *arch,
                               const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                               const struct ls_rank_report *reports, struct ls_err *err);

/* Whether a stage may begin at this layer (LS_E_REFUSED). */
ls_status ls_plan_check_cut(int stage, int first_layer, const struct ls_arch *arch,
                            struct ls_err *err);

/* After a refusal for lack of memory: adds the smallest layout over hosts like these that would
 * fit. Returns err->status. */
ls_status ls_plan_advise(const struct ls_plan *plan, const struct ls_arch *arch,
                         const struct ls_checkpoint *ckpt, const struct ls_rank_report *reports,
                         struct ls_err *err);

#endif
