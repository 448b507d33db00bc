/* What is wrong with where the ranks were put, host by host: too many ranks or threads for the
 * cores, ranks bound to one core.
 *
 * Layer: pipeline. Pure: from what the ranks report and the plan's threads. Nothing of it
 * changes a result, only its speed, so these are warnings unless the user wants them refused.
 */
#ifndef LS_PIPELINE_PLACEMENT_H
#define LS_PIPELINE_PLACEMENT_H

#include "pipeline/report.h"

enum { LS_PLACEMENT_TEXT = 320, LS_PLACEMENT_KEPT = 8 };

struct ls_placement {
    int n_warnings;                                   /* at most two for each host */
    char texts[LS_PLACEMENT_KEPT][LS_PLACEMENT_TEXT]; /* the first ones, each with its remedy */
};

/* views as the ranks sent them; threads from the plan. */
void ls_placement_judge(struct ls_placement *placement, const struct ls_rank_view *views,
                        const struct ls_plan *plan, int n_ranks);

#endif
