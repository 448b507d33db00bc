/* What a rank did when: a bounded list of events, sent to rank 0 when the run ends.
 *
 * Layer: pipeline. Nothing is recorded, and no memory taken, unless the wish says so; when the
 * list is full the later events are only counted. Bytes from a peer are untrusted. */
#ifndef LS_PIPELINE_TRACE_H
#define LS_PIPELINE_TRACE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ls_trace_kind { LS_TRACE_COMPUTE, LS_TRACE_SEND, LS_TRACE_WAIT, LS_N_TRACE };

enum {
    LS_TRACE_EVENTS = 1 << 17, /* of one rank, at most */
    LS_TRACE_EVENT_BYTES = 16,
    LS_TRACE_CHUNK = 2048, /* events of one message */
    LS_TRACE_MAX_STEP = (1 << 30) - 1,
};

struct ls_trace_event {
    uint64_t begin_us; /* by ls_now_us of its host; in the end by that of rank 0's */
    uint32_t length_us;
    uint32_t what; /* kind in the two high bits; the step, modulo 2^30 */
};

struct ls_trace {
    struct ls_trace_event *events; /* [LS_TRACE_EVENTS] */
    uint32_t n;
    uint64_t dropped;  /* behind the last that had room */
    uint64_t error_us; /* of clocks brought together; UINT64_MAX: they could not be */
};

ls_status ls_trace_init(struct ls_trace *trace, struct ls_err *err);
void ls_trace_finish(struct ls_trace *trace);

/* Brings events of another host's clock to this one's (ls_control_clock). */
void ls_trace_shift(struct ls_trace *trace, int64_t by_us, uint64_t error_us);

/* begin and end by ls_now_us. Cheap; does nothing when trace is NULL. */
void ls_trace_add(struct ls_trace *trace, enum ls_trace_kind kind, uint64_t step,
                  uint64_t begin_us, uint64_t end_us);

static inline enum ls_trace_kind ls_trace_kind_of(const struct ls_trace_event *e)
{
    return (enum ls_trace_kind)(e->what >> 30);
}
static inline uint32_t ls_trace_step_of(const struct ls_trace_event *e)
{
    return e->what & LS_TRACE_MAX_STEP;
}

/* Byte form of events [first, first + LS_TRACE_CHUNK), or fewer at the end, with the count of
 * dropped ones in front. Returns its size; *n_events how many. */
enum { LS_TRACE_BYTES = 8 + LS_TRACE_CHUNK * LS_TRACE_EVENT_BYTES };
size_t ls_trace_encode(const struct ls_trace *trace, uint32_t first, uint32_t *n_events,
                       unsigned char out[LS_TRACE_BYTES]);
/* Appends such a form; LS_E_SHAPE when it is none, or more than there may be. */
ls_status ls_trace_append(struct ls_trace *trace, const unsigned char *bytes, size_t n,
                          struct ls_err *err);

#endif
