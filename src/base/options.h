/* Options: one table drives the command line, YAML files, --help, --print-config and the man
 * page.
 *
 * Layer: base. Knows how to read and explain a table of options, never what one means: the
 * program's own table is in app. A value comes from the table's default, then from a file, then
 * from the command line; the later one wins, whatever the order of reading. The caller holds
 * `struct ls_options`; it owns the texts of file values, argv must outlive it. Nothing is
 * printed but to the stream that a function is given. Failures are LS_E_USAGE unless said. */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    LS_MAX_OPTIONS = 96,
    LS_MAX_OPERANDS = 8,
    LS_MAX_CONFIG_BYTES = 1 << 20, /* a longer configuration file is refused */
};

enum ls_option_type {
    LS_VALUE_FLAG,   /* true when given; in a file true or false */
    LS_VALUE_TEXT,   /* any text but the empty one */
    LS_VALUE_NUMBER, /* decimal, within [min, max] */
    LS_VALUE_SIZE,   /* bytes within [min, max]; K, M, G, T mean powers of 1024 */
    LS_VALUE_REAL,   /* decimal fraction within [real_min, real_max] */
    LS_VALUE_CHOICE  /* one of `arg`, which separates them by '|' */
};

struct ls_option {
    const char *name; /* without dashes, "kv-memory" */
    const char *arg;  /* what --help calls the value, "SIZE"; NULL for a flag */
    enum ls_option_type type;
    const char *standard;      /* default, in the option's own syntax; NULL: none */
    const char *standard_note; /* what happens without one, for --help; or NULL */
    uint64_t min, max;         /* NUMBER, SIZE */
    double real_min, real_max; /* REAL */
    const char *help;          /* one or more sentences */
    int section;               /* index into the set's sections */
    uint32_t commands;         /* mask of 1 << command */
    uint32_t required_by;      /* mask of 1 << command */
    bool argv_only;            /* has no meaning in a file */
};

struct ls_command {
    const char *name;
    const char *operands; /* as in the usage line, "A B", or "" */
    int min_operands, max_operands;
    const char *summary; /* one line for the list of commands */
    const char *about;   /* paragraphs for --help and the man page */
};

/* A paragraph list of the man page beside the options: exit status, files, ... */
struct ls_man_section {
    const char *title;
    const char *const
        *items; /* pairs of (term, text), term "" for a plain paragraph; NULL ends */
};

/* Options stand in one or several tables; their numbers count through all of them. */
struct ls_option_group {
    const struct ls_option *options;
    int n;
};

struct ls_option_set {
    const char *program, *version, *tagline;
    const char *const *sections; /* titles */
    int n_sections;
    const struct ls_option_group *groups;
    int n_options; /* of all groups; at most LS_MAX_OPTIONS */
    const struct ls_command *commands;
    int n_commands; /* at most 32 */
    const struct ls_man_section *extra;
    int n_extra;
};

enum ls_option_source { LS_FROM_NOTHING, LS_FROM_DEFAULT, LS_FROM_FILE, LS_FROM_ARGV };

struct ls_option_value {
    const char *text; /* as given; NULL when unset */
    uint64_t number;  /* NUMBER, SIZE in bytes, FLAG 0 or 1, CHOICE its index */
    double real;      /* REAL */
    enum ls_option_source source;
    int line; /* of the file, from 1 */
};

struct ls_options {
    const struct ls_option_set *set;
    int command;
    struct ls_option_value values[LS_MAX_OPTIONS];
    const char *operands[LS_MAX_OPERANDS];
    int n_operands;
    const char *file; /* name of the file read, or NULL */
    struct ls_arena arena;
};

/* Option 0 <= i < n_options. Local. */
const struct ls_option *ls_option_at(const struct ls_option_set *set, int i);

/* All values at their defaults. Local, cannot fail; the table's own defaults are asserted. */
void ls_options_init(struct ls_options *o, const struct ls_option_set *set, int command);
void ls_options_finish(struct ls_options *o);

/* Index of the command of this name; -1 and a message naming the nearest one otherwise. */
int ls_options_command(const struct ls_option_set *set, const char *name, struct ls_err *err);

/* Reads the words after the command. --name value and --name=value; "--" ends the options; a
 * repeated option's later value wins. Every name must be one of this command's. */
ls_status ls_options_parse(struct ls_options *o, int argc, char *const *argv,
                           struct ls_err *err);
/* True when -h or --help stands among the words (before "--"). */
bool ls_options_want_help(int argc, char *const *argv);

/* Reads a YAML mapping of option names to scalars. Every key must be an option of some command;
 * those of other commands are checked and left out. Unknown and repeated keys, nesting, aliases
 * and tags are refused with file and line. LS_E_USAGE, also for a file that cannot be read. */
ls_status ls_options_read_file(struct ls_options *o, const char *path, struct ls_err *err);
/* The same from bytes; `path` is for messages. */
ls_status ls_options_read_yaml(struct ls_options *o, const char *path, const char *yaml,
                               size_t n, struct ls_err *err);

/* All options that the command requires are set, and the number of operands fits. */
ls_status ls_options_check(const struct ls_options *o, struct ls_err *err);

/* Sets one value from text; `where` starts the message ("--threads", "run.yaml:3: threads"). A
 * source lower than the present one is checked and then left out. `text` must outlive o. */
ls_status ls_options_set(struct ls_options *o, int option, const char *text, const char *where,
                         enum ls_option_source source, int line, struct ls_err *err);

bool ls_options_is_set(const struct ls_options *o, int option);
const char *ls_options_text(const struct ls_options *o, int option); /* NULL when unset */
uint64_t ls_options_number(const struct ls_options *o, int option);  /* 0 when unset */
double ls_options_real(const struct ls_options *o, int option);      /* 0 when unset */
bool ls_options_flag(const struct ls_options *o, int option);

/* Index of the option or -1. */
int ls_options_find(const struct ls_option_set *set, const char *name);
/* Index of the option with the smallest edit distance to `name`, among those of `command`, or
 * of all commands for -1. */
int ls_options_nearest(const struct ls_option_set *set, const char *name, int command);

/* YAML of the merged values, each with its source as a comment; readable by --config again. */
void ls_options_print(const struct ls_options *o, FILE *out);
/* Usage of one command, or the overview for -1. */
void ls_options_help(const struct ls_option_set *set, int command, FILE *out);
/* The manual page in troff. */
void ls_options_man(const struct ls_option_set *set, FILE *out);

#endif
