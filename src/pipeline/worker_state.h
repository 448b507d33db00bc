/* What the files of the worker share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_WORKER_STATE_H
#define LS_PIPELINE_WORKER_STATE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "pipeline/result.h"
#include "pipeline/worker.h"

struct ls_worker {
    struct ls_session *s;
    struct ls_exchange *exchange;   /* rank 0 */
    struct ls_step step;            /* rank > 0: the step being run */
    struct ls_step **to_feed;       /* rank 0: [n_replicas], taken and not sent yet, or NULL */
    const unsigned char *leaves_in; /* rank > 0: leaves of the stages before, of that step */
    struct ls_logit_place *places;  /* a last stage: [max_tokens] */
    uint64_t next_id;               /* of the next step */
    uint64_t next_look_us;
    uint64_t idle_since_us; /* the end of the last step */
    ls_status failed;       /* found while pumping; sticky */
    struct ls_err failure;
    bool stopped; /* STOP has come */
    struct ls_stage_stats stats;
    struct ls_trace *trace;      /* the session's own; NULL: none is wanted */
    uint64_t allocs_after_first; /* ls_alloc_count after the first step */
};

static inline bool ls_worker_is_last(const struct ls_worker *w)
{
    return ls_plan_is_last(&w->s->plan, w->s->rank);
}

/* Called everywhere, by the stage between layers too: what fails is kept in w for the loop. */
void ls_worker_pump(struct ls_worker *w);
/* The same; false when the run is over. */
bool ls_worker_goes_on(struct ls_worker *w);
/* Where to make a payload of n bytes; NULL when the run is over before there is room. */
unsigned char *ls_worker_wait_payload(struct ls_worker *w, struct ls_channel *ch, uint64_t n);

/* Rank 0: sends the steps of the other replicas for which there are buffers. */
ls_status ls_worker_feed(struct ls_worker *w, struct ls_err *err);
/* Runs the next step if one is here. */
ls_status ls_worker_run_next(struct ls_worker *w, bool *found, struct ls_err *err);

#endif
