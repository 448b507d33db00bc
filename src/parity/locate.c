#include "parity/locate.h"

#include "base/alloc.h"
#include "base/size.h"
#include "parity/probe_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct both {
    struct ls_probe_file arm[2];
};

void ls_locate_path(char path[LS_LOCATE_PATH], const struct ls_locate_config *config,
                    const char *what, int arm)
{
    snprintf(path, LS_LOCATE_PATH, "%s/%s.%d", config->folder, what, arm);
}

void ls_location_finish(struct ls_location *location)
{
    ls_free(location->growth);
    location->growth = NULL;
}

static enum ls_fmt unit_of(const struct ls_locate_config *config)
{
    return config->dtype[0] == config->dtype[1] ? config->dtype[0] : LS_FMT_F32;
}

static void finish(struct both *files)
{
    ls_probe_file_finish(&files->arm[0]);
    ls_probe_file_finish(&files->arm[1]);
}

/* Asks both arms and opens their answers; finish them in every case. */
static ls_status ask(struct both *files, const struct ls_locate_config *config,
                     const struct ls_probe_wish *wish, struct ls_err *err)
{
    static const char *const names[] = { "rows", "layers", "operations" };
    ls_status s = LS_OK;
    memset(files, 0, sizeof *files);
    for (int i = 0; !s && i < 2; i++) {
        char path[LS_LOCATE_PATH];
        ls_locate_path(path, config, names[wish->kind], i + 1);
        s = config->arms[i].probe(config->arms[i].arg, wish, path, err);
        if (!s)
            s = ls_probe_file_open(&files->arm[i], path, err);
    }
    return s;
}

/* --- rows ------------------------------------------------------------------------------------
 */

/* First differing row of two arrays of rows; the shorter's end when one goes on. */
static uint64_t first_row(const struct ls_tensor *a, const struct ls_tensor *b)
{
    const uint64_t n = ls_min_u64(a->dims[0], b->dims[0]);
    const uint64_t size = n ? a->bytes / a->dims[0] : 0;
    uint64_t i = 0;
    while (i < n && !memcmp(a->data + i * size, b->data + i * size, (size_t)size))
        i++;
    return i;
}

static int32_t token_at(const struct ls_tensor *ids, uint64_t i)
{
    int32_t id = -1;
    if (i < ids->dims[0])
        memcpy(&id, ids->data + 4 * i, sizeof id);
    return id;
}

static bool has_form(const struct ls_tensor *t, enum ls_dtype dtype, uint64_t columns)
{
    return t && t->dtype == dtype && t->n_dims == 2 && t->dims[1] == columns;
}

/* Whether request i of the probes is apart, and where. */
static ls_status compare_request(struct ls_location *out, const struct both *files, size_t i,
                                 struct ls_err *err)
{
    char name[LS_PROBE_NAME];
    const struct ls_tensor *ids[2], *rows[2];
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "ids.%zu", i);
        ids[k] = ls_probe_file_find(&files->arm[k], name);
        snprintf(name, sizeof name, "rows.%zu", i);
        rows[k] = ls_probe_file_find(&files->arm[k], name);
        if (!has_form(ids[k], LS_DTYPE_I32, 1) || !has_form(rows[k], LS_DTYPE_U8, 32) ||
            ids[k]->dims[0] != rows[k]->dims[0])
            return ls_fail(err, LS_E_FORMAT, "the probe of arm %d has no rows of request %zu",
                           k + 1, i);
    }
    const uint64_t token = first_row(ids[0], ids[1]), row = first_row(rows[0], rows[1]);
    if (token < ls_max_u64(ids[0]->dims[0], ids[1]->dims[0])) {
        out->apart = LS_APART_TOKENS;
        out->position = (uint32_t)token;
        out->tokens[0] = token_at(ids[0], token);
        out->tokens[1] = token_at(ids[1], token);
    } else if (row < rows[0]->dims[0]) {
        out->apart = LS_APART_OP;
        out->position = (uint32_t)row;
    }
    return LS_OK;
}

/* The rows of a single request stand beside its hidden states. */
static ls_status find_row(struct ls_location *out, const struct ls_locate_config *config,
                          struct ls_err *err)
{
    struct both files;
    const struct ls_probe_wish wish = { .kind = config->one_request ? LS_PROBE_LAYERS
                                                                    : LS_PROBE_ROWS,
                                        .request = config->request };
    const size_t n = config->one_request ? 1 : config->n_requests;
    ls_status s = ask(&files, config, &wish, err);
    for (size_t i = 0; !s && out->apart == LS_APART_NOT && i < n; i++) {
        s = compare_request(out, &files, i, err);
        out->request = config->one_request ? config->request : i;
    }
    finish(&files);
    return s;
}

