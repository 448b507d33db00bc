#include "parity/arm_compare.h"

#include "base/size.h"
#include "parity/element.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RELEASE_BYTES = 8 << 20 };

struct matrix { /* logits of one request */
    struct ls_dump *dump;
    const unsigned char *data;
    enum ls_dtype dtype;
    uint64_t rows, columns, first_position, released;
};

struct walk {
    struct ls_arm_result *out;
    const struct ls_arm_input *in;
    void *memory; /* two rows */
    uint64_t columns;
};

static void say_mismatch(struct ls_arm_result *out, const char *name, const char *what)
{
    if (!out->first_mismatch[0])
        snprintf(out->first_mismatch, sizeof out->first_mismatch, "'%.200s' %s", name, what);
}

/* --- rows ------------------------------------------------------------------------------------
 */

static ls_status view(struct matrix *m, struct ls_dump *dump, size_t i, struct ls_err *err)
{
    struct ls_tensor t;
    const struct ls_dump_entry *const e = ls_dump_entry(dump, i);
    const ls_status s = ls_dump_view(dump, i, &t, err);
    if (s)
        return s;
    int lead = 0;
    while (t.n_dims - lead > 2 && t.dims[lead] == 1)
        lead++;
    if (t.n_dims - lead != 2 || !t.dims[t.n_dims - 1])
        return ls_fail(err, LS_E_FORMAT, "%s: '%.200s' is not [rows, vocab]", e->file, e->name);
    if (t.dtype != LS_DTYPE_F32 && t.dtype != LS_DTYPE_F16 && t.dtype != LS_DTYPE_BF16)
        return ls_fail(err, LS_E_FORMAT, "%s: '%.200s' is %s, expected F32, F16 or BF16",
                       e->file, e->name, ls_dtype_name(t.dtype));
    *m = (struct matrix){ .dump = dump,
                          .data = t.data,
                          .dtype = t.dtype,
                          .rows = t.dims[lead],
                          .columns = t.dims[lead + 1],
                          .first_position = e->first_position };
    if (e->rows != UINT64_MAX && e->rows != m->rows)
        return ls_fail(err, LS_E_FORMAT,
                       "%s: '%.200s' has %" PRIu64 " rows, its index says %" PRIu64, e->file,
                       e->name, m->rows, e->rows);
    return LS_OK;
}

static void read_row(const struct matrix *m, uint64_t row, float *out)
{
    const size_t size = ls_dtype_bytes(m->dtype);
    const unsigned char *const at = m->data + row * m->columns * size;
    if (m->dtype == LS_DTYPE_F32)
        memcpy(out, at, m->columns * size);
    else
        for (uint64_t i = 0; i < m->columns; i++) /* exact: 16 bits widened */
            out[i] = (float)ls_element_value(at, m->dtype, i);
}

/* Rows before `row` are not needed any more. */
static void release(struct matrix *m, uint64_t row, bool last)
{
    const uint64_t row_bytes = m->columns * ls_dtype_bytes(m->dtype);
    const uint64_t n = (row - m->released) * row_bytes;
    if (n < RELEASE_BYTES && !(last && n))
        return;
    ls_dump_release(m->dump, m->data + m->released * row_bytes, n);
    m->released = row;
}

static ls_status make_room(struct walk *w, uint64_t columns, struct ls_err *err)
{
    if (columns <= w->columns)
        return LS_OK;
    ls_free(w->memory);
    w->columns = 0;
    const ls_status s =
        ls_alloc(&w->memory, 2 * columns * sizeof(float), "two rows of logits", err);
    if (!s)
        w->columns = columns;
    return s;
}

static int32_t target_of(const struct ls_passage *truth, uint64_t position, uint64_t columns)
{
    if (!truth || position + 1 >= truth->n)
        return -1;
    const int32_t id = truth->ids[position + 1];
    return id >= 0 && (uint64_t)id < columns ? id : -1;
}

struct pair {
    size_t entry; /* of the reference */
    const char *name;
    struct matrix reference, arm;
    const struct ls_passage *truth;
    uint64_t comparable; /* rows of the arm, from the first */
};

static ls_status compare_row(struct walk *w, const struct pair *p, uint64_t row,
                             struct ls_err *err)
{
    float *const y = w->memory, *const x = y + w->columns;
    const bool same_columns = p->reference.columns == p->arm.columns;
    const bool partner = same_columns && row < p->reference.rows;
    const uint64_t position = p->arm.first_position + row;
    ls_status s = LS_OK;
    read_row(&p->arm, row, y);
    if (partner)
        read_row(&p->reference, row, x);
    if (partner && row < p->comparable) {
        const struct ls_row_pair pair = { .entry = p->entry,
                                          .position = position,
                                          .reference = x,
                                          .arm = y,
                                          .n = (size_t)p->arm.columns,
                                          .target =
                                              target_of(p->truth, position, p->arm.columns) };
        s = ls_metrics_row(&w->out->metrics, &pair, err);
    }
    if (!s && w->in->store)
        s = ls_store_row(w->in->store, row, y, partner ? x : NULL, err);
    return s;
}

static ls_status compare_rows(struct walk *w, struct pair *p, struct ls_err *err)
{
    ls_status s = make_room(w, ls_max_u64(p->arm.columns, p->reference.columns), err);
    if (!s && w->in->store)
        s = ls_store_entry(w->in->store, p->name, p->arm.first_position, p->arm.rows,
                           p->arm.columns, err);
    for (uint64_t r = 0; !s && r < p->arm.rows; r++) {
        s = compare_row(w, p, r, err);
        release(&p->arm, r + 1, r + 1 == p->arm.rows);
        if (r < p->reference.rows)
            release(&p->reference, r + 1, r + 1 == p->arm.rows);
    }
    return s;
}

