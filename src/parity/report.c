#include "parity/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ls_phase_name(enum ls_phase phase)
{
    return phase == LS_PHASE_FREE ? "free" : "forced";
}

const char *ls_arm_status_name(enum ls_arm_status status)
{
    static const char *const names[] = { "equal", "different", "failed" };
    return names[status];
}

/* jansson's setters take NULL for a failure and keep the object: counted, and asked once. */
struct object {
    json_t *json;
    int failed;
};

static struct object new_object(void)
{
    return (struct object){ .json = json_object() };
}

static void put(struct object *o, const char *key, json_t *value)
{
    o->failed |= json_object_set_new(o->json, key, value) != 0;
}

static json_t *end(struct object *o)
{
    if (!o->failed)
        return o->json;
    json_decref(o->json);
    return NULL;
}

static void put_count(struct object *o, const char *key, uint64_t n)
{
    put(o, key, json_integer((json_int_t)n));
}

/* JSON has no infinity and no NaN: null. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static void put_text(struct object *o, const char *key, const char *text)
{
    put(o, key, text ? json_string(text) : json_null());
}

/* --- a comparison ----------------------------------------------------------------------------
 */

struct naming {
    const struct ls_dump *entries;
    ls_token_text *text;
    void *arg;
};

static json_t *token(const struct naming *n, int32_t id)
{
    if (id < 0)
        return json_null();
    return json_pack("{s:i, s:o}", "id", id, "text", n->text(n->arg, id));
}

static const char *name_of(const struct naming *n, uint64_t entry)
{
    return ls_dump_entry(n->entries, entry)->name;
}

static json_t *first_difference(const struct ls_metrics *m, const struct naming *n)
{
    if (!m->has_first)
        return json_null();
    return json_pack("{s:s, s:I, s:I, s:o, s:o}", "request", name_of(n, m->first_entry),
                     "position", (json_int_t)m->first_position, "element",
                     (json_int_t)m->first_element, "reference",
                     real((double)m->first_reference), "arm", real((double)m->first_arm));
}

static json_t *ulp_histogram(const struct ls_metrics *m)
{
    json_t *const upper = json_array(), *const counts = json_array();
    int last = LS_ULP_BINS - 1;
    while (last > 0 && !m->ulps[last])
        last--;
    for (int i = 0; i <= last; i++) {
        json_array_append_new(upper, json_integer(i ? (json_int_t)1 << (i - 1) : 0));
        json_array_append_new(counts, json_integer((json_int_t)m->ulps[i]));
    }
    return json_pack("{s:o, s:o}", "upper", upper, "counts", counts);
}

static json_t *kl(const struct ls_metrics *m, const struct naming *n)
{
    struct ls_err err;
    struct ls_kl_figures f;
    if (ls_metrics_kl(m, &f, &err))
        return NULL;
    if (!m->n_kl)
        return json_pack("{s:i, s:I, s:n, s:n, s:n, s:n}", "rows", 0, "infinite_rows",
                         (json_int_t)m->n_infinite, "mean", "p99", "max", "max_at");
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:{s:s, s:I}}", "rows", (json_int_t)m->n_kl,
                     "infinite_rows", (json_int_t)m->n_infinite, "mean", real(f.mean), "p99",
                     real(f.p99), "max", real(f.max), "max_at", "request",
                     name_of(n, f.max_entry), "position", (json_int_t)f.max_position);
}

static json_t *kl_by_position(const struct ls_metrics *m)
{
    struct ls_kl_bins bins;
    json_t *const list = json_array();
    ls_metrics_kl_bins(m, &bins);
    for (size_t i = 0; i < bins.n; i++)
        if (m->n_rows_different && bins.bins[i].rows)
            json_array_append_new(list,
                                  json_pack("[I, I, I, o, o]", (json_int_t)(i * bins.width),
                                            (json_int_t)((i + 1) * bins.width - 1),
                                            (json_int_t)bins.bins[i].rows,
                                            real(bins.bins[i].mean), real(bins.bins[i].max)));
    return list;
}

