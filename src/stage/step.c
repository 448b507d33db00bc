#include "stage/step.h"

#include "base/alloc.h"
#include "base/le.h"
#include "base/size.h"
#include "kernels/kernels.h"
#include "model/arch.h"
#include "tensor/merkle.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_WORDS = 4, ROW_WORDS = 6, EVENT_WORDS = 3, WORD = 4 };

/* Ceilings that keep every product of two limits within 64 bits. */
enum { MAX_TOKENS = 1 << 24, MAX_SLOTS = 1 << 20, MAX_BLOCKS = 1 << 28, MAX_EVENTS = 1 << 24 };

static ls_status check_limit(const char *name, uint32_t value, uint32_t low, uint32_t high,
                             struct ls_err *err)
{
    if (value >= low && value <= high)
        return LS_OK;
    return ls_fail(err, LS_E_REFUSED,
                   "step limits: %s is %" PRIu32 ", expected %" PRIu32 "..%" PRIu32, name,
                   value, low, high);
}

ls_status ls_step_limits_check(const struct ls_step_limits *lim, struct ls_err *err)
{
    ls_status s = check_limit("context", lim->context, 1, LS_MAX_CONTEXT, err);
    if (!s)
        s = check_limit("n_slots", lim->n_slots, 1, MAX_SLOTS, err);
    if (!s)
        s = check_limit("max_rows", lim->max_rows, 1, lim->n_slots, err);
    if (!s)
        s = check_limit("max_tokens", lim->max_tokens, 1, MAX_TOKENS, err);
    if (!s)
        s = check_limit("max_events", lim->max_events, 1, MAX_EVENTS, err);
    if (!s)
        s = check_limit("n_blocks", lim->n_blocks, 1, MAX_BLOCKS, err);
    if (!s)
        s = check_limit("leaves", lim->leaves, 0, 1, err);
    uint32_t blocks = (uint32_t)ls_ceil_div(lim->context, LS_KV_BLOCK);
    if (!s)
        s = check_limit("max_blocks_per_slot", lim->max_blocks_per_slot, blocks, blocks, err);
    return s;
}

ls_status ls_step_init(struct ls_step *step, const struct ls_step_limits *lim, int with_tokens,
                       struct ls_err *err)
{
    ls_status s = ls_step_limits_check(lim, err);
    if (s)
        return s;
    struct ls_step made = { .id = 0 };
    void *p = NULL;
    s = ls_alloc(&p, (uint64_t)lim->max_rows * sizeof *made.rows, "step rows", err);
    made.rows = p;
    if (!s) {
        s = ls_alloc(&p, (uint64_t)lim->max_events * sizeof *made.events, "step events", err);
        made.events = p;
    }
    if (!s && with_tokens) {
        s = ls_alloc(&p, (uint64_t)lim->max_tokens * sizeof *made.tokens, "step tokens", err);
        made.tokens = p;
    }
    if (s) {
        ls_step_finish(&made);
        return s;
    }
    *step = made;
    return LS_OK;
}

void ls_step_finish(struct ls_step *step)
{
    ls_free(step->rows);
    ls_free(step->events);
    ls_free(step->tokens);
    *step = (struct ls_step){ .id = 0 };
}

static size_t form_bytes(uint32_t n_rows, uint32_t n_events)
{
    return WORD *
           ((size_t)HEADER_WORDS + (size_t)ROW_WORDS * n_rows + (size_t)EVENT_WORDS * n_events);
}

size_t ls_step_max_bytes(const struct ls_step_limits *lim)
{
    return form_bytes(lim->max_rows, lim->max_events);
}

size_t ls_step_bytes(const struct ls_step *step)
{
    return form_bytes(step->n_rows, step->n_events);
}

static unsigned char *put_words(unsigned char *out, const uint32_t *words, int n)
{
    for (int i = 0; i < n; i++, out += WORD)
        ls_le_put(out, words[i], WORD);
    return out;
}

static const unsigned char *get_words(uint32_t *words, const unsigned char *in, int n)
{
    for (int i = 0; i < n; i++, in += WORD)
        words[i] = ls_le_get32(in);
    return in;
}

uint64_t ls_step_leaf_bytes(const struct ls_step_limits *lim, uint32_t n_tokens, int n_layers)
{
    return (uint64_t)lim->leaves * n_tokens * (uint64_t)n_layers * LS_LEAF;
}

