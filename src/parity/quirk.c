#include "parity/quirk_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls_quirk_add(struct ls_proposals *out, bool verified, const char *name, const char *fmt,
                  ...)
{
    va_list args;
    if (out->n == LS_MAX_PROPOSALS)
        return;
    int at = out->n++;
    for (; verified && at > 0 && !out->list[at - 1].verified; at--)
        out->list[at] = out->list[at - 1];
    struct ls_proposal *const p = &out->list[at];
    *p = (struct ls_proposal){ .name = name, .verified = verified };
    va_start(args, fmt);
    vsnprintf(p->text, sizeof p->text, fmt, args);
    va_end(args);
}

static bool same_bits(const struct ls_tensor *a, const struct ls_tensor *b)
{
    return a->dtype == b->dtype && ls_gap_same_shape(a, b) && a->bytes == b->bytes &&
           !memcmp(a->data, b->data, a->bytes);
}

/* --- running again ---------------------------------------------------------------------------
 */

/* Runs the first arm with another architecture or checkpoint; *same: the located operation then
 * has the second arm's bits (or is missing, where that lacks it). An architecture that does not
 * fit the checkpoint is no cause. */
static ls_status try_again(const struct ls_quirk_view *v, const struct ls_arch *arch,
                           const struct ls_checkpoint *ckpt, bool *same, struct ls_err *err)
{
    char path[LS_LOCATE_PATH];
    struct ls_probe_file file;
    struct ls_err unfit;
    struct ls_probe_config config = v->c->config;
    *same = false;
    config.arch = arch;
    config.ckpt = ckpt;
    ls_locate_path(path, v->c->locate, "again", 1);
    const ls_status written = ls_probe_write(path, &config, &unfit);
    if (written)
        return written == LS_E_REFUSED || written == LS_E_FORMAT
                   ? LS_OK
                   : ls_fail(err, written, "%s", unfit.text);
    const ls_status s = ls_probe_file_open(&file, path, err);
    if (!s) {
        const struct ls_tensor *const t =
            ls_probe_file_find(&file, ls_op_name(v->c->where->op));
        *same = v->b ? t && same_bits(t, v->b) : !t;
    }
    ls_probe_file_finish(&file);
    return s;
}

/* --- settings --------------------------------------------------------------------------------
 */

static ls_status copy_arch(struct ls_quirk_arch *copy, const struct ls_arch *arch,
                           struct ls_err *err)
{
    const uint64_t bytes = (uint64_t)arch->n_layers * sizeof *arch->layers;
    ls_arena_init(&copy->arena);
    copy->arch = *arch;
    copy->arch.layers = ls_arena_take(&copy->arena, bytes);
    if (!copy->arch.layers)
        return ls_fail(err, LS_E_MEMORY, "no memory for an architecture");
    memcpy(copy->arch.layers, arch->layers, bytes);
    for (int r = 0; r < arch->n_ropes; r++) {
        const uint64_t n = (uint64_t)arch->ropes[r].n_pairs * sizeof(float);
        copy->arch.ropes[r].freq = ls_arena_take(&copy->arena, n);
        if (!copy->arch.ropes[r].freq)
            return ls_fail(err, LS_E_MEMORY, "no memory for an architecture");
        memcpy(copy->arch.ropes[r].freq, arch->ropes[r].freq, n);
    }
    return LS_OK;
}

/* One variant of one setting; *more: there was such a one; *found: it is the cause. */
static ls_status try_variant(struct ls_proposals *out, const struct ls_quirk_view *v, int field,
                             int variant, bool *more, bool *found, struct ls_err *err)
{
    struct ls_quirk_arch copy;
    char text[256] = "";
    *more = *found = false;
    ls_status s = copy_arch(&copy, v->c->config.arch, err);
    if (!s && ls_quirk_change(&copy.arch, v->c, field, variant, more, text, sizeof text))
        s = try_again(v, &copy.arch, v->c->config.ckpt, found, err);
    if (!s && *found)
        ls_quirk_add(out, true, ls_quirk_field_name(field), "%s", text);
    ls_arena_finish(&copy.arena);
    return s;
}

static ls_status try_fields(struct ls_proposals *out, const struct ls_quirk_view *v,
                            struct ls_err *err)
{
    ls_status s = LS_OK;
    bool found = false;
    for (int field = 0; !s && !found && field < ls_quirk_n_fields(); field++) {
        bool more = true;
        for (int variant = 0; !s && !found && more; variant++)
            s = try_variant(out, v, field, variant, &more, &found, err);
    }
    return s;
}

/* --- weights ---------------------------------------------------------------------------------
 */

static ls_status try_weights(struct ls_proposals *out, const struct ls_quirk_view *v,
                             struct ls_err *err)
{
    char text[256];
    bool same;
    ls_quirk_weights(text, sizeof text, v->c);
    if (!*text)
        return LS_OK;
    const ls_status s = try_again(v, v->c->config.arch, v->c->other_ckpt, &same, err);
    if (!s)
        ls_quirk_add(out, same, "weights", "%s", text);
    return s;
}

static ls_status propose(struct ls_proposals *out, const struct ls_quirk_view *v,
                         struct ls_err *err)
{
    ls_status s = try_weights(out, v, err);
    if (!s && !(out->n && out->list[0].verified))
        s = try_fields(out, v, err);
    if (!s && v->a && v->b && !(out->n && out->list[0].verified))
        s = ls_quirk_again(out, v, err);
    if (!s && v->a && v->b)
        ls_quirk_values(out, v);
    return s;
}

ls_status ls_quirks_propose(struct ls_proposals *out, const struct ls_quirk_case *c,
                            struct ls_err *err)
{
    char path[LS_LOCATE_PATH];
    struct ls_quirk_view v = { .c = c };
    ls_status s = LS_OK;
    out->n = 0;
    if (c->where->looks_ahead) {
        ls_quirk_add(out, true, "looks-ahead",
                     "the arms are equal without the tokens behind this position: one of "
                     "them sees those");
        return LS_OK;
    }
    for (int i = 0; !s && i < 2; i++) {
        ls_locate_path(path, c->locate, "operations", i + 1);
        s = ls_probe_file_open(&v.arm[i], path, err);
    }
    if (!s) {
        v.a = ls_probe_file_find(&v.arm[0], ls_op_name(c->where->op));
        v.b = ls_probe_file_find(&v.arm[1], ls_op_name(c->where->op));
        s = propose(out, &v, err);
    }
    ls_probe_file_finish(&v.arm[0]);
    ls_probe_file_finish(&v.arm[1]);
    return s;
}
