#include "app/parity_view.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

/* --- where an element lies -------------------------------------------------------------------
 */

/* Names of the parts that an element's number falls into, "" where the operation has none. */
struct place {
    const char *outer, *inner;
    uint64_t outer_index, inner_index;
};

static struct place split(const char *outer, const char *inner, uint64_t element, uint64_t size)
{
    return (struct place){ outer, inner, size ? element / size : 0, size ? element % size : 0 };
}

static struct place place_of(const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    const struct ls_arch *const arch = v->arch;
    const struct ls_layer *const layer =
        &arch->layers[l->layer < arch->n_layers ? l->layer : arch->n_layers - 1];
    const uint64_t e = l->gap.column;
    switch (l->op) {
    case LS_OP_SCORES:
        return split("head", "key", e, l->gap.row + 1);
    case LS_OP_Q:
    case LS_OP_K:
    case LS_OP_V:
    case LS_OP_Q_NORM:
    case LS_OP_Q_ROPE:
    case LS_OP_Q_NORM_TURNED:
    case LS_OP_Q_TEMPERED:
    case LS_OP_V_NORM:
    case LS_OP_K_NORM:
    case LS_OP_K_ROPE:
    case LS_OP_K_NORM_TURNED:
    case LS_OP_ATTENTION:
        return split("head", "dimension", e, (uint64_t)layer->head_dim);
    case LS_OP_EXPERT_GATED:
        return split("choice", "dimension", e, (uint64_t)arch->experts.intermediate);
    case LS_OP_EXPERT_OUT:
        return split("choice", "dimension", e, (uint64_t)arch->hidden);
    default:
        return split("", "", e, 0);
    }
}

static const char *fmt_name(enum ls_fmt fmt)
{
    return fmt == LS_FMT_F32 ? "f32" : fmt == LS_FMT_F16 ? "f16" : "bf16";
}

/* --- words -----------------------------------------------------------------------------------
 */

static void print_layer(const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    if (l->layer == v->arch->n_layers)
        printf("layer              behind the last of %d\n", v->arch->n_layers);
    else
        printf("layer              %d of 0..%d%s\n", l->layer, v->arch->n_layers - 1,
               l->in_embedding ? ", its input: the embedding" : "");
}

static void print_values(const struct ls_parity_view *v)
{
    const struct ls_gap *const g = &v->location->gap;
    const struct place place = place_of(v);
    printf("first element      position %" PRIu64 ", element %" PRIu64, g->row, g->column);
    if (v->location->apart == LS_APART_OP && *place.outer)
        printf(" (%s %" PRIu64 ", %s %" PRIu64 ")", place.outer, place.outer_index, place.inner,
               place.inner_index);
    printf("\nvalues             %.9g and %.9g", g->a, g->b);
    if (g->has_ulps)
        printf(", %" PRIu64 " ulp of %s apart", g->ulps, fmt_name(g->ulp_of));
    printf("\ndiffering          %" PRIu64 " of %" PRIu64 " elements, largest %.6g, rms %.6g\n",
           g->n_different, g->n, g->max_abs, g->rms);
}

static void print_growth(const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    const int n = v->arch->n_layers;
    printf("\n%-18s %12s %12s %12s %12s\n", "error", "max abs", "rms", "relative", "differing");
    for (int k = 0; k <= n + 1; k++) {
        char what[32] = "embedding";
        const struct ls_growth *const g = &l->growth[k];
        if (!g->compared)
            continue;
        if (k > 0)
            snprintf(what, sizeof what, k > n ? "final norm" : "layer %d", k - 1);
        printf("%-18s %12.4g %12.4g %12.4g %12" PRIu64 "%s\n", what, g->gap.max_abs, g->gap.rms,
               g->gap.relative, g->gap.n_different, k == l->jump ? "  <- jump" : "");
    }
}

static void print_op(const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    printf("operation          %s: %s\n", ls_op_name(l->op), ls_op_words(l->op));
    if (l->only_in)
        printf("                   only arm %d has it\n", l->only_in);
    else
        print_values(v);
    for (int i = 0; i < v->proposals->n; i++) {
        const struct ls_proposal *const p = &v->proposals->list[i];
        printf("%-18s %s: %s (%s)\n", i ? "" : "cause", p->name, p->text,
               p->verified ? "verified" : "possible");
    }
}

static void print_jump(const struct ls_location *l)
{
    if (l->jump < 0)
        printf("jump               none: no step of the error is more than %d-fold\n",
               LS_LOCATE_JUMP);
    else if (l->jump == 0)
        printf("jump               in the embedding, %.3g-fold\n", l->jump_factor);
    else
        printf("jump               in layer %d, %.3g-fold\n", l->jump - 1, l->jump_factor);
}