void ls_step_encode(const struct ls_step *step, unsigned char *out)
{
    const uint32_t header[HEADER_WORDS] = { step->n_rows, step->n_events, step->n_tokens, 0 };
    out = put_words(out, header, HEADER_WORDS);
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct ls_step_row *r = &step->rows[i];
        const uint32_t words[ROW_WORDS] = { r->slot,   r->first_pos, r->count,
                                            r->n_send, r->n_digest,  (uint32_t)r->nan_layer };
        out = put_words(out, words, ROW_WORDS);
    }
    for (uint32_t i = 0; i < step->n_events; i++) {
        const struct ls_step_event *e = &step->events[i];
        const uint32_t words[EVENT_WORDS] = { e->kind, e->slot, e->value };
        out = put_words(out, words, EVENT_WORDS);
    }
}

static struct ls_step_row row_of(const uint32_t *w)
{
    return (struct ls_step_row){ .slot = w[0],
                                 .first_pos = w[1],
                                 .count = w[2],
                                 .n_send = w[3],
                                 .n_digest = w[4],
                                 .nan_layer = (int32_t)w[5] };
}

static ls_status check_row(const struct ls_step_row *r, uint32_t i,
                           const struct ls_step_limits *lim, struct ls_err *err)
{
    if (r->slot >= lim->n_slots)
        return ls_fail(err, LS_E_SHAPE, "step row %u: slot %u, expected below %u", i, r->slot,
                       lim->n_slots);
    if (r->count < 1 || r->count > lim->max_tokens)
        return ls_fail(err, LS_E_SHAPE, "step row %u: %u tokens, expected 1..%u", i, r->count,
                       lim->max_tokens);
    if (r->first_pos >= lim->context || r->count > lim->context - r->first_pos)
        return ls_fail(err, LS_E_SHAPE,
                       "step row %u: positions %u + %u, expected within the context of %u", i,
                       r->first_pos, r->count, lim->context);
    if (r->n_send > r->count || r->n_digest > r->count)
        return ls_fail(err, LS_E_SHAPE,
                       "step row %u: logits of %u sent and %u digested, expected at most %u", i,
                       r->n_send, r->n_digest, r->count);
    if (r->nan_layer < LS_NO_LAYER || r->nan_layer >= LS_MAX_LAYERS)
        return ls_fail(err, LS_E_SHAPE, "step row %u: NaN layer %d, expected -1..%d", i,
                       r->nan_layer, LS_MAX_LAYERS - 1);
    return LS_OK;
}

static ls_status check_event(const struct ls_step_event *e, uint32_t i,
                             const struct ls_step_limits *lim, struct ls_err *err)
{
    if (e->kind >= LS_N_EVENTS)
        return ls_fail(err, LS_E_SHAPE, "step event %u: kind %u, expected below %d", i, e->kind,
                       LS_N_EVENTS);
    if (e->slot >= lim->n_slots)
        return ls_fail(err, LS_E_SHAPE, "step event %u: slot %u, expected below %u", i, e->slot,
                       lim->n_slots);
    bool fits = e->value == 0;
    if (e->kind == LS_EVENT_ASSIGN || e->kind == LS_EVENT_ADOPT)
        fits = e->value < lim->n_blocks;
    else if (e->kind == LS_EVENT_TRIM)
        fits = e->value <= lim->context && e->value % LS_KV_BLOCK == 0;
    if (!fits)
        return ls_fail(
            err, LS_E_SHAPE,
            "step event %u of kind %u: value %u does not fit (%u blocks, context %u)", i,
            e->kind, e->value, lim->n_blocks, lim->context);
    return LS_OK;
}

static ls_status check_counts(uint32_t rows, uint32_t events, uint32_t tokens,
                              const struct ls_step_limits *lim, struct ls_err *err)
{
    if (rows < 1 || rows > lim->max_rows)
        return ls_fail(err, LS_E_SHAPE, "step: %u rows, expected 1..%u", rows, lim->max_rows);
    if (events > lim->max_events)
        return ls_fail(err, LS_E_SHAPE, "step: %u events, expected at most %u", events,
                       lim->max_events);
    if (tokens < 1 || tokens > lim->max_tokens)
        return ls_fail(err, LS_E_SHAPE, "step: %u tokens, expected 1..%u", tokens,
                       lim->max_tokens);
    return LS_OK;
}

