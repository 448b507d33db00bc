#include "base/options.h"

#include "base/nearest.h"
#include "base/size.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const struct ls_option *ls_option_at(const struct ls_option_set *set, int i)
{
    assert(i >= 0 && i < set->n_options);
    const struct ls_option_group *group = set->groups;
    for (; i >= group->n; group++)
        i -= group->n;
    return &group->options[i];
}

void ls_options_init(struct ls_options *o, const struct ls_option_set *set, int command)
{
    assert(set->n_options <= LS_MAX_OPTIONS && set->n_commands <= 32);
    *o = (struct ls_options){ .set = set, .command = command };
    ls_arena_init(&o->arena);
    for (int i = 0; i < set->n_options; i++) {
        const struct ls_option *const option = ls_option_at(set, i);
        if (!option->standard)
            continue;
        const ls_status s =
            ls_options_set(o, i, option->standard, option->name, LS_FROM_DEFAULT, 0, NULL);
        assert(s == LS_OK);
        (void)s;
    }
}

void ls_options_finish(struct ls_options *o)
{
    ls_arena_finish(&o->arena);
}

int ls_options_command(const struct ls_option_set *set, const char *name, struct ls_err *err)
{
    int best = 0, best_distance = INT_MAX;
    for (int i = 0; i < set->n_commands; i++) {
        if (!strcmp(set->commands[i].name, name))
            return i;
        const int distance = ls_edit_distance(name, set->commands[i].name);
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    ls_fail(err, LS_E_USAGE,
            "unknown command '%s'; the nearest known one is '%s' (see '%s --help')", name,
            set->commands[best].name, set->program);
    return -1;
}

int ls_options_find(const struct ls_option_set *set, const char *name)
{
    for (int i = 0; i < set->n_options; i++)
        if (!strcmp(ls_option_at(set, i)->name, name))
            return i;
    return -1;
}

int ls_options_nearest(const struct ls_option_set *set, const char *name, int command)
{
    int best = -1, best_distance = INT_MAX;
    for (int i = 0; i < set->n_options; i++) {
        if (command >= 0 && !(ls_option_at(set, i)->commands >> command & 1))
            continue;
        const int distance = ls_edit_distance(name, ls_option_at(set, i)->name);
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    return best;
}

/* Decimal digits only; *rest is what follows them. */
static bool read_digits(const char *text, uint64_t *number, const char **rest)
{
    uint64_t n = 0;
    const char *p = text;
    for (; isdigit((unsigned char)*p); p++)
        if (!ls_mul_u64(n, 10, &n) || !ls_add_u64(n, (uint64_t)(*p - '0'), &n))
            return false;
    *number = n;
    *rest = p;
    return p > text;
}

static ls_status set_number(const struct ls_option *option, const char *text, const char *where,
                            uint64_t *out, struct ls_err *err)
{
    uint64_t n;
    const char *rest;
    if (!read_digits(text, &n, &rest) || *rest)
        return ls_fail(err, LS_E_USAGE, "%s: '%s' is not a whole number from %llu to %llu",
                       where, text, (unsigned long long)option->min,
                       (unsigned long long)option->max);
    if (n < option->min || n > option->max)
        return ls_fail(err, LS_E_USAGE, "%s: %s is outside %llu to %llu", where, text,
                       (unsigned long long)option->min, (unsigned long long)option->max);
    *out = n;
    return LS_OK;
}

/* "", "B", "K", "KB", "KiB" and so on; the power of 1024, or -1. */
static int size_power(const char *suffix)
{
    static const char letters[] = "KMGT";
    int power = 0;
    const char *const at = *suffix ? strchr(letters, toupper((unsigned char)*suffix)) : NULL;
    if (at) {
        power = (int)(at - letters) + 1;
        suffix++;
        if (*suffix == 'i')
            suffix++;
    }
    if (toupper((unsigned char)*suffix) == 'B')
        suffix++;
    return *suffix ? -1 : power;
}

static ls_status set_size(const struct ls_option *option, const char *text, const char *where,
                          uint64_t *out, struct ls_err *err)
{
    uint64_t n;
    const char *rest;
    const bool digits = read_digits(text, &n, &rest);
    const int power = digits ? size_power(rest) : -1;
    if (power < 0 || !ls_mul_u64(n, (uint64_t)1 << (10 * power), &n))
        return ls_fail(err, LS_E_USAGE,
                       "%s: '%s' is not a size; write bytes, or a number with K, M, G or T",
                       where, text);
    if (n < option->min || n > option->max)
        return ls_fail(err, LS_E_USAGE, "%s: %s is outside %llu to %llu bytes", where, text,
                       (unsigned long long)option->min, (unsigned long long)option->max);
    *out = n;
    return LS_OK;
}

static ls_status set_real(const struct ls_option *option, const char *text, const char *where,
                          double *out, struct ls_err *err)
{
    char *rest = NULL;
    /* The letters keep strtod from its hexadecimal, infinite and NaN forms. */
    const bool plain = *text && !text[strspn(text, "0123456789+-.eE")];
    const double x = plain ? strtod(text, &rest) : 0;
    if (!plain || *rest)
        return ls_fail(err, LS_E_USAGE, "%s: '%s' is not a number", where, text);
    if (!(x >= option->real_min && x <= option->real_max))
        return ls_fail(err, LS_E_USAGE, "%s: %s is outside %g to %g", where, text,
                       option->real_min, option->real_max);
    *out = x;
    return LS_OK;
}

static ls_status set_choice(const struct ls_option *option, const char *text, const char *where,
                            uint64_t *out, struct ls_err *err)
{
    const size_t n = strlen(text);
    uint64_t index = 0;
    for (const char *p = option->arg; p; index++) {
        const char *const bar = strchr(p, '|');
        const size_t length = bar ? (size_t)(bar - p) : strlen(p);
        if (length == n && !memcmp(p, text, n)) {
            *out = index;
            return LS_OK;
        }
        p = bar ? bar + 1 : NULL;
    }
    return ls_fail(err, LS_E_USAGE, "%s: '%s' is not one of %s", where, text, option->arg);
}

static ls_status set_flag(const char *text, const char *where, uint64_t *out,
                          struct ls_err *err)
{
    if (strcmp(text, "true") && strcmp(text, "false"))
        return ls_fail(err, LS_E_USAGE, "%s: '%s' is neither true nor false", where, text);
    *out = !strcmp(text, "true");
    return LS_OK;
}

ls_status ls_options_set(struct ls_options *o, int i, const char *text, const char *where,
                         enum ls_option_source source, int line, struct ls_err *err)
{
    const struct ls_option *const option = ls_option_at(o->set, i);
    struct ls_option_value v = { .text = text, .source = source, .line = line };
    ls_status s = LS_OK;
    if (!*text)
        return ls_fail(err, LS_E_USAGE, "%s: the value is empty, expected %s", where,
                       option->arg ? option->arg : "true or false");
    switch (option->type) {
    case LS_VALUE_FLAG:
        s = set_flag(text, where, &v.number, err);
        break;
    case LS_VALUE_TEXT:
        break;
    case LS_VALUE_NUMBER:
        s = set_number(option, text, where, &v.number, err);
        break;
    case LS_VALUE_SIZE:
        s = set_size(option, text, where, &v.number, err);
        break;
    case LS_VALUE_REAL:
        s = set_real(option, text, where, &v.real, err);
        break;
    case LS_VALUE_CHOICE:
        s = set_choice(option, text, where, &v.number, err);
        break;
    }
    if (s == LS_OK && source >= o->values[i].source)
        o->values[i] = v;
    return s;
}

ls_status ls_options_check(const struct ls_options *o, struct ls_err *err)
{
    const struct ls_command *const command = &o->set->commands[o->command];
    for (int i = 0; i < o->set->n_options; i++) {
        const struct ls_option *const option = ls_option_at(o->set, i);
        if ((option->required_by >> o->command & 1) && !ls_options_is_set(o, i))
            return ls_fail(err, LS_E_USAGE, "%s needs --%s %s (see '%s %s --help')",
                           command->name, option->name, option->arg, o->set->program,
                           command->name);
    }
    if (o->n_operands < command->min_operands)
        return ls_fail(err, LS_E_USAGE, "%s needs %s, found %d of %d (see '%s %s --help')",
                       command->name, command->operands, o->n_operands, command->min_operands,
                       o->set->program, command->name);
    return LS_OK;
}

bool ls_options_is_set(const struct ls_options *o, int option)
{
    return o->values[option].text != NULL;
}

const char *ls_options_text(const struct ls_options *o, int option)
{
    return o->values[option].text;
}

uint64_t ls_options_number(const struct ls_options *o, int option)
{
    return o->values[option].number;
}

double ls_options_real(const struct ls_options *o, int option)
{
    return o->values[option].real;
}

bool ls_options_flag(const struct ls_options *o, int option)
{
    return o->values[option].number != 0;
}
