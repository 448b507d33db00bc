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

/* How many stages the ranks may be cut into: from the wish, or the numbers to try in turn. */
ls_status ls_plan_count_stages(const struct ls_arch *arch, const struct ls_run_wish *wish,
                               int n_ranks, int *fewest, int *most, struct ls_err *err);

/* Which ranks of a host hold the same layers, and so use one copy of their weights: the lowest
 * one's. */
void ls_plan_share_weights(struct ls_plan *plan, const struct ls_run_wish *wish,
                           const struct ls_rank_report *reports);

/* Scratch of every stage, from its layers and threads and the plan's limits. */
void ls_plan_fill_scratch(struct ls_plan *plan, const struct ls_arch *arch);

/* Gives every stage its layers: as the user wrote them; or so that the slowest stage is as fast
 * as can be within what each rank's memory holds. Threads and limits are there already. When
 * nothing fits the layers are those of equal ranks, and the sizes will say what is missing. */
ls_status ls_plan_place_layers(struct ls_plan *plan, const struct ls_arch *arch,
                               const struct ls_checkpoint *ckpt, const struct ls_run_wish *wish,
                               const struct ls_rank_report *reports, struct ls_err *err);

/* What a plan says of replicas and shared weights (LS_E_REFUSED). */
ls_status ls_plan_check_replicas(const struct ls_plan *plan, struct ls_err *err);

/* Whether a stage may begin at this layer (LS_E_REFUSED). */
ls_status ls_plan_check_cut(int stage, int first_layer, const struct ls_arch *arch,
                            struct ls_err *err);

/* After a refusal for lack of memory: adds the smallest layout over hosts like these that would
 * fit. Returns err->status. */
ls_status ls_plan_advise(const struct ls_plan *plan, const struct ls_arch *arch,
                         const struct ls_checkpoint *ckpt, const struct ls_rank_report *reports,
                         struct ls_err *err);

#endif
