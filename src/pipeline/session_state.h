/* What a rank holds during a session; private to this folder. Layer: pipeline.
 *
 * Everything is made by start-up, used by the run, and freed by ls_session_destroy. Links
 * belong to the comm. */
#ifndef LS_PIPELINE_SESSION_STATE_H
#define LS_PIPELINE_SESSION_STATE_H

#include "pipeline/channel.h"
#include "pipeline/control.h"
#include "pipeline/placement.h"
#include "pipeline/session.h"
#include "pipeline/trace.h"

struct ls_session {
    struct ls_comm *comm;
    struct ls_keyring *keyring;
    struct ls_control *control;
    int rank, n_ranks;
    struct ls_run_wish wish;
    struct ls_arena arena; /* of arch */
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
    size_t n_unused;          /* tensors of it that nothing uses */
    const char *first_unused; /* in ckpt */
    const struct ls_kernels *kernels;
    int kernels_failed;
    struct ls_plan plan;
    struct ls_placement placement;  /* rank 0 */
    struct ls_rank_view *looking;   /* what the look of this rank fills */
    struct ls_rank_view view;       /* the others: what this rank sees */
    struct ls_weights_home weights; /* of the stage */
    struct ls_stage *stage;
    bool (*progress)(void *arg); /* called by the stage between layers, while a run goes on */
    void *progress_arg;
    struct ls_channel step_in, step_out;  /* from the stage before, to the stage behind; into a
                                             first stage other than rank 0: from rank 0 */
    struct ls_channel result_out;         /* on a last stage */
    struct ls_channel *result_in, *feeds; /* on rank 0, else NULL: [n_replicas] results; steps
                                             to first stages, of which replica 0 needs none */
    struct ls_stage_stats *stats;         /* rank 0: [n_ranks], else [1] */
    struct ls_trace *traces; /* the same, own one first; NULL unless the wish says trace */
    struct ls_run_stats run_stats;
    int missing;    /* rank 0: the first rank that had no last word; 0: none */
    bool begun;     /* start-up has begun, and tells the others how it ends */
    bool abandoned; /* a thread still uses what is here: nothing is freed */
    bool started;   /* both votes passed: the other ranks are in, or on their way to, the run */
    bool ran;
};

/* Opens this rank's links for steps and results; what their keys were made from is wiped. */
ls_status ls_links_open(struct ls_session *session, struct ls_err *err);

/* Start-up of rank 0 and of the others, up to GO. On failure the other ranks have been told. */
ls_status ls_startup_lead(struct ls_session *session, struct ls_err *err);
ls_status ls_startup_follow(struct ls_session *session, struct ls_err *err);

#endif
