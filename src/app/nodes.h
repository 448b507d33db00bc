/* The file of plan --nodes: machines that are not here, one a line.
 *
 *     # name  memory  cores  ranks
 *     node1   64G     32     2
 *     node2   16G     8
 *
 * Layer: app. Local. Memory is what ranks may use of that machine, as in 512M or 64G; ranks is
 * 1 when it is left out. */
#ifndef LS_APP_NODES_H
#define LS_APP_NODES_H

#include "pipeline/plan.h"

/* Fills reports[LS_MAX_STAGES], one for each rank, node after node; *n_ranks counts them.
 * LS_E_USAGE names file and line. */
ls_status ls_nodes_read(struct ls_rank_report *reports, int *n_ranks, const char *path,
                        struct ls_err *err);

#endif
