/* compare: two sets of tensors, bit for bit. */
#include "app/app.h"
#include "parity/compare.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

static void print_first(const struct ls_comparison *c)
{
    if (c->first_mismatch[0])
        printf("first mismatch     %s\n", c->first_mismatch);
    if (!c->has_first)
        return;
    printf("first difference   '%s' position %" PRIu64 " element %" PRIu64 ": %.9g and %.9g\n",
           c->first_name, c->first_position, c->first_element, c->first_a, c->first_b);
}

static void print_figures(const struct ls_comparison *c)
{
    if (c->has_distance)
        printf("largest difference %.9g\nrms difference     %.9g\n", c->max_abs, c->rms);
    else
        printf("largest difference -\nrms difference     -\n");
    if (c->has_ulp)
        printf("largest ulp        %" PRIu64 "\n", c->max_ulp);
    else
        printf("largest ulp        -\n");
}

static void print_count(const char *what, uint64_t n)
{
    if (n)
        printf("%-18s %" PRIu64 "\n", what, n);
}

static void print_text(const struct ls_comparison *c)
{
    printf("%s\n", c->equal ? "equal, bit for bit" : "DIFFERENT");
    printf("tensors            %" PRIu64 " compared, %" PRIu64 " of them differ; %" PRIu64
           " only in A, %" PRIu64 " only in B, %" PRIu64 " mismatched\n",
           c->n_tensors, c->n_different_tensors, c->n_only_a, c->n_only_b, c->n_mismatched);
    printf("elements           %" PRIu64 ", %" PRIu64 " of them differ\n", c->n_elements,
           c->n_different);
    print_first(c);
    if (!c->n_different)
        return;
    print_figures(c);
    print_count("NaN on one side", c->n_nan);
    print_count("NaN of other bits", c->n_nan_bits);
    print_count("+0 and -0", c->n_zero);
}

/* JSON has no infinity: null, as for what was not measured. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *to_json(const struct ls_comparison *c)
{
    json_t *first = json_null();
    if (c->has_first)
        first =
            json_pack("{s:s, s:I, s:I, s:o, s:o}", "tensor", c->first_name, "position",
                      (json_int_t)c->first_position, "element", (json_int_t)c->first_element,
                      "a", real(c->first_a), "b", real(c->first_b));
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, "
                     "s:o, s:s}",
                     "equal", c->equal, "tensors", (json_int_t)c->n_tensors,
                     "different_tensors", (json_int_t)c->n_different_tensors, "only_a",
                     (json_int_t)c->n_only_a, "only_b", (json_int_t)c->n_only_b, "mismatched",
                     (json_int_t)c->n_mismatched, "elements", (json_int_t)c->n_elements,
                     "different_elements", (json_int_t)c->n_different, "nan_on_one_side",
                     (json_int_t)c->n_nan, "nan_of_other_bits", (json_int_t)c->n_nan_bits,
                     "signs_of_zero", (json_int_t)c->n_zero, "max_abs",
                     c->has_distance ? real(c->max_abs) : json_null(), "rms",
                     c->has_distance ? real(c->rms) : json_null(), "max_ulp",
                     c->has_ulp ? json_integer((json_int_t)c->max_ulp) : json_null(),
                     "first_difference", first, "first_mismatch", c->first_mismatch);
}

static int report(const struct ls_app *app, const struct ls_comparison *c)
{
    if (ls_options_flag(&app->options, LS_OPT_JSON)) {
        json_t *const json = to_json(c);
        if (!json) {
            ls_app_warn(app, "the comparison cannot be written as JSON");
            return LS_EXIT_FAILED;
        }
        json_dumpf(json, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(json);
    } else {
        print_text(c);
    }
    return c->equal ? LS_EXIT_GOOD : LS_EXIT_DIFFERENT;
}

int ls_cmd_compare(struct ls_app *app)
{
    struct ls_err err;
    struct ls_dump *a = NULL, *b = NULL;
    struct ls_comparison c;
    const struct ls_options *const o = &app->options;
    if (ls_options_check(o, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    ls_status s = ls_dump_open(&a, o->operands[0], &err);
    if (!s)
        s = ls_dump_open(&b, o->operands[1], &err);
    if (!s)
        s = ls_compare(&c, a, b, &err);
    const int code = s ? ls_app_fail(app, ls_app_code_before_start(s), &err) : report(app, &c);
    ls_dump_close(a);
    ls_dump_close(b);
    return code;
}
