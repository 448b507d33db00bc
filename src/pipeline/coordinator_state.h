/* What the files of the coordinator share; private to them. Layer: pipeline. */
#ifndef LS_PIPELINE_COORDINATOR_STATE_H
#define LS_PIPELINE_COORDINATOR_STATE_H

#include "base/alloc.h"
#include "pipeline/coordinator.h"
#include "pipeline/result.h"
#include "pipeline/scheduler.h"
#include "tensor/merkle.h"

#include <pthread.h>

/* A sequence, by the slot in which it runs. */
struct running {
    uint64_t serial; /* of the sequence; 0: none. Slots are reused while steps are in flight */
    struct ls_sequence seq;
    uint32_t n_generated;
    uint64_t n_digested;
    int32_t nan_layer; /* smallest so far */
    int32_t token;     /* to be fed when the step is complete; -1: none */
    bool ended;        /* to be ended when the step is complete */
};

/* A step in flight. */
struct record {
    struct ls_step step;
    uint64_t *serial; /* [max_rows]: whose row it is */
    uint32_t next;    /* logits row at which the next frame's group begins */
};

/* One pipeline: its sequences, and its steps in flight. */
struct lane {
    int replica;
    struct ls_scheduler *scheduler;
    struct ls_channel *results;
    struct running *slots;  /* [n_slots] */
    struct record *records; /* [window], by step id */
    uint64_t next_step, oldest_step;
    struct ls_logit_place *places; /* [max_tokens], of the oldest step */
    bool places_known;
};

struct ls_coordinator {
    struct ls_coordinator_config cfg;
    struct lane *lanes; /* [n_replicas] */
    uint64_t next_serial;
    int32_t *nan_layers;          /* [logit_rows] of one frame */
    struct ls_result_row *result; /* [max_rows] of a last frame */
    unsigned char *leaves;        /* [n_layers + 1][LS_LEAF] of one position */
    struct ls_sequence pending;   /* taken from the client, not admitted yet */
    bool has_pending, is_end, is_later, is_again, drain;
    uint64_t next_tick_us;
    uint64_t busy_since_us; /* the end of its last wait for results */
    struct ls_run_stats stats;
    struct ls_arena arena;
    pthread_t thread;
    ls_status status;
    struct ls_err err;
};

static inline uint64_t ls_lane_in_flight(const struct lane *l)
{
    return l->next_step - l->oldest_step;
}

static inline struct record *ls_lane_record(const struct ls_coordinator *c, struct lane *l,
                                            uint64_t step)
{
    return &l->records[step % (uint64_t)c->cfg.plan->window];
}

/* Takes one RESULT frame of n bytes, and gives it back when its payload is complete; with the
 * last payload of a step its sequences go on or end. */
ls_status ls_coordinator_take_frame(struct ls_coordinator *c, struct lane *l,
                                    unsigned char *bytes, uint64_t n);

#endif