/* --- requests --------------------------------------------------------------------------------
 */

/* How many generated tokens are the same before the first that differs. */
static uint64_t common_tokens(const struct ls_passage *truth, const struct ls_passage *arm)
{
    const int32_t *const ids = truth->ids + truth->n_prompt;
    const uint32_t n = truth->n - truth->n_prompt;
    uint64_t k = 0;
    while (k < n && k < arm->n && ids[k] == arm->ids[k])
        k++;
    return k;
}

/* The row that answers prompt and k common tokens is the last one with the same question. */
static uint64_t comparable_rows(const struct walk *w, const struct pair *p)
{
    const struct ls_passage *const arm =
        w->in->rows ? ls_passages_find(w->in->rows, p->name) : NULL;
    if (!w->in->free_run || !p->truth || !arm)
        return p->arm.rows;
    const uint64_t end = p->truth->n_prompt + common_tokens(p->truth, arm);
    const uint64_t n = end > p->arm.first_position ? end - p->arm.first_position : 0;
    return ls_min_u64(n, p->arm.rows);
}

static const char *shape_mismatch(const struct pair *p, bool free_run)
{
    if (p->reference.columns != p->arm.columns)
        return "has logits of another vocabulary";
    if (p->reference.first_position != p->arm.first_position)
        return "begins at another position";
    return p->reference.rows != p->arm.rows && !free_run ? "has another number of rows" : NULL;
}

static ls_status compare_pair(struct walk *w, size_t i, size_t j, struct ls_err *err)
{
    struct pair p = { .entry = i, .name = ls_dump_entry(w->in->reference, i)->name };
    ls_status s = view(&p.reference, w->in->reference, i, err);
    if (!s)
        s = view(&p.arm, w->in->arm, j, err);
    if (s)
        return s;
    const char *const wrong = shape_mismatch(&p, w->in->free_run);
    p.truth = ls_passages_find(w->in->truth, p.name);
    w->out->n_requests++;
    if (wrong) {
        w->out->n_mismatched++;
        say_mismatch(w->out, p.name, wrong);
    }
    if (p.reference.first_position == p.arm.first_position)
        p.comparable = comparable_rows(w, &p);
    if (p.comparable < p.arm.rows)
        w->out->n_rows_apart += p.arm.rows - p.comparable;
    return compare_rows(w, &p, err);
}

static ls_status keep_alone(struct walk *w, size_t j, struct ls_err *err)
{
    struct pair p = { .name = ls_dump_entry(w->in->arm, j)->name };
    w->out->n_only_arm++;
    say_mismatch(w->out, p.name, "is only in the arm");
    const ls_status s = view(&p.arm, w->in->arm, j, err);
    return s ? s : compare_rows(w, &p, err);
}

/* --- texts -----------------------------------------------------------------------------------
 */

static void compare_text(struct ls_arm_result *out, const struct ls_passage *truth,
                         const struct ls_passage *arm)
{
    const uint32_t n = truth->n - truth->n_prompt;
    const uint64_t k = common_tokens(truth, arm);
    out->n_texts++;
    if (k == n && k == arm->n) {
        out->n_texts_equal++;
        return;
    }
    if (out->n_diverged < LS_DIVERGED_KEPT)
        out->diverged[out->n_diverged] =
            (struct ls_diverged){ .name = truth->name,
                                  .index = k,
                                  .reference = k < n ? truth->ids[truth->n_prompt + k] : -1,
                                  .arm = k < arm->n ? arm->ids[k] : -1 };
    out->n_diverged++;
}

static void compare_texts(const struct walk *w)
{
    struct ls_arm_result *const out = w->out;
    for (size_t i = 0; w->in->rows && i < w->in->truth->n; i++) {
        const struct ls_passage *const x = &w->in->truth->list[i];
        const struct ls_passage *const y = ls_passages_find(w->in->rows, x->name);
        if (!y)
            continue; /* counted by its logits, or an error row in the reference only */
        if (x->error || y->error) {
            out->n_errors_different +=
                !x->error || !y->error || strcmp(x->error, y->error) != 0;
            if (!x->error || !y->error)
                say_mismatch(out, x->name, "is an error row on one side only");
            continue;
        }
        if (x->digest && y->digest) {
            out->n_digests++;
            out->n_digests_equal += !strcmp(x->digest, y->digest);
        }
        if (w->in->free_run && x->n > x->n_prompt)
            compare_text(out, x, y);
    }
}

ls_status ls_arm_compare(struct ls_arm_result *out, const struct ls_arm_input *in,
                         struct ls_err *err)
{
    struct walk w = { .out = out, .in = in };
    ls_status s = LS_OK;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; !s && i < ls_dump_n(in->reference); i++) {
        const char *const name = ls_dump_entry(in->reference, i)->name;
        const int64_t j = ls_dump_find(in->arm, name);
        if (j < 0) {
            out->n_only_reference++;
            say_mismatch(out, name, "is only in the reference");
        } else {
            s = compare_pair(&w, i, (size_t)j, err);
        }
    }
    for (size_t j = 0; !s && j < ls_dump_n(in->arm); j++)
        if (ls_dump_find(in->reference, ls_dump_entry(in->arm, j)->name) < 0)
            s = keep_alone(&w, j, err);
    compare_texts(&w);
    out->equal = !s && !out->metrics.n_rows_different && !out->n_only_reference &&
                 !out->n_only_arm && !out->n_mismatched && !out->n_rows_apart &&
                 out->n_digests == out->n_digests_equal && out->n_texts == out->n_texts_equal &&
                 !out->n_errors_different;
    ls_free(w.memory);
    return s;
}

void ls_arm_result_finish(struct ls_arm_result *result)
{
    ls_metrics_finish(&result->metrics);
}