/* --- layers ----------------------------------------------------------------------------------
 */

static ls_status make_growth(struct ls_location *out, const struct ls_locate_config *config,
                             struct ls_err *err)
{
    void *growth;
    const ls_status s =
        ls_alloc(&growth, ((uint64_t)config->n_layers + 2) * sizeof *out->growth,
                 "the growth of an error", err);
    out->growth = s ? NULL : growth;
    return s;
}

static void expand(char *out, size_t size, const char *pattern, int k)
{
    const char *const word = strstr(pattern, "{layer}");
    if (word)
        snprintf(out, size, "%.*s%d%s", (int)(word - pattern), pattern, k, word + 7);
    else
        snprintf(out, size, "%s", pattern);
}

static void measure_layers(struct ls_location *out, const struct ls_locate_config *config,
                           const struct ls_probe_file *a, const struct ls_probe_file *b,
                           const char *pattern, uint64_t rows)
{
    for (int k = 0; k <= config->n_layers + 1; k++) {
        char of_a[LS_PROBE_NAME] = "final_norm", of_b[256] = "final_norm";
        if (k <= config->n_layers) {
            expand(of_a, sizeof of_a, "hidden_states.{layer}", k);
            expand(of_b, sizeof of_b, pattern, k);
        }
        const struct ls_tensor *const x = ls_probe_file_find(a, of_a);
        const struct ls_tensor *const y = ls_probe_file_find(b, of_b);
        out->growth[k].compared = x && y;
        if (x && y)
            ls_gap_measure(&out->growth[k].gap, x, y, rows, unit_of(config));
    }
}

/* First k of the hidden states that differ; n_layers + 1: none. */
static int first_hidden(const struct ls_location *out, int n_layers)
{
    int k = 0;
    while (k <= n_layers && !(out->growth[k].compared && out->growth[k].gap.n_different > 0))
        k++;
    return k;
}

static ls_status find_layer(struct ls_location *out, const struct ls_locate_config *config,
                            struct ls_err *err)
{
    struct both files;
    const uint32_t rows = out->position + 1;
    const struct ls_probe_wish wish = { .kind = LS_PROBE_LAYERS, .request = out->request };
    ls_status s = make_growth(out, config, err);
    if (s)
        return s;
    s = ask(&files, config, &wish, err);
    if (!s) {
        measure_layers(out, config, &files.arm[0], &files.arm[1], "hidden_states.{layer}",
                       rows);
        const int k = first_hidden(out, config->n_layers);
        out->layer = k > 0 ? k - 1 : 0;
        out->n = k > config->n_layers ? rows : (uint32_t)out->growth[k].gap.row + 1;
    }
    finish(&files);
    return s;
}

/* --- operations ------------------------------------------------------------------------------
 */

/* What is kept of the last position alone belongs to another one when the whole prompt ran. */
static bool compare_op(struct ls_location *out, const struct ls_locate_config *config,
                       const struct both *files, enum ls_op op)
{
    const struct ls_tensor *const a = ls_probe_file_find(&files->arm[0], ls_op_name(op));
    const struct ls_tensor *const b = ls_probe_file_find(&files->arm[1], ls_op_name(op));
    out->op = op;
    if (!a && !b)
        return false;
    out->only_in = !b ? 1 : !a ? 2 : 0;
    if (out->only_in)
        return true;
    const bool single = ls_probe_at_last_only(op);
    if (single && out->looks_ahead)
        return false;
    ls_gap_measure(&out->gap, a, b, out->n, unit_of(config));
    if (single)
        out->gap.row = out->n - 1;
    return out->gap.n_different > 0 || !ls_gap_same_shape(a, b);
}

static ls_status look_at_ops(struct ls_location *out, const struct ls_locate_config *config,
                             bool *found, struct ls_err *err)
{
    struct both files;
    const struct ls_probe_wish wish = { .kind = LS_PROBE_OPERATIONS,
                                        .layer = out->layer,
                                        .request = out->request,
                                        .n = out->looks_ahead ? 0 : out->n };
    ls_status s = ask(&files, config, &wish, err);
    for (int op = 0; !s && !*found && op < LS_N_OPS; op++)
        *found = compare_op(out, config, &files, (enum ls_op)op);
    finish(&files);
    return s;
}

/* A difference that goes away with the tokens behind it comes from them. */
static ls_status find_op(struct ls_location *out, const struct ls_locate_config *config,
                         struct ls_err *err)
{
    bool found = false;
    ls_status s = look_at_ops(out, config, &found, err);
    if (s || found)
        return s;
    out->looks_ahead = true;
    s = look_at_ops(out, config, &found, err);
    if (!s && !found)
        return ls_fail(err, LS_E_COMPUTE,
                       "layer %d: its output differed in one run and no operation did in the "
                       "next; an arm does not repeat its own bits",
                       out->layer);
    return s;
}

