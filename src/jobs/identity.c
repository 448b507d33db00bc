#include "jobs/identity.h"

#include "jobs/float_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Changes when rows of equal requests would be written in another way. */
static const char row_format[] = "1";

void ls_identity_finish(struct ls_identity *id)
{
    json_decref(id->facts);
    *id = (struct ls_identity){ 0 };
}

void ls_identity_add(struct ls_identity *id, const char *name, const char *value)
{
    if (!id->facts)
        id->facts = json_object();
    json_t *text = value ? json_string(value) : json_null();
    id->failed =
        id->failed || !id->facts || !text || json_object_set_new(id->facts, name, text);
}

static void add_number(struct ls_identity *id, const char *name, bool is_set, double value)
{
    char text[LS_FLOAT_TEXT];
    if (value == trunc(value))
        snprintf(text, sizeof text, "%.0f", value);
    else
        ls_float_text(text, value);
    ls_identity_add(id, name, is_set ? text : NULL);
}

static void add_score(struct ls_identity *id, const struct ls_score_settings *score)
{
    if (!score->scores)
        return;
    ls_identity_add(id, "command", "score");
    add_number(id, "stride", true, score->stride);
    ls_identity_add(id, "no-prefix", score->no_prefix ? "true" : "false");
    ls_identity_add(id, "token-logprobs", score->listed ? "true" : "false");
}

void ls_identity_add_config(struct ls_identity *id, const struct ls_job_config *config)
{
    static const char *const digests[] = { "generated", "all", "none" };
    static const char *const rows[] = { "all", "prompt", "generated", "last" };
    static const char *const formats[] = { "safetensors", "npy" };
    const struct ls_request_defaults *d = &config->defaults;
    char seed[24], logits[32] = "none";
    snprintf(seed, sizeof seed, "%" PRIu64, config->seed);
    if (config->logits_dir)
        snprintf(logits, sizeof logits, "%s, %s", rows[config->logits_rows],
                 formats[config->logits_format]);
    ls_identity_add(id, "row format", row_format);
    ls_identity_add(id, "model name", config->model_name);
    ls_identity_add(id, "seed", seed);
    ls_identity_add(id, "digest", digests[config->digest]);
    ls_identity_add(id, "logits", logits);
    ls_identity_add(id, "certificate", config->certificate ? "leaves" : NULL);
    add_number(id, "temperature", d->has_temperature, d->temperature);
    add_number(id, "max-tokens", d->has_max_tokens, d->max_tokens);
    add_number(id, "top-p", d->has_top_p, d->top_p);
    add_number(id, "top-k", d->has_top_k, d->top_k);
    add_number(id, "min-p", d->has_min_p, d->min_p);
    ls_identity_add(id, "ignore-eos", d->ignore_eos ? "true" : "false");
    add_score(id, &config->score);
}

ls_status ls_identity_text(const struct ls_identity *id, char **text, struct ls_err *err)
{
    *text = id->failed ? NULL : json_dumps(id->facts, JSON_COMPACT | JSON_SORT_KEYS);
    return *text ? LS_OK : ls_fail(err, LS_E_MEMORY, "out of memory for the run's identity");
}

const char *ls_identity_value(const struct ls_identity *id, const char *name)
{
    return json_string_value(json_object_get(id->facts, name));
}

/* What this run would take from the clock, it takes from the run that it goes on with. */
static void inherit(const struct ls_identity *id, const json_t *had)
{
    json_t *value = id->inherited ? json_object_get(had, id->inherited) : NULL;
    if (json_is_string(value))
        json_object_set(id->facts, id->inherited, value);
}

static const char *shown(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "not set";
}

/* Facts that can be known to one run and not to the other without a difference. */
static bool is_optional(const char *name)
{
    return !strcmp(name, "weight bytes");
}

/* A fact that one side lacks is as if it were null, so that facts can be added later. */
static ls_status check_side(const json_t *facts, const json_t *had, const json_t *has,
                            const char *output, struct ls_err *err)
{
    const char *name;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)facts, name, unused)
    {
        const json_t *a = json_object_get(had, name), *b = json_object_get(has, name);
        if (json_equal(a ? a : json_null(), b ? b : json_null()))
            continue;
        if (is_optional(name) && !(json_is_string(a) && json_is_string(b)))
            continue;
        return ls_fail(err, LS_E_REFUSED,
                       "the journal of %s was made with another %s: %s, now %s; give what it "
                       "was made with, or --fresh to start over",
                       output, name, shown(a), shown(b));
    }
    return LS_OK;
}

ls_status ls_identity_check(const struct ls_identity *id, const char *text, size_t n,
                            const char *output, struct ls_err *err)
{
    json_t *had = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    ls_status status = LS_OK;
    if (!json_is_object(had))
        status = ls_fail(err, LS_E_REFUSED,
                         "the journal of %s has an identity that cannot be read; --fresh "
                         "starts over",
                         output);
    inherit(id, had);
    if (!status)
        status = check_side(id->facts, had, id->facts, output, err);
    if (!status)
        status = check_side(had, had, id->facts, output, err);
    json_decref(had);
    return status;
}
