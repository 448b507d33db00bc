#include "app/paths.h"

#include "app/table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Written ones first. */
static const enum ls_opt paths[] = { LS_OPT_OUTPUT,  LS_OPT_LOGITS,      LS_OPT_METRICS,
                                     LS_OPT_TRACE,   LS_OPT_CERTIFICATE, LS_OPT_INPUT,
                                     LS_OPT_CONFIG,  LS_OPT_SECRET_FILE, LS_OPT_CHAT_TEMPLATE,
                                     LS_OPT_SIGN_KEY };
enum { N_WRITTEN = 5, N_PATHS = sizeof paths / sizeof paths[0] };

struct place {
    const char *option; /* NULL: not given, or nothing that can be in the way */
    const char *given;
    char path[PATH_MAX]; /* without links, as far as it is there */
    bool there;
    struct stat stat;
};

/* The folder of a path that is not there is there. */
static void resolve(char out[PATH_MAX], const char *given)
{
    char folder[PATH_MAX], real[PATH_MAX];
    if (realpath(given, out))
        return;
    snprintf(out, PATH_MAX, "%s", given);
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
        out[n - 1] = 0;
    const char *const slash = strrchr(out, '/'), *const name = slash ? slash + 1 : out;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - out) + 1 : 1,
             slash ? out : ".");
    if (!realpath(folder, real))
        return;
    char whole[2 * PATH_MAX];
    const int n = snprintf(whole, sizeof whole, "%s%s%s", real, real[1] ? "/" : "", name);
    if (n > 0 && n < PATH_MAX)
        memcpy(out, whole, (size_t)n + 1);
}

static void look_at(struct place *p, const struct ls_options *o, enum ls_opt option)
{
    *p = (struct place){ .given = ls_options_text(o, option) };
    if (!p->given || !p->given[0] || !strcmp(p->given, "-"))
        return;
    resolve(p->path, p->given);
    p->there = stat(p->given, &p->stat) == 0;
    if (!p->there || S_ISREG(p->stat.st_mode) || S_ISDIR(p->stat.st_mode))
        p->option = ls_option_at(&ls_table, option)->name;
}

static bool is_same(const struct place *a, const struct place *b)
{
    if (a->there && b->there)
        return a->stat.st_dev == b->stat.st_dev && a->stat.st_ino == b->stat.st_ino;
    return !strcmp(a->path, b->path);
}

static bool lies_in(const struct place *file, const struct place *folder)
{
    const size_t n = strlen(folder->path);
    return !strncmp(file->path, folder->path, n) && file->path[n] == '/';
}

static bool is_beside(const struct place *p, const struct place *output)
{
    const size_t n = strlen(output->path);
    return !strncmp(p->path, output->path, n) && !strcmp(p->path + n, ".lockstep");
}

static ls_status check_pair(const struct place *a, const struct place *b, bool b_is_written,
                            struct ls_err *err)
{
    if (is_same(a, b))
        return ls_fail(err, LS_E_USAGE, "--%s %s and --%s %s are one and the same", a->option,
                       a->given, b->option, b->given);
    if (!strcmp(a->option, "output") && is_beside(b, a))
        return ls_fail(err, LS_E_USAGE,
                       "--%s %s is the folder that --output %s keeps beside itself", b->option,
                       b->given, a->given);
    const struct place *const logits = !strcmp(a->option, "logits") ? a : b;
    const struct place *const other = logits == a ? b : a;
    if (b_is_written && !strcmp(logits->option, "logits") && lies_in(other, logits))
        return ls_fail(err, LS_E_USAGE,
                       "--%s %s lies in the folder of --logits %s, which holds nothing else",
                       other->option, other->given, logits->given);
    return LS_OK;
}

ls_status ls_paths_check(const struct ls_options *o, struct ls_err *err)
{
    struct place places[N_PATHS];
    ls_status s = LS_OK;
    for (int i = 0; i < N_PATHS; i++)
        look_at(&places[i], o, paths[i]);
    for (int a = 0; !s && a < N_WRITTEN; a++)
        for (int b = a + 1; !s && b < N_PATHS; b++)
            if (places[a].option && places[b].option)
                s = check_pair(&places[a], &places[b], b < N_WRITTEN, err);
    return s;
}