static ls_status check_sum(uint64_t tokens, uint32_t expected, struct ls_err *err)
{
    if (tokens == expected)
        return LS_OK;
    return ls_fail(err, LS_E_SHAPE, "step: rows hold %" PRIu64 " tokens, %u are announced",
                   tokens, expected);
}

ls_status ls_step_check(const struct ls_step *step, const struct ls_step_limits *lim,
                        struct ls_err *err)
{
    uint64_t tokens = 0;
    ls_status s = check_counts(step->n_rows, step->n_events, step->n_tokens, lim, err);
    for (uint32_t i = 0; !s && i < step->n_rows; i++) {
        s = check_row(&step->rows[i], i, lim, err);
        tokens += step->rows[i].count;
    }
    for (uint32_t i = 0; !s && i < step->n_events; i++)
        s = check_event(&step->events[i], i, lim, err);
    return s ? s : check_sum(tokens, step->n_tokens, err);
}

static ls_status check_body(const unsigned char *at, const uint32_t *header,
                            const struct ls_step_limits *lim, struct ls_err *err)
{
    uint32_t words[ROW_WORDS];
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < header[0]; i++) {
        at = get_words(words, at, ROW_WORDS);
        const struct ls_step_row row = row_of(words);
        ls_status s = check_row(&row, i, lim, err);
        if (s)
            return s;
        tokens += row.count;
    }
    for (uint32_t i = 0; i < header[1]; i++) {
        at = get_words(words, at, EVENT_WORDS);
        const struct ls_step_event event = { words[0], words[1], words[2] };
        ls_status s = check_event(&event, i, lim, err);
        if (s)
            return s;
    }
    return check_sum(tokens, header[2], err);
}

ls_status ls_step_decode(struct ls_step *step, const unsigned char *bytes, size_t n,
                         const struct ls_step_limits *lim, struct ls_err *err)
{
    uint32_t header[HEADER_WORDS], words[ROW_WORDS];
    if (n < sizeof header)
        return ls_fail(err, LS_E_SHAPE, "step: %zu bytes, expected at least %zu", n,
                       sizeof header);
    const unsigned char *at = get_words(header, bytes, HEADER_WORDS);
    ls_status s = check_counts(header[0], header[1], header[2], lim, err);
    if (!s && header[3] != 0)
        s = ls_fail(err, LS_E_SHAPE, "step: reserved word is %u, expected 0", header[3]);
    if (!s && n != form_bytes(header[0], header[1]))
        s = ls_fail(err, LS_E_SHAPE, "step: %zu bytes, expected %zu for %u rows, %u events", n,
                    form_bytes(header[0], header[1]), header[0], header[1]);
    if (!s)
        s = check_body(at, header, lim, err);
    if (s)
        return s;
    step->n_rows = header[0];
    step->n_events = header[1];
    step->n_tokens = header[2];
    for (uint32_t i = 0; i < step->n_rows; i++) {
        at = get_words(words, at, ROW_WORDS);
        step->rows[i] = row_of(words);
    }
    for (uint32_t i = 0; i < step->n_events; i++) {
        at = get_words(words, at, EVENT_WORDS);
        step->events[i] = (struct ls_step_event){ words[0], words[1], words[2] };
    }
    return LS_OK;
}

static uint32_t row_logits(const struct ls_step_row *r)
{
    return r->n_send > r->n_digest ? r->n_send : r->n_digest;
}

uint32_t ls_step_n_logits(const struct ls_step *step)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < step->n_rows; i++)
        n += row_logits(&step->rows[i]);
    return n;
}

uint32_t ls_step_n_sent(const struct ls_step *step, uint32_t begin, uint32_t end)
{
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < step->n_rows && at < end; i++) {
        at += row_logits(&step->rows[i]);
        uint32_t first = at - step->rows[i].n_send;
        uint32_t low = first > begin ? first : begin, high = at < end ? at : end;
        n += high > low ? high - low : 0;
    }
    return n;
}

void ls_step_logit_places(const struct ls_step *step, struct ls_logit_place *places)
{
    uint32_t token = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const struct ls_step_row *r = &step->rows[i];
        for (uint32_t t = r->count - row_logits(r); t < r->count; t++)
            *places++ = (struct ls_logit_place){ .row = i,
                                                 .pos = r->first_pos + t,
                                                 .token = token + t,
                                                 .sent = t >= r->count - r->n_send,
                                                 .digested = t >= r->count - r->n_digest };
        token += r->count;
    }
}