static json_t *flips(const struct ls_metrics *m, const struct naming *n)
{
    json_t *const list = json_array();
    for (uint64_t i = 0; i < m->n_flips && i < LS_FLIPS_KEPT; i++) {
        const struct ls_flip *const f = &m->flips[i];
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "request", name_of(n, f->entry),
                            "position", (json_int_t)f->position, "reference",
                            token(n, f->reference), "arm", token(n, f->arm), "reference_margin",
                            real(f->reference_margin), "arm_margin", real(f->arm_margin)));
    }
    return json_pack("{s:I, s:o}", "count", (json_int_t)m->n_flips, "listed", list);
}

static json_t *perplexity(const struct ls_metrics *m)
{
    struct ls_perplexity p;
    ls_metrics_perplexity(m, &p);
    if (!p.n)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tokens", (json_int_t)p.n,
                     "reference", real(p.reference), "arm", real(p.arm), "delta", real(p.delta),
                     "delta_se", real(p.delta_se), "nll_reference", real(p.nll_reference),
                     "nll_arm", real(p.nll_arm), "nll_delta", real(p.nll_delta), "nll_delta_se",
                     real(p.nll_delta_se));
}

static json_t *generated(const struct ls_arm_result *r, const struct naming *n)
{
    json_t *const list = json_array();
    if (!r->n_texts) {
        json_decref(list);
        return json_null();
    }
    for (uint64_t i = 0; i < r->n_diverged && i < LS_DIVERGED_KEPT; i++) {
        const struct ls_diverged *const d = &r->diverged[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o}", "request", d->name,
                                              "index", (json_int_t)d->index, "reference",
                                              token(n, d->reference), "arm", token(n, d->arm)));
    }
    return json_pack("{s:I, s:I, s:o}", "texts", (json_int_t)r->n_texts, "equal",
                     (json_int_t)r->n_texts_equal, "diverged", list);
}

static json_t *share(uint64_t part, uint64_t whole)
{
    return whole ? json_real((double)part / (double)whole) : json_null();
}

static void put_rows(struct object *o, const struct ls_arm_result *r)
{
    const struct ls_metrics *const m = &r->metrics;
    put(o, "equal", json_boolean(r->equal));
    put_count(o, "requests", r->n_requests);
    put_count(o, "only_reference", r->n_only_reference);
    put_count(o, "only_arm", r->n_only_arm);
    put_count(o, "mismatched", r->n_mismatched);
    put(o, "first_mismatch",
        r->first_mismatch[0] ? json_string(r->first_mismatch) : json_null());
    put_count(o, "errors_different", r->n_errors_different);
    put(o, "digests",
        json_pack("{s:I, s:I}", "compared", (json_int_t)r->n_digests, "equal",
                  (json_int_t)r->n_digests_equal));
    put_count(o, "rows", m->n_rows);
    put_count(o, "rows_different", m->n_rows_different);
    put_count(o, "rows_apart", r->n_rows_apart);
    put_count(o, "rows_undefined", m->n_undefined);
    put_count(o, "elements", m->n_elements);
    put_count(o, "elements_different", m->n_different);
}

json_t *ls_report_comparison(const struct ls_arm_result *r, const struct ls_dump *entries,
                             ls_token_text *text, void *arg)
{
    const struct ls_metrics *const m = &r->metrics;
    const struct naming n = { .entries = entries, .text = text, .arg = arg };
    const double measured = (double)m->n_measured;
    struct object o = new_object();
    put_rows(&o, r);
    put(&o, "first_difference", first_difference(m, &n));
    put(&o, "max_abs", m->n_measured ? real(m->max_abs) : json_null());
    put(&o, "rms",
        m->n_measured ? real(sqrt(ls_sum_value(&m->squares) / measured)) : json_null());
    put(&o, "max_ulp", m->n_measured ? json_integer((json_int_t)m->max_ulp) : json_null());
    put(&o, "ulp_histogram", ulp_histogram(m));
    put(&o, "kl", kl(m, &n));
    put(&o, "kl_by_position", kl_by_position(m));
    put(&o, "top1_agreement", share(m->n_top1, m->n_ranked));
    put(&o, "top5_agreement", share(m->n_top5, m->n_top5_of));
    put(&o, "flips", flips(m, &n));
    put(&o, "perplexity", perplexity(m));
    put(&o, "generated", generated(r, &n));
    return end(&o);
}

