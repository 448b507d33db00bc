/* The explaining half of base/options.h: --help and --print-config. */
#include "base/options.h"

#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26 };

/* Writes text in words; the first line continues at column `at`, the others begin at `indent`.
 */
static void wrap(FILE *out, const char *text, int indent, int at)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (at > indent && at + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* Paragraphs separated by newlines. */
static void wrap_paragraphs(FILE *out, const char *text)
{
    char part[1024];
    while (*text) {
        const size_t n = strcspn(text, "\n");
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        wrap(out, part, 0, 0);
        text += n + (text[n] == '\n');
    }
}

/* "help Default: x." in one string, as --help and the man page say it. */
static void describe(const struct ls_option *p, int command, char *out, size_t size)
{
    const bool required = command >= 0 && (p->required_by >> command & 1);
    if (required)
        snprintf(out, size, "%s Required.", p->help);
    else if (p->standard && p->type != LS_VALUE_FLAG)
        snprintf(out, size, "%s Default: %s.", p->help, p->standard);
    else if (p->standard_note)
        snprintf(out, size, "%s Default: %s.", p->help, p->standard_note);
    else
        snprintf(out, size, "%s", p->help);
}

static void help_option(const struct ls_option *p, int command, FILE *out)
{
    char text[1024];
    describe(p, command, text, sizeof text);
    int at = fprintf(out, "  --%s%s%s", p->name, p->arg ? " " : "", p->arg ? p->arg : "");
    if (at >= HELP_COLUMN - 1) {
        fputc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - at, "");
    wrap(out, text, HELP_COLUMN, HELP_COLUMN);
}

static void help_sections(const struct ls_option_set *set, int command, FILE *out)
{
    for (int s = 0; s < set->n_sections; s++) {
        bool titled = false;
        for (int i = 0; i < set->n_options; i++) {
            const struct ls_option *const p = ls_option_at(set, i);
            if (p->section != s || !(p->commands >> command & 1))
                continue;
            if (!titled)
                fprintf(out, "\n%s:\n", set->sections[s]);
            titled = true;
            help_option(p, command, out);
        }
    }
}

static void help_overview(const struct ls_option_set *set, FILE *out)
{
    fprintf(out, "%s %s: %s\n\nUsage: %s COMMAND [OPTION]...\n\nCommands:\n", set->program,
            set->version, set->tagline, set->program);
    for (int i = 0; i < set->n_commands; i++)
        fprintf(out, "  %-10s %s\n", set->commands[i].name, set->commands[i].summary);
    fprintf(out, "\n'%s COMMAND --help' lists the options of a command.\n", set->program);
}

void ls_options_help(const struct ls_option_set *set, int command, FILE *out)
{
    if (command < 0) {
        help_overview(set, out);
        return;
    }
    const struct ls_command *const c = &set->commands[command];
    fprintf(out, "Usage: %s %s%s%s%s\n\n", set->program, c->name,
            set->n_options ? " [OPTION]..." : "", *c->operands ? " " : "", c->operands);
    wrap_paragraphs(out, c->about);
    help_sections(set, command, out);
}

/* A double-quoted YAML scalar. */
static void print_quoted(const char *text, FILE *out)
{
    fputc('"', out);
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void print_source(const struct ls_options *o, const struct ls_option_value *v, FILE *out)
{
    if (v->source == LS_FROM_DEFAULT)
        fputs("  # default\n", out);
    else if (v->source == LS_FROM_ARGV)
        fputs("  # command line\n", out);
    else {
        fputs("  # ", out);
        for (const char *p = o->file; *p; p++)
            fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, out);
        fprintf(out, ":%d\n", v->line);
    }
}

static void print_option(const struct ls_options *o, int i, FILE *out)
{
    const struct ls_option *const p = ls_option_at(o->set, i);
    const struct ls_option_value *const v = &o->values[i];
    if (!v->text) {
        fprintf(out, "# %s:  # not set%s%s\n", p->name, p->standard_note ? ": " : "",
                p->standard_note ? p->standard_note : "");
        return;
    }
    fprintf(out, "%s: ", p->name);
    if (p->type == LS_VALUE_TEXT)
        print_quoted(v->text, out);
    else
        fputs(v->text, out);
    print_source(o, v, out);
}

void ls_options_print(const struct ls_options *o, FILE *out)
{
    fprintf(out, "# %s %s: every option and where its value comes from\n", o->set->program,
            o->set->commands[o->command].name);
    for (int i = 0; i < o->set->n_options; i++) {
        const struct ls_option *const p = ls_option_at(o->set, i);
        if (!p->argv_only && (p->commands >> o->command & 1))
            print_option(o, i, out);
    }
}
