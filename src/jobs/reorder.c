#include "jobs/reorder.h"

#include <stdlib.h>

void ls_reorder_finish(struct ls_reorder *r)
{
    for (uint64_t i = r->first; i < r->next; i++)
        free(ls_reorder_slot(r, i)->row);
    free(r->slots);
    *r = (struct ls_reorder){ 0 };
}

bool ls_reorder_full(const struct ls_reorder *r)
{
    return r->next - r->first >= LS_REORDER_ROWS || r->bytes >= LS_REORDER_BYTES;
}

struct ls_row_slot *ls_reorder_slot(const struct ls_reorder *r, uint64_t number)
{
    return &r->slots[number & (r->cap - 1)];
}

static ls_status grow(struct ls_reorder *r, struct ls_err *err)
{
    struct ls_reorder bigger = *r;
    bigger.cap = r->cap ? 2 * r->cap : 64;
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return ls_fail(err, LS_E_MEMORY, "out of memory for rows that wait");
    for (uint64_t i = r->first; i < r->next; i++)
        *ls_reorder_slot(&bigger, i) = *ls_reorder_slot(r, i);
    free(r->slots);
    *r = bigger;
    return LS_OK;
}

ls_status ls_reorder_open(struct ls_reorder *r, uint64_t *number, struct ls_err *err)
{
    ls_status status = r->next - r->first == r->cap ? grow(r, err) : LS_OK;
    if (status)
        return status;
    *number = r->next++;
    *ls_reorder_slot(r, *number) = (struct ls_row_slot){ 0 };
    return LS_OK;
}

void ls_reorder_put(struct ls_reorder *r, uint64_t number, char *row, size_t n_row, size_t held)
{
    struct ls_row_slot *s = ls_reorder_slot(r, number);
    s->row = row;
    s->n_row = n_row;
    s->held = held;
    s->ready = true;
    r->bytes += n_row + held;
}

struct ls_row_slot *ls_reorder_head(const struct ls_reorder *r)
{
    if (r->first == r->next)
        return NULL;
    struct ls_row_slot *s = ls_reorder_slot(r, r->first);
    return s->ready ? s : NULL;
}

void ls_reorder_pop(struct ls_reorder *r)
{
    struct ls_row_slot *s = ls_reorder_slot(r, r->first++);
    r->bytes -= s->n_row + s->held;
    free(s->row);
    s->row = NULL;
}
