/* The manual page's half of base/options.h, in troff with the man macros. */
#include "base/options.h"

#include <string.h>

/* Text with troff's own characters made harmless; a line never begins with a request. */
static void put(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (const char *p = text; *p; p++) {
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-')
            fputs("\\-", out);
        else if (*p == '\n')
            fputs("\n.PP\n", out);
        else
            fputc(*p, out);
    }
}

static void put_heading(FILE *out, const char *title)
{
    fputs(".SH ", out);
    for (const char *p = title; *p; p++)
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, out);
    fputc('\n', out);
}

static void put_commands(const struct ls_option_set *set, FILE *out)
{
    put_heading(out, "Commands");
    for (int i = 0; i < set->n_commands; i++) {
        const struct ls_command *const c = &set->commands[i];
        fputs(".TP\n.B ", out);
        put(out, c->name);
        fputc(' ', out);
        put(out, c->operands);
        fputc('\n', out);
        for (const char *p = c->about; *p; p++) /* a .PP would end the indented paragraph */
            if (*p == '\n')
                fputs("\n.IP\n", out);
            else if (*p == '-' || *p == '\\')
                fputs(*p == '-' ? "\\-" : "\\e", out);
            else
                fputc(*p, out);
        fputc('\n', out);
    }
}

static void put_owners(const struct ls_option_set *set, const struct ls_option *p, FILE *out)
{
    const uint32_t all = (uint32_t)(((uint64_t)1 << set->n_commands) - 1);
    if ((p->commands & all) == all)
        return;
    fputs(" (", out);
    const char *comma = "";
    for (int i = 0; i < set->n_commands; i++) {
        if (!(p->commands >> i & 1))
            continue;
        fprintf(out, "%s%s", comma, set->commands[i].name);
        comma = ", ";
    }
    fputc(')', out);
}

static void put_option(const struct ls_option_set *set, const struct ls_option *p, FILE *out)
{
    fputs(".TP\n\\fB\\-\\-", out);
    put(out, p->name);
    fputs("\\fR", out);
    if (p->arg) {
        fputs(" \\fI", out);
        put(out, p->arg);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put(out, p->help);
    if (p->type != LS_VALUE_FLAG && (p->standard || p->standard_note)) {
        fputs(" Default: ", out);
        put(out, p->standard ? p->standard : p->standard_note);
        fputc('.', out);
    }
    put_owners(set, p, out);
    fputc('\n', out);
}

static void put_options(const struct ls_option_set *set, FILE *out)
{
    put_heading(out, "Options");
    for (int s = 0; s < set->n_sections; s++) {
        fputs(".SS ", out);
        put(out, set->sections[s]);
        fputc('\n', out);
        for (int i = 0; i < set->n_options; i++)
            if (ls_option_at(set, i)->section == s)
                put_option(set, ls_option_at(set, i), out);
    }
}

static void put_extra(const struct ls_man_section *section, FILE *out)
{
    put_heading(out, section->title);
    for (const char *const *item = section->items; *item; item += 2) {
        if (**item) {
            fputs(".TP\n.B ", out);
            put(out, item[0]);
            fputc('\n', out);
        } else {
            fputs(".PP\n", out);
        }
        put(out, item[1]);
        fputc('\n', out);
    }
}

void ls_options_man(const struct ls_option_set *set, FILE *out)
{
    fputs(".TH ", out);
    for (const char *p = set->program; *p; p++)
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, out);
    fprintf(out, " 1 \"\" \"%s %s\" \"User Commands\"\n", set->program, set->version);
    put_heading(out, "Name");
    fprintf(out, "%s \\- ", set->program);
    put(out, set->tagline);
    fputc('\n', out);
    put_heading(out, "Synopsis");
    fprintf(out, ".B %s\n.I COMMAND\n[\\fIOPTION\\fR]...\n", set->program);
    put_commands(set, out);
    put_options(set, out);
    for (int i = 0; i < set->n_extra; i++)
        put_extra(&set->extra[i], out);
}
