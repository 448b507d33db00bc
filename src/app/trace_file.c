#include "app/trace_file.h"

#include "app/provenance.h"
#include "base/alloc.h"
#include "base/open.h"
#include "pipeline/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* When at least one step was in flight: from its beginning on the first stage to its end on the
 * last one. Steps follow one another, so the spans are in order. */
struct span {
    uint64_t begin_us, end_us;
};

struct writer {
    FILE *out;
    uint64_t zero_us;  /* the first event's begin */
    struct span *busy; /* [n_busy], apart from one another */
    size_t n_busy;
    bool any;
};

static void add_busy(struct writer *w, uint64_t begin, uint64_t end)
{
    struct span *last = w->n_busy ? &w->busy[w->n_busy - 1] : NULL;
    if (last && begin <= last->end_us)
        last->end_us = end > last->end_us ? end : last->end_us;
    else
        w->busy[w->n_busy++] = (struct span){ .begin_us = begin, .end_us = end };
}

/* Pairs each step's first event on stage 0 with its last one on the last stage. */
static void find_busy(struct writer *w, const struct ls_trace *first,
                      const struct ls_trace *last)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < first->n; i++) {
        const struct ls_trace_event *a = &first->events[i];
        if (ls_trace_kind_of(a) != LS_TRACE_COMPUTE)
            continue;
        uint64_t end = a->begin_us + a->length_us;
        while (at < last->n && (ls_trace_kind_of(&last->events[at]) == LS_TRACE_WAIT ||
                                ls_trace_step_of(&last->events[at]) < ls_trace_step_of(a)))
            at++;
        for (uint32_t k = at; k < last->n; k++) {
            const struct ls_trace_event *b = &last->events[k];
            if (ls_trace_kind_of(b) == LS_TRACE_WAIT)
                continue;
            if (ls_trace_step_of(b) != ls_trace_step_of(a))
                break;
            end = b->begin_us + b->length_us > end ? b->begin_us + b->length_us : end;
        }
        add_busy(w, a->begin_us, end);
    }
}

static void put(struct writer *w, int stage, const char *name, uint64_t begin, uint64_t end,
                int64_t step)
{
    fprintf(w->out,
            "%s{\"name\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%" PRIu64
            ",\"dur\":%" PRIu64,
            w->any ? ",\n" : "", name, stage, begin - w->zero_us, end - begin);
    if (step >= 0)
        fprintf(w->out, ",\"args\":{\"step\":%" PRId64 "}", step);
    fputs("}", w->out);
    w->any = true;
}

/* A wait is cut where steps begin and cease to be in flight. *at moves on over the spans. */
static void put_wait(struct writer *w, int stage, size_t *at, uint64_t begin, uint64_t end)
{
    while (begin < end) {
        while (*at < w->n_busy && w->busy[*at].end_us <= begin)
            ++*at;
        const struct span *s = *at < w->n_busy ? &w->busy[*at] : NULL;
        const bool busy = s && s->begin_us <= begin;
        uint64_t until = !s ? end : busy ? s->end_us : s->begin_us;
        until = until < end ? until : end;
        put(w, stage, busy ? "wait" : "idle", begin, until, -1);
        begin = until;
    }
}

static void put_rank(struct writer *w, const struct ls_session *session,
                     const struct ls_plan *plan, int rank)
{
    const struct ls_trace *const t = ls_session_trace(session, rank);
    char name[64];
    int n = snprintf(name, sizeof name, "stage %d", ls_plan_stage_of(plan, rank));
    if (plan->n_replicas > 1)
        snprintf(name + n, sizeof name - (size_t)n, " of replica %d", rank / plan->n_stages);
    size_t at = 0;
    fprintf(w->out,
            "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{"
            "\"name\":\"%s\",\"host\":\"%s\",\"dropped_events\":%" PRIu64,
            w->any ? ",\n" : "", rank, name, ls_session_stats(session, rank)->host, t->dropped);
    if (t->error_us == UINT64_MAX)
        fputs(",\"clock_error_us\":null}}", w->out);
    else
        fprintf(w->out, ",\"clock_error_us\":%" PRIu64 "}}", t->error_us);
    w->any = true;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct ls_trace_event *e = &t->events[i];
        const uint64_t end = e->begin_us + e->length_us;
        if (ls_trace_kind_of(e) == LS_TRACE_WAIT)
            put_wait(w, rank, &at, e->begin_us, end);
        else
            put(w, rank, ls_trace_kind_of(e) == LS_TRACE_SEND ? "send" : "compute", e->begin_us,
                end, ls_trace_step_of(e));
    }
}

static void write_events(struct writer *w, const struct ls_session *session,
                         const struct ls_plan *plan)
{
    w->zero_us = UINT64_MAX;
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        const struct ls_trace *const t = ls_session_trace(session, r);
        if (t->n && t->events[0].begin_us < w->zero_us)
            w->zero_us = t->events[0].begin_us;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", w->out);
    for (int r = 0; r < ls_plan_n_ranks(plan); r++) {
        if (ls_plan_is_first(plan, r)) {
            w->n_busy = 0;
            find_busy(w, ls_session_trace(session, r),
                      ls_session_trace(session, r + plan->n_stages - 1));
        }
        put_rank(w, session, plan, r);
    }
    fputs("\n]", w->out);
}

static ls_status write_origin(struct writer *w, const struct ls_app *app)
{
    json_t *const made_by = ls_provenance_json(app);
    fputs(",\"otherData\":{\"made_by\":", w->out);
    const int rc = made_by ? json_dumpf(made_by, w->out, JSON_COMPACT) : -1;
    fputs("}}\n", w->out);
    json_decref(made_by);
    return rc ? LS_E_MEMORY : LS_OK;
}

ls_status ls_trace_check(const char *path, struct ls_err *err)
{
    const int fd = path ? ls_open_write(path, O_WRONLY | O_CREAT | O_APPEND) : -1;
    if (path && fd < 0)
        return ls_fail(err, ls_io_status(errno), "cannot write trace %s: %s", path,
                       strerror(errno));
    if (fd >= 0)
        close(fd);
    return LS_OK;
}

ls_status ls_trace_write(const struct ls_app *app, const struct ls_session *session,
                         const char *path, struct ls_err *err)
{
    void *memory;
    struct writer w = { .out = NULL };
    if (!ls_session_trace(session, 0))
        return LS_OK;
    ls_status s = ls_alloc(&memory, LS_TRACE_EVENTS * sizeof *w.busy, "the trace", err);
    if (s)
        return s;
    w.busy = memory;
    const int fd = ls_open_write(path, O_WRONLY | O_CREAT | O_TRUNC);
    w.out = fd < 0 ? NULL : fdopen(fd, "w");
    if (w.out) {
        write_events(&w, session, ls_session_plan(session));
        s = write_origin(&w, app);
    }
    const bool failed = !w.out || s || ferror(w.out);
    if ((w.out && fclose(w.out)) || failed)
        s = ls_fail(err, ls_io_status(errno), "cannot write trace %s: %s", path,
                    strerror(errno));
    ls_free(memory);
    return s;
}