ls_status ls_locate(struct ls_location *out, const struct ls_locate_config *config,
                    struct ls_err *err)
{
    *out = (struct ls_location){ .jump = -1 };
    ls_status s = find_row(out, config, err);
    if (!s && out->apart == LS_APART_OP)
        s = find_layer(out, config, err);
    if (!s && out->apart == LS_APART_OP)
        s = find_op(out, config, err);
    if (s)
        ls_location_finish(out);
    return s;
}

/* --- an external dump ------------------------------------------------------------------------
 */

/* Half the distance between neighbours of 1: the relative error of one rounding. */
static double unit_roundoff(enum ls_fmt fmt)
{
    return fmt == LS_FMT_F32 ? 0x1p-24 : fmt == LS_FMT_F16 ? 0x1p-11 : 0x1p-8;
}

static void find_jump(struct ls_location *out, const struct ls_locate_config *config)
{
    const double least = unit_roundoff(config->dtype[0]);
    double before = least;
    for (int k = 0; out->jump < 0 && k <= config->n_layers; k++) {
        const struct ls_growth *const g = &out->growth[k];
        if (!g->compared)
            continue;
        const double error = g->gap.n_unmeasured ? (double)INFINITY : g->gap.relative;
        if (error > LS_LOCATE_JUMP * before) {
            out->jump = k;
            out->jump_factor = error / before;
        }
        before = fmax(error, least);
    }
}

static bool is_real(enum ls_dtype dtype)
{
    return dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16 ||
           dtype == LS_DTYPE_F64;
}

static ls_status check_dump(const struct ls_location *out,
                            const struct ls_locate_config *config,
                            const struct ls_probe_file *a, const struct ls_probe_file *b,
                            const char *pattern, const char *file, struct ls_err *err)
{
    int n = 0;
    for (int k = 0; k <= config->n_layers; k++) {
        char of_a[LS_PROBE_NAME], of_b[256];
        if (!out->growth[k].compared)
            continue;
        n++;
        expand(of_a, sizeof of_a, "hidden_states.{layer}", k);
        expand(of_b, sizeof of_b, pattern, k);
        const struct ls_tensor *const x = ls_probe_file_find(a, of_a);
        const struct ls_tensor *const y = ls_probe_file_find(b, of_b);
        if (!is_real(y->dtype))
            return ls_fail(err, LS_E_FORMAT, "%s: '%s' holds %s, expected floats", file, of_b,
                           ls_dtype_name(y->dtype));
        if (!ls_gap_same_shape(x, y))
            return ls_fail(err, LS_E_FORMAT,
                           "%s: '%s' is [%" PRIu64 "][%" PRIu64 "], expected [%" PRIu64
                           "][%" PRIu64 "]",
                           file, of_b, y->n_dims ? y->dims[0] : 1, ls_gap_columns(y),
                           x->dims[0], ls_gap_columns(x));
    }
    if (!n)
        return ls_fail(err, LS_E_FORMAT, "%s: has no tensor named as '%s' says", file, pattern);
    return LS_OK;
}

/* What the growth says; the dump has no operations. */
static void judge_dump(struct ls_location *out, const struct ls_locate_config *config)
{
    const int k = first_hidden(out, config->n_layers);
    if (k > config->n_layers)
        return;
    out->apart = LS_APART_LAYER;
    out->in_embedding = k == 0;
    out->layer = k > 0 ? k - 1 : 0;
    out->gap = out->growth[k].gap;
    find_jump(out, config);
}

ls_status ls_locate_external(struct ls_location *out, const struct ls_locate_config *config,
                             const char *file, const char *pattern, struct ls_err *err)
{
    char path[LS_LOCATE_PATH];
    struct both files;
    const struct ls_probe_wish wish = { .kind = LS_PROBE_LAYERS, .request = config->request };
    *out = (struct ls_location){ .jump = -1, .request = config->request };
    memset(&files, 0, sizeof files);
    ls_locate_path(path, config, "layers", 1);
    ls_status s = make_growth(out, config, err);
    if (!s)
        s = config->arms[0].probe(config->arms[0].arg, &wish, path, err);
    if (!s)
        s = ls_probe_file_open(&files.arm[0], path, err);
    if (!s)
        s = ls_probe_file_open(&files.arm[1], file, err);
    if (!s) {
        measure_layers(out, config, &files.arm[0], &files.arm[1], pattern, UINT64_MAX);
        s = check_dump(out, config, &files.arm[0], &files.arm[1], pattern, file, err);
    }
    if (!s)
        judge_dump(out, config);
    else
        ls_location_finish(out);
    finish(&files);
    return s;
}
