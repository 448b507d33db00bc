/* The command line's half of base/options.h. */
#include "base/options.h"

#include <string.h>

bool ls_options_want_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
            return true;
    return false;
}

static ls_status fail_unknown(const struct ls_options *o, const char *word, const char *name,
                              struct ls_err *err)
{
    const int near = ls_options_nearest(o->set, name, o->command);
    const char *const command = o->set->commands[o->command].name;
    if (near < 0)
        return ls_fail(err, LS_E_USAGE, "unknown option '%s': %s takes none", word, command);
    return ls_fail(err, LS_E_USAGE,
                   "unknown option '%s' of %s; the nearest known one is '--%s'", word, command,
                   ls_option_at(o->set, near)->name);
}

static ls_status fail_other_command(const struct ls_options *o, int option, struct ls_err *err)
{
    const struct ls_option *const p = ls_option_at(o->set, option);
    int owner = 0;
    while (owner < o->set->n_commands && !(p->commands >> owner & 1))
        owner++;
    return ls_fail(err, LS_E_USAGE, "--%s is an option of %s, not of %s", p->name,
                   owner < o->set->n_commands ? o->set->commands[owner].name : "no command",
                   o->set->commands[o->command].name);
}

/* Splits "--name=value"; *value is NULL without "=". -1 and a message when it is unknown. */
static int find_word(const struct ls_options *o, const char *word, const char **value,
                     struct ls_err *err)
{
    char name[64];
    const char *const bare = word + strspn(word, "-");
    const size_t n = strcspn(bare, "=");
    const size_t kept = n < sizeof name ? n : sizeof name - 1;
    memcpy(name, bare, kept);
    name[kept] = 0;
    *value = bare[n] == '=' ? bare + n + 1 : NULL;
    const int option = bare - word == 2 && n == kept ? ls_options_find(o->set, name) : -1;
    if (option < 0) {
        char shown[80];
        snprintf(shown, sizeof shown, "%.*s", (int)(bare - word + (ptrdiff_t)n), word);
        fail_unknown(o, shown, name, err);
        return -1;
    }
    if (!(ls_option_at(o->set, option)->commands >> o->command & 1)) {
        fail_other_command(o, option, err);
        return -1;
    }
    return option;
}

/* True when the word is an option's name, so that it can hardly be meant as a value. */
static bool looks_like_option(const struct ls_options *o, const char *word)
{
    return !strncmp(word, "--", 2) && ls_options_find(o->set, word + 2) >= 0;
}

/* The word at argv[*i] starts with '-'; takes the value that follows it, too. */
static ls_status parse_option(struct ls_options *o, int argc, char *const *argv, int *i,
                              struct ls_err *err)
{
    const char *value;
    const int option = find_word(o, argv[*i], &value, err);
    if (option < 0)
        return LS_E_USAGE;
    const struct ls_option *const p = ls_option_at(o->set, option);
    if (p->type == LS_VALUE_FLAG && value)
        return ls_fail(err, LS_E_USAGE, "--%s takes no value, found '%s'", p->name, value);
    if (p->type == LS_VALUE_FLAG) {
        value = "true";
    } else if (!value) {
        if (*i + 1 >= argc || looks_like_option(o, argv[*i + 1]))
            return ls_fail(err, LS_E_USAGE, "--%s needs a value: --%s %s", p->name, p->name,
                           p->arg);
        value = argv[++*i];
    }
    char where[80];
    snprintf(where, sizeof where, "--%s", p->name);
    return ls_options_set(o, option, value, where, LS_FROM_ARGV, 0, err);
}

static ls_status take_operand(struct ls_options *o, const char *word, struct ls_err *err)
{
    const struct ls_command *const command = &o->set->commands[o->command];
    if (o->n_operands >= command->max_operands || o->n_operands >= LS_MAX_OPERANDS)
        return ls_fail(err, LS_E_USAGE, "unexpected word '%s' after %s (see '%s %s --help')",
                       word, command->name, o->set->program, command->name);
    if (!*word)
        return ls_fail(err, LS_E_USAGE, "%s: an empty word where %s is expected", command->name,
                       command->operands);
    o->operands[o->n_operands++] = word;
    return LS_OK;
}

ls_status ls_options_parse(struct ls_options *o, int argc, char *const *argv,
                           struct ls_err *err)
{
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        const char *const word = argv[i];
        ls_status s = LS_OK;
        if (!options_end && !strcmp(word, "--"))
            options_end = true;
        else if (!options_end && word[0] == '-' && word[1])
            s = parse_option(o, argc, argv, &i, err);
        else
            s = take_operand(o, word, err);
        if (s)
            return s;
    }
    return LS_OK;
}
