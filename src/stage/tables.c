#include "stage/tables.h"

#include "kernels/kernels.h"

void ls_tables_carve(struct ls_tables *t, struct ls_carve *c, const struct ls_step_limits *lim)
{
    t->lim = *lim;
    t->slots = ls_carve_take(c, 1, lim->n_slots, sizeof *t->slots);
    t->blocks = ls_carve_take(c, lim->n_slots, lim->max_blocks_per_slot, sizeof *t->blocks);
    t->users = ls_carve_take(c, 1, lim->n_blocks, sizeof *t->users);
    t->whole = ls_carve_take(c, 1, lim->n_blocks, sizeof *t->whole);
    t->undo = ls_carve_take(c, 1, lim->max_events, sizeof *t->undo);
}

/* One user more, or with -1 one less, of each block [first, end) of a slot. */
static void count_user(struct ls_tables *t, uint32_t slot, uint32_t first, uint32_t end,
                       int more)
{
    const uint32_t *blocks = ls_tables_blocks(t, slot);
    for (uint32_t b = first; b < end; b++)
        t->users[blocks[b]] += (uint32_t)more;
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

static void append(struct ls_tables *t, struct ls_slot *slot, const struct ls_step_event *e,
                   struct ls_event_undo *undo)
{
    uint32_t *place = &ls_tables_blocks(t, e->slot)[slot->n_blocks++];
    undo->block = *place;
    *place = e->value;
    t->users[e->value]++;
}

static ls_status assign(struct ls_tables *t, struct ls_slot *slot,
                        const struct ls_step_event *e, struct ls_event_undo *undo,
                        struct ls_err *err)
{
    ls_status s = need_open(slot, e, "ASSIGN", err);
    if (s)
        return s;
    if (t->users[e->value])
        return ls_fail(err, LS_E_SHAPE, "ASSIGN of block %u to slot %u: the block is in use",
                       e->value, e->slot);
    if (slot->n_blocks == t->lim.max_blocks_per_slot)
        return ls_fail(err, LS_E_SHAPE, "ASSIGN to slot %u, which has all of its %u blocks",
                       e->slot, slot->n_blocks);
    undo->whole = t->whole[e->value];
    t->whole[e->value] = 0;
    append(t, slot, e, undo);
    return LS_OK;
}

/* Only a block of the same place in its own sequence will do, and only where the slot's cache
 * ends: keys know their position. */
static ls_status adopt(struct ls_tables *t, struct ls_slot *slot, const struct ls_step_event *e,
                       struct ls_event_undo *undo, struct ls_err *err)
{
    ls_status s = need_open(slot, e, "ADOPT", err);
    if (s)
        return s;
    if (slot->n_blocks == t->lim.max_blocks_per_slot ||
        slot->length != slot->n_blocks * LS_KV_BLOCK)
        return ls_fail(err, LS_E_SHAPE,
                       "ADOPT to slot %u, which has %u blocks and %u positions, expected as "
                       "many as the blocks hold, and room for one more",
                       e->slot, slot->n_blocks, slot->length);
    if (t->whole[e->value] != slot->n_blocks + 1)
        return ls_fail(err, LS_E_SHAPE,
                       "ADOPT of block %u as number %u of slot %u: it holds number %d of a "
                       "sequence (-1: it is not whole)",
                       e->value, slot->n_blocks, e->slot, (int)t->whole[e->value] - 1);
    append(t, slot, e, undo);
    slot->length += LS_KV_BLOCK;
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
    count_user(t, e->slot, slot->live_first / LS_KV_BLOCK, e->value / LS_KV_BLOCK, -1);
    slot->live_first = e->value;
    return LS_OK;
}

static ls_status close_slot(struct ls_tables *t, struct ls_slot *slot,
                            const struct ls_step_event *e, struct ls_err *err)
{
    ls_status s = need_open(slot, e, "CLOSE", err);
    if (s)
        return s;
    count_user(t, e->slot, slot->live_first / LS_KV_BLOCK, slot->n_blocks, -1);
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
    case LS_EVENT_ADOPT:
        return adopt(t, slot, e, undo, err);
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
    if (e->kind == LS_EVENT_ASSIGN || e->kind == LS_EVENT_ADOPT) {
        t->users[e->value]--;
        if (e->kind == LS_EVENT_ASSIGN)
            t->whole[e->value] = undo->whole;
        ls_tables_blocks(t, e->slot)[slot->n_blocks] = undo->block;
    } else if (e->kind == LS_EVENT_TRIM) {
        count_user(t, e->slot, slot->live_first / LS_KV_BLOCK, trimmed, 1);
    } else if (e->kind == LS_EVENT_CLOSE) {
        count_user(t, e->slot, slot->live_first / LS_KV_BLOCK, slot->n_blocks, 1);
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
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const uint32_t slot = step->rows[i].slot, first = t->slots[slot].length;
        const uint32_t end = first + step->rows[i].count;
        const uint32_t *blocks = ls_tables_blocks(t, slot);
        for (uint32_t b = first / LS_KV_BLOCK; (b + 1) * LS_KV_BLOCK <= end; b++)
            t->whole[blocks[b]] = b + 1;
        t->slots[slot].length = end;
    }
}
