/* Strict reading of one JSON object of a config. Layer: model.
 *
 * A reader keeps the first failure and turns every later call into a no-op that returns the
 * default, so that a family reads as a list of keys; ask `status` once at the end. Kinds are
 * exact: true is no number, 4096.0 is no whole number. null counts as absent unless a function
 * says otherwise. Each key that is asked for is noted, so that the rest can be judged. Messages
 * name file, key, value and what was expected. Local. */
#ifndef LS_MODEL_CONFIG_H
#define LS_MODEL_CONFIG_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_CONFIG_MAX_ASKED = 96 };

struct ls_config {
    const json_t *obj; /* the object that is read; not owned */
    const char
        *where; /* in front of every key: "config.json: " or "config.json: rope_scaling." */
    struct ls_err *err; /* never NULL */
    ls_status status;   /* first failure */
    int n_asked;
    const char *asked[LS_CONFIG_MAX_ASKED]; /* literals */
};

void ls_config_init(struct ls_config *c, const json_t *obj, const char *where,
                    struct ls_err *err);

/* The value of a key, NULL when absent; null is returned as JSON null. Notes the key. */
const json_t *ls_config_get(struct ls_config *c, const char *key);

/* True when the key is there and not null. Notes the key. */
bool ls_config_has(struct ls_config *c, const char *key);

/* absent < min means that the key must be there. */
int ls_config_int(struct ls_config *c, const char *key, int absent, int min, int max);
double ls_config_number(struct ls_config *c, const char *key, double absent, double min,
                        double max);
bool ls_config_bool(struct ls_config *c, const char *key, bool absent);
/* Valid as long as the object; absent may be NULL. */
const char *ls_config_text(struct ls_config *c, const char *key, const char *absent);

/* As the two above, but null gives 0 (none), and a value lies in [min, max]. */
int ls_config_int_or_none(struct ls_config *c, const char *key, int absent, int min, int max);
double ls_config_number_or_none(struct ls_config *c, const char *key, double absent, double min,
                                double max);

/* Records a failure about a key, printing its value: "<where><key> = <value>: <why>". */
void ls_config_fail(struct ls_config *c, ls_status status, const char *key, const char *why,
                    ...) __attribute__((format(printf, 4, 5)));

/* True when the key was asked for. */
bool ls_config_was_asked(const struct ls_config *c, const char *key);

/* Refuses every key that is there, not null, and was not asked for; `why` says what is known.
 */
void ls_config_refuse_rest(struct ls_config *c, const char *why);

#endif