void ls_parity_print(const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    if (l->apart == LS_APART_NOT) {
        printf("equal, bit for bit\n");
        return;
    }
    printf("DIFFERENT\nrequest            '%s'\n", v->names[l->request]);
    if (l->apart == LS_APART_TOKENS) {
        printf("token ids          differ at position %u: %d and %d (-1: none)\n", l->position,
               l->tokens[0], l->tokens[1]);
        return;
    }
    if (l->apart == LS_APART_OP)
        printf("first row          position %u\n", l->position);
    print_layer(v);
    if (l->apart == LS_APART_OP) {
        print_op(v);
    } else {
        print_values(v);
        print_jump(l);
    }
    print_growth(v);
}

/* --- JSON ------------------------------------------------------------------------------------
 */

/* JSON has no infinity and no NaN. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *growth_json(const struct ls_parity_view *v)
{
    json_t *const list = json_array();
    for (int k = 0; v->location->growth && k <= v->arch->n_layers + 1; k++) {
        const struct ls_growth *const g = &v->location->growth[k];
        json_t *const name = k > v->arch->n_layers ? json_string("final_norm")
                             : k                   ? json_integer(k - 1)
                                                   : json_string("embedding");
        if (g->compared)
            json_array_append_new(list,
                                  json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "layer",
                                            name, "max_abs", real(g->gap.max_abs), "rms",
                                            real(g->gap.rms), "relative", real(g->gap.relative),
                                            "different", (json_int_t)g->gap.n_different,
                                            "elements", (json_int_t)g->gap.n, "not_finite",
                                            (json_int_t)g->gap.n_unmeasured));
        else
            json_decref(name);
    }
    return list;
}

static json_t *gap_json(const struct ls_parity_view *v)
{
    const struct ls_gap *const g = &v->location->gap;
    const struct place place = place_of(v);
    json_t *const json = json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "position", (json_int_t)g->row,
        "element", (json_int_t)g->column, "a", real(g->a), "b", real(g->b), "ulps",
        g->has_ulps ? json_integer((json_int_t)g->ulps) : json_null(), "ulp_of",
        g->has_ulps ? json_string(fmt_name(g->ulp_of)) : json_null(), "different",
        (json_int_t)g->n_different, "elements", (json_int_t)g->n, "max_abs", real(g->max_abs),
        "rms", real(g->rms));
    if (v->location->apart == LS_APART_OP && *place.outer) {
        json_object_set_new(json, place.outer, json_integer((json_int_t)place.outer_index));
        json_object_set_new(json, place.inner, json_integer((json_int_t)place.inner_index));
    }
    return json;
}

static json_t *proposals_json(const struct ls_proposals *proposals)
{
    json_t *const list = json_array();
    for (int i = 0; i < proposals->n; i++) {
        const struct ls_proposal *const p = &proposals->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", p->name, "text",
                                              p->text, "verified", p->verified));
    }
    return list;
}

static void add_op(json_t *json, const struct ls_parity_view *v)
{
    const struct ls_location *const l = v->location;
    json_object_set_new(json, "operation", json_string(ls_op_name(l->op)));
    json_object_set_new(json, "words", json_string(ls_op_words(l->op)));
    json_object_set_new(json, "only_in", l->only_in ? json_integer(l->only_in) : json_null());
    json_object_set_new(json, "causes", proposals_json(v->proposals));
}

static json_t *to_json(const struct ls_parity_view *v)
{
    static const char *const apart[] = { "equal", "tokens", "rows", "operation", "layer" };
    const struct ls_location *const l = v->location;
    json_t *const json =
        json_pack("{s:b, s:s}", "equal", l->apart == LS_APART_NOT, "apart", apart[l->apart]);
    if (l->apart == LS_APART_NOT)
        return json;
    json_object_set_new(json, "request", json_string(v->names[l->request]));
    if (l->apart != LS_APART_LAYER)
        json_object_set_new(json, "row", json_integer(l->position));
    if (l->apart == LS_APART_TOKENS) {
        json_object_set_new(json, "tokens", json_pack("[i, i]", l->tokens[0], l->tokens[1]));
        return json;
    }
    json_object_set_new(json, "layers", json_integer(v->arch->n_layers));
    json_object_set_new(json, "layer", json_integer(l->layer));
    json_object_set_new(json, "in_embedding", json_boolean(l->in_embedding));
    if (l->apart == LS_APART_OP)
        add_op(json, v);
    else if (l->jump >= 0)
        json_object_set_new(
            json, "jump",
            json_pack("{s:o, s:o}", "layer",
                      l->jump ? json_integer(l->jump - 1) : json_string("embedding"), "factor",
                      real(l->jump_factor)));
    else
        json_object_set_new(json, "jump", json_null());
    if (!l->only_in)
        json_object_set_new(json, "difference", gap_json(v));
    json_object_set_new(json, "growth", growth_json(v));
    return json;
}

ls_status ls_parity_print_json(const struct ls_parity_view *v, struct ls_err *err)
{
    json_t *const json = to_json(v);
    if (!json)
        return ls_fail(err, LS_E_MEMORY, "no memory for JSON");
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
    return LS_OK;
}
