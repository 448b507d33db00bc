/* Rope settings out of a config, in the old and the new spelling; see rope.h. */
#include "model/rope.h"

#include <string.h>

enum { MAX_FACTOR = 1000000 };

static const double MAX_THETA = 1e15;

/* Kinds by their names in configs. */
static bool kind_of(const char *name, const struct ls_rope_family *family,
                    enum ls_rope_kind *kind)
{
    if (family->only_longrope && (!strcmp(name, "su") || !strcmp(name, "yarn")))
        name = "longrope";
    for (int k = 0; k < LS_N_ROPE_KINDS; k++) {
        const bool allowed =
            !family->only_longrope || k == LS_ROPE_DEFAULT || k == LS_ROPE_LONGROPE;
        if (allowed && !strcmp(name, ls_rope_kind_name((enum ls_rope_kind)k))) {
            *kind = (enum ls_rope_kind)k;
            return true;
        }
    }
    return false;
}

/* "rope_type" is the new key, "type" the old one; some files have both. */
static enum ls_rope_kind read_kind(struct ls_config *o, const struct ls_rope_family *family)
{
    enum ls_rope_kind kind = LS_ROPE_DEFAULT;
    const char *old_name = ls_config_text(o, "type", NULL);
    const char *name = ls_config_text(o, "rope_type", old_name ? old_name : "default");
    if (o->status)
        return kind;
    if (old_name && strcmp(name, old_name))
        ls_config_fail(o, LS_E_REFUSED, "type", "contradicts rope_type \"%s\"", name);
    else if (!kind_of(name, family, &kind))
        ls_config_fail(
            o, LS_E_REFUSED, ls_config_has(o, "rope_type") ? "rope_type" : "type",
            "supported rope types%s are %s", family->only_longrope ? " of this family" : "",
            family->only_longrope ? "default and longrope"
                                  : "default, linear, dynamic, llama3, yarn, longrope, "
                                    "proportional");
    return kind;
}

static void check_list(struct ls_config *o, const char *key)
{
    const json_t *list = ls_config_get(o, key);
    bool good = json_array_size(list) > 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const double x = json_number_value(json_array_get(list, i));
        good = good && x > 0 && x <= MAX_FACTOR;
    }
    if (!good)
        ls_config_fail(o, LS_E_FORMAT, key, "expected a list of numbers > 0");
}

static void read_yarn(struct ls_config *o, struct ls_rope_settings *r)
{
    /* 0 and null both mean the default, as the reference has it. */
    r->beta_fast = ls_config_number(o, "beta_fast", 32, 0, MAX_FACTOR);
    r->beta_slow = ls_config_number(o, "beta_slow", 1, 0, MAX_FACTOR);
    r->beta_fast = r->beta_fast > 0 ? r->beta_fast : 32;
    r->beta_slow = r->beta_slow > 0 ? r->beta_slow : 1;
    r->mscale = ls_config_number(o, "mscale", 0, 0, MAX_FACTOR);
    r->mscale_all_dim = ls_config_number(o, "mscale_all_dim", 0, 0, MAX_FACTOR);
    r->truncate = ls_config_bool(o, "truncate", true);
    ls_config_bool(o, "finetuned",
                   false); /* says how the model was made, not what it computes */
    if (r->beta_fast < r->beta_slow)
        ls_config_fail(o, LS_E_REFUSED, "beta_fast", "below beta_slow %g", r->beta_slow);
}

static void read_llama3(struct ls_config *o, struct ls_rope_settings *r)
{
    r->low_freq = ls_config_number(o, "low_freq_factor", -1, 1e-6, MAX_FACTOR);
    r->high_freq = ls_config_number(o, "high_freq_factor", -1, 1e-6, MAX_FACTOR);
    /* Equal in published Llama 4 configs: nothing is blended then. */
    if (r->high_freq < r->low_freq)
        ls_config_fail(o, LS_E_REFUSED, "high_freq_factor", "below low_freq_factor %g",
                       r->low_freq);
}

static bool has_original(enum ls_rope_kind kind)
{
    return kind == LS_ROPE_LLAMA3 || kind == LS_ROPE_YARN || kind == LS_ROPE_LONGROPE;
}

/* The keys that a kind has beside theta and the rotated share. Those that the reference
 * requires are required: a factor left out is a mistake, and not 1. */
