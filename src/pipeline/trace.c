#include "pipeline/trace.h"

#include "base/alloc.h"
#include "pipeline/bytes.h"

ls_status ls_trace_init(struct ls_trace *trace, struct ls_err *err)
{
    void *memory;
    ls_status st = ls_alloc(&memory, LS_TRACE_EVENTS * sizeof *trace->events, "the trace", err);
    if (st)
        return st;
    *trace = (struct ls_trace){ .events = memory };
    return LS_OK;
}

void ls_trace_finish(struct ls_trace *trace)
{
    ls_free(trace->events);
    *trace = (struct ls_trace){ .events = NULL };
}

void ls_trace_shift(struct ls_trace *trace, int64_t by_us, uint64_t error_us)
{
    trace->error_us = error_us;
    for (uint32_t i = 0; i < trace->n; i++)
        trace->events[i].begin_us += (uint64_t)by_us;
}

void ls_trace_add(struct ls_trace *trace, enum ls_trace_kind kind, uint64_t step,
                  uint64_t begin_us, uint64_t end_us)
{
    if (!trace || end_us <= begin_us)
        return;
    if (trace->n == LS_TRACE_EVENTS) {
        trace->dropped++;
        return;
    }
    const uint64_t length = end_us - begin_us;
    trace->events[trace->n++] = (struct ls_trace_event){
        .begin_us = begin_us,
        .length_us = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX,
        .what = (uint32_t)kind << 30 | (uint32_t)(step & LS_TRACE_MAX_STEP)
    };
}

size_t ls_trace_encode(const struct ls_trace *trace, uint32_t first, uint32_t *n_events,
                       unsigned char out[LS_TRACE_BYTES])
{
    struct ls_writer w = { .at = out, .left = LS_TRACE_BYTES };
    const uint32_t left = trace->n - first;
    *n_events = left < LS_TRACE_CHUNK ? left : LS_TRACE_CHUNK;
    ls_put_u64(&w, trace->dropped);
    for (uint32_t i = 0; i < *n_events; i++) {
        const struct ls_trace_event *e = &trace->events[first + i];
        ls_put_u64(&w, e->begin_us);
        ls_put_u32(&w, e->length_us);
        ls_put_u32(&w, e->what);
    }
    return LS_TRACE_BYTES - w.left;
}

ls_status ls_trace_append(struct ls_trace *trace, const unsigned char *bytes, size_t n,
                          struct ls_err *err)
{
    const size_t events = n < 8 ? 0 : (n - 8) / LS_TRACE_EVENT_BYTES;
    struct ls_reader r = { .at = bytes, .left = n };
    if (n != 8 + events * LS_TRACE_EVENT_BYTES || events > LS_TRACE_CHUNK ||
        events > LS_TRACE_EVENTS - trace->n)
        return ls_fail(err, LS_E_SHAPE, "a part of a trace that cannot be read (%zu bytes)", n);
    trace->dropped = ls_get_u64(&r);
    for (size_t i = 0; i < events; i++) {
        struct ls_trace_event *e = &trace->events[trace->n];
        e->begin_us = ls_get_u64(&r);
        e->length_us = ls_get_u32(&r);
        e->what = ls_get_u32(&r);
        if (ls_trace_kind_of(e) >= LS_N_TRACE)
            return ls_fail(err, LS_E_SHAPE, "a trace holds an event of no known kind");
        trace->n++;
    }
    return LS_OK;
}
