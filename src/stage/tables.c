#include "stage/tables.h"

#include "kernels/kernels.h"

void ls_tables_carve(struct ls_tables *t, struct ls_carve *c, const struct ls_step_limits *lim)
{
    t->lim = *lim;
    t->slots = ls_carve_take(c, 1, lim->n_slots, sizeof *t->slots);
    t->blocks = ls_carve_take(c, lim->n_slots, lim->max_blocks_per_slot, sizeof *t->blocks);
    t->used = ls_carve_take(c, 1, lim->n_blocks, sizeof *t->used);
    t->undo = ls_carve_take(c, 1, lim->max_events, sizeof *t->undo);
}

static void mark(struct ls_tables *t, uint32_t slot, uint32_t first, uint32_t end,
                 unsigned char used)
{
    const uint32_t *blocks = ls_tables_blocks(t, slot);
    for (uint32_t b = first; b < end; b++)
        t->used[blocks[b]] = used;
}

/* --- events ----------------------------------------------------------------------------------
 */

static ls_status open_slot(struct ls_slot *slot, const struct ls_step_event *e,
                           struct ls_err *err)
{
    if (slot->open)
        return ls_fail(err, LS_E_SHAPE, "OPEN of slot %u, which is open at %u positions",
                       e->slot, slot->length);
    *slot = (struct ls_slot){ .open = true, .nan_layer = LS_NO_LAYER };
    return LS_OK;
}

static ls_status need_open(const struct ls_slot *slot, const struct ls_step_event *e,
                           const char *what, struct ls_err *err)
{
    if (slot->open)
        return LS_OK;
    return ls_fail(err, LS_E_SHAPE, "%s of slot %u, which is not open", what, e->slot);
}

static ls_status assign(struct ls_tables *t, struct ls_slot *slot,
                        const struct ls_step_event *e, struct ls_event_undo *undo,
                        struct ls_err *err)
{
    ls_status s = need_open(slot, e, "ASSIGN", err);
    if (s)
        return s;
    if (t->used[e->value])
        return ls_fail(err, LS_E_SHAPE, "ASSIGN of block %u to slot %u: the block is in use",
                       e->value, e->slot);
    if (slot->n_blocks == t->lim.max_blocks_per_slot)
        return ls_fail(err, LS_E_SHAPE, "ASSIGN to slot %u, which has all of its %u blocks",
                       e->slot, slot->n_blocks);
    uint32_t *place = &ls_tables_blocks(t, e->slot)[slot->n_blocks++];
    undo->block = *place;
    *place = e->value;
    t->used[e->value] = 1;
    return LS_OK;
}

static ls_status trim(struct ls_tables *t, struct ls_slot *slot, const struct ls_step_event *e,
                      struct ls_err *err)
{
    ls_status s = need_open(slot, e, "TRIM", err);
    if (s)
        return s;
    if (e->value < slot->live_first || e->value > slot->length)
        return ls_fail(err, LS_E_SHAPE, "TRIM of slot %u to %u, expected %u..%u", e->slot,
                       e->value, slot->live_first, slot->length);
    mark(t, e->slot, slot->live_first / LS_KV_BLOCK, e->value / LS_KV_BLOCK, 0);
    slot->live_first = e->value;
    return LS_OK;
}

static ls_status close_slot(struct ls_tables *t, struct ls_slot *slot,
                            const struct ls_step_event *e, struct ls_err *err)
{
    ls_status s = need_open(slot, e, "CLOSE", err);
    if (s)
        return s;
    mark(t, e->slot, slot->live_first / LS_KV_BLOCK, slot->n_blocks, 0);
    slot->open = false;
    return LS_OK;
}

static ls_status apply_event(struct ls_tables *t, const struct ls_step_event *e,
                             struct ls_event_undo *undo, struct ls_err *err)
{
    struct ls_slot *slot = &t->slots[e->slot];
    undo->slot = *slot;
    switch ((enum ls_event_kind)e->kind) {
    case LS_EVENT_OPEN:
        return open_slot(slot, e, err);
    case LS_EVENT_ASSIGN:
        return assign(t, slot, e, undo, err);
    case LS_EVENT_TRIM:
        return trim(t, slot, e, err);
    case LS_EVENT_CLOSE:
        return close_slot(t, slot, e, err);
    case LS_N_EVENTS:
        break;
    }
    return ls_fail(err, LS_E_INTERNAL, "event kind %u passed the step's check", e->kind);
}

/* Taken back newest first, so that every table is as it was just after the event. */
static void undo_event(struct ls_tables *t, const struct ls_step_event *e,
                       const struct ls_event_undo *undo)
{
    struct ls_slot *slot = &t->slots[e->slot];
    uint32_t trimmed = slot->live_first / LS_KV_BLOCK;
    *slot = undo->slot;
    if (e->kind == LS_EVENT_ASSIGN) {
        t->used[e->value] = 0;
        ls_tables_blocks(t, e->slot)[slot->n_blocks] = undo->block;
    } else if (e->kind == LS_EVENT_TRIM) {
        mark(t, e->slot, slot->live_first / LS_KV_BLOCK, trimmed, 1);
    } else if (e->kind == LS_EVENT_CLOSE) {
        mark(t, e->slot, slot->live_first / LS_KV_BLOCK, slot->n_blocks, 1);
    }
}

/* --- rows ------------------------------------------------------------------------------------
 */

static ls_status check_row(struct ls_tables *t, const struct ls_step_row *r, uint32_t i,
                           struct ls_err *err)
{
    struct ls_slot *slot = &t->slots[r->slot];
    if (!slot->open)
        return ls_fail(err, LS_E_SHAPE, "step row %u: slot %u is not open", i, r->slot);
    if (slot->step_seen == t->n_checked)
        return ls_fail(err, LS_E_SHAPE, "step row %u: slot %u has another row in this step", i,
                       r->slot);
    slot->step_seen = t->n_checked;
    if (r->first_pos != slot->length)
        return ls_fail(err, LS_E_SHAPE,
                       "step row %u: slot %u goes on at position %u, its cache ends at %u", i,
                       r->slot, r->first_pos, slot->length);
    if ((uint64_t)r->first_pos + r->count > (uint64_t)slot->n_blocks * LS_KV_BLOCK)
        return ls_fail(
            err, LS_E_SHAPE, "step row %u: slot %u needs %u positions, its %u blocks hold %u",
            i, r->slot, r->first_pos + r->count, slot->n_blocks, slot->n_blocks * LS_KV_BLOCK);
    return LS_OK;
}

ls_status ls_tables_apply(struct ls_tables *t, const struct ls_step *step, struct ls_err *err)
{
    ls_status s = LS_OK;
    uint32_t applied = 0;
    t->n_checked++;
    for (; !s && applied < step->n_events; applied++)
        s = apply_event(t, &step->events[applied], &t->undo[applied], err);
    if (s)
        applied--; /* the refused one changed nothing */
    for (uint32_t i = 0; !s && i < step->n_rows; i++)
        s = check_row(t, &step->rows[i], i, err);
    while (s && applied-- > 0)
        undo_event(t, &step->events[applied], &t->undo[applied]);
    return s;
}

void ls_tables_advance(struct ls_tables *t, const struct ls_step *step)
{
    for (uint32_t i = 0; i < step->n_rows; i++)
        t->slots[step->rows[i].slot].length += step->rows[i].count;
}