static void read_kind_keys(struct ls_config *o, struct ls_rope_settings *r)
{
    static const double SMALLEST = 1e-3;
    const bool may_lack_factor = r->kind == LS_ROPE_LONGROPE || r->kind == LS_ROPE_PROPORTIONAL;
    if (r->kind == LS_ROPE_DEFAULT)
        return;
    if (may_lack_factor && !ls_config_has(o, "factor"))
        r->factor = 0;
    else
        r->factor = ls_config_number(o, "factor", -1, SMALLEST, MAX_FACTOR);
    if (has_original(r->kind))
        r->original =
            ls_config_int(o, "original_max_position_embeddings", 0, 0, LS_MAX_CONTEXT);
    if (has_original(r->kind) && r->kind != LS_ROPE_LLAMA3 &&
        ls_config_has(o, "attention_factor"))
        r->attention_factor = ls_config_number(o, "attention_factor", -1, SMALLEST, MAX_FACTOR);
    if (r->kind == LS_ROPE_YARN)
        read_yarn(o, r);
    if (r->kind == LS_ROPE_LLAMA3)
        read_llama3(o, r);
    if (r->kind == LS_ROPE_LONGROPE) {
        check_list(o, "short_factor");
        check_list(o, "long_factor");
        r->short_factor = json_object_get(o->obj, "short_factor");
        r->long_factor = json_object_get(o->obj, "long_factor");
    }
}

/* A setting that may stand beside the rope object too: both must agree. */
static void check_beside(struct ls_config *c, const char *key, double inside)
{
    if (ls_config_has(c, key) && json_number_value(json_object_get(c->obj, key)) != inside)
        ls_config_fail(c, LS_E_REFUSED, key, "contradicts %g among the rope settings", inside);
}

/* Takes what stands beside the object, and fills what follows from other settings. */
static void complete(struct ls_config *c, int max, struct ls_rope_settings *r)
{
    if (!has_original(r->kind))
        return;
    const int beside =
        ls_config_int(c, "original_max_position_embeddings", 0, 0, LS_MAX_CONTEXT);
    if (r->original && beside)
        check_beside(c, "original_max_position_embeddings", r->original);
    if (!r->original && !beside && r->kind == LS_ROPE_LLAMA3)
        ls_config_fail(c, LS_E_FORMAT, "original_max_position_embeddings",
                       "llama3 rope needs it, here or among the rope settings");
    r->original = r->original ? r->original : beside ? beside : max;
    if (c->status)
        return;
    if (r->original < 2)
        ls_config_fail(c, LS_E_FORMAT, "original_max_position_embeddings",
                       "%s rope needs the length of the pre-training",
                       ls_rope_kind_name(r->kind));
    else if (r->factor <= 0)
        r->factor = max > 0 ? (double)max / r->original : 1;
}

void ls_rope_read_object(struct ls_config *c, const json_t *object, const char *where,
                         const struct ls_rope_family *family, double theta,
                         struct ls_rope_settings *settings)
{
    struct ls_config o;
    struct ls_rope_settings r = { .theta = theta, .partial = 1 };
    if (c->status)
        return;
    ls_config_init(&o, object, where, c->err);
    r.kind = read_kind(&o, family);
    r.theta = ls_config_number(&o, "rope_theta", theta, 1, MAX_THETA);
    if (family->partial > 0 || r.kind == LS_ROPE_PROPORTIONAL)
        r.partial = ls_config_number(&o, "partial_rotary_factor",
                                     family->partial > 0 ? family->partial : 1, 1e-3, 1);
    else if (ls_config_number(&o, "partial_rotary_factor", 1, 0, 1) < 1)
        ls_config_fail(&o, LS_E_REFUSED, "partial_rotary_factor",
                       "this family turns whole heads");
    read_kind_keys(&o, &r);
    if (r.kind == LS_ROPE_YARN && r.theta <= 1)
        ls_config_fail(&o, LS_E_FORMAT, "rope_theta", "yarn needs a base above 1");
    if (!o.status)
        ls_config_refuse_rest(&o, "a rope setting that is not known for this rope type");
    c->status = o.status;
    complete(c, family->max_positions, &r);
    if (!c->status)
        *settings = r;
}

static bool same_settings(const struct ls_rope_settings *a, const struct ls_rope_settings *b)
{
    const bool lists = (!a->short_factor && !b->short_factor) ||
                       (json_equal(a->short_factor, b->short_factor) &&
                        json_equal(a->long_factor, b->long_factor));
    return lists && a->kind == b->kind && a->theta == b->theta && a->partial == b->partial &&
           a->factor == b->factor && a->original == b->original &&
           a->attention_factor == b->attention_factor && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->mscale == b->mscale &&
           a->mscale_all_dim == b->mscale_all_dim && a->truncate == b->truncate &&
           a->low_freq == b->low_freq && a->high_freq == b->high_freq;
}

