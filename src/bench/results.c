#include "bench/results.h"

#include <string.h>

ls_status ls_results_init(struct ls_results *r, FILE *table, struct ls_err *err)
{
    *r = (struct ls_results){ .root = json_pack("{s:{}, s:[]}", "machine", "results"),
                              .table = table };
    return r->root ? LS_OK : ls_fail(err, LS_E_MEMORY, "out of memory: benchmark results");
}

void ls_results_finish(struct ls_results *r)
{
    json_decref(r->root);
    json_decref(r->former);
    *r = (struct ls_results){ .root = NULL };
}

void ls_results_machine(struct ls_results *r, json_t *machine)
{
    if (!machine || json_object_set_new(r->root, "machine", machine))
        r->failed = true;
}

/* --- a former run ----------------------------------------------------------------------------
 */

static void key_of(char key[256], const char *part, const char *name)
{
    snprintf(key, 256, "%s/%s", part, name);
}

/* *root: to be released. */
static ls_status load(json_t **root, const char *path, struct ls_err *err)
{
    json_error_t why;
    json_t *const read = *root = json_load_file(path, 0, &why);
    if (json_is_array(json_object_get(read, "results")))
        return LS_OK;
    json_decref(read);
    return ls_fail(err, read ? LS_E_FORMAT : LS_E_IO, "%s: no results of bench: %s", path,
                   read ? "it has no list of results" : why.text);
}

ls_status ls_results_compare(struct ls_results *r, const char *path, struct ls_err *err)
{
    json_t *root;
    const ls_status s = load(&root, path, err);
    if (s)
        return s;
    const json_t *const list = json_object_get(root, "results");
    r->former = json_object();
    for (size_t i = 0; r->former && i < json_array_size(list); i++) {
        json_t *const one = json_array_get(list, i);
        const char *const part = json_string_value(json_object_get(one, "part"));
        const char *const name = json_string_value(json_object_get(one, "name"));
        char key[256];
        if (!part || !name)
            continue;
        key_of(key, part, name);
        json_object_set(r->former, key, json_object_get(one, "median"));
    }
    json_decref(root);
    return r->former ? LS_OK
                     : ls_fail(err, LS_E_MEMORY, "out of memory for the results of %s", path);
}

static double former_of(const struct ls_results *r, const struct ls_result *what)
{
    char key[256];
    key_of(key, what->part, what->name);
    return json_number_value(json_object_get(r->former, key));
}

/* --- a line ----------------------------------------------------------------------------------
 */

static void print_head(struct ls_results *r, const struct ls_result *what)
{
    if (!strcmp(r->part, what->part))
        return;
    snprintf(r->part, sizeof r->part, "%s", what->part);
    fprintf(r->table, "\n%-44s %9s  %-17s %-8s %8s %5s %5s %5s%s\n", what->part, "median",
            "p10..p90", "", "bound", "%", "null", "cpu%", r->former ? "  former  ratio" : "");
}

static void print_line(struct ls_results *r, const struct ls_result *what,
                       const struct ls_rate *rate)
{
    char spread[40], bound[32] = "", share[16] = "", former[32] = "";
    print_head(r, what);
    snprintf(spread, sizeof spread, "%.4g..%.4g", rate->p10 / what->scale,
             rate->p90 / what->scale);
    if (what->bound > 0) {
        snprintf(bound, sizeof bound, "%.4g", what->bound / what->scale);
        snprintf(share, sizeof share, "%.0f", 100 * rate->median / what->bound);
    }
    if (former_of(r, what) > 0)
        snprintf(former, sizeof former, " %8.4g %6.2f", former_of(r, what) / what->scale,
                 rate->median / former_of(r, what));
    fprintf(r->table, "%-44s %9.4g  %-17s %-8s %8s %5s %5.2f %5.0f%s\n", what->name,
            rate->median / what->scale, spread, what->unit, bound, share, rate->again,
            100 * rate->on_cpu, former);
    fflush(r->table);
}

bool ls_results_wants(const struct ls_results *r, const char *name)
{
    return !r->match || strstr(name, r->match);
}

void ls_results_add(struct ls_results *r, const struct ls_result *what,
                    const struct ls_rate *rate)
{
    json_t *const one =
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:f}", "part", what->part,
                  "name", what->name, "unit", what->unit, "scale", what->scale, "median",
                  rate->median, "p10", rate->p10, "p90", rate->p90, "repeats", rate->n,
                  "null_ratio", rate->again, "on_cpu", rate->on_cpu, "bound", what->bound);
    if (!one || json_array_append_new(json_object_get(r->root, "results"), one))
        r->failed = true;
    if (r->table)
        print_line(r, what, rate);
}

ls_status ls_results_take(struct ls_results *r, const char *path, struct ls_err *err)
{
    json_t *root;
    ls_status s = load(&root, path, err);
    if (s)
        return s;
    const json_t *const list = json_object_get(root, "results");
    for (size_t i = 0; !s && i < json_array_size(list); i++) {
        struct ls_result what;
        struct ls_rate rate;
        if (json_unpack(json_array_get(list, i),
                        "{s:s, s:s, s:s, s:F, s:F, s:F, s:F, s:i, s:F, s:F, s:F}", "part",
                        &what.part, "name", &what.name, "unit", &what.unit, "scale",
                        &what.scale, "median", &rate.median, "p10", &rate.p10, "p90", &rate.p90,
                        "repeats", &rate.n, "null_ratio", &rate.again, "on_cpu", &rate.on_cpu,
                        "bound", &what.bound))
            s = ls_fail(err, LS_E_FORMAT, "%s: result %zu is not whole", path, i);
        else
            ls_results_add(r, &what, &rate);
    }
    json_decref(root);
    return s;
}

ls_status ls_results_write(const struct ls_results *r, const char *path, struct ls_err *err)
{
    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(8);
    if (r->failed)
        return ls_fail(err, LS_E_MEMORY, "out of memory: benchmark results were lost");
    const int rc = path ? json_dump_file(r->root, path, flags)
                        : json_dumpf(r->root, stdout, flags) || putchar('\n') == EOF;
    return rc ? ls_fail(err, LS_E_IO, "%s: cannot be written", path ? path : "standard output")
              : LS_OK;
}