/* --- the report ------------------------------------------------------------------------------
 */

enum ls_arm_status ls_outcome_status(const struct ls_outcome *outcome)
{
    if (outcome->reason)
        return LS_ARM_FAILED;
    for (int p = 0; p < LS_N_PHASES; p++)
        if (outcome->comparison[p] &&
            !json_is_true(json_object_get(outcome->comparison[p], "equal")))
            return LS_ARM_DIFFERENT;
    return LS_ARM_EQUAL;
}

static json_t *settings_of(const struct ls_settings *list)
{
    struct object o = new_object();
    for (size_t i = 0; i < list->n; i++)
        put_text(&o, list->list[i].key, list->list[i].value);
    return end(&o);
}

static json_t *phases(json_t *const values[LS_N_PHASES])
{
    struct object o = new_object();
    for (int p = 0; p < LS_N_PHASES; p++)
        put(&o, ls_phase_name((enum ls_phase)p),
            values[p] ? json_incref(values[p]) : json_null());
    return end(&o);
}

static json_t *phase_texts(const char *const values[LS_N_PHASES])
{
    struct object o = new_object();
    for (int p = 0; p < LS_N_PHASES; p++)
        put_text(&o, ls_phase_name((enum ls_phase)p), values[p]);
    return end(&o);
}

static json_t *arm_json(const struct ls_arm *arm, const struct ls_outcome *outcome,
                        bool is_reference)
{
    struct object o = new_object();
    put_text(&o, "name", arm->name);
    put_text(&o, "kind", arm->dump ? "dump" : "run");
    if (!is_reference)
        put_text(&o, "status", ls_arm_status_name(ls_outcome_status(outcome)));
    put_text(&o, "reason", outcome->reason);
    put(&o, "settings", settings_of(&arm->options));
    put(&o, "env", settings_of(&arm->env));
    put_text(&o, "binary", arm->binary);
    put_text(&o, "dump", arm->dump);
    put_text(&o, "mapping", arm->mapping);
    put(&o, "ranks", json_integer(arm->ranks));
    put(&o, "command", phases(outcome->command));
    put(&o, "manifest", phase_texts(outcome->manifest));
    put(&o, "logits", phase_texts(outcome->store));
    for (int p = 0; p < LS_N_PHASES; p++)
        put(&o, ls_phase_name((enum ls_phase)p),
            outcome->comparison[p] ? json_incref(outcome->comparison[p]) : json_null());
    return end(&o);
}

json_t *ls_report_json(const struct ls_report *report)
{
    static const char *const modes[] = { "both", "forced", "free" };
    const struct ls_sweep *const sweep = report->sweep;
    json_int_t counts[3] = { 0 };
    struct object o = new_object();
    json_t *const arms = json_array();
    for (size_t i = 1; i < sweep->n; i++) {
        counts[ls_outcome_status(&report->outcomes[i])]++;
        o.failed |=
            json_array_append_new(arms, arm_json(&sweep->arms[i], &report->outcomes[i], false));
    }
    put_text(&o, "format", LS_REPORT_FORMAT);
    put_text(&o, "name", sweep->name);
    put_text(&o, "verdict",
             ls_arm_status_name(counts[LS_ARM_FAILED]      ? LS_ARM_FAILED
                                : counts[LS_ARM_DIFFERENT] ? LS_ARM_DIFFERENT
                                                           : LS_ARM_EQUAL));
    put(&o, "counts",
        json_pack("{s:I, s:I, s:I, s:I}", "arms", (json_int_t)sweep->n - 1, "equal",
                  counts[LS_ARM_EQUAL], "different", counts[LS_ARM_DIFFERENT], "failed",
                  counts[LS_ARM_FAILED]));
    put_text(&o, "version", report->version);
    put_text(&o, "mode", modes[sweep->mode]);
    put(&o, "prompts",
        json_pack("{s:s, s:s, s:I}", "file", sweep->prompts, "digest", report->prompts_digest,
                  "requests", (json_int_t)report->n_requests));
    put(&o, "model", report->model ? json_deep_copy(report->model) : json_null());
    put(&o, "reference", arm_json(&sweep->arms[0], &report->outcomes[0], true));
    put(&o, "arms", arms);
    return end(&o);
}