static const json_t *rope_object(struct ls_config *c, const char *key)
{
    const json_t *o = ls_config_get(c, key);
    if (o && !json_is_null(o) && !json_is_object(o))
        ls_config_fail(c, LS_E_FORMAT, key, "expected an object or null");
    return json_object_size(o) ? o : NULL;
}

void ls_rope_read(struct ls_config *c, const struct ls_rope_family *family,
                  struct ls_rope_settings *settings)
{
    struct ls_rope_family f = *family;
    struct ls_rope_settings r = { .partial = 1 }, old_style;
    const json_t *now = rope_object(c, "rope_parameters"),
                 *old = rope_object(c, "rope_scaling");
    f.theta = ls_config_number(c, "rope_theta", f.theta, 1, MAX_THETA);
    if (f.partial > 0)
        f.partial = ls_config_number(c, "partial_rotary_factor", f.partial, 1e-3, 1);
    if (c->status)
        return;
    r.theta = f.theta;
    r.partial = f.partial > 0 ? f.partial : 1;
    if (old)
        ls_rope_read_object(c, old, "config.json: rope_scaling.", &f, f.theta, &r);
    old_style = r;
    if (now)
        ls_rope_read_object(c, now, "config.json: rope_parameters.", &f, f.theta, &r);
    if (!c->status && now && old) {
        /* Only the new spelling has a place for the base; the old one leaves it beside. */
        if (!json_object_get(old, "rope_theta") && !ls_config_has(c, "rope_theta"))
            old_style.theta = r.theta;
        if (!same_settings(&r, &old_style))
            ls_config_fail(c, LS_E_REFUSED, "rope_scaling", "contradicts rope_parameters");
    }
    check_beside(c, "rope_theta", r.theta);
    if (f.partial > 0)
        check_beside(c, "partial_rotary_factor", r.partial);
    *settings = r;
}

void ls_rope_read_two(struct ls_config *c, const struct ls_rope_family *family,
                      double local_theta, struct ls_rope_settings *full,
                      struct ls_rope_settings *local)
{
    const json_t *both = rope_object(c, "rope_parameters"),
                 *old = rope_object(c, "rope_scaling");
    const double theta = ls_config_number(c, "rope_theta", family->theta, 1, MAX_THETA);
    local_theta = ls_config_number(c, "rope_local_base_freq", local_theta, 1, MAX_THETA);
    struct ls_config o;
    if (c->status)
        return;
    ls_config_init(&o, both, "config.json: rope_parameters.", c->err);
    const json_t *now = rope_object(&o, "full_attention");
    const json_t *near = rope_object(&o, "sliding_attention");
    ls_config_refuse_rest(&o, "expected full_attention and sliding_attention");
    c->status = o.status;
    *full = (struct ls_rope_settings){ .theta = theta, .partial = 1 };
    if (family->proportional > 0 && !both) {
        full->kind = LS_ROPE_PROPORTIONAL;
        full->partial = family->proportional;
    }
    *local = (struct ls_rope_settings){ .theta = local_theta, .partial = 1 };
    if (old && now && !json_equal(old, now))
        ls_config_fail(c, LS_E_REFUSED, "rope_scaling", "contradicts rope_parameters");
    if (old)
        ls_rope_read_object(c, old, "config.json: rope_scaling.", family, theta, full);
    if (now)
        ls_rope_read_object(c, now, "config.json: rope_parameters.full_attention.", family,
                            theta, full);
    if (near)
        ls_rope_read_object(c, near, "config.json: rope_parameters.sliding_attention.", family,
                            local_theta, local);
    check_beside(c, "rope_theta", full->theta);
    check_beside(c, "rope_local_base_freq", local->theta);
}

int ls_rope_dim(struct ls_config *c, const struct ls_rope_settings *r, int head_dim)
{
    const bool whole = r->kind == LS_ROPE_PROPORTIONAL;
    const int dim = whole ? head_dim : (int)(head_dim * r->partial);
    if (dim < 2 || dim % 2)
        ls_config_fail(
            c, LS_E_FORMAT, "head_dim",
            "%d of %d elements of a head would be turned, expected an even number > 0", dim,
            head_dim);
    if (r->kind == LS_ROPE_LONGROPE && (json_array_size(r->short_factor) != (size_t)dim / 2 ||
                                        json_array_size(r->long_factor) != (size_t)dim / 2))
        ls_config_fail(c, LS_E_FORMAT, "rope_scaling",
                       "short_factor and long_factor need %d numbers each", dim / 2);
    return dim;
}
