/* What a rank says of itself before the plan, and how rank 0 shares hosts between ranks.
 *
 * Layer: pipeline. Bytes from a peer are untrusted; everything else is local. */
#ifndef LS_PIPELINE_REPORT_H
#define LS_PIPELINE_REPORT_H

#include "pipeline/machine.h"
#include "pipeline/plan.h"

enum { LS_VIEW_BYTES = 320 + LS_ERR_TEXT };

/* A rank's vote: its verdict and, in the first vote, what it sees. */
struct ls_rank_view {
    ls_status status; /* LS_OK: yes */
    char text[LS_ERR_TEXT];
    struct ls_rank_report report; /* of the whole host until ls_views_share */
    uint64_t cpus[LS_CPU_WORDS];
    int32_t cpu_quota;  /* of the job on this host; 0: none */
    int32_t host_cpus;  /* that the job could use there if nothing were bound; 0: unknown */
    uint32_t pid;       /* of a rank that has loaded weights for others: where they are, */
    int32_t weights_fd; /* -1: none */
    int voted;          /* on rank 0: 1 + the last phase that this rank has voted on */
};

/* Fills the report: cores, memory, and digests of checkpoint and program. */
void ls_view_look(struct ls_rank_view *view, const char *host, const struct ls_checkpoint *ckpt,
                  int check_bytes);

size_t ls_view_encode(const struct ls_rank_view *view, unsigned char out[LS_VIEW_BYTES]);
ls_status ls_view_decode(struct ls_rank_view *view, const unsigned char *bytes, size_t n,
                         struct ls_err *err);

/* All ranks must see the same checkpoint and run the same program (LS_E_REFUSED). */
ls_status ls_views_agree(const struct ls_rank_view *views, int n_ranks, struct ls_err *err);
/* Divides memory among the ranks of a host, and each CPU among the ranks that may use it. */
void ls_views_share(const struct ls_rank_view *views, int n_ranks,
                    struct ls_rank_report *reports);

#endif
